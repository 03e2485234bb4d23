//! What all tests of this suite stand on.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_common::names::{NAMESPACE, annotations, node_lease};
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_cluster::shipped::NODE_USER;
use mooring_test_netlab::netlab_cluster::{NETWORK, NetlabCluster};
use mooring_test_support::wait::eventually;
use serde_json::json;

/// What "eventually" means here. A daemon that has missed the fence looks again after up to 16 s.
pub const SOON: Duration = Duration::from_secs(40);

/// A node's Lease, whoever holds it.
pub async fn lease_of(cluster: &NetlabCluster, node: &str) -> Option<Lease> {
    let leases = Api::<Lease>::namespaced(cluster.admin.clone(), NAMESPACE);
    leases.get_opt(&node_lease(node)).await.unwrap()
}

/// Who holds a Lease, and the segments in it.
pub fn held_by(lease: &Lease) -> (String, String) {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.clone());
    let annotations = lease.metadata.annotations.clone().unwrap_or_default();
    let segments = annotations.get(annotations::LEASE_SEGMENTS).cloned();
    (holder.unwrap_or_default(), segments.unwrap_or_default())
}

/// Waits until a node's Lease says that it can speak on the lab's segment.
pub async fn can_speak(cluster: &NetlabCluster, node: &str) {
    eventually(&format!("{node} can speak"), SOON, async || {
        let lease = lease_of(cluster, node).await?;
        let (holder, segments) = held_by(&lease);
        (!holder.is_empty() && segments.contains(NETWORK)).then_some(())
    })
    .await;
}

/// What the L2Network says of a node.
pub async fn entry_of(cluster: &NetlabCluster, network: &str, node: &str) -> Option<SegmentNode> {
    let networks = Api::<L2Network>::all(cluster.admin.clone());
    let status = networks.get(network).await.unwrap().status?;
    status.nodes.into_iter().find(|entry| entry.name == node)
}

/// Puts a label on a Node, or takes it off, as a person would.
pub async fn label(cluster: &NetlabCluster, node: &str, key: &str, value: Option<&str>) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { key: value } } }));
    Api::<Node>::all(cluster.admin.clone())
        .patch(node, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// The requests of the daemon on a node: those with its token, which it shows when it tests the
/// fence.
pub async fn requests_of(cluster: &NetlabCluster, node: &str) -> AuditLog {
    let log = cluster.audit_settled().await.by(NODE_USER);
    let tests = log.filter(|record| record.uri.contains(&format!("/nodes/{node}?&dryRun=All")));
    let credential = tests
        .first()
        .expect("it tests the fence")
        .credential
        .clone();
    log.with_credential(&credential)
}
