mod counted;
mod endpoints;
mod failures;
mod fakes;
mod hand_over;
mod orphans;
mod removal;
mod restored;
mod rounds;
mod scale;
mod secrets;

use std::sync::atomic::Ordering;

use mooring_common::engine::Impact;
use mooring_common::names::{finalizers, reasons};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;
use crate::cloud_provider::load_balancers::Notice;
use fakes::{FakeCloud, FakeCluster};

const ENSURED: [&str; 2] = [
    reasons::ENSURING_LOAD_BALANCER,
    reasons::ENSURED_LOAD_BALANCER,
];

/// A cluster of two Nodes whose Services a cloud serves.
struct World {
    cluster: Arc<FakeCluster>,
    cloud: FakeCloud,
    services: CloudServices,
}

impl World {
    fn new() -> Self {
        Self::with(Options {
            resync: None,
            delete_orphans: false,
            ..Options::default()
        })
    }

    fn with(options: Options) -> Self {
        let cluster = Arc::new(FakeCluster::default());
        cluster.put(service("default", "kubernetes", "cluster", "ClusterIP"));
        cluster.join("a");
        cluster.join("b");
        let cloud = FakeCloud::default();
        let services = restarted(&cluster, &cloud, options);
        Self {
            cluster,
            cloud,
            services,
        }
    }

    /// A world in which the Service `default/web` has its load balancer.
    async fn served() -> Self {
        let world = Self::new();
        world.add("web");
        assert_eq!(world.pass("web").await, Outcome::Done);
        world.cluster.reasons();
        world
    }

    fn add(&self, name: &str) {
        self.cluster
            .put(service("default", name, name, "LoadBalancer"));
    }

    async fn pass(&self, name: &str) -> Outcome<Told> {
        let service = self.cluster.service(&key(name)).unwrap();
        told(self.services.pass(service).await)
    }

    fn writes(&self) -> usize {
        self.cloud.writes.load(Ordering::SeqCst)
    }

    fn patches(&self) -> usize {
        self.cluster.patches.load(Ordering::SeqCst)
    }
}

/// A failure as it is told.
type Told = String;

fn told(outcome: Outcome<Failure>) -> Outcome<Told> {
    match outcome {
        Outcome::Done => Outcome::Done,
        Outcome::RetryAfter(delay) => Outcome::RetryAfter(delay),
        Outcome::DoneFor(time) => Outcome::DoneFor(time),
        Outcome::Backoff(error) => Outcome::Backoff(error.to_string()),
        Outcome::BackoffAnew(error) => Outcome::BackoffAnew(error.to_string()),
        Outcome::Yield => Outcome::Yield,
        Outcome::WaitForChange(why) => Outcome::WaitForChange(why),
        Outcome::NotOurs(why) => Outcome::NotOurs(why),
    }
}

/// The controller, knowing nothing of what was before.
fn restarted(cluster: &Arc<FakeCluster>, cloud: &FakeCloud, options: Options) -> CloudServices {
    let routing = Routing {
        own_classes: Vec::new(),
        serves_classless: true,
        l2_networks: true,
        clouds: vec!["fake"],
    };
    let cloud = Cloud {
        load_balancers: Arc::new(cloud.clone()),
        options,
        node_changes: Arc::default(),
        endpoints: None,
        metrics: Metrics::register(&mut Registry::default()),
    };
    CloudServices::of(cluster.clone(), super::super::queue(), routing, cloud)
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn service(namespace: &str, name: &str, uid: &str, kind: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "1"},
        "spec": {"type": kind, "ports": [{"port": 80, "nodePort": 30080}]},
        "status": {"loadBalancer": {}},
    })
}

#[tokio::test(start_paused = true)]
async fn sv_01_new_service_gets_finalizer_load_balancer_status_and_events() {
    let world = World::new();
    world.add("web");
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b"]);
    let service = world.cluster.json(&key("web"));
    assert_eq!(
        service["metadata"]["finalizers"],
        json!([finalizers::SERVICE])
    );
    let ingress = &service["status"]["loadBalancer"]["ingress"];
    assert_eq!(*ingress, json!([{"ip": "192.0.2.1", "ipMode": "VIP"}]));
    let annotation = &service["metadata"]["annotations"]["k8s.cloudscale.ch/loadbalancer-uuid"];
    assert_eq!(*annotation, json!("lb"));
    assert_eq!(world.cluster.reasons(), ENSURED);
    assert_eq!(world.patches(), 2);
}

#[tokio::test(start_paused = true)]
async fn unchanged_service_costs_no_write_or_event_after_restart() {
    let world = World::served().await;
    let before = (world.writes(), world.patches());
    assert_eq!(world.pass("web").await, Outcome::Done);
    let options = world.services.options.clone();
    let services = restarted(&world.cluster, &world.cloud, options);
    let service = world.cluster.service(&key("web")).unwrap();
    assert_eq!(told(services.pass(service).await), Outcome::Done);
    assert_eq!((world.writes(), world.patches()), before);
    assert!(world.cluster.reasons().is_empty());
}

#[tokio::test(start_paused = true)]
async fn sv_14_changed_service_gets_ensured_event_without_steps() {
    let world = World::served().await;
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["annotations"]["k8s.cloudscale.ch/x"] = json!("1");
    });
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cluster.reasons(), ENSURED);
}

#[tokio::test(start_paused = true)]
async fn sv_35_recreates_what_was_deleted_by_hand() {
    let world = World::served().await;
    world.cloud.state.lock().unwrap().balancers.clear();
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cloud.members("web").unwrap(), ["a", "b"]);
    assert_eq!(world.cluster.reasons(), ENSURED);
}

#[tokio::test(start_paused = true)]
async fn sv_26_waiting_occupies_no_worker_and_is_reported_once() {
    let world = World::new();
    world.add("web");
    world.cloud.state.lock().unwrap().waits = 3;
    for _ in 0..3 {
        let waiting = Outcome::RetryAfter(Duration::from_secs(2));
        assert_eq!(world.pass("web").await, waiting);
    }
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cluster.reasons(), ENSURED);
}

#[tokio::test(start_paused = true)]
async fn st_05_api_server_without_ip_mode_is_patched_once() {
    let world = World::new();
    world.cluster.drops_ip_mode.store(true, Ordering::SeqCst);
    world.add("web");
    assert_eq!(world.pass("web").await, Outcome::Done);
    let patches = world.patches();
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.patches(), patches);
}

#[tokio::test(start_paused = true)]
async fn st_07_restores_wiped_status_and_keeps_conditions() {
    let world = World::served().await;
    let mine = json!({
        "type": "Mine",
        "status": "True",
        "reason": "Mine",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    world.cluster.edit(&key("web"), |service| {
        service["status"] = json!({"loadBalancer": {}, "conditions": [mine]});
    });
    assert_eq!(world.pass("web").await, Outcome::Done);
    let status = &world.cluster.json(&key("web"))["status"];
    assert_eq!(status["conditions"], json!([mine]));
    assert_eq!(
        status["loadBalancer"]["ingress"][0]["ip"],
        json!("192.0.2.1")
    );
}

#[tokio::test(start_paused = true)]
async fn reports_missing_nodes_once() {
    let world = World::new();
    world.cluster.leave_all();
    world.add("web");
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.pass("web").await, Outcome::Done);
    let told = world.cluster.reasons();
    let unavailable = reasons::UNAVAILABLE_LOAD_BALANCER;
    assert_eq!(told, [ENSURED[0], unavailable, ENSURED[1]]);
}

#[tokio::test(start_paused = true)]
async fn reports_disruptive_steps_before_taking_them() {
    let world = World::new();
    world.add("web");
    world.cloud.state.lock().unwrap().impact = Impact::Major;
    let cluster = world.cluster.clone();
    world.cloud.state.lock().unwrap().before_write = Some(Box::new(move || {
        let told = cluster.reasons();
        assert_eq!(told, [ENSURED[0], reasons::DISRUPTIVE_CHANGE]);
    }));
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.cluster.reasons(), ENSURED[1..]);
}

#[tokio::test(start_paused = true)]
async fn reports_notices_once_under_their_component() {
    let world = World::served().await;
    let notice = |reason, by_provider| Notice {
        reason,
        note: "odd".to_owned(),
        by_provider,
    };
    let notices = vec![notice("NoValidNodes", true), notice("Odd", false)];
    world.cloud.state.lock().unwrap().notices = notices;
    world.pass("web").await;
    world.pass("web").await;
    let told = std::mem::take(&mut *world.cluster.events.lock().unwrap());
    let told: Vec<_> = told
        .into_iter()
        .map(|(by, reason, _)| (by, reason))
        .collect();
    let expected = [
        (Reporter::Provider, "NoValidNodes"),
        (Reporter::Controller, "Odd"),
    ];
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn sd_13_ns_14_ignores_service_of_another_class() {
    let world = World::new();
    world.add("web");
    world.cluster.edit(&key("web"), |service| {
        service["spec"]["loadBalancerClass"] = json!("example.com/x");
        service["metadata"]["finalizers"] = json!([finalizers::SERVICE]);
        service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    assert!(matches!(world.pass("web").await, Outcome::NotOurs(_)));
    world.cluster.edit(&key("web"), |service| {
        // The API server takes the class away when the type changes.
        service["spec"] = json!({"type": "ClusterIP"});
    });
    assert!(matches!(world.pass("web").await, Outcome::NotOurs(_)));
    assert_eq!(world.patches(), 0);
    assert_eq!(world.cloud.plans.load(Ordering::SeqCst), 0);
}

/// The Go controller's framework tells of it, and dashboards match on it.
#[tokio::test(start_paused = true)]
async fn reports_changed_traffic_policy_once_like_go_controller() {
    let world = World::served().await;
    world.cluster.edit(&key("web"), |service| {
        service["spec"]["externalTrafficPolicy"] = json!("Local");
        service["spec"]["healthCheckNodePort"] = json!(31000);
        service["spec"]["loadBalancerSourceRanges"] = json!(["192.0.2.0/24", "198.51.100.0/24"]);
    });
    for _ in 0..2 {
        assert_eq!(world.pass("web").await, Outcome::Done);
    }
    let told = std::mem::take(&mut *world.cluster.events.lock().unwrap());
    let told: Vec<_> = told
        .iter()
        .map(|(_, why, note)| (*why, note.as_str()))
        .collect();
    let expected = [
        (
            "LoadBalancerSourceRanges",
            "[] -> [192.0.2.0/24 198.51.100.0/24]",
        ),
        ("ExternalTrafficPolicy", "Cluster -> Local"),
        ("HealthCheckNodePort", "0 -> 31000"),
    ];
    assert_eq!(told[..3], expected);
    assert_eq!(told.len(), 5, "{told:?}");
}

/// IPv6 can be written in several ways, and the Go controller writes it as the cloud does.
#[tokio::test(start_paused = true)]
async fn equal_address_in_other_notation_costs_no_write() {
    let world = World::new();
    world.cloud.state.lock().unwrap().address = Some("2001:db8::7".to_owned());
    world.add("web");
    assert_eq!(world.pass("web").await, Outcome::Done);
    world.cluster.edit(&key("web"), |service| {
        let ingress = &mut service["status"]["loadBalancer"]["ingress"][0];
        ingress["ip"] = json!("2001:0DB8:0:0::7");
    });
    let patches = world.patches();
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(world.patches(), patches);
}
