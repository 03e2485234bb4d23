//! A namespace and an L2Network of one test about service addresses, so that tests can share one
//! cluster and one central.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use mooring_common::names::{annotations, components, finalizers};
use serde_json::{Value, json};

use crate::objects::{EventNote, ServiceBuilder, create_namespace, events_for, unique};
use mooring_test_support::wait::eventually;

/// What "eventually" means to the suites about Services.
pub const SOON: Duration = Duration::from_secs(10);

/// How long to wait for what proves that something did *not* happen: a busy machine must not turn
/// it red.
pub const MARKER_LIMIT: Duration = Duration::from_secs(30);

/// A namespace, an L2Network with a few addresses, and a client with all rights.
#[derive(Clone)]
pub struct TestNamespace {
    /// A client with all rights.
    pub client: Client,
    /// Its name.
    pub name: String,
    /// The L2Network's name. [`TestNamespace::service`] asks for it.
    pub network: String,
    third: u16,
}

impl TestNamespace {
    /// One whose network has this many IPv4 addresses, `.10` and up, and 256 of IPv6.
    pub async fn with_network(client: Client, addresses: u16) -> Self {
        let namespace = Self::without_network(client).await;
        let ranges = [
            namespace.range(0, addresses),
            format!("fd00:0:0:{:x}::100/120", namespace.third),
        ];
        namespace.create_network(&namespace.network, &ranges).await;
        namespace
    }

    /// One without a network.
    pub async fn without_network(client: Client) -> Self {
        static NETWORKS: AtomicU16 = AtomicU16::new(1);
        let namespace = unique("services");
        create_namespace(&client, &namespace)
            .await
            .expect("a namespace");
        Self {
            client,
            name: namespace,
            network: unique("lan"),
            third: NETWORKS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The n-th address of the network, counted from 0.
    #[must_use]
    pub fn address(&self, n: u16) -> String {
        format!(
            "10.{}.{}.{}",
            64 + self.third / 256,
            self.third % 256,
            10 + n
        )
    }

    /// The n-th IPv6 address of the network, counted from 0.
    #[must_use]
    pub fn address_v6(&self, n: u16) -> String {
        let address = format!("fd00:0:0:{:x}::{:x}", self.third, 0x100 + n);
        let parsed: std::net::Ipv6Addr = address.parse().expect("an address");
        parsed.to_string()
    }

    /// A range of so many addresses, from the n-th on.
    #[must_use]
    pub fn range(&self, from: u16, count: u16) -> String {
        format!("{}-{}", self.address(from), self.address(from + count - 1))
    }

    // --- L2Networks ---------------------------------------------------------------------------

    /// All L2Networks.
    #[must_use]
    pub fn networks(&self) -> Api<L2Network> {
        Api::all(self.client.clone())
    }

    /// An L2Network with these ranges on the namespace's subnets.
    #[must_use]
    pub fn network_of(&self, name: &str, ranges: &[String]) -> L2Network {
        let subnet = |cidr: String, gateway: String| Subnet {
            cidr,
            gateway: Some(gateway),
        };
        let first = self.address(0);
        let prefix = first.rsplit_once('.').map_or("", |(prefix, _)| prefix);
        let spec = L2NetworkSpec {
            subnets: vec![
                subnet(format!("{prefix}.0/24"), format!("{prefix}.1")),
                subnet(
                    format!("fd00:0:0:{:x}::/64", self.third),
                    format!("fd00:0:0:{:x}::1", self.third),
                ),
            ],
            ranges: ranges.to_vec(),
            ..L2NetworkSpec::default()
        };
        L2Network::new(name, spec)
    }

    /// Makes an L2Network with these ranges on the namespace's subnets.
    pub async fn create_network(&self, name: &str, ranges: &[String]) {
        let network = self.network_of(name, ranges);
        let (networks, params) = (self.networks(), PostParams::default());
        let created = networks.create(&params, &network).await;
        created.expect("the L2Network is taken");
    }

    /// Gives an L2Network other ranges.
    pub async fn set_ranges(&self, name: &str, ranges: &[String]) {
        let patch = Patch::Merge(json!({ "spec": { "ranges": ranges } }));
        let params = PatchParams::default();
        let patched = self.networks().patch(name, &params, &patch).await;
        patched.expect("the ranges are taken");
    }

    /// Waits until an L2Network is Ready, or not, and gives reason and message.
    pub async fn network_is(&self, name: &str, ready: bool) -> (String, String) {
        let what = format!("L2Network {name} has Ready={ready}");
        eventually(&what, SOON, async || {
            let network = self.networks().get(name).await?;
            let status = network.status.unwrap_or_default();
            let condition = status.conditions.into_iter().find(|c| {
                let current = c.observed_generation == network.metadata.generation;
                c.type_ == "Ready" && c.status == if ready { "True" } else { "False" } && current
            });
            condition
                .map(|c| (c.reason, c.message))
                .ok_or_else(|| anyhow::anyhow!("not so"))
        })
        .await
    }

    /// Waits until an L2Network says that so many of its addresses are used.
    pub async fn network_uses(&self, name: &str, count: i64) {
        let what = format!("{count} addresses of L2Network {name} are used");
        eventually(&what, SOON, async || -> Result<()> {
            let status = self.networks().get(name).await?.status;
            let used = status.and_then(|status| status.used_addresses);
            anyhow::ensure!(used == Some(count), "{used:?}");
            Ok(())
        })
        .await;
    }

    // --- Services -----------------------------------------------------------------------------

    /// A Service of type LoadBalancer that asks for the namespace's network, with one port.
    #[must_use]
    pub fn service(&self, name: &str) -> ServiceBuilder {
        ServiceBuilder::load_balancer(&self.name, name)
            .annotation(annotations::L2_NETWORK_REQUEST, &self.network)
            .port(80, 8080)
    }

    /// Makes such a Service.
    pub async fn create(&self, name: &str) {
        self.service(name)
            .create(&self.client)
            .await
            .expect("the Service is taken");
    }

    /// The namespace's Services.
    #[must_use]
    pub fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// A Service as it is now.
    pub async fn get(&self, name: &str) -> Service {
        let service = self.services().get(name).await;
        service.expect("the Service is there")
    }

    /// All Services of the namespace.
    pub async fn all(&self) -> Vec<Service> {
        let listed = self.services().list(&ListParams::default()).await;
        listed.expect("the API server answers").items
    }

    /// Waits until a Service is served, and gives its addresses.
    pub async fn served(&self, name: &str) -> Vec<String> {
        let what = format!("{}/{name} is served", self.name);
        eventually(&what, SOON, async || -> Result<_> {
            is_served(&self.services().get(name).await?)
        })
        .await
    }

    /// Waits until a Service is served with exactly these addresses.
    pub async fn served_with(&self, name: &str, addresses: &[String]) {
        let what = format!("{}/{name} has {addresses:?}", self.name);
        eventually(&what, SOON, async || -> Result<()> {
            let found = is_served(&self.services().get(name).await?)?;
            anyhow::ensure!(found == addresses, "it has {found:?}");
            Ok(())
        })
        .await;
    }

    /// Writes on a Service as a user does, with a merge patch.
    pub async fn patch(&self, name: &str, patch: &Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let patched = self.services().patch(name, &params, &patch).await;
        patched.expect("the patch is taken");
    }

    /// Writes a Service's status, by somebody else than Mooring.
    pub async fn patch_status(&self, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        let patched = self.services().patch_status(name, &params, &patch).await;
        patched.expect("the status is taken");
    }

    /// Sets an annotation, or takes it off.
    pub async fn annotate(&self, name: &str, key: &str, value: Option<&str>) {
        self.patch(
            name,
            &json!({ "metadata": { "annotations": { key: value } } }),
        )
        .await;
    }

    /// Asks for the deletion of a Service.
    pub async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        let deleted = self.services().delete(name, &params).await;
        deleted.expect("the Service can be deleted");
    }

    /// Waits until a Service is gone.
    pub async fn gone(&self, name: &str) {
        let what = format!("{}/{name} is gone", self.name);
        eventually(&what, SOON, async || -> Result<bool> {
            Ok(self.services().get_opt(name).await?.is_none())
        })
        .await;
    }

    // --- what was told ------------------------------------------------------------------------

    /// All Events about a Service that central has written. The API server writes some itself.
    pub async fn events(&self, name: &str) -> Vec<EventNote> {
        let events = events_for(&self.client, "Service", Some(&self.name), name).await;
        let mut events = events.expect("the API server answers");
        events.retain(|event| event.reporter == components::SERVICE);
        events
    }

    /// The Warnings about a Service.
    pub async fn warnings(&self, name: &str) -> Vec<EventNote> {
        let mut events = self.events(name).await;
        events.retain(|event| event.kind == "Warning");
        events
    }

    /// Waits for an Event about a Service with this reason.
    pub async fn told(&self, name: &str, reason: &str) -> EventNote {
        self.told_with(name, reason, "").await
    }

    /// Waits for an Event about a Service with this reason and these words.
    pub async fn told_with(&self, name: &str, reason: &str, words: &str) -> EventNote {
        let what = format!("an Event {reason} ({words:?}) about {}/{name}", self.name);
        eventually(&what, SOON, async || {
            let events = self.events(name).await;
            let found = events
                .iter()
                .find(|event| event.reason == reason && event.note.contains(words));
            found.cloned().ok_or(events)
        })
        .await
    }
}

/// The addresses of a Service's status.
#[must_use]
pub fn ingress(service: &Service) -> Vec<String> {
    let status = service.status.as_ref();
    let entries = status
        .and_then(|status| status.load_balancer.as_ref())
        .and_then(|load_balancer| load_balancer.ingress.as_ref());
    let entries = entries.into_iter().flatten();
    entries.filter_map(|entry| entry.ip.clone()).collect()
}

/// An annotation of a Service.
#[must_use]
pub fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    let annotations = service.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// Whether Mooring's finalizer is on a Service.
#[must_use]
pub fn has_finalizer(service: &Service) -> bool {
    let mut names = service.metadata.finalizers.iter().flatten();
    names.any(|name| name == finalizers::SERVICE)
}

/// The addresses of a Service that has everything: finalizer, status, and a record that says the
/// same as the status.
///
/// # Errors
/// What is missing.
pub fn is_served(service: &Service) -> Result<Vec<String>> {
    let addresses = ingress(service);
    let record = annotation(service, annotations::ALLOCATED_ADDRESSES);
    let network = annotation(service, annotations::ALLOCATED_NETWORK);
    anyhow::ensure!(!addresses.is_empty(), "no address in the status");
    anyhow::ensure!(
        record == Some(addresses.join(",").as_str()) && network.is_some(),
        "status {addresses:?}, but record {record:?} of {network:?}"
    );
    anyhow::ensure!(has_finalizer(service), "no finalizer");
    Ok(addresses)
}

/// Whether a Service bears nothing at all of Mooring's.
#[must_use]
pub fn is_untouched(service: &Service) -> bool {
    !has_finalizer(service)
        && ingress(service).is_empty()
        && annotation(service, annotations::ALLOCATED_ADDRESSES).is_none()
        && annotation(service, annotations::ALLOCATED_NETWORK).is_none()
}
