//! Complete listings of the parts of a project's load balancers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::super::api::balancers::Balancer;
use super::super::api::floating_ips::{self, FloatingIp};
use super::super::api::parts::{LISTENER, ListedPart, MEMBER, MONITOR, POOL};
use super::super::{Cloudscale, NAME};
use super::model::MemberSpec;
use super::observed::{Observed, Parts};
use crate::cloud_api::{CloudError, ErrorKind, Request};
use crate::engine::listing::{Listing, Listings};

/// How many lists of members are asked for at once.
const MEMBER_LISTS: usize = 4;

/// The listings of each kind of part.
#[derive(Debug)]
pub(super) struct PartListings {
    cloud: Arc<Cloudscale>,
    pools: Listings<ListedPart>,
    listeners: Listings<ListedPart>,
    monitors: Listings<ListedPart>,
    floating_ips: Listings<FloatingIp>,
}

impl PartListings {
    pub(super) fn new(cloud: Arc<Cloudscale>) -> Self {
        Self {
            pools: of(&cloud, || POOL.list(&[])),
            listeners: of(&cloud, || LISTENER.list(&[])),
            monitors: of(&cloud, || MONITOR.list(&[])),
            floating_ips: of(&cloud, floating_ips::all),
            cloud,
        }
    }

    /// All floating IPs, as they were at `since` or later.
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless the answers are complete.
    pub(super) async fn floating_ips(
        &self,
        since: Instant,
    ) -> Result<Arc<Listing<FloatingIp>>, CloudError> {
        self.floating_ips.get(since).await
    }

    /// A load balancer with all its parts, and since when that holds.
    pub(super) async fn observe(
        &self,
        balancer: &Balancer,
        since: Instant,
    ) -> Result<(Observed, Instant), CloudError> {
        let (pools, listeners, monitors, floating_ips) = tokio::try_join!(
            self.pools.get(since),
            self.listeners.get(since),
            self.monitors.get(since),
            self.floating_ips.get(since),
        )?;
        let parts = Parts {
            pools,
            monitors,
            listeners,
            floating_ips,
        };
        let own: Vec<String> = parts
            .pools_of(&balancer.uuid)
            .map(|pool| pool.uuid.clone())
            .collect();
        let members: HashMap<_, _> = stream::iter(own)
            .map(|pool| async move {
                let members = self.members(&pool).await?;
                Ok::<_, CloudError>((pool, members))
            })
            .buffer_unordered(MEMBER_LISTS)
            .try_collect()
            .await?;
        let observed = Observed::of(balancer, &parts, &members)
            .map_err(|lacking| CloudError::new(NAME, ErrorKind::Malformed, lacking.to_string()))?;
        Ok((observed, parts.begun()))
    }

    /// The UUIDs of those members of these pools that serve: they are enabled, and the health monitor
    /// says so, or there is none.
    pub(super) async fn serving(&self, pools: &[String]) -> Result<HashSet<String>, CloudError> {
        let mut serving = HashSet::new();
        for pool in pools {
            let members = self.members(pool).await?.into_iter();
            let served = members.filter(|member| {
                let status = member.monitor_status.as_deref();
                let is_well = status.is_none_or(|status| ["up", "no_monitor"].contains(&status));
                is_well && member.read().is_ok_and(|spec: MemberSpec| spec.enabled)
            });
            serving.extend(served.map(|member| member.uuid));
        }
        Ok(serving)
    }

    async fn members(&self, pool: &str) -> Result<Vec<ListedPart>, CloudError> {
        self.cloud.client.fetch(&MEMBER.list(&[pool])).await
    }
}

fn of<T: DeserializeOwned + Send + Sync + 'static>(
    cloud: &Arc<Cloudscale>,
    request: fn() -> Request,
) -> Listings<T> {
    Listings::of(NAME, cloud, move |cloud| async move {
        cloud.client.fetch(&request()).await
    })
}
