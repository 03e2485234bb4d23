//! Complete listings of an account: four requests for all Services together.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::api::{Balancer, CloudIp, Group};
use super::super::{Brightbox, NAME};
use super::bundle::{Account, Bundle};
use crate::cloud_api::CloudError;
use crate::engine::listing::Listings;
use crate::engine::pending::Pending;

/// For how long the cloud may take to do what it has taken.
const TAKES: Duration = Duration::from_secs(30);

/// The listings. Each is complete, or a [`CloudError`].
pub(super) struct AccountListings {
    /// All that there is, by name.
    pub(super) bundles: Listings<Bundle>,
    /// All Cloud IPs.
    pub(super) cloud_ips: Arc<Listings<CloudIp>>,
    /// What the cloud has taken, and may do later.
    pub(super) moves: Arc<Moves>,
}

/// What Cloud IPs were asked to lead to, groups to be empty, and load balancers to go.
pub(super) struct Moves(pub(super) Pending<Option<String>>);

impl AccountListings {
    pub(super) fn new(cloud: &Arc<Brightbox>) -> Self {
        let cloud_ips = Listings::of(NAME, cloud, |cloud| async move { cloud.client.all().await });
        let cloud_ips = Arc::new(cloud_ips);
        let moves = Arc::new(Moves(Pending::new(TAKES)));
        let parts = Arc::new((cloud.clone(), cloud_ips.clone(), moves.clone()));
        let bundles = Listings::of(NAME, &parts, |parts| async move {
            let (cloud, cloud_ips, moves) = &*parts;
            list(cloud, cloud_ips, moves).await
        });
        Self {
            bundles,
            cloud_ips,
            moves,
        }
    }
}

impl Moves {
    /// Whether the cloud was asked to delete this load balancer, or to empty this group.
    fn is_leaving(&self, id: &str) -> bool {
        self.0.is_open(id, |_| false)
    }

    /// One that leads where it was asked to is at rest, wherever it leads later.
    pub(super) fn seen(&self, ip: CloudIp) -> CloudIp {
        let leads_there = |target: &Option<String>| target.as_deref() == ip.target();
        let is_asked = self.0.is_open(&ip.id, leads_there);
        let balancer = ip.load_balancer.as_ref();
        CloudIp {
            is_moving: is_asked || balancer.is_some_and(|one| self.is_leaving(&one.id)),
            ..ip
        }
    }

    /// One that the cloud was asked to delete is on its way out, whatever else is still shown.
    fn seen_balancer(&self, mut balancer: Balancer) -> Balancer {
        if !balancer.is("deleted") && self.is_leaving(&balancer.id) {
            balancer.status = Some("deleting".to_owned());
        }
        balancer
    }
}

async fn list(
    cloud: &Brightbox,
    cloud_ips: &Listings<CloudIp>,
    moves: &Moves,
) -> Result<Vec<Bundle>, CloudError> {
    let begun = Instant::now();
    // One after the other: a cloud that is too busy for one of them is not asked for the next.
    let balancers: Vec<Balancer> = cloud.client.all().await?;
    let balancers = balancers.into_iter().map(|one| moves.seen_balancer(one));
    let mut groups: Vec<Group> = cloud.client.all().await?;
    let policies = cloud.client.all().await?;
    let cloud_ips = cloud_ips.get(begun).await?;
    let cloud_ips = cloud_ips.all.iter().cloned().map(|ip| moves.seen(ip));
    for group in &mut groups {
        group.is_emptied = moves.is_leaving(&group.id);
    }
    let account = Account {
        balancers: balancers.collect(),
        groups,
        policies,
        cloud_ips: cloud_ips.collect(),
    };
    Ok(Bundle::all(&account))
}

#[cfg(test)]
mod tests {
    use super::super::plan::deleted;
    use super::*;
    use crate::cloud_api::Reference;

    #[tokio::test(start_paused = true)]
    async fn what_was_deleted_is_on_its_way_out_although_it_shows_late() {
        let moves = Moves(Pending::new(TAKES));
        let balancer = Balancer {
            id: "lba-aaaaa".to_owned(),
            status: Some("active".to_owned()),
            ..Balancer::default()
        };
        let ip = CloudIp {
            id: "cip-aaaaa".to_owned(),
            load_balancer: Some(Reference::of(&balancer.id)),
            ..CloudIp::default()
        };
        let seen = || {
            let balancer = moves.seen_balancer(balancer.clone());
            (balancer.is_alive(), moves.seen(ip.clone()).is_moving)
        };
        assert_eq!(seen(), (true, false));
        moves.0.takes_step(&deleted(&balancer, ""), &[]);
        assert_eq!(seen(), (false, true));
        // It is asked again if nothing comes of it.
        tokio::time::advance(TAKES).await;
        assert_eq!(seen(), (true, false));
    }
}
