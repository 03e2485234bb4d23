//! Clouds whose load balancers forward connections to Nodes.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_cloud_sim::{Call, Calls, When};
use serde_json::{Value, json};

pub(crate) use super::cluster::facts::ports;
use super::cluster::{CloudCluster, LoadBalancerCloud};

/// A cloud whose load balancers have listeners, and Nodes as members.
pub(crate) trait ForwardingCloud: LoadBalancerCloud {
    /// When a listener that had served did not.
    type Outage: Debug;

    /// A variable with its credentials.
    const CREDENTIALS: &'static str;

    /// An annotation whose change users do not notice, and what it changes.
    const HARMLESS: (&'static str, &'static str);

    /// How many steps it takes at least to make a load balancer for one port and two Nodes.
    const STEPS: usize;

    /// How many requests it takes to add a member.
    const WRITES_FOR_A_MEMBER: usize = 1;

    /// How many members a request adds that adds some.
    fn members_in(_call: &Call) -> usize {
        1
    }

    /// In how many rounds these members were added: there is a longer pause in between.
    fn rounds(added: &Calls) -> usize {
        const PAUSE: Duration = Duration::from_millis(800);
        let pauses = added.windows(2).filter(|w| w[1].at - w[0].at > PAUSE);
        pauses.count() + 1
    }

    /// Every answer comes so much later.
    fn set_latency(&self, latency: Duration);

    /// Whether the load balancer of this Service shows [`Self::HARMLESS`].
    fn shows_harmless(&self, service: &Service) -> bool;

    /// Requests that add members.
    fn additions(&self) -> When;

    /// What was asked to add members to this load balancer, so far.
    fn members_added(&self, id: &str) -> Calls;

    /// Somebody takes a member of this load balancer away by hand.
    fn take_a_member(&self, id: &str);

    /// When listeners of this load balancer that had served did not, also if they still do not.
    fn outages(&self, id: &str) -> Vec<Self::Outage>;

    /// The same, but for those listeners (`tcp/80`) that are gone for good.
    fn outages_but(&self, id: &str, gone: &[&str]) -> Vec<Self::Outage>;
}

impl CloudCluster {
    /// A merge patch on a Node, by somebody else than Mooring.
    pub(crate) async fn patch_node(&self, name: &str, patch: &Value) {
        let nodes = Api::<Node>::all(self.admin.clone());
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        nodes.patch(name, &params, &patch).await.unwrap();
    }

    /// Sets a label of a Node, or takes it off.
    pub(crate) async fn label_node(&self, name: &str, key: &str, value: Option<&str>) {
        let patch = json!({ "metadata": { "labels": { key: value } } });
        self.patch_node(name, &patch).await;
    }

    /// A Node is deleted.
    pub(crate) async fn remove_node(&self, name: &str) {
        let nodes = Api::<Node>::all(self.admin.clone());
        nodes.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

/// The node port of a Service's first port.
pub(crate) fn node_port(service: &Service) -> i32 {
    ports(service)[0].node_port.unwrap()
}
