//! Taking the daemons' fence down, and putting it up again.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding as Binding;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mooring_common::names::NAMESPACE;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::NetlabCluster;

/// How long the API server may take to do without a policy.
const TAKE_UP: Duration = Duration::from_secs(40);

/// The bindings of the daemons' policies, which are taken away, to be put back later.
#[derive(Debug)]
#[must_use]
pub struct Fence(Vec<Binding>);

impl Fence {
    /// Takes the fence down, and waits until the API server has taken that up.
    ///
    /// # Panics
    /// If it is not there, or the API server does not do it; here and below.
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
        let dry_patch = PatchParams::default().dry_run();
        let dry_post = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually("the fence is down", TAKE_UP, async || {
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
