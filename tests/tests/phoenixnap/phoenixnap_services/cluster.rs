//! A cluster of one's own whose Services get addresses out of one simulated PhoenixNAP.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_common::names::{annotations, finalizers};
use mooring_tests::cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_tests::cloud_sim::phoenixnap::{Kind, Phoenixnap};
use mooring_tests::cloud_sim::{Calls, When};
use mooring_tests::cluster::Cluster;
use mooring_tests::objects::{
    EventNote, NodeBuilder, ServiceBuilder, create_namespace, events_for, unique,
};
use mooring_tests::shipped::{Central, CentralFlags, permit_kube_vip};
use mooring_tests::wait::eventually;
use serde_json::{Value, json};

/// What "eventually" means to this suite: a few looks of the controller.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// How long to wait for what comes after several retries.
pub(crate) const AFTER_RETRIES: Duration = Duration::from_secs(60);

/// How long to wait for what is done only when it has been so for a minute.
pub(crate) const AFTER_A_WHILE: Duration = Duration::from_secs(120);

/// The tag by which the Go controller knows its blocks.
pub(crate) const USAGE: (&str, &str) = ("usage", "cloud-provider-phoenixnap-auto");

/// One test's cluster and its cloud.
pub(crate) struct CloudCluster {
    cluster: Cluster,
    /// Where its Services are.
    pub(crate) namespace: String,
    /// The public network that the configuration names.
    pub(crate) network: String,
    /// The UID of `kube-system`.
    pub(crate) cluster_uid: String,
    cloud: CloudSim,
}

impl Deref for CloudCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl CloudCluster {
    /// A cluster of two Nodes, and a network without blocks. All that is asynchronous is done at
    /// once.
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::exclusive().await;
        let cloud = CloudSim::start(Cloud::Phoenixnap).await;
        let sim = cloud.phoenixnap().expect("it is PhoenixNAP");
        let network = sim.add_network("services", "PHX");
        let namespaces = Api::<Namespace>::all(cluster.admin.clone());
        let system = namespaces.get("kube-system").await.unwrap();
        let cluster = Self {
            namespace: unique("services"),
            network,
            cluster_uid: system.metadata.uid.unwrap(),
            cluster,
            cloud,
        };
        create_namespace(&cluster.admin, &cluster.namespace)
            .await
            .unwrap();
        permit_kube_vip(&cluster).await.unwrap();
        cluster.forget_claims().await;
        for n in 1..=2 {
            let name = format!("n{n}");
            let server = Server::named(&name)
                .private(&format!("10.0.0.{n}"))
                .public(&format!("192.0.2.{n}"));
            let id = cluster.cloud.add(server);
            let node = NodeBuilder::new(&name).provider_id(&id).ready();
            node.create(&cluster.admin).await.unwrap();
        }
        cluster
    }

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

    /// Asserts that central was not refused anything by the API server, and that nothing was asked
    /// of the cloud that no good client asks.
    pub(crate) async fn finish(self) {
        assert_none(&self.sim().misdirected());
        self.cluster.finish().await;
    }

    /// The same where two did not know of each other: one may have asked for a block to be put where
    /// the other had just put it.
    pub(crate) async fn finish_both(self) {
        let there = format!("to {}", self.network);
        let mut told = self.sim().misdirected();
        told.retain(|what| !what.starts_with("attach ") || !what.ends_with(&there));
        assert_none(&told);
        self.cluster.finish().await;
    }

    /// The simulation.
    pub(crate) fn sim(&self) -> &Phoenixnap {
        self.cloud.phoenixnap().expect("it is PhoenixNAP")
    }

    // --- central ------------------------------------------------------------------------------

    /// Central as the Go controller's users start it, for addresses that kube-vip announces.
    pub(crate) fn flags(&self) -> CentralFlags {
        let flags = CentralFlags::alone().cloud(&self.cloud);
        flags
            .environment("PNAP_LOAD_BALANCER", format!("kube-vip://{}", self.network))
            .without_endpoints()
            .with("--controllers=service")
            .with("--creation-settle-time=10s")
    }

    /// The same, with a block for each Service, as the Go controller has it.
    pub(crate) fn unshared(&self) -> CentralFlags {
        self.flags().with("--ip-block-sharing=false")
    }

    pub(crate) async fn central(&self) -> Central {
        self.central_with(self.flags()).await
    }

    pub(crate) async fn central_with(&self, flags: CentralFlags) -> Central {
        self.cluster.start_central(flags).await
    }

    /// The environment of the cloud alone.
    pub(crate) fn replica(&self) -> CentralFlags {
        CentralFlags::replica()
            .cloud(&self.cloud)
            .environment("PNAP_LOAD_BALANCER", format!("kube-vip://{}", self.network))
            .without_endpoints()
            .with("--controllers=service")
    }

    // --- Services -----------------------------------------------------------------------------

    /// A Service of type LoadBalancer with one port that is not in the cluster yet.
    pub(crate) fn service(&self, name: &str) -> ServiceBuilder {
        ServiceBuilder::load_balancer(&self.namespace, name).port(80, 8080)
    }

    pub(crate) async fn create(&self, name: &str) -> Service {
        self.service(name).create(&self.admin).await.unwrap()
    }

    /// Makes such a Service, and waits until it has an address. Gives the address.
    pub(crate) async fn provide(&self, name: &str) -> String {
        self.create(name).await;
        self.provided(name).await
    }

    /// Waits until a Service has an address. Gives it.
    pub(crate) async fn provided(&self, name: &str) -> String {
        self.provided_within(name, SOON).await
    }

    pub(crate) async fn provided_within(&self, name: &str, limit: Duration) -> String {
        eventually(&format!("{name} has an address"), limit, async || {
            let service = self.get(name).await;
            match address(&service) {
                Some(address) => Ok(address),
                None => Err(format!(
                    "{:?}; {:?}; {}",
                    service.status,
                    self.events(name).await,
                    self.sim().calls().summary()
                )),
            }
        })
        .await
    }

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    pub(crate) async fn get(&self, name: &str) -> Service {
        self.services().get(name).await.unwrap()
    }

    /// Writes on a Service as a user does, with a merge patch.
    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Service {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.services().patch(name, &params, &patch).await.unwrap()
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

    pub(crate) async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.services().delete(name, &params).await.unwrap();
    }

    pub(crate) async fn gone(&self, name: &str) {
        self.gone_within(name, SOON).await;
    }

    pub(crate) async fn gone_within(&self, name: &str, limit: Duration) {
        eventually(&format!("{name} is gone"), limit, async || {
            match self.services().get_opt(name).await.unwrap() {
                None => Ok(()),
                Some(service) => Err(format!(
                    "{service:?}; {:?}; {}",
                    self.events(name).await,
                    self.sim().calls().summary()
                )),
            }
        })
        .await;
    }

    /// What Events say of a Service.
    pub(crate) async fn events(&self, name: &str) -> Vec<EventNote> {
        let events = events_for(&self.admin, "Service", Some(&self.namespace), name).await;
        events.unwrap()
    }

    /// Waits for an Event about a Service with this reason and these words.
    pub(crate) async fn told(&self, name: &str, reason: &str, words: &str) -> EventNote {
        eventually(&format!("{name}: {reason} ({words})"), SOON, async || {
            let events = self.events(name).await;
            let mut all = events.iter();
            let found = all.find(|event| event.reason == reason && event.note.contains(words));
            found.cloned().ok_or(events)
        })
        .await
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
            "cluster": self.cluster_uid,
            "serviceNamespace": self.namespace,
            "serviceName": service,
        })
    }

    /// The tags that the Go controller leaves on a block that nobody needs.
    pub(crate) fn dying_tags(&self) -> Value {
        json!({ USAGE.0: USAGE.1, "cluster": self.cluster_uid, "delete": "true" })
    }

    /// A block of a Service as the Go controller has left it, on the network. Gives its id.
    pub(crate) fn block_of(&self, service: &str, cidr: &str) -> String {
        self.sim().put(
            Kind::Block,
            json!({
                "cidr": cidr, "tags": self.tags_of(service), "assignedResourceId": self.network,
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
        let cluster = ("cluster", self.cluster_uid.as_str());
        let mut blocks = self.sim().tagged(&[USAGE, cluster]);
        blocks.retain(|block| !has_tag(block, "delete"));
        blocks
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

    /// Waits until there is no block of this cluster.
    pub(crate) async fn nothing_is_left(&self) {
        eventually("no block is left", SOON, async || {
            let cluster = ("cluster", self.cluster_uid.as_str());
            let left = self.sim().tagged(&[cluster]);
            if left.is_empty() { Ok(()) } else { Err(left) }
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

    /// A Service is made and provided with: what was there before has had its turn.
    pub(crate) async fn marker(&self) {
        self.provide(&unique("marker")).await;
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

/// Requests that tag a block.
pub(crate) fn tagging() -> When {
    When::write("/ips/v1/ip-blocks/*/tags").method(Method::PUT)
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

/// Whether the framework's finalizer is on a Service.
pub(crate) fn has_finalizer(service: &Service) -> bool {
    let mut names = service.metadata.finalizers.iter().flatten();
    names.any(|name| name == finalizers::SERVICE)
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

/// Asserts that nothing is in a list, and shows what is.
#[track_caller]
pub(crate) fn assert_none<T: std::fmt::Debug>(found: &[T]) {
    assert!(found.is_empty(), "{found:#?}");
}
