mod addresses;
mod adopted;
mod asked;
mod credentials;
mod endpoints;
mod floating_ips;
mod gaps;
mod ownership;
mod project;
mod refusals;
mod removal;
mod unread;

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use mooring_common::k8s::Slim;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};

use super::*;
use crate::cloud_api::testing::{Cloud, Reply, connection, metrics};
use crate::cloud_api::{ErrorKind, Limits};
use crate::cloud_provider::load_balancers::{HealthTarget, Others, Progress, Stop, WriteGuard};
use crate::clouds::cloudscale::Config;
use crate::clouds::cloudscale::annotations::ALL;
use crate::views::service_view::ServiceView;
use project::Project;

const BALANCERS: &str = "load-balancers";
const POOLS: &str = "load-balancers/pools";

/// Lets everything through, and counts.
#[derive(Default)]
struct Open {
    written: AtomicUsize,
    creations: AtomicUsize,
}

#[async_trait]
impl WriteGuard for Open {
    fn before_write(&self) -> Result<(), Stop> {
        Ok(())
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        self.creations.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn written(&self) {
        self.written.fetch_add(1, Ordering::SeqCst);
    }
}

/// Lets nothing through.
struct Shut;

#[async_trait]
impl WriteGuard for Shut {
    fn before_write(&self) -> Result<(), Stop> {
        Err(Stop::Changed)
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        Err(Stop::Changed)
    }

    fn written(&self) {}
}

fn balancers(cloud: &Cloud) -> Arc<dyn LoadBalancers> {
    let config = Config {
        connection: connection(&cloud.base.join("v1/").unwrap()),
        notices: Vec::new(),
    };
    let limits = Limits {
        qps: 10_000.0,
        burst: 10_000,
    };
    let cloudscale = Cloudscale::new(config, limits, metrics()).unwrap();
    let inventory = Arc::new(Inventory::new(cloudscale.clone()));
    cloudscale.load_balancers(inventory)
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn service(number: usize, more: &Value) -> Arc<ServiceView> {
    let mut service = json!({
        "metadata": {
            "namespace": "default", "name": format!("web-{number}"), "uid": uid(number),
            "resourceVersion": "7",
        },
        "spec": {"type": "LoadBalancer", "ports": [
            {"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"},
            {"name": "https", "port": 443, "nodePort": 30443, "protocol": "TCP"},
        ]},
    });
    if !more.is_null() {
        service["metadata"]["annotations"] = more.clone();
    }
    Arc::new(ServiceView::slim(serde_json::from_value(service).unwrap()))
}

fn node(number: usize) -> Arc<NodeView> {
    let node = json!({
        "metadata": {"name": format!("node-{number}")},
        "spec": {"providerID": format!("cloudscale://{}", uid(900 + number))},
    });
    Arc::new(NodeView::slim(serde_json::from_value(node).unwrap()))
}

fn server(number: usize) -> Value {
    json!({
        "uuid": uid(900 + number), "name": format!("node-{number}"), "zone": {"slug": "rma1"},
        "interfaces": [{"type": "private", "addresses": [
            {"address": format!("10.0.0.{number}"), "subnet": {"uuid": uid(800)}},
        ]}],
    })
}

fn request(number: usize, nodes: usize) -> LoadBalancerRequest {
    LoadBalancerRequest {
        service: service(number, &Value::Null),
        nodes: (1..=nodes).map(node).collect(),
        other_nodes: [].into(),
        others: Others::default(),
        cluster: Some("cluster".to_owned()),
        settle_time: std::time::Duration::from_secs(90),
        may_take_over: false,
        health: HealthTarget::default(),
        endpoints: None,
        secrets: crate::cloud_provider::secrets::Secrets::default(),
    }
}

async fn project(servers: usize) -> (Project, Cloud) {
    let project = Project::default();
    for number in 1..=servers {
        project.put("servers", server(number));
    }
    let cloud = project.start().await;
    (project, cloud)
}

async fn ensure(
    balancers: &Arc<dyn LoadBalancers>,
    request: &LoadBalancerRequest,
    guard: &dyn WriteGuard,
) -> Result<Progress, ReconcileError> {
    balancers.prepare(request).await?.carry_out(guard).await
}

async fn remove(
    balancers: &Arc<dyn LoadBalancers>,
    request: &LoadBalancerRequest,
) -> Result<Progress, ReconcileError> {
    let prepared = balancers.prepare_removal(request).await?;
    prepared.carry_out(&Open::default()).await
}

/// Makes it, and lets the cloud finish.
async fn made(
    project: &Project,
    balancers: &Arc<dyn LoadBalancers>,
    request: &LoadBalancerRequest,
) -> String {
    let creation = ensure(balancers, request, &Open::default()).await.unwrap();
    assert!(matches!(creation, Progress::Wait { .. }), "{creation:?}");
    let uuid = project.of(BALANCERS).pop().unwrap()["uuid"].clone();
    let uuid = uuid.as_str().unwrap().to_owned();
    project.set(&uuid, "status", json!("running"));
    let end = ensure(balancers, request, &Open::default()).await.unwrap();
    assert!(matches!(end, Progress::Ensured(_)), "{end:?}");
    uuid
}

fn since(cloud: &Cloud, before: usize) -> Vec<String> {
    cloud.lines().split_off(before)
}

#[tokio::test]
async fn served_service_costs_no_requests() {
    let (project, cloud) = project(2).await;
    let balancers = balancers(&cloud);
    let guard = Open::default();
    let request = request(1, 2);
    let creation = ensure(&balancers, &request, &guard).await.unwrap();
    assert!(matches!(creation, Progress::Wait { .. }), "{creation:?}");
    assert_eq!(guard.creations.load(Ordering::SeqCst), 1);
    let expected = [
        "GET /v1/servers",
        "GET /v1/load-balancers",
        "POST /v1/load-balancers",
    ];
    assert_eq!(cloud.lines(), expected);
    let sent = cloud.seen().pop().unwrap().body;
    let name = format!("k8s-service-{}", uid(1));
    let tags = json!({"mooring-service-uid": uid(1), "mooring-cluster": "cluster"});
    let body = json!({
        "name": name, "flavor": "lb-standard", "zone": "rma1", "vip_addresses": [], "tags": tags,
    });
    assert_eq!(sent, body);

    let before = cloud.lines().len();
    let waiting = ensure(&balancers, &request, &guard).await.unwrap();
    assert!(matches!(waiting, Progress::Wait { .. }), "{waiting:?}");
    assert_eq!(since(&cloud, before), ["GET /v1/load-balancers"]);

    let uuid = project.of(BALANCERS)[0]["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    project.set(&uuid, "status", json!("running"));
    let mut end = waiting;
    while matches!(end, Progress::Wait { .. }) {
        end = ensure(&balancers, &request, &guard).await.unwrap();
        tokio::task::yield_now().await;
    }
    let Progress::Ensured(provided) = end else {
        panic!("{end:?}")
    };
    assert_eq!(provided.ingress[0].ip.as_deref(), Some("203.0.113.7"));
    assert_eq!(provided.ingress[0].ip_mode.as_deref(), Some("Proxy"));
    let annotations = [
        (keys::UUID, uuid),
        (keys::CONFIG_VERSION, "1".to_owned()),
        (keys::ZONE, "rma1".to_owned()),
    ];
    assert_eq!(provided.annotations, annotations);
    let permitted = ALL.iter().filter(|row| row.by_central).map(|row| row.key);
    let written = annotations.iter().map(|(key, _)| *key);
    assert!(permitted.eq(written), "admission policies permit others");
    // The load balancer; of each of two pools: itself, two members, a monitor, a listener.
    assert_eq!(guard.written.load(Ordering::SeqCst), 1 + 2 * 5);

    let before = cloud.lines().len();
    let again = ensure(&balancers, &request, &guard).await.unwrap();
    assert_eq!(again, Progress::Ensured(provided));
    assert_eq!(since(&cloud, before), [""; 0]);
}

/// Nobody tells when the cloud answers again.
#[tokio::test]
async fn retries_failed_look_up_of_node() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    made(&project, &balancers, &request(1, 1)).await;
    project.put("servers", server(2));
    project.fail_once("GET /v1/servers", Reply::json("{}").status(500));
    let request = request(1, 2);
    let before = cloud.lines().len();
    let joined = ensure(&balancers, &request, &Open::default())
        .await
        .unwrap();
    let Progress::Ensured(LoadBalancerStatus { again, .. }) = joined else {
        panic!("{joined:?}")
    };
    assert_eq!(since(&cloud, before), ["GET /v1/servers"]);
    tokio::time::sleep(again.expect("a time to look again")).await;
    let joined = ensure(&balancers, &request, &Open::default())
        .await
        .unwrap();
    assert!(matches!(
        joined,
        Progress::Ensured(LoadBalancerStatus { again: None, .. })
    ));
    assert_eq!(project.of(POOLS).len(), 2);
    let lines = since(&cloud, before).join("\n");
    assert_eq!(lines.matches("POST").count(), 2, "{lines}");
}

#[tokio::test]
async fn creation_waits_for_server_listing() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    project.fail_once("GET /v1/servers", Reply::json("{}").status(500));
    let waits = ensure(&balancers, &request(1, 1), &Open::default()).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
    assert!(project.of(BALANCERS).is_empty());
}

#[tokio::test]
async fn look_ups_of_new_node_share_one_listing() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    for number in 1..=3 {
        made(&project, &balancers, &request(number, 1)).await;
    }
    project.put("servers", server(2));
    let before = cloud.lines().len();
    let joining = (1..=3).map(|number| {
        let balancers = balancers.clone();
        async move { ensure(&balancers, &request(number, 2), &Open::default()).await }
    });
    for joined in join_all(joining).await {
        assert!(matches!(joined, Ok(Progress::Ensured(_))), "{joined:?}");
    }
    let lines = since(&cloud, before).join("\n");
    assert_eq!(lines.matches("GET").count(), 1, "{lines}");
    assert_eq!(lines.matches("POST").count(), 6, "{lines}");
}

#[tokio::test]
async fn joining_node_costs_its_members_only() {
    let (project, cloud) = project(2).await;
    let balancers = balancers(&cloud);
    made(&project, &balancers, &request(1, 1)).await;
    let before = cloud.lines().len();
    let joined = ensure(&balancers, &request(1, 2), &Open::default()).await;
    assert!(matches!(joined, Ok(Progress::Ensured(_))), "{joined:?}");
    let lines = since(&cloud, before);
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with("POST /v1/load-balancers/pools/"))
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
}

#[tokio::test]
async fn restart_lists_everything_once() {
    let (project, cloud) = project(1).await;
    for number in 1..=20 {
        let uuid = uid(100 + number);
        let tags = json!({"mooring-service-uid": uid(number), "mooring-cluster": "cluster"});
        let name = format!("k8s-service-{}", uid(number));
        project.put(BALANCERS, json!({"uuid": uuid, "name": name, "tags": tags}));
        for of in [200, 300] {
            let pool = json!({
                "uuid": uid(of + number), "name": "tcp/http", "algorithm": "round_robin",
                "protocol": "tcp", "load_balancer": {"uuid": uuid},
            });
            project.put(POOLS, pool);
        }
    }
    let balancers = balancers(&cloud);
    let demands: Vec<LoadBalancerRequest> = (1..=20).map(|number| request(number, 1)).collect();
    let prepared = join_all(demands.iter().map(|request| balancers.prepare(request))).await;
    assert!(prepared.iter().all(Result::is_ok));
    let lines = cloud.lines();
    let of_members = lines.iter().filter(|line| line.ends_with("/members"));
    assert_eq!((of_members.count(), lines.len()), (40, 40 + 5 + 1));
    assert_eq!(balancers.observation_cost(), 45);

    balancers.observe_anew();
    let before = cloud.lines().len();
    let prepared = join_all(demands.iter().map(|request| balancers.prepare(request))).await;
    assert!(prepared.iter().all(Result::is_ok));
    assert_eq!(since(&cloud, before).len(), 40 + 5);
}

#[tokio::test]
async fn unconfirmed_write_invalidates_cache() {
    let (project, cloud) = project(2).await;
    let balancers = balancers(&cloud);
    let uuid = made(&project, &balancers, &request(1, 1)).await;
    for status in [500, 400] {
        project.fail_once("POST", Reply::json("").status(status));
        let failed = ensure(&balancers, &request(1, 2), &Open::default()).await;
        match status {
            500 => assert!(
                matches!(failed, Err(ReconcileError::Cloud(_))),
                "{failed:?}"
            ),
            _ => assert!(matches!(failed, Ok(Progress::Ensured(_))), "{failed:?}"),
        }
        let before = cloud.lines().len();
        let prepared = balancers.prepare(&request(1, 2)).await.unwrap();
        assert!(since(&cloud, before).contains(&format!("GET /v1/{BALANCERS}")));
        assert!(!prepared.summary().steps.is_empty());
    }
    // What is refused while the cloud is at work is tried later, and nothing was done.
    project.set(&uuid, "status", json!("changing"));
    project.fail_once("POST", Reply::json("").status(409));
    let waits = ensure(&balancers, &request(1, 2), &Open::default()).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
}

#[tokio::test]
async fn finds_unconfirmed_creation() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    let tags = json!({"mooring-service-uid": uid(1)});
    project.fail_once("POST", Reply::html().status(504));
    let failed = ensure(&balancers, &request(1, 1), &Open::default()).await;
    assert!(
        matches!(failed, Err(ReconcileError::Cloud(_))),
        "{failed:?}"
    );
    project.put(
        BALANCERS,
        json!({"uuid": uid(5), "name": "x", "tags": tags, "zone": {"slug": "rma1"},
        "flavor": {"slug": "lb-standard"}, "status": "running",
        "vip_addresses": [{"address": "203.0.113.7"}]}),
    );
    let end = ensure(&balancers, &request(1, 1), &Open::default()).await;
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(project.of(BALANCERS).len(), 1);
}

#[tokio::test]
async fn write_guard_stops_all_writes() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    let stopped = ensure(&balancers, &request(1, 1), &Shut).await;
    assert!(matches!(
        stopped,
        Err(ReconcileError::Stopped(Stop::Changed))
    ));
    assert!(project.of(BALANCERS).is_empty());
}

#[tokio::test]
async fn incomplete_listing_neither_creates_nor_removes() {
    for reply in [
        Reply::json("{}").status(401),
        Reply::json("{}").status(500),
        Reply::html(),
        Reply::html().status(404),
        Reply::json("[]").cut(1),
    ] {
        let (project, cloud) = project(1).await;
        let balancers = balancers(&cloud);
        project.fail_once("GET /v1/load-balancers", reply.clone());
        let ensured = ensure(&balancers, &request(1, 1), &Open::default()).await;
        assert!(
            matches!(ensured, Err(ReconcileError::Cloud(_))),
            "{reply:?}: {ensured:?}"
        );
        project.fail_once("GET /v1/load-balancers", reply.clone());
        let removed = remove(&balancers, &request(1, 1)).await;
        assert!(
            matches!(removed, Err(ReconcileError::Cloud(_))),
            "{reply:?}: {removed:?}"
        );
        assert!(cloud.lines().iter().all(|line| line.starts_with("GET")));
    }
}

#[tokio::test]
async fn removal_ends_with_complete_listing() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    let uuid = made(&project, &balancers, &request(1, 1)).await;
    project.fail_once("DELETE", Reply::json("{}").status(503));
    let failed = remove(&balancers, &request(1, 1)).await;
    assert!(
        matches!(failed, Err(ReconcileError::Cloud(_))),
        "{failed:?}"
    );
    project.set(&uuid, "status", json!("changing"));
    project.fail_once("DELETE", Reply::json("{}").status(400));
    let waits = remove(&balancers, &request(1, 1)).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
    let waits = remove(&balancers, &request(1, 1)).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
    assert!(project.of(BALANCERS).is_empty());
    assert_eq!(
        remove(&balancers, &request(1, 1)).await.unwrap(),
        Progress::Removed
    );
    let before = cloud.lines().len();
    assert_eq!(
        remove(&balancers, &request(1, 1)).await.unwrap(),
        Progress::Removed
    );
    assert_eq!(since(&cloud, before), ["GET /v1/load-balancers"]);
}

/// E21: it was asked for, nobody knows how that ended, and no listing shows it.
#[tokio::test]
async fn waits_for_unconfirmed_creation() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    project.fail_once("POST", Reply::html().status(504));
    let failed = ensure(&balancers, &request(1, 1), &Open::default()).await;
    assert!(
        matches!(failed, Err(ReconcileError::Cloud(_))),
        "{failed:?}"
    );
    let waits = ensure(&balancers, &request(1, 1), &Open::default()).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
    let waits = remove(&balancers, &request(1, 1)).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
    // The next process knows it by the note alone.
    let next = self::balancers(&cloud);
    let mut noted = request(1, 1);
    let service = std::sync::Arc::make_mut(&mut noted.service);
    service.creation_asked = Some(jiff::Timestamp::now().to_string());
    let waits = ensure(&next, &noted, &Open::default()).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
    assert!(project.of(BALANCERS).is_empty());
    // The stated time is over.
    noted.settle_time = std::time::Duration::ZERO;
    let made = ensure(&next, &noted, &Open::default()).await;
    assert!(matches!(made, Ok(Progress::Wait { .. })), "{made:?}");
    assert_eq!(project.of(BALANCERS).len(), 1);
}

/// Its UUID is noted on the Service, and the listing lacks what is there: it is no proof.
#[tokio::test]
async fn incomplete_listing_proves_nothing() {
    let (project, cloud) = project(1).await;
    project.put(BALANCERS, json!({"uuid": uid(5), "name": "x"}));
    let balancers = balancers(&cloud);
    let mut request = request(1, 1);
    request.service = service(1, &json!({keys::UUID: uid(5)}));
    project.fail_once("GET /v1/load-balancers", Reply::json("[]"));
    let removed = remove(&balancers, &request).await;
    let is_wrong =
        matches!(&removed, Err(ReconcileError::Cloud(e)) if e.kind == ErrorKind::Malformed);
    assert!(is_wrong, "{removed:?}");
    assert_eq!(project.of(BALANCERS).len(), 1);
}

#[tokio::test]
async fn node_without_server_blocks_nobody() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    made(&project, &balancers, &request(1, 1)).await;
    let before = cloud.lines().len();
    for _ in 0..3 {
        let prepared = balancers.prepare(&request(1, 2)).await.unwrap();
        let notices = &prepared.summary().notices;
        assert!(
            notices.iter().any(|n| n.note.contains("node-2")),
            "{notices:?}"
        );
        assert!(prepared.summary().steps.is_empty());
    }
    // One look for the sake of the Node, and one for it alone; not at each pass.
    let lines = since(&cloud, before);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "GET /v1/servers");
    assert!(lines[1].starts_with("GET /v1/servers/"), "{lines:?}");
}
