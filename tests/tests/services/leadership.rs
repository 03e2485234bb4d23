//! The process `mooring-central`: who leads, what is served, how it ends.

mod certificate;
pub(crate) mod endpoints;
mod flags;
mod floods;
mod heartbeats;
mod lease;
mod outages;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use mooring_common::names::{LEADER_LEASE, LEADER_LEASE_NAMESPACE};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_cluster::shipped::{CENTRAL_USER, Central, CentralFlags};
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::wait::eventually;

/// The lease duration and the retry period of [`CentralFlags::replica`], and time for a busy
/// machine.
const TAKEOVER: Duration = Duration::from_millis(3000 + 250 + 2000);

/// Who holds the Lease; `None` if nobody does.
async fn holder(cluster: &Cluster) -> Option<String> {
    let leases = Api::<Lease>::namespaced(cluster.admin.clone(), LEADER_LEASE_NAMESPACE);
    let lease = leases.get_opt(LEADER_LEASE).await.expect("an answer")?;
    lease.spec?.holder_identity.filter(|name| !name.is_empty())
}

/// Waits until somebody else than `before` holds the Lease.
async fn new_holder(cluster: &Cluster, before: Option<&str>, limit: Duration) -> String {
    eventually("somebody else leads", limit, async || {
        holder(cluster)
            .await
            .filter(|name| Some(name.as_str()) != before)
    })
    .await
}

/// A leader, and one who stands by with warm caches.
pub(crate) async fn two_replicas(cluster: &Cluster) -> (Central, Central) {
    let leader = cluster.start_central(CentralFlags::replica()).await;
    new_holder(cluster, None, SOON).await;
    let standby = cluster.start_central(CentralFlags::replica()).await;
    eventually("the standby is ready", SOON, async || {
        standby.endpoints.status("/readyz").await == Some(200)
    })
    .await;
    (leader, standby)
}

/// What central's replicas have changed, but for the Lease and the reviews of who may read an
/// endpoint: what only the leader may do.
fn deeds(log: &AuditLog) -> AuditLog {
    log.writes_by(CENTRAL_USER)
        .filter(|record| record.resource != "leases" && !record.resource.ends_with("reviews"))
}
