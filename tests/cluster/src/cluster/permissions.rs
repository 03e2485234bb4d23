//! What a user of the chart permits central beyond the defaults.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::names::{NAMESPACE, finalizers};
use serde_json::json;

use super::Cluster;
use super::install::with_additional_label;
use crate::objects::{NodeBuilder, ServiceBuilder, apply_manifests, unique};
use mooring_test_support::wait::eventually;

/// How long the API server may take to take up a changed policy: usually a second.
const TAKE_UP: Duration = Duration::from_secs(30);

impl Cluster {
    /// Applies what the manifests have for pod CIDRs and routes, and waits until it is in force.
    pub async fn permit_pod_network(&self) {
        let probe = unique("probe");
        NodeBuilder::new(&probe)
            .create(&self.admin)
            .await
            .expect("a Node");
        let central = self.client_for(NAMESPACE, "mooring-central", None).await;
        let central = Api::<Node>::all(central.expect("a client"));
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let cidrs = Patch::Merge(
            json!({ "spec": { "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"] } }),
        );
        let condition = json!({ "type": "NetworkUnavailable", "status": "False" });
        let condition = Patch::Strategic(json!({ "status": { "conditions": [condition] } }));
        let permitted = async || -> Result<(), kube::Error> {
            central.patch(&probe, &dry, &cidrs).await?;
            central.patch_status(&probe, &dry, &condition).await?;
            Ok(())
        };
        // The test before may have been there.
        if permitted().await.is_err() {
            // The tests that follow on the same API server set that label.
            let manifest = with_additional_label("pod-network.yaml", self.folder());
            let manifest = manifest.expect("the shipped manifest");
            let applied = apply_manifests(self, &manifest).await;
            applied.expect("the manifest is taken");
            eventually("central may write pod CIDRs", TAKE_UP, permitted).await;
        }
        let nodes = Api::<Node>::all(self.admin.clone());
        let deleted = nodes.delete(&probe, &DeleteParams::default()).await;
        deleted.expect("the probe can be deleted");
    }

    /// Sets the chart's `central.loadBalancerClass` to this, as far as the admission policy goes.
    pub async fn permit_class(&self, class: &str) {
        let policies = Api::<ValidatingAdmissionPolicy>::all(self.admin.clone());
        let name = "mooring-central-services";
        let mut policy = policies.get(name).await.expect("the policy is there");
        let spec = policy.spec.as_mut();
        let mut all = spec
            .and_then(|spec| spec.validations.as_mut())
            .into_iter()
            .flatten();
        let by_class = "!has(object.spec.loadBalancerClass)";
        let rule = all.find(|rule| rule.expression.contains(by_class));
        let rule = rule.expect("the policy has a rule about classes");
        let permitted = format!("object.spec.?loadBalancerClass.orValue('') == '{class}'");
        // The test before may have been there.
        if !rule.expression.contains(&permitted) {
            rule.expression = format!("{permitted} || {}", rule.expression);
            let params = PostParams::default();
            let replaced = policies.replace(name, &params, &policy).await;
            replaced.expect("the policy is taken");
        }
        let probe = unique("probe");
        let service = ServiceBuilder::load_balancer("default", &probe);
        let service = service
            .port(80, 8080)
            .class(class)
            .create(&self.admin)
            .await;
        service.expect("a Service");
        let central = self.client_for(NAMESPACE, "mooring-central", None).await;
        let central = Api::<Service>::namespaced(central.expect("a client"), "default");
        let dry = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": [finalizers::SERVICE] } }));
        eventually("the class is permitted", TAKE_UP, async || {
            central.patch_status(&probe, &dry, &patch).await
        })
        .await;
        let services = Api::<Service>::namespaced(self.admin.clone(), "default");
        let deleted = services.delete(&probe, &DeleteParams::default()).await;
        deleted.expect("the probe can be deleted");
    }
}
