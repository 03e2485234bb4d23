//! What all tests of this suite stand on.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding as Binding;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_common::names::{NAMESPACE, annotations, node_lease};
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_cluster::shipped::NODE_USER;
use mooring_test_netlab::netlab_cluster::{NETWORK, NetlabCluster};
use mooring_test_support::wait::eventually;
use serde_json::json;

/// What "eventually" means here. A daemon that has missed the fence looks again after up to 16 s.
pub const SOON: Duration = Duration::from_secs(40);

/// The bindings of the daemons' policies, which are taken away, to be put back later.
pub struct Fence(Vec<Binding>);

impl Fence {
    /// Takes the fence down, and waits until the API server has taken that up.
    pub async fn take_down(cluster: &NetlabCluster) -> Self {
        let bindings = Api::<Binding>::all(cluster.admin.clone());
        let all = bindings.list(&ListParams::default()).await.unwrap();
        let mut ours = all.items;
        ours.retain(|binding| binding.spec.policy_name.starts_with("mooring-node-"));
        assert_eq!(ours.len(), 6);
        for binding in &mut ours {
            let name = binding.metadata.name.as_deref().unwrap();
            bindings
                .delete(name, &DeleteParams::default())
                .await
                .unwrap();
            binding.metadata.resource_version = None;
            binding.metadata.uid = None;
        }
        let loose = cluster
            .client_for(NAMESPACE, "mooring-node", None)
            .await
            .unwrap();
        let leases = Api::<Lease>::namespaced(loose.clone(), NAMESPACE);
        let nodes = Api::<Node>::all(loose);
        let mut lease = Lease::default();
        lease.metadata.name = Some("any".to_owned());
        let label = Patch::Merge(json!({ "metadata": { "labels": { "any": "1" } } }));
        let dry_patch = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let dry_post = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually("the fence is down", SOON, async || {
            leases.create(&dry_post, &lease).await?;
            nodes.patch("n2", &dry_patch, &label).await.map(drop)
        })
        .await;
        Self(ours)
    }

    /// Puts it back.
    pub async fn put_up(self, cluster: &NetlabCluster) {
        let bindings = Api::<Binding>::all(cluster.admin.clone());
        for binding in &self.0 {
            bindings
                .create(&PostParams::default(), binding)
                .await
                .unwrap();
        }
    }
}

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
