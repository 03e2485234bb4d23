mod account;
mod calls;
mod crashes;
mod members;
mod rate;
mod refusals;
mod touched;
mod unfit;
mod unreadable;
mod wishes;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::k8s::Slim as _;
use mooring_common::names::reasons;
use mooring_common::node_view::NodeView;
use tokio::time::advance;

use super::super::api::ip_blocks::BlockStatus;
use super::super::setting::Settings;
use super::*;
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, LoadBalancers as _, PlanSummary, Progress,
    ReconcileError, WriteGuard,
};
use crate::engine::inventory::Inventory;
use crate::engine::ip_allocation::{self, BlockMetrics};
use crate::engine::pooled::PooledEngine;
use crate::engine::purchases::Permission;
use crate::views::service_view::ServiceView;

type IpBlocks = PooledEngine<Blocks>;

use testing::{FakeCloud, FakeCluster, LONG, NETWORK, OpenGuard, request, service, settings};

/// The Node of a server, by whose name it goes.
fn node(server: &str) -> Arc<NodeView> {
    let node = serde_json::json!({
        "metadata": {"name": server}, "spec": {"providerID": format!("phoenixnap://{server}")},
    });
    let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(node).unwrap();
    Arc::new(NodeView::slim(node))
}

/// A cluster at a cloud, and the Services that want an address.
struct TestCluster {
    cloud: FakeCloud,
    cluster: FakeCluster,
    settings: Settings,
    services: Mutex<Vec<ServiceView>>,
    /// The servers of its Nodes.
    nodes: Vec<&'static str>,
    /// How often a Service was written.
    writes: AtomicUsize,
}

impl TestCluster {
    fn new(sharing: bool) -> Self {
        Self {
            cloud: FakeCloud::new(),
            cluster: FakeCluster::default(),
            settings: settings(sharing),
            services: Mutex::default(),
            nodes: Vec::new(),
            writes: AtomicUsize::new(0),
        }
    }

    /// Services of these names, oldest first.
    fn with(self, names: &[&str]) -> Self {
        for name in names {
            self.put(service(name));
        }
        self
    }

    fn put(&self, mut service: ServiceView) {
        let version = self.writes.fetch_add(1, Ordering::Relaxed);
        service.resource_version = version.to_string();
        let mut services = self.services.lock().unwrap();
        services.retain(|other| other.uid != service.uid);
        services.push(service);
        self.cluster.0.lock().unwrap().services = services.clone();
    }

    fn remove(&self, name: &str) {
        let mut services = self.services.lock().unwrap();
        services.retain(|other| other.uid != name);
        self.cluster.0.lock().unwrap().services = services.clone();
    }

    fn service(&self, name: &str) -> ServiceView {
        let services = self.services.lock().unwrap();
        services.iter().find(|s| s.uid == name).unwrap().clone()
    }

    /// A process that knows nothing of what was before.
    fn start(&self, identity: &str) -> IpBlocks {
        let (cloud, cluster) = (self.cloud.clone(), self.cluster.clone());
        let (cloud, cluster) = (Arc::new(cloud), Arc::new(cluster));
        let inventory = Arc::new(Inventory::new(cloud.clone()));
        let (identity, settings) = (identity.to_owned(), self.settings.clone());
        let metrics = BlockMetrics::default();
        let blocks = Blocks::new(cloud, inventory, cluster, identity, settings, metrics);
        PooledEngine::new(blocks)
    }

    fn request(&self, name: &str) -> LoadBalancerRequest {
        let all = self.services.lock().unwrap().clone();
        let wanting: Vec<_> = all.into_iter().filter(|s| s.is_load_balancer).collect();
        let nodes = self.nodes.iter().map(|server| node(server));
        LoadBalancerRequest {
            nodes: nodes.collect(),
            ..request(&self.service(name), &wanting)
        }
    }

    async fn summary(&self, blocks: &IpBlocks, name: &str) -> PlanSummary {
        let prepared = blocks.prepare(&self.request(name)).await.unwrap();
        prepared.summary().clone()
    }

    /// One pass; what it provides is written to the Service, as the controller does.
    async fn pass(&self, blocks: &IpBlocks, name: &str) -> Result<Progress, ReconcileError> {
        let prepared = blocks.prepare(&self.request(name)).await?;
        let progress = prepared.carry_out(&OpenGuard::default()).await?;
        if let Progress::Ensured(provided) = &progress {
            self.write(name, provided);
            blocks.wrote(&self.service(name));
        }
        Ok(progress)
    }

    fn write(&self, name: &str, provided: &LoadBalancerStatus) {
        let mut service = self.service(name);
        service.ingress.clone_from(&provided.ingress);
        let addresses = provided.ingress.iter().filter_map(|entry| entry.ip.clone());
        service.status = addresses.filter_map(|ip| ip.parse().ok()).collect();
        for (key, value) in &provided.annotations {
            match *key {
                "mooring.dev/allocated-addresses" => {
                    service.allocated_addresses = Some(value.clone());
                }
                "mooring.dev/public-network" => service.public_network = Some(value.clone()),
                other => panic!("{other}"),
            }
        }
        service.load_balancer_ip = provided
            .load_balancer_ip
            .clone()
            .or(service.load_balancer_ip);
        if service != self.service(name) {
            self.put(service);
        }
    }

    /// Passes until it has its address.
    async fn provided(&self, blocks: &IpBlocks, name: &str) -> String {
        for _ in 0..200 {
            match self.pass(blocks, name).await {
                Ok(Progress::Ensured(provided)) => {
                    return provided.ingress[0].ip.clone().unwrap();
                }
                Ok(Progress::Wait { after, .. }) => advance(after).await,
                Ok(Progress::Removed) => panic!("removed"),
                Err(ReconcileError::Cloud(_) | ReconcileError::Stopped(_)) => {
                    advance(LONG / 10).await;
                }
                Err(other) => panic!("{other}"),
            }
        }
        panic!(
            "{name} does not get an address: {:?}",
            self.cloud.0.lock().unwrap().calls
        );
    }

    /// Passes until the Service may go, and lets it go.
    async fn removed(&self, blocks: &IpBlocks, name: &str) {
        let mut going = self.service(name);
        going.deleting = true;
        self.put(going);
        for _ in 0..200 {
            let prepared = match blocks.prepare_removal(&self.request(name)).await {
                Ok(prepared) => prepared,
                Err(_) => {
                    advance(LONG / 10).await;
                    continue;
                }
            };
            match prepared.carry_out(&OpenGuard::default()).await {
                Ok(Progress::Removed) => {
                    self.remove(name);
                    blocks.forget(name);
                    return;
                }
                Ok(Progress::Wait { after, .. }) => advance(after).await,
                Ok(Progress::Ensured(_)) => panic!("provided"),
                Err(_) => advance(LONG / 10).await,
            }
        }
        panic!("{name} does not go");
    }

    /// Rounds until no block is left.
    async fn tended(&self, blocks: &IpBlocks) -> OpenGuard {
        let context = OpenGuard::default();
        for _ in 0..200 {
            let pause = blocks.round(&context).await;
            if self.cloud.0.lock().unwrap().blocks.is_empty() {
                return context;
            }
            advance(pause.unwrap_or(LONG / 10)).await;
        }
        let blocks = self.cloud.0.lock().unwrap().blocks.clone();
        panic!("not given back: {blocks:?}");
    }

    fn bought(&self) -> usize {
        self.cloud.0.lock().unwrap().bought
    }
}

#[tokio::test(start_paused = true)]
async fn new_service_makes_calls_of_go_controller() {
    let cluster = TestCluster::new(false).with(&["web"]);
    let blocks = cluster.start("one");
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
    let made = [
        "usage",
        "cluster",
        "serviceNamespace",
        "serviceName",
        "delete",
    ];
    let mut expected: Vec<String> = made.map(|name| format!("tag {name}")).into();
    expected.extend(["buy /29", "attach b1 to net"].map(ToOwned::to_owned));
    assert_eq!(cluster.cloud.writes(), expected);
    let service = cluster.service("web");
    assert_eq!(service.load_balancer_ip.as_deref(), Some("203.0.113.10"));
    assert_eq!(cluster.cluster.0.lock().unwrap().claim, None);
    cluster.removed(&blocks, "web").await;
    cluster.tended(&blocks).await;
    let expected = ["mark b1", "detach b1 from net", "release b1"];
    assert_eq!(cluster.cloud.writes(), expected);
}

#[tokio::test(start_paused = true)]
async fn unchanged_costs_nothing_and_restart_two_requests() {
    let cluster = TestCluster::new(true).with(&["a", "b"]);
    let blocks = cluster.start("one");
    for name in ["a", "b"] {
        cluster.provided(&blocks, name).await;
    }
    cluster.cloud.writes();
    advance(LONG).await;
    for name in ["a", "b"] {
        cluster.provided(&blocks, name).await;
    }
    assert!(cluster.cloud.0.lock().unwrap().calls.is_empty());
    let blocks = cluster.start("two");
    for name in ["a", "b"] {
        cluster.provided(&blocks, name).await;
    }
    let calls = std::mem::take(&mut cluster.cloud.0.lock().unwrap().calls);
    assert_eq!(calls, ["list blocks", "get network net"]);
}

#[tokio::test(start_paused = true)]
async fn last_service_releases_shared_block() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let cluster = TestCluster::new(true).with(&names);
    let blocks = cluster.start("one");
    let mut addresses = Vec::new();
    for name in names {
        addresses.push(cluster.provided(&blocks, name).await);
    }
    assert_eq!(addresses[..2], ["203.0.113.10", "203.0.113.11"]);
    assert_eq!(addresses[5], "203.0.113.18");
    assert_eq!(cluster.bought(), 2);
    cluster.cloud.writes();
    cluster.removed(&blocks, "a").await;
    assert!(cluster.cloud.writes().is_empty());
    cluster.removed(&blocks, "f").await;
    assert_eq!(cluster.cloud.writes(), ["mark b2"]);
    for name in ["b", "c", "d", "e"] {
        cluster.removed(&blocks, name).await;
    }
    cluster.tended(&blocks).await;
}

#[tokio::test(start_paused = true)]
async fn publishes_address_after_block_is_assigned() {
    let cluster = TestCluster::new(true).with(&["web"]);
    cluster.cloud.0.lock().unwrap().slowness = 3;
    let blocks = cluster.start("one");
    let mut waits = 0;
    while let Progress::Wait { after, .. } = cluster.pass(&blocks, "web").await.unwrap() {
        let arrived = {
            let account = cluster.cloud.0.lock().unwrap();
            let mut blocks = account.blocks.values();
            blocks.any(|block| block.status == BlockStatus::Assigned)
        };
        assert!(!arrived, "it has arrived and is not published");
        assert!(cluster.service("web").ingress.is_empty());
        assert!(after <= Duration::from_secs(3));
        advance(after).await;
        waits += 1;
    }
    assert!(waits >= 6, "{waits}");
    assert_eq!(cluster.bought(), 1);
}

#[tokio::test(start_paused = true)]
async fn busy_network_is_retried_without_second_purchase() {
    let names = ["a", "b", "c", "d", "e"];
    let cluster = TestCluster::new(false).with(&names);
    cluster.cloud.0.lock().unwrap().busy = 3;
    let blocks = cluster.start("one");
    let begun = tokio::time::Instant::now();
    for name in names {
        cluster.provided(&blocks, name).await;
    }
    assert_eq!(cluster.bought(), 5);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn reports_room_although_the_round_of_the_release_failed() {
    let cluster = TestCluster::new(false).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.removed(&blocks, "web").await;
    let context = OpenGuard::default();
    blocks.round(&context).await.unwrap();
    advance(LONG).await;
    // Another process gives it back, and then cannot ask the API server what else there is.
    let other = cluster.start("two");
    cluster.cluster.0.lock().unwrap().fails = true;
    assert!(other.round(&context).await.is_err());
    assert!(cluster.cloud.0.lock().unwrap().blocks.is_empty());
    assert_eq!(*context.freed.lock().unwrap(), 0);
    cluster.cluster.0.lock().unwrap().fails = false;
    other.round(&context).await.unwrap();
    assert_eq!(*context.freed.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn detaches_three_marked_blocks_in_one_round() {
    let names = ["a", "b", "c"];
    let cluster = TestCluster::new(false).with(&names);
    let blocks = cluster.start("one");
    for name in names {
        cluster.provided(&blocks, name).await;
    }
    for name in names {
        cluster.removed(&blocks, name).await;
    }
    cluster.cloud.writes();
    let context = OpenGuard::default();
    blocks.round(&context).await.unwrap();
    let detached = ["b1", "b2", "b3"].map(|id| format!("detach {id} from net"));
    assert_eq!(cluster.cloud.writes(), detached);
    advance(LONG).await;
    blocks.round(&context).await.unwrap();
    assert!(cluster.cloud.0.lock().unwrap().blocks.is_empty());
    blocks.round(&context).await.unwrap();
    blocks.round(&context).await.unwrap();
    assert_eq!(*context.freed.lock().unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn former_leader_releases_nothing() {
    let cluster = TestCluster::new(false).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.removed(&blocks, "web").await;
    cluster.cloud.writes();
    let deposed = OpenGuard {
        is_shut: true,
        ..OpenGuard::default()
    };
    assert!(blocks.round(&deposed).await.is_err());
    assert!(cluster.cloud.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn foreign_user_address_buys_nothing() {
    let cluster = TestCluster::new(true);
    cluster.put(ServiceView {
        load_balancer_ip: Some("192.0.2.1".to_owned()),
        ..service("web")
    });
    let blocks = cluster.start("one");
    let shown = cluster.summary(&blocks, "web").await;
    assert_eq!(shown.notices[0].reason, reasons::ADDRESS_NOT_OURS);
    let progress = cluster.pass(&blocks, "web").await.unwrap();
    assert_eq!(progress, Progress::Ensured(LoadBalancerStatus::default()));
    assert!(cluster.cloud.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn invalid_request_is_reported_and_changes_nothing() {
    let cluster = TestCluster::new(true);
    cluster.put(ServiceView {
        load_balancer_ip: Some("2001:db8::1".to_owned()),
        ip_families: vec!["IPv6".to_owned()],
        ..service("web")
    });
    let blocks = cluster.start("one");
    match cluster.pass(&blocks, "web").await {
        Err(ReconcileError::Invalid(faults)) => assert_eq!(faults.len(), 2),
        other => panic!("{other:?}"),
    }
    assert!(cluster.cloud.0.lock().unwrap().calls.is_empty());
}

/// Claims the right to buy a block.
async fn claim(blocks: &IpBlocks) {
    let purchases = &mut blocks.lock().await.state.purchases;
    let turn = purchases.begin("a block", &OpenGuard::default()).await;
    assert!(matches!(turn, Ok(Permission::Claimed)), "{turn:?}");
}

#[tokio::test(start_paused = true)]
async fn two_leaders_buy_one_block() {
    let cluster = TestCluster::new(true).with(&["a", "b"]);
    let (one, two) = (cluster.start("one"), cluster.start("two"));
    // The first has claimed, and its purchase is under way.
    claim(&one).await;
    let waiting = cluster.pass(&two, "b").await.unwrap();
    assert!(matches!(waiting, Progress::Wait { .. }), "{waiting:?}");
    assert_eq!(cluster.bought(), 0);
    one.lock().await.state.purchases.give_up().await;
    assert_eq!(cluster.provided(&one, "a").await, "203.0.113.10");
    assert_eq!(cluster.provided(&two, "b").await, "203.0.113.11");
    assert_eq!(cluster.bought(), 1);
}

#[tokio::test(start_paused = true)]
async fn takes_over_claim_of_dead_process() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let dead = cluster.start("dead");
    claim(&dead).await;
    let blocks = cluster.start("alive");
    let begun = tokio::time::Instant::now();
    cluster.provided(&blocks, "web").await;
    let took = begun.elapsed();
    assert!(
        took >= testing::SETTLE && took < testing::SETTLE * 2,
        "{took:?}"
    );
    assert_eq!(cluster.bought(), 1);
}

#[tokio::test(start_paused = true)]
async fn deposed_leader_buys_nothing_and_releases_claim() {
    struct Deposed(Mutex<usize>);
    #[async_trait]
    impl WriteGuard for Deposed {
        fn before_write(&self) -> Result<(), crate::cloud_provider::load_balancers::Stop> {
            let mut left = self.0.lock().unwrap();
            match left.checked_sub(1) {
                Some(fewer) => {
                    *left = fewer;
                    Ok(())
                }
                None => Err(crate::cloud_provider::load_balancers::Stop::Changed),
            }
        }
        async fn before_creation(&self) -> Result<(), crate::cloud_provider::load_balancers::Stop> {
            Ok(())
        }
        fn written(&self) {}
    }
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    // Four tags and the claim; not the purchase.
    let prepared = blocks.prepare(&cluster.request("web")).await.unwrap();
    let stopped = prepared.carry_out(&Deposed(Mutex::new(5))).await;
    assert!(
        matches!(stopped, Err(ReconcileError::Stopped(_))),
        "{stopped:?}"
    );
    assert_eq!(cluster.bought(), 0);
    assert_eq!(cluster.cluster.0.lock().unwrap().claim, None);
    assert!(
        cluster.cluster.0.lock().unwrap().version >= 2,
        "it has claimed before"
    );
}

#[tokio::test(start_paused = true)]
async fn marking_orphan_rereads_its_tags() {
    let cluster = TestCluster::new(false).with(&["web", "kept"]);
    let blocks = cluster.start("one");
    for name in ["web", "kept"] {
        cluster.provided(&blocks, name).await;
    }
    cluster.remove("web");
    let living = cluster.services.lock().unwrap().clone();
    let orphans = blocks.orphans("", &living).await.unwrap();
    let ids: Vec<_> = orphans.iter().map(|orphan| orphan.id.clone()).collect();
    assert_eq!(ids, ["b1"]);
    let guard = OpenGuard::default();
    let tags = {
        let mut account = cluster.cloud.0.lock().unwrap();
        let block = account.blocks.get_mut("b1").unwrap();
        std::mem::take(&mut block.tags)
    };
    let kept = blocks.remove_orphan("cluster", &orphans[0], &guard).await;
    assert!(matches!(kept, Err(ReconcileError::Refused(_))), "{kept:?}");
    cluster
        .cloud
        .0
        .lock()
        .unwrap()
        .blocks
        .get_mut("b1")
        .unwrap()
        .tags = tags;
    blocks
        .remove_orphan("cluster", &orphans[0], &guard)
        .await
        .unwrap();
    cluster.removed(&blocks, "kept").await;
    cluster.tended(&blocks).await;
}

#[test]
fn removal_clears_own_fields_only() {
    let given = ServiceView {
        allocated_addresses: Some("203.0.113.10".to_owned()),
        public_network: Some(NETWORK.to_owned()),
        load_balancer_ip: Some("203.0.113.10".to_owned()),
        ..service("web")
    };
    let left = ip_allocation::owned_fields(&given);
    assert!(left.load_balancer_ip);
    assert_eq!(left.annotations.len(), 2);
    let users = ServiceView {
        load_balancer_ip: Some("192.0.2.1".to_owned()),
        ..given
    };
    assert!(!ip_allocation::owned_fields(&users).load_balancer_ip);
    assert!(
        ip_allocation::owned_fields(&service("web"))
            .annotations
            .is_empty()
    );
}
