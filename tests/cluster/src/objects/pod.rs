//! Pods, as the scheduler and the kubelet leave them.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::named;
use mooring_test_support::wait::try_eventually;

/// How long the ServiceAccount controller may take for a new namespace.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(20);

/// Describes a Pod and makes it.
///
/// With kube-controller-manager a running Pod that a Service selects is in the Service's
/// EndpointSlices within a second, without any kubelet. It must be on a Node that exists.
#[derive(Clone, Debug)]
pub struct PodBuilder {
    pod: Pod,
    status: Option<PodStatus>,
}

impl PodBuilder {
    /// A Pod with one container, not yet on a node.
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut metadata = named(name);
        metadata.namespace = Some(namespace.to_owned());
        let container = Container {
            name: "main".to_owned(),
            image: Some("example.invalid/none".to_owned()),
            ..Container::default()
        };
        let spec = PodSpec {
            containers: vec![container],
            // Nobody can confirm an end, so none has to be waited for.
            termination_grace_period_seconds: Some(0),
            ..PodSpec::default()
        };
        Self {
            pod: Pod {
                metadata,
                spec: Some(spec),
                status: None,
            },
            status: None,
        }
    }

    fn spec(&mut self) -> &mut PodSpec {
        self.pod.spec.get_or_insert_default()
    }

    /// Puts the Pod on a node.
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        self.spec().node_name = Some(name.to_owned());
        self
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        let labels = self.pod.metadata.labels.get_or_insert_default();
        labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The ServiceAccount that it runs as.
    #[must_use]
    pub fn service_account(mut self, name: &str) -> Self {
        self.spec().service_account_name = Some(name.to_owned());
        self
    }

    /// A port of its container.
    #[must_use]
    pub fn port(mut self, name: &str, port: u16) -> Self {
        let port = ContainerPort {
            name: Some(name.to_owned()),
            container_port: port.into(),
            ..ContainerPort::default()
        };
        if let Some(container) = self.spec().containers.first_mut() {
            container.ports.get_or_insert_default().push(port);
        }
        self
    }

    /// Runs and is ready, with these addresses.
    #[must_use]
    pub fn running(mut self, addresses: &[&str]) -> Self {
        let now = Time(Timestamp::now());
        let true_ = |kind: &str| PodCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(now.clone()),
            ..PodCondition::default()
        };
        let first = addresses.first().map(|address| (*address).to_owned());
        self.status = Some(PodStatus {
            phase: Some("Running".to_owned()),
            conditions: Some(
                ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
                    .map(true_)
                    .into(),
            ),
            pod_ip: first,
            pod_ips: Some(
                addresses
                    .iter()
                    .map(|ip| PodIP {
                        ip: (*ip).to_owned(),
                    })
                    .collect(),
            ),
            start_time: Some(now),
            ..PodStatus::default()
        });
        self
    }

    /// The address of its node, for a Pod in the host's network.
    #[must_use]
    pub fn host_network(mut self, host_address: &str) -> Self {
        self.spec().host_network = Some(true);
        let status = self.status.get_or_insert_default();
        status.host_ip = Some(host_address.to_owned());
        status.host_ips = Some(vec![HostIP {
            ip: host_address.to_owned(),
        }]);
        self
    }

    /// Makes the Pod, then writes its status.
    ///
    /// In a namespace that has just been made, it waits for the ServiceAccount that the Pod needs.
    pub async fn create(self, client: &kube::Client) -> Result<Pod> {
        let namespace = self.pod.metadata.namespace.clone().unwrap_or_default();
        let name = self.pod.metadata.name.clone().unwrap_or_default();
        let api = Api::<Pod>::namespaced(client.clone(), &namespace);
        let created = try_eventually(ACCOUNT_LIMIT, async || {
            match api.create(&PostParams::default(), &self.pod).await {
                Err(kube::Error::Api(status)) if status.message.contains("service account") => {
                    Err(status.message)
                }
                other => Ok(other),
            }
        })
        .await
        .map_err(anyhow::Error::msg)
        .and_then(|answer| Ok(answer?))
        .with_context(|| format!("creating the Pod {namespace}/{name}"))?;
        let Some(status) = self.status else {
            return Ok(created);
        };
        let patch = Patch::Strategic(json!({ "status": status }));
        api.patch_status(&name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("writing the status of the Pod {namespace}/{name}"))
    }

    /// Changes whether an existing Pod is ready, as its kubelet would.
    pub async fn set_ready(
        client: &kube::Client,
        namespace: &str,
        name: &str,
        ready: bool,
    ) -> Result<Pod> {
        let status = if ready { "True" } else { "False" };
        let conditions =
            ["ContainersReady", "Ready"].map(|kind| json!({ "type": kind, "status": status }));
        let patch = Patch::Strategic(json!({ "status": { "conditions": conditions } }));
        let api = Api::<Pod>::namespaced(client.clone(), namespace);
        Ok(api
            .patch_status(name, &PatchParams::default(), &patch)
            .await?)
    }
}
