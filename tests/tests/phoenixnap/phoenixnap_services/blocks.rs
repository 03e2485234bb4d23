//! IP blocks, and what only this cloud's Services have.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_cloud_sim::phoenixnap::{Kind, Phoenixnap};
use mooring_cloud_sim::{Calls, When};
use mooring_common::names::{annotations, finalizers};
use mooring_test_cluster::objects::{EventNote, events_for};
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::phoenixnap_services::cluster::{AFTER_RETRIES, CloudCluster, SOON, assert_none};

/// How long to wait for what is done only when it has been so for a minute.
pub(crate) const AFTER_A_WHILE: Duration = Duration::from_secs(120);

/// The tag by which the Go controller knows its blocks.
pub(crate) const USAGE: (&str, &str) = ("usage", "cloud-provider-phoenixnap-auto");

impl CloudCluster {
    /// What a central that was killed has left to say that it is buying.
    pub(crate) async fn forget_claims(&self) {
        let services = Api::<Service>::namespaced(self.admin.clone(), "default");
        let patch = json!({ "metadata": { "annotations": { annotations::IP_BLOCK_CLAIM: null } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        services.patch("kubernetes", &params, &patch).await.unwrap();
    }

    /// Who says that it is buying.
    pub(crate) async fn claim(&self) -> Option<String> {
        let services = Api::<Service>::namespaced(self.admin.clone(), "default");
        let bearer = services.get("kubernetes").await.unwrap();
        let all = bearer.metadata.annotations?;
        all.get(annotations::IP_BLOCK_CLAIM).cloned()
    }

    /// The same where two did not know of each other: one may have asked for a block to be put where
    /// the other had just put it.
    pub(crate) async fn finish_both(self) {
        let there = format!("to {}", self.cloud.network);
        let mut told = self.sim().misdirected();
        told.retain(|what| !what.starts_with("attach ") || !what.ends_with(&there));
        assert_none(&told);
        self.cluster.finish().await;
    }

    /// The simulation.
    pub(crate) fn sim(&self) -> &Phoenixnap {
        self.cloud.sim()
    }

    // --- central ------------------------------------------------------------------------------

    /// [`Self::flags`], with blocks that Services share: the default of the flag.
    pub(crate) fn sharing(&self) -> CentralFlags {
        self.flags().with("--ip-block-sharing=true")
    }

    /// The environment of the cloud alone.
    pub(crate) fn replica(&self) -> CentralFlags {
        CentralFlags::replica()
            .cloud(&self.cloud)
            .environment("PNAP_LOAD_BALANCER", self.cloud.load_balancer())
            .without_endpoints()
            .with("--controllers=service")
    }

    // --- Services -----------------------------------------------------------------------------

    /// Makes a Service, waits until it has an address, and gives the address.
    pub(crate) async fn provide_address(&self, name: &str) -> String {
        self.create(name).await;
        self.provided_address(name).await
    }

    /// Waits until a Service has an address, and gives it.
    pub(crate) async fn provided_address(&self, name: &str) -> String {
        self.address_within(name, SOON).await
    }

    pub(crate) async fn address_within(&self, name: &str, limit: Duration) -> String {
        eventually(&format!("{name} has an address"), limit, async || {
            let service = self.get(name).await;
            let calls = || self.sim().calls().summary();
            address(&service).ok_or_else(|| format!("{:?}\n{}", service.status, calls()))
        })
        .await
    }

    /// Writes on a Service's status.
    pub(crate) async fn patch_status(&self, name: &str, status: &Value) {
        let (params, patch) = (
            PatchParams::default(),
            Patch::Merge(json!({ "status": status })),
        );
        let services = self.services();
        services.patch_status(name, &params, &patch).await.unwrap();
    }

    /// Waits for an Event about the cluster with this reason and these words.
    pub(crate) async fn told_of_the_cluster(&self, reason: &str, words: &str) -> EventNote {
        eventually(&format!("{reason} ({words})"), SOON, async || {
            let events = events_for(&self.admin, "Service", Some("default"), "kubernetes").await;
            let events = events.unwrap();
            let mut all = events.iter();
            let found = all.find(|event| event.reason == reason && event.note.contains(words));
            found.cloned().ok_or(events)
        })
        .await
    }

    // --- the cloud ----------------------------------------------------------------------------

    /// The tags that the Go controller puts on a block of a Service.
    pub(crate) fn tags_of(&self, service: &str) -> Value {
        json!({
            USAGE.0: USAGE.1,
            "cluster": self.cloud.cluster_uid,
            "serviceNamespace": self.namespace,
            "serviceName": service,
        })
    }

    /// The tags that the Go controller leaves on a block that nobody needs.
    pub(crate) fn dying_tags(&self) -> Value {
        json!({ USAGE.0: USAGE.1, "cluster": self.cloud.cluster_uid, "delete": "true" })
    }

    /// A block of a Service as the Go controller has left it, on the network. Gives its id.
    pub(crate) fn block_of(&self, service: &str, cidr: &str) -> String {
        self.sim().put(
            Kind::Block,
            json!({
                "cidr": cidr, "tags": self.tags_of(service), "assignedResourceId": self.cloud.network,
            }),
        )
    }

    /// A Service as the Go controller has left it: with this address and its finalizer.
    pub(crate) async fn left_by_go(&self, name: &str, address: &str) {
        let service = self.service(name).requested_address(address);
        service.create(&self.admin).await.unwrap();
        let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
        self.patch(name, &finalizer).await;
        self.patch_status(
            name,
            &json!({ "loadBalancer": { "ingress": [{ "ip": address }] } }),
        )
        .await;
    }

    /// The blocks of this cluster that are not marked.
    pub(crate) fn living_blocks(&self) -> Vec<Value> {
        self.cloud.living_blocks()
    }

    /// The id of the first of them.
    pub(crate) fn living_block(&self) -> String {
        id(&self.living_blocks()[0])
    }

    /// Waits until a block has been given back.
    pub(crate) async fn released(&self, block: &str) {
        self.released_within(block, SOON).await;
    }

    pub(crate) async fn released_within(&self, block: &str, limit: Duration) {
        eventually(&format!("{block} is given back"), limit, async || {
            if self.sim().releases().contains(&block.to_owned()) {
                Ok(())
            } else {
                Err(format!(
                    "{:?}\n{}",
                    self.sim().get(Kind::Block, block),
                    self.sim().calls().summary()
                ))
            }
        })
        .await;
    }

    /// The requests that buy blocks.
    pub(crate) fn purchases(&self) -> Calls {
        let calls = self.sim().calls().to(Kind::Block.path());
        calls.method(&Method::POST)
    }

    /// The requests that change something since then.
    pub(crate) fn writes_since(&self, start: Instant) -> Calls {
        self.sim().writes().since(start)
    }

    /// Waits until the cloud has been asked so often for the blocks of the cluster since then.
    pub(crate) async fn listings_since(&self, start: Instant, count: usize) {
        eventually(&format!("{count} listings"), AFTER_RETRIES, async || {
            let listings = self.sim().calls().to(Kind::Block.path()).since(start);
            let answered = listings.method(&Method::GET);
            answered.filter(|call| call.took.is_some()).len() >= count
        })
        .await;
    }
}

/// The id of a block.
pub(crate) fn id(block: &Value) -> String {
    block["id"].as_str().unwrap().to_owned()
}

/// Requests that put a block on a network.
pub(crate) fn attachment() -> When {
    When::write("/networks/v1/public-networks/*/ip-blocks").method(Method::POST)
}

/// Requests that buy a block.
pub(crate) fn purchase() -> When {
    When::write(Kind::Block.path()).method(Method::POST)
}

/// Requests that list blocks.
pub(crate) fn listing() -> When {
    When::get(Kind::Block.path())
}

/// The only address in a Service's status. Panics if there is an entry without one.
pub(crate) fn address(service: &Service) -> Option<String> {
    let status = serde_json::to_value(&service.status).unwrap();
    let entries = status["loadBalancer"]["ingress"].as_array();
    let entries: Vec<&Value> = entries.into_iter().flatten().collect();
    let entry = entries.first()?;
    let address = entry["ip"].as_str().unwrap_or_default();
    (!address.is_empty()).then(|| address.to_owned())
}

/// `spec.loadBalancerIP`.
pub(crate) fn requested(service: &Service) -> Option<String> {
    service.spec.as_ref()?.load_balancer_ip.clone()
}

/// Whether an object of the cloud has a tag of this name.
pub(crate) fn has_tag(object: &Value, name: &str) -> bool {
    tags(object).iter().any(|(found, _)| found == name)
}

/// Names and values of the tags of an object of the cloud.
pub(crate) fn tags(object: &Value) -> BTreeSet<(String, String)> {
    let tags = object["tags"].as_array().into_iter().flatten();
    tags.map(|tag| {
        let text = |field: &str| tag[field].as_str().unwrap_or_default().to_owned();
        (text("name"), text("value"))
    })
    .collect()
}

/// `POST /ips/v1/ip-blocks` for each request, for comparison.
pub(crate) fn lines(calls: &Calls) -> Vec<String> {
    let lines = calls
        .iter()
        .map(|call| format!("{} {}", call.method, call.path));
    lines.collect()
}
