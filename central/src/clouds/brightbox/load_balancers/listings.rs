//! Complete listings of an account: four requests for all Services together.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::super::api::balancers::{BALANCERS, Balancer};
use super::super::api::cloud_ips::{CLOUD_IPS, CloudIp};
use super::super::api::firewall::{GROUPS, Group, POLICIES, Policy};
use super::super::{Brightbox, NAME};
use super::bundle::{Account, Bundle};
use super::step::Step;
use crate::cloud_api::{CloudError, ErrorKind, Kind};
use crate::engine::listing::{Listing, Listings};

/// For how long the cloud may take to do what it has taken.
const TAKES: Duration = Duration::from_secs(30);

/// The listings.
pub(super) struct AccountListings {
    parts: Arc<Parts>,
    bundles: Listings<Bundle>,
}

struct Parts {
    cloud: Arc<Brightbox>,
    cloud_ips: Listings<CloudIp>,
    /// What Cloud IPs were asked to lead to, and groups to be empty, by identifier.
    moves: Mutex<HashMap<String, (Option<String>, Instant)>>,
}

impl AccountListings {
    pub(super) fn new(cloud: Arc<Brightbox>) -> Self {
        let listed = cloud.clone();
        let cloud_ips = Listings::new(NAME, move || {
            let cloud = listed.clone();
            async move { all(&cloud, &CLOUD_IPS, |ip: &CloudIp| &ip.id).await }
        });
        let parts = Arc::new(Parts {
            cloud,
            cloud_ips,
            moves: Mutex::default(),
        });
        let listed = parts.clone();
        let bundles = Listings::new(NAME, move || {
            let parts = listed.clone();
            async move { parts.bundles().await }
        });
        Self { parts, bundles }
    }

    /// All that there is, by name, as it was at `since` or later.
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless the answers are complete.
    pub(super) async fn bundles(&self, since: Instant) -> Result<Arc<Listing<Bundle>>, CloudError> {
        self.bundles.get(since).await
    }

    /// All Cloud IPs as they were at `since` or later.
    pub(super) async fn cloud_ips(
        &self,
        since: Instant,
    ) -> Result<Arc<Listing<CloudIp>>, CloudError> {
        self.parts.cloud_ips.get(since).await
    }

    /// The Cloud IPs as they were last listed.
    pub(super) fn last_cloud_ips(&self) -> Option<Arc<Listing<CloudIp>>> {
        self.parts.cloud_ips.last()
    }

    /// Whether the cloud was asked just now to let a Cloud IP lead elsewhere.
    pub(super) fn is_moving(&self, ip: &CloudIp) -> bool {
        self.parts.is_moving(ip)
    }

    /// The cloud has taken a step, and may do it later.
    pub(super) fn taken(&self, step: &Step, planned: &[String]) {
        let (id, target) = match step {
            Step::MapCloudIp { ip, balancer, .. } => (ip.id(planned), balancer.id(planned)),
            Step::UnmapCloudIp { ip, .. } => (Some(ip.id.as_str()), None),
            Step::EmptyGroup { group, .. } => (Some(group.as_str()), None),
            _ => return,
        };
        if let Some(id) = id {
            let asked = (target.map(ToOwned::to_owned), Instant::now());
            self.parts.moves().insert(id.to_owned(), asked);
        }
    }
}

impl Parts {
    fn moves(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Option<String>, Instant)>> {
        let mut moves = self.moves.lock().unwrap_or_else(PoisonError::into_inner);
        moves.retain(|_, (_, asked)| asked.elapsed() < TAKES);
        moves
    }

    /// One that leads where it was asked to is at rest, wherever it leads later.
    fn is_moving(&self, ip: &CloudIp) -> bool {
        let mut moves = self.moves();
        match moves.get(&ip.id) {
            Some((target, _)) if target.as_deref() == ip.target() => {
                moves.remove(&ip.id);
                false
            }
            asked => asked.is_some(),
        }
    }

    async fn bundles(&self) -> Result<Vec<Bundle>, CloudError> {
        let begun = Instant::now();
        // One after the other: a cloud that is too busy for one of them is not asked for the next.
        let balancers = all(&self.cloud, &BALANCERS, |one: &Balancer| &one.id).await?;
        let groups = all(&self.cloud, &GROUPS, |one: &Group| &one.id).await?;
        let policies = all(&self.cloud, &POLICIES, |one: &Policy| &one.id).await?;
        let cloud_ips = self.cloud_ips.get(begun).await?;
        let cloud_ips = cloud_ips.all.iter().cloned().map(|ip| CloudIp {
            is_moving: self.is_moving(&ip),
            ..ip
        });
        let account = Account {
            balancers,
            groups,
            policies,
            cloud_ips: cloud_ips.collect(),
        };
        let emptied: BTreeSet<String> = self.moves().keys().cloned().collect();
        let mut bundles = Bundle::all(&account, begun);
        for bundle in &mut bundles {
            bundle.emptied.clone_from(&emptied);
        }
        Ok(bundles)
    }
}

/// All of a kind. What has no identifier makes the whole answer worthless.
async fn all<T: DeserializeOwned>(
    cloud: &Brightbox,
    kind: &Kind,
    id: fn(&T) -> &String,
) -> Result<Vec<T>, CloudError> {
    let request = cloud.of_account(kind.list(&[]));
    let all: Vec<T> = cloud.client.fetch(&request).await?;
    if all.iter().any(|one| id(one).is_empty()) {
        let what = format!("{}: something listed has no identifier", kind.list);
        return Err(CloudError::new(NAME, ErrorKind::Malformed, what));
    }
    Ok(all)
}
