use std::convert::Infallible;
use std::io;

use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

/// An API server that lists what it is told to, and passes on watch events by hand.
#[derive(Clone, Default)]
struct ApiServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// What a list of this resource has.
    lists: BTreeMap<&'static str, Vec<Value>>,
    /// The open watches, by resource.
    watches: BTreeMap<String, mpsc::UnboundedSender<Value>>,
    asked: Vec<String>,
    /// Nobody gets an answer.
    is_away: bool,
    /// Nobody is there to connect to.
    is_down: bool,
}

impl ApiServer {
    fn list(&self, resource: &'static str, items: Vec<Value>) {
        self.0.lock().unwrap().lists.insert(resource, items);
    }

    /// Sends an event to the open watch of a resource, once there is one.
    async fn tell(&self, resource: &str, kind: &str, object: Value) {
        let event = json!({"type": kind, "object": object});
        for _ in 0..1000 {
            let watch = self.0.lock().unwrap().watches.get(resource).cloned();
            if watch.is_some_and(|watch| watch.send(event.clone()).is_ok()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody watches {resource}");
    }

    fn answer(&self, request: &Request<Body>) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
        let mut state = self.0.lock().unwrap();
        state.asked.push(request.uri().to_string());
        let resource = request.uri().path().rsplit('/').next().unwrap().to_owned();
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=true") {
            let (sender, events) = mpsc::unbounded_channel::<Value>();
            state.watches.insert(resource, sender);
            let lines = futures::stream::unfold(events, |mut events| async {
                let mut line = events.recv().await?.to_string();
                line.push('\n');
                let frame = Ok::<_, Infallible>(Frame::data(Bytes::from(line)));
                Some((frame, events))
            });
            return Response::new(StreamBody::new(lines).boxed_unsync());
        }
        let items = state
            .lists
            .get(resource.as_str())
            .cloned()
            .unwrap_or_default();
        let list = json!({
            "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items,
        });
        Response::new(Full::from(list.to_string()).boxed_unsync())
    }
}

struct Fixture {
    server: ApiServer,
    snapshot: Arc<ArcSwap<Snapshot>>,
    granter: watch::Sender<bool>,
    service_proxy: watch::Sender<ServiceProxy>,
}

impl Fixture {
    fn start(server: ApiServer) -> Self {
        Self::start_with(server, None)
    }

    fn start_with(server: ApiServer, saved_health: Option<Arc<SavedHealth>>) -> Self {
        let service_proxy = watch::Sender::default();
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::default()));
        let answering = server.clone();
        let service = tower::service_fn(move |request| {
            let answering = answering.clone();
            async move {
                let (is_away, is_down) = {
                    let state = answering.0.lock().unwrap();
                    (state.is_away, state.is_down)
                };
                if is_away {
                    std::future::pending::<()>().await;
                }
                if is_down {
                    return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                }
                Ok(answering.answer(&request))
            }
        });
        let (granter, permit) = WritePermit::withheld();
        let watches = Watches {
            client: Client::new(service, "default"),
            node_name: "a".into(),
            snapshot: Arc::clone(&snapshot),
            published: watch::Sender::new(0),
            permit,
            vlan_faults: Faults::default(),
            service_proxy: service_proxy.subscribe(),
            refused: watch::Sender::default().subscribe(),
            confirmed: watch::Sender::default().subscribe(),
            saved_health,
        };
        tokio::spawn(watches.follow());
        Self {
            server,
            snapshot,
            granter,
            service_proxy,
        }
    }

    /// Waits until the snapshot is as it should be.
    async fn until(&self, what: &str, test: impl Fn(&Snapshot) -> bool) {
        for _ in 0..1000 {
            if test(&self.snapshot.load()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what}: {:?}", self.snapshot.load());
    }
}

fn service(name: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "shop", "resourceVersion": "2", "uid": name},
        "spec": {"type": kind},
    })
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a", "resourceVersion": "2"},
    })
}

fn slice(name: &str, service: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": "shop", "resourceVersion": "2",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "a"}],
    })
}

fn names<V>(objects: &BTreeMap<ObjectKey, V>) -> Vec<&str> {
    objects.keys().map(|key| key.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn snapshot_follows_api_server() {
    let server = ApiServer::default();
    server.list(
        "services",
        vec![service("web", "LoadBalancer"), service("db", "ClusterIP")],
    );
    server.list("endpointslices", vec![slice("web-1", "web")]);
    server.list("nodes", vec![node()]);
    let fixture = Fixture::start(server);
    fixture.granter.send_replace(true);
    fixture
        .until("all listed", Snapshot::decides_speakers)
        .await;
    let snapshot = fixture.snapshot.load_full();
    assert_eq!(names(&snapshot.services), ["web"]);
    let slices = snapshot.slices_of(&ObjectKey::new("shop", "web"));
    assert_eq!(slices[0].local_ready.len(), 1);
    assert_eq!(snapshot.node.as_ref().unwrap().name, "a");
    assert!(snapshot.heard.is_some());

    let tell = |resource, kind, object| fixture.server.tell(resource, kind, object);
    tell("services", "MODIFIED", service("web", "ClusterIP")).await;
    tell("services", "MODIFIED", service("db", "LoadBalancer")).await;
    let both = |snapshot: &Snapshot| names(&snapshot.services) == ["db"];
    fixture.until("types changed", both).await;
    tell("endpointslices", "MODIFIED", slice("web-1", "db")).await;
    let moved = |snapshot: &Snapshot| {
        let of = |name| snapshot.slices_of(&ObjectKey::new("shop", name)).len();
        (of("web"), of("db")) == (0, 1)
    };
    fixture.until("the slice is another Service's", moved).await;
    tell("endpointslices", "DELETED", slice("web-1", "db")).await;
    fixture
        .until("the slice is gone", |snapshot| snapshot.slices.is_empty())
        .await;
    tell("nodes", "DELETED", node()).await;
    fixture
        .until("the Node is gone", |snapshot| snapshot.node.is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn relist_removes_vanished_objects() {
    let server = ApiServer::default();
    server.list(
        "services",
        vec![
            service("old", "LoadBalancer"),
            service("kept", "LoadBalancer"),
        ],
    );
    let fixture = Fixture::start(server);
    fixture
        .until("listed", |snapshot| snapshot.services.len() == 2)
        .await;
    fixture
        .server
        .list("services", vec![service("kept", "LoadBalancer")]);
    let expired = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old", "reason": "Expired", "code": 410,
    });
    fixture.server.tell("services", "ERROR", expired).await;
    fixture
        .until("listed anew", |snapshot| {
            assert!(
                names(&snapshot.services).contains(&"kept"),
                "never empty in between"
            );
            snapshot.services.len() == 1
        })
        .await;
}

/// Every daemon of a segment says something in its status, which is an event for all of them.
#[tokio::test(start_paused = true)]
async fn peer_status_is_no_change() {
    let network = |nodes: Value| {
        json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
            "metadata": {"name": "lan", "resourceVersion": "2"},
            "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"]},
            "status": {"nodes": nodes},
        })
    };
    let b = |ready: bool| json!({"name": "b", "ready": ready, "reason": "Any"});
    let server = ApiServer::default();
    server.list("l2networks", vec![network(json!([b(false)]))]);
    let fixture = Fixture::start(server);
    fixture
        .until("listed", |snapshot| snapshot.networks.len() == 1)
        .await;
    let before = Arc::clone(&fixture.snapshot.load().networks);
    let tell = |nodes: Value| {
        fixture
            .server
            .tell("l2networks", "MODIFIED", network(nodes))
    };
    tell(json!([b(true)])).await;
    let marker = service("marker", "LoadBalancer");
    fixture.server.tell("services", "ADDED", marker).await;
    fixture
        .until("the marker", |snapshot| snapshot.services.len() == 1)
        .await;
    assert!(Arc::ptr_eq(&before, &fixture.snapshot.load().networks));
    tell(json!([b(true), {"name": "a", "ready": true, "reason": "Any"}])).await;
    fixture
        .until("what is said of this Node is", |snapshot| {
            let mut networks = snapshot.networks.values();
            networks.any(|network| network.entry.is_some())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn may_not_write_before_gate_opens() {
    let fixture = Fixture::start(ApiServer::default());
    fixture.until("all listed", Snapshot::answers_health).await;
    fixture
        .until("and networks", |snapshot| snapshot.synced.networks)
        .await;
    assert!(!fixture.snapshot.load().decides_speakers());
    fixture.granter.send_replace(true);
    fixture.until("open", Snapshot::decides_speakers).await;
}

#[tokio::test(start_paused = true)]
async fn watches_only_own_node_and_no_leases() {
    let fixture = Fixture::start(ApiServer::default());
    fixture.granter.send_replace(true);
    fixture
        .until("all listed", Snapshot::decides_speakers)
        .await;
    let asked = fixture.server.0.lock().unwrap().asked.clone();
    for uri in asked.iter().filter(|uri| uri.contains("/nodes")) {
        assert!(uri.contains("fieldSelector=metadata.name%3Da"), "{uri}");
    }
    assert!(
        !asked.iter().any(|uri| uri.contains("/leases")),
        "{asked:?}"
    );
    assert!(asked.len() >= 4);
}

#[tokio::test]
async fn snapshot_has_service_proxy() {
    let fixture = Fixture::start(ApiServer::default());
    for state in [ServiceProxy::Broken, ServiceProxy::Works] {
        fixture.service_proxy.send_replace(state);
        fixture
            .until("it is told", |snapshot| snapshot.service_proxy == state)
            .await;
    }
}

/// What was left counts only if the API server needs longer than a second.
#[tokio::test(start_paused = true)]
async fn uses_saved_health_after_a_second() {
    for answers in [true, false] {
        let server = ApiServer::default();
        server.0.lock().unwrap().is_away = !answers;
        let fixture = Fixture::start_with(server, Some(Arc::default()));
        tokio::time::sleep(API_SERVER_TIMEOUT / 2).await;
        let early = fixture.snapshot.load_full();
        assert!(early.saved_health.is_none() && early.answers_health() == answers);
        tokio::time::sleep(API_SERVER_TIMEOUT).await;
        assert_eq!(fixture.snapshot.load().saved_health.is_none(), answers);
    }
}

/// Its etcd may have been restored from a backup. A watch would go on from a version that is not there
/// yet, and be told nothing.
#[tokio::test(start_paused = true)]
async fn relists_after_outage() {
    let server = ApiServer::default();
    server.list("services", vec![service("web", "LoadBalancer")]);
    server.list("nodes", vec![node()]);
    let fixture = Fixture::start(server);
    fixture.granter.send_replace(true);
    fixture
        .until("all listed", Snapshot::decides_speakers)
        .await;
    let before = vec![service("earlier", "LoadBalancer")];
    fixture.server.list("services", before);
    {
        let mut state = fixture.server.0.lock().unwrap();
        state.watches.clear();
        state.is_down = true;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(names(&fixture.snapshot.load().services), ["web"]);
    fixture.server.0.lock().unwrap().is_down = false;
    fixture
        .until("the backup's Service", |snapshot| {
            names(&snapshot.services) == ["earlier"]
        })
        .await;
}
