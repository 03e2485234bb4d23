use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

const DURATION: Duration = Duration::from_secs(30);

/// What the API server keeps: one Lease, and what was asked of it.
#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    log: Vec<String>,
    /// Answers that come instead of the real one; `None` never comes.
    faults: Vec<Option<StatusCode>>,
}

/// An API server that knows Leases, with versions.
#[derive(Clone, Default)]
struct ApiServer(Arc<Mutex<State>>);

impl ApiServer {
    fn client(&self) -> Client {
        let server = self.clone();
        let answer = move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let fault = {
            let mut state = self.0.lock().unwrap();
            let spec = &sent["spec"];
            state.log.push(match method {
                Method::GET => "GET".to_owned(),
                _ => format!(
                    "{method} {} {}",
                    spec["holderIdentity"], spec["leaseTransitions"]
                ),
            });
            (!state.faults.is_empty()).then(|| state.faults.remove(0))
        };
        match fault {
            None => self.handle(&method, sent),
            Some(Some(status)) => failure(status),
            Some(None) => std::future::pending().await,
        }
    }

    fn handle(&self, method: &Method, mut sent: Value) -> Response<Body> {
        let mut state = self.0.lock().unwrap();
        match (method, &state.lease) {
            (&Method::GET | &Method::PUT, None) => return failure(StatusCode::NOT_FOUND),
            (&Method::POST, Some(_)) => return failure(StatusCode::CONFLICT),
            (&Method::PUT, Some(lease))
                if lease["metadata"]["resourceVersion"] != sent["metadata"]["resourceVersion"] =>
            {
                return failure(StatusCode::CONFLICT);
            }
            (&Method::GET, Some(lease)) => sent = lease.clone(),
            _ => {
                state.version += 1;
                sent["metadata"]["resourceVersion"] = json!(state.version.to_string());
                state.lease = Some(sent.clone());
            }
        }
        Response::new(Body::from(serde_json::to_vec(&sent).unwrap()))
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().log)
    }

    fn edit(&self, edit: impl FnOnce(&mut State)) {
        edit(&mut self.0.lock().unwrap());
    }

    fn lease(&self) -> Value {
        self.0.lock().unwrap().lease.clone().unwrap()
    }
}

fn failure(status: StatusCode) -> Response<Body> {
    let reason = match status {
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::CONFLICT => "Conflict",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": reason, "code": status.as_u16(),
    });
    let mut response = Response::new(Body::from(serde_json::to_vec(&body).unwrap()));
    *response.status_mut() = status;
    response
}

/// A keeper at work.
struct Fixture {
    desired: watch::Sender<DesiredLease>,
    cancel: CancellationToken,
    failures: Counter,
}

impl Fixture {
    fn start(server: &ApiServer) -> Self {
        let (desired, desired_leases) = watch::channel(DesiredLease::None);
        let fixture = Self {
            desired,
            cancel: CancellationToken::new(),
            failures: Counter::default(),
        };
        let failures = fixture.failures.clone();
        let keeper = LeaseKeeper::new(server.client(), "ns", "a", "a_1", DURATION, failures);
        tokio::spawn(keeper.keep(desired_leases, fixture.cancel.clone()));
        fixture
    }

    async fn desired(&self, segments: &[&str]) {
        self.hold(segments);
        pass(1).await;
    }

    fn hold(&self, segments: &[&str]) {
        let segments = segments
            .iter()
            .map(|name| ((*name).to_owned(), Mac::new([2, 0, 0, 0, 0, 1])))
            .collect();
        self.desired.send_replace(DesiredLease::Hold(Content {
            node_uid: "u-1".into(),
            segments,
        }));
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn creates_renews_and_releases_lease() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    pass(60).await;
    assert_eq!(server.log(), [""; 0], "without a wish nothing is asked");

    fixture.desired(&["public"]).await;
    assert_eq!(server.log(), ["GET", r#"POST "a_1" 1"#]);
    let lease = server.lease();
    assert_eq!(lease["metadata"]["name"], "node-a");
    assert_eq!(
        lease["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u-1"}])
    );
    assert_eq!(
        lease["metadata"]["annotations"]["mooring.dev/segments"],
        r#"{"public":"02:00:00:00:00:01"}"#
    );
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 30);

    pass(90).await;
    assert_eq!(
        server.log(),
        vec![r#"PUT "a_1" 1"#; 9],
        "nothing is read in between"
    );
    let renewed = server.lease();
    assert_eq!(renewed["spec"]["acquireTime"], lease["spec"]["acquireTime"]);

    fixture.cancel.cancel();
    pass(1).await;
    assert_eq!(server.log(), [r#"PUT "" 1"#]);
    pass(60).await;
    assert_eq!(server.log(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn writes_change_at_once() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    fixture.desired(&["public", "storage"]).await;
    fixture.desired(&[]).await;
    assert_eq!(server.log().len(), 4, "read, made, two changes");
    let lease = server.lease();
    assert_eq!(
        lease["metadata"]["annotations"]["mooring.dev/segments"],
        "{}"
    );
}

#[tokio::test(start_paused = true)]
async fn batches_rapid_changes() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    server.log();
    for turn in 0..100 {
        let segments = if turn % 2 == 0 {
            vec![]
        } else {
            vec!["public"]
        };
        fixture.hold(&segments);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let writes = server.log().len();
    assert!((4..=7).contains(&writes), "{writes} writes in a second");
}

#[tokio::test(start_paused = true)]
async fn new_run_increments_transitions() {
    let server = ApiServer::default();
    server.edit(|state| {
        state.lease = Some(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "node-a", "resourceVersion": "7", "labels": {"keep": "me"}},
            "spec": {"holderIdentity": "a_0", "leaseTransitions": 4},
        }));
        state.version = 7;
    });
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    assert_eq!(server.log(), ["GET", r#"PUT "a_1" 5"#]);
    assert_eq!(server.lease()["metadata"]["labels"]["keep"], "me");
}

#[tokio::test(start_paused = true)]
async fn rereads_after_conflict() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    server.log();
    // Somebody edits the Lease, but leaves the holder.
    server.edit(|state| {
        state.lease.as_mut().unwrap()["metadata"]["resourceVersion"] = json!("99");
    });
    pass(10).await;
    assert_eq!(server.log(), [r#"PUT "a_1" 1"#, "GET", r#"PUT "a_1" 1"#]);
    // Another run takes it: it is taken back, as another epoch.
    server.edit(|state| {
        let lease = state.lease.as_mut().unwrap();
        lease["metadata"]["resourceVersion"] = json!("100");
        lease["spec"]["holderIdentity"] = json!("a_2");
        lease["spec"]["leaseTransitions"] = json!(2);
    });
    pass(10).await;
    assert_eq!(server.log(), [r#"PUT "a_1" 1"#, "GET", r#"PUT "a_1" 3"#]);
    assert_eq!(fixture.failures.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn recreates_deleted_lease_in_same_epoch() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    server.log();
    server.edit(|state| state.lease = None);
    pass(10).await;
    assert_eq!(server.log(), [r#"PUT "a_1" 1"#, "GET", r#"POST "a_1" 1"#]);
    drop(fixture);
}

#[tokio::test(start_paused = true)]
async fn counts_and_retries_failures() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    server.log();
    server.edit(|state| state.faults = vec![Some(StatusCode::INTERNAL_SERVER_ERROR), None]);
    // At 10 s it fails; at 11 s nothing answers for a third of the duration; at 22 s all is well.
    pass(25).await;
    assert_eq!(
        server.log(),
        [r#"PUT "a_1" 1"#, "GET", "GET", r#"PUT "a_1" 1"#]
    );
    assert_eq!(fixture.failures.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn release_after_failed_renewal_rereads() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    server.edit(|state| state.faults = vec![Some(StatusCode::INTERNAL_SERVER_ERROR)]);
    tokio::time::sleep(Duration::from_millis(9500)).await;
    server.log();
    fixture.cancel.cancel();
    pass(1).await;
    assert_eq!(server.log(), ["GET", r#"PUT "" 1"#]);
}

#[tokio::test(start_paused = true)]
async fn never_releases_foreign_lease() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    server.edit(|state| {
        let lease = state.lease.as_mut().unwrap();
        lease["metadata"]["resourceVersion"] = json!("100");
        lease["spec"]["holderIdentity"] = json!("a_2");
    });
    server.log();
    fixture.cancel.cancel();
    pass(1).await;
    assert_eq!(server.log(), [r#"PUT "" 1"#, "GET"]);
    assert_eq!(server.lease()["spec"]["holderIdentity"], "a_2");
}

#[tokio::test(start_paused = true)]
async fn releases_undesired_lease() {
    let server = ApiServer::default();
    let fixture = Fixture::start(&server);
    fixture.desired(&["public"]).await;
    server.log();
    fixture.desired.send_replace(DesiredLease::None);
    pass(60).await;
    assert_eq!(server.log(), ["GET", r#"PUT "" 1"#]);
    assert_eq!(
        server.lease()["metadata"]["annotations"]["mooring.dev/segments"],
        "{}",
        "nobody shall count on it"
    );
    fixture.desired(&["public"]).await;
    assert_eq!(
        server.log(),
        ["GET", r#"PUT "a_1" 2"#],
        "taken again is another epoch"
    );
}

#[tokio::test(start_paused = true)]
async fn releases_lease_of_earlier_run() {
    let server = ApiServer::default();
    server.edit(|state| {
        state.lease = Some(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": "node-a", "resourceVersion": "7",
                "annotations": {"mooring.dev/segments": r#"{"public":"02:00:00:00:00:01"}"#},
            },
            "spec": {"holderIdentity": "a_0", "leaseTransitions": 4},
        }));
        state.version = 7;
    });
    let fixture = Fixture::start(&server);
    pass(60).await;
    assert_eq!(server.log(), [""; 0]);
    fixture.desired.send_replace(DesiredLease::LetGo);
    pass(1).await;
    assert_eq!(server.log(), ["GET", r#"PUT "" 4"#]);
    let lease = server.lease();
    assert_eq!(
        lease["metadata"]["annotations"]["mooring.dev/segments"],
        "{}"
    );
    fixture.desired.send_replace(DesiredLease::None);
    pass(60).await;
    assert_eq!(server.log(), [""; 0], "once, and nothing after that");
    // Asked for what is done already, it looks and leaves it.
    fixture.desired.send_replace(DesiredLease::LetGo);
    pass(1).await;
    assert_eq!(server.log(), ["GET"]);
}

#[test]
fn holder_identity_is_unique() {
    assert_ne!(new_holder("a"), new_holder("a"));
    assert!(new_holder("a").starts_with("a_"));
}
