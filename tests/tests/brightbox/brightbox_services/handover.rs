//! A cluster comes over from the Go controller: nothing is written in the cloud, and no name changes.

use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::brightbox::Kind;
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::{BALANCERS, text};
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, has_finalizer, ingress,
    wanted,
};
use crate::brightbox_services::key;
use crate::brightbox_services::left_by_go::{Left, cases, leave, leave_in_cloud};

impl CloudCluster {
    /// The identifiers of the servers behind the two Nodes.
    pub(crate) fn servers(&self) -> Vec<String> {
        let all = self.sim().all(Kind::Server).into_iter();
        let nodes =
            all.filter(|server| ["n1", "n2"].contains(&server["hostname"].as_str().unwrap()));
        nodes.map(|server| text(&server["id"])).collect()
    }

    /// What the Go controller leaves of this Service.
    pub(crate) async fn left_by_go(&self, service: &Service) -> Left {
        let (services, servers) = (self.services(), self.servers());
        leave(self.sim(), &services, service, &servers, None, |_| ()).await
    }

    /// Everything that there is but markers.
    fn everything(&self) -> Vec<Vec<Value>> {
        Kind::ALL
            .map(|kind| {
                let mut all = self.sim().all(kind);
                all.retain(|one| one["status"] != "deleted");
                all
            })
            .to_vec()
    }

    /// Waits until the load balancers were listed so many times since then.
    pub(crate) async fn listed_since(&self, start: Instant, times: usize) {
        eventually("load balancers are listed", AFTER_RETRIES, async || {
            let calls = self.cloud.calls().since(start).to(BALANCERS);
            let answered = calls.filter(|call| !call.is_write() && call.took.is_some());
            answered.len() >= times
        })
        .await;
    }

    /// Asserts that there is one of each part of a Service, and that these are the parts.
    fn is_one_of_each(&self, name: &str) {
        for kind in [
            Kind::LoadBalancer,
            Kind::ServerGroup,
            Kind::FirewallPolicy,
            Kind::CloudIp,
        ] {
            let found = self.parts(name, kind);
            assert_eq!(found.len(), 1, "{kind:?}: {found:#?}");
        }
    }

    /// Takes the marker away that shows that Services had their turn.
    async fn passes(&self) {
        self.provide("passes").await;
        self.delete("passes").await;
        self.gone("passes").await;
    }
}

#[tokio::test]
async fn a_cluster_that_comes_over_sees_no_write_at_all() {
    let cluster = CloudCluster::start().await;
    let (services, servers) = (cluster.services(), cluster.servers());
    let mut left = Vec::new();
    for case in cases(&cluster.namespace) {
        let service = cluster.make(case.service).await;
        let parts = leave(
            cluster.sim(),
            &services,
            &service,
            &servers,
            None,
            case.change,
        )
        .await;
        left.push((case.name, parts, ingress(&cluster.get(case.name).await)));
    }
    // Two that name their Cloud IPs.
    let ip = |address: &str| {
        let fqdn = format!("{}.example.com", address.replace('.', "-"));
        let ip =
            json!({ "name": "mine", "public_ip": address, "public_ipv4": address, "fqdn": fqdn });
        cluster.sim().put(Kind::CloudIp, ip)
    };
    let (by_id, by_address) = (ip("192.0.2.1"), ip("192.0.2.2"));
    let first = cluster.noted("by-id", &[("cloudip-allocations", &by_id)]);
    let second = cluster.service("by-address").requested_address("192.0.2.2");
    for (name, service, ip) in [("by-id", first, by_id), ("by-address", second, by_address)] {
        let service = cluster.make(service).await;
        let parts = leave(
            cluster.sim(),
            &services,
            &service,
            &servers,
            Some(ip),
            |_| (),
        )
        .await;
        left.push((name, parts, ingress(&cluster.get(name).await)));
    }
    let before = cluster.everything();
    let (start, since) = (Instant::now(), cluster.now());

    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let central = cluster.central_with(flags).await;
    cluster.listed_since(start, 3).await;
    assert_none(&cluster.writes().since(start));
    for (name, parts, status) in &left {
        let service = cluster.get(name).await;
        assert_eq!(&ingress(&service), status, "{name}");
        assert!(has_finalizer(&service), "{name}");
        assert_none(&cluster.warnings(name).await);
        assert_none(&cluster.sim().outages(&parts.balancer));
        let written = cluster.written(name).await.since(since);
        assert!(written.len() <= 1, "{name}: {}", written.summary());
    }
    cluster.passes().await;
    assert_eq!(cluster.everything(), before);
    drop(central);
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.listed_since(start, 1).await;
    cluster.passes().await;
    assert_eq!(cluster.everything(), before);
    cluster.finish().await;
}

/// What follows is as careful, and it goes with its Service.
#[tokio::test]
async fn a_node_that_joins_after_the_move_costs_two_writes_and_all_goes_with_the_service() {
    let cluster = CloudCluster::start().await;
    let service = cluster.make(cluster.service("web").port(443, 8443)).await;
    let left = cluster.left_by_go(&service).await;
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.listed_since(start, 1).await;
    cluster.marker().await;
    let start = Instant::now();
    cluster.join(3).await;
    let now = wanted(&service, &[1, 2, 3]);
    eventually("it serves three", SOON, async || {
        cluster.sim().traffic(&left.balancer).now() == now
    })
    .await;
    let writes = cluster.cloud.writes_on(&left.balancer).since(start);
    assert!(writes.len() <= 3, "{}", writes.summary());
    assert_none(&cluster.sim().outages(&left.balancer));
    cluster.is_one_of_each("web");
    cluster.delete("web").await;
    cluster.gone("web").await;
    let marker = cluster.cloud.balancers().len();
    assert_eq!(marker, 1, "the marker's");
    for (kind, id) in [
        (Kind::ServerGroup, &left.group),
        (Kind::FirewallPolicy, &left.policy),
        (Kind::FirewallRule, &left.rule),
        (Kind::CloudIp, &left.ip),
    ] {
        assert!(cluster.sim().get(kind, id).is_none(), "{kind:?}");
    }
    cluster.finish().await;
}

/// Untouched until then: only names and the status tell whose it is.
#[tokio::test]
async fn what_the_go_controller_left_goes_with_a_service_that_is_deleted_first_of_all() {
    let cluster = CloudCluster::start().await;
    let service = cluster.create("web").await;
    cluster.left_by_go(&service).await;
    cluster.delete("web").await;
    let _central = cluster.central().await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// A creation of the Go controller that was broken off after each of its steps.
#[tokio::test]
async fn what_the_go_controller_left_half_made_is_completed_and_not_made_twice() {
    let cluster = CloudCluster::start().await;
    // Each lacks what its name says, and what comes after that.
    let cases = ["group", "members", "policy", "rule", "balancer", "mapping"];
    let servers = cluster.servers();
    for (n, lacks) in cases.into_iter().enumerate() {
        let service = cluster.create(lacks).await;
        let left = leave_in_cloud(cluster.sim(), &service, &servers, None, |_| ());
        cluster.sim().map(&left.ip, None);
        let takes: [(usize, Kind, &String); 4] = [
            (4, Kind::LoadBalancer, &left.balancer),
            (3, Kind::FirewallRule, &left.rule),
            (2, Kind::FirewallPolicy, &left.policy),
            (0, Kind::ServerGroup, &left.group),
        ];
        for (since, kind, id) in takes {
            if n <= since {
                cluster.sim().take(kind, id);
            }
        }
        if n == 1 {
            cluster
                .sim()
                .set_in(Kind::ServerGroup, &left.group, "servers", json!([]));
        }
    }
    let _central = cluster.central().await;
    for lacks in cases {
        cluster.provided_at_last(lacks).await;
        cluster.serves(lacks, &[1, 2]).await;
        cluster.is_one_of_each(lacks);
    }
    for lacks in cases {
        cluster.delete(lacks).await;
        cluster.gone(lacks).await;
    }
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// The Go controller tells the framework that there is nothing once the load balancer is gone.
#[tokio::test]
async fn what_a_deletion_by_the_go_controller_left_over_is_removed() {
    let cluster = CloudCluster::start().await;
    for (name, gone) in [("ip-left", 3), ("policy-left", 2), ("group-left", 1)] {
        let service = cluster.create(name).await;
        let left = cluster.left_by_go(&service).await;
        let order: [(Kind, &String); 3] = [
            (Kind::LoadBalancer, &left.balancer),
            (Kind::ServerGroup, &left.group),
            (Kind::FirewallPolicy, &left.policy),
        ];
        for (kind, id) in order.into_iter().take(gone) {
            cluster.sim().take(kind, id);
        }
        if gone == 3 {
            cluster.sim().take(Kind::FirewallRule, &left.rule);
        }
        cluster.delete(name).await;
    }
    let _central = cluster.central().await;
    for name in ["ip-left", "policy-left", "group-left"] {
        cluster.gone(name).await;
    }
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// The name alone proves nothing: somebody else's servers are behind it.
#[tokio::test]
async fn what_strangers_use_is_refused_and_stays() {
    let cluster = CloudCluster::start().await;
    let stranger = cluster.machine(8);
    let stranger = stranger.strip_prefix("brightbox://").unwrap().to_owned();
    let service = cluster.create("web").await;
    leave_in_cloud(cluster.sim(), &service, &[stranger], None, |balancer| {
        balancer["listeners"][0]["out"] = json!(8080);
    });
    let before = cluster.everything();
    let _central = cluster.central().await;
    cluster
        .told(
            "web",
            reasons::SYNC_LOAD_BALANCER_FAILED,
            &cluster.named("web"),
        )
        .await;
    assert_none(&cluster.writes());
    cluster.passes().await;
    assert_eq!(cluster.everything(), before);
    // It stays when the Service goes.
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert_eq!(cluster.everything(), before);
    cluster.finish().await;
}

/// Renamed with the flag of the Go controller, as its manifests have it.
#[tokio::test]
async fn the_name_of_the_cluster_is_in_all_names() {
    let cluster = CloudCluster::start().await;
    let flags = cluster
        .flags()
        .with("--cluster-name=kubernetes.cluster.local");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let name = format!("web.{}.kubernetes.cluster.local", cluster.namespace);
    for kind in [
        Kind::LoadBalancer,
        Kind::ServerGroup,
        Kind::FirewallPolicy,
        Kind::CloudIp,
    ] {
        assert_eq!(cluster.sim().named(kind, &name).len(), 1, "{kind:?}");
    }
    cluster.finish().await;
}

#[tokio::test]
async fn a_type_change_after_the_move_leaves_nothing() {
    let cluster = CloudCluster::start().await;
    let service = cluster.create("web").await;
    cluster.left_by_go(&service).await;
    let start = Instant::now();
    let _central = cluster.central().await;
    cluster.listed_since(start, 1).await;
    cluster.marker().await;
    cluster
        .respecify("web", json!({ "type": "ClusterIP" }))
        .await;
    cluster
        .is("web", "is let go", |service| !has_finalizer(service))
        .await;
    assert_eq!(cluster.cloud.balancers().len(), 1, "the marker's");
    assert!(cluster.parts("web", Kind::CloudIp).is_empty());
    cluster.finish().await;
}

/// An option that the Go controller has ignored is carried out, and told of as a change.
#[tokio::test]
async fn an_option_that_the_go_controller_ignored_is_carried_out_without_an_outage() {
    let cluster = CloudCluster::start().await;
    let service = cluster.create("web").await;
    let left = cluster.left_by_go(&service).await;
    cluster.note("web", "policy", Some("source-address")).await;
    let _central = cluster.central().await;
    eventually("the policy is as written", SOON, async || {
        let shown = cluster.sim().get(Kind::LoadBalancer, &left.balancer);
        shown.is_some_and(|shown| shown["policy"] == "source-address")
    })
    .await;
    let writes = cluster.cloud.writes_on(&left.balancer);
    assert_eq!(writes.len(), 1, "{}", writes.summary());
    assert_none(&cluster.sim().outages(&left.balancer));
    assert!(key("policy").ends_with("policy"));
    cluster.finish().await;
}
