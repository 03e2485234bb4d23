use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use mooring_common::names::{components, policies};
use serde_json::{Value, json};

use super::*;

/// What the API server makes of a write.
#[derive(Clone, Debug)]
enum ApiReply {
    Fenced,
    Open,
    /// Every write has this status and message.
    Fails(u16, String),
}

/// An API server with moods, which come one after the other; the last stays.
#[derive(Clone)]
struct ApiServer {
    moods: Arc<Mutex<Vec<ApiReply>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl ApiServer {
    fn new(moods: &[ApiReply]) -> Self {
        Self {
            moods: Arc::new(Mutex::new(moods.to_vec())),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            std::future::ready(Ok::<_, Infallible>(server.answer(&request)))
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> Response<Body> {
        let (method, uri) = (request.method(), request.uri());
        self.asked.lock().unwrap().push(format!("{method} {uri}"));
        let path = uri.path();
        if path.contains("/events") || method == Method::GET {
            return Response::new(Body::from(object().to_string().into_bytes()));
        }
        let is_node = path.contains("/nodes/");
        let reply = {
            let mut moods = self.moods.lock().unwrap();
            // A look begins with the Node.
            if is_node && moods.len() > 1 {
                moods.remove(0)
            } else {
                moods[0].clone()
            }
        };
        match reply {
            ApiReply::Open => Response::new(Body::from(object().to_string().into_bytes())),
            ApiReply::Fenced => {
                let policy = if is_node {
                    policies::OWN_NODE
                } else {
                    policies::OWN_LEASE
                };
                failure(403, &format!("forbidden: {}", refusal_of(policy)))
            }
            ApiReply::Fails(code, message) => failure(code, &message),
        }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn refusal_of(policy: &str) -> String {
    format!("ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: no")
}

fn object() -> Value {
    json!({"metadata": {"name": "a", "uid": "u-1"}})
}

fn failure(code: u16, message: &str) -> Response<Body> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Forbidden", "code": code,
    });
    let mut response = Response::new(Body::from(body.to_string().into_bytes()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

struct Fixture {
    server: ApiServer,
    permit: WritePermit,
    metrics: Metrics,
}

impl Fixture {
    fn start(moods: &[ApiReply]) -> Self {
        let server = ApiServer::new(moods);
        let metrics = Metrics::register(&mut Registry::default());
        let test = Test {
            client: server.client(),
            node_name: "a".into(),
            lease_namespace: Some("ns".into()),
            events: Events::new(server.client(), components::NODE_DAEMON, "a"),
            metrics: metrics.clone(),
        };
        let (granter, permit) = WritePermit::withheld();
        tokio::spawn(test.run(granter));
        Self {
            server,
            permit,
            metrics,
        }
    }

    fn is_open(&self) -> bool {
        *self.permit.0.borrow()
    }

    fn is(&self, state: State) -> bool {
        let current = State::ALL.into_iter().filter(|state| {
            let label = StateLabel {
                state: state.label(),
            };
            self.metrics.state.get_or_create(&label).get() == 1
        });
        current.eq([state])
    }

    /// Requests that are no dry run, but for reads.
    fn written(&self) -> Vec<String> {
        let mut asked = self.server.asked();
        asked.retain(|line| !line.contains("dryRun=All") && !line.starts_with("GET"));
        asked
    }
}

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn gate_opens_once_all_probes_are_refused() {
    let fixture = Fixture::start(&[ApiReply::Fenced]);
    fixture.permit.clone().granted().await;
    assert!(fixture.is(State::Enforced));
    let asked = fixture.server.asked();
    assert_eq!(
        asked,
        [
            "PATCH /api/v1/nodes/a?&dryRun=All",
            "POST /apis/coordination.k8s.io/v1/namespaces/ns/leases?&dryRun=All",
        ]
    );
    pass(600).await;
    assert_eq!(fixture.server.asked(), [""; 0], "it is tested once");
}

#[tokio::test(start_paused = true)]
async fn missing_fence_is_reported_once_and_rechecked_slowly() {
    let fixture = Fixture::start(&[ApiReply::Open]);
    pass(5).await;
    assert!(fixture.is(State::Missing));
    assert_eq!(fixture.written(), [""; 0], "it may still be on its way");
    pass(3).await;
    let written = fixture.written();
    assert_eq!(written.len(), 1, "{written:?}");
    assert!(written[0].contains("/events"), "{written:?}");
    pass(3600).await;
    let looks = fixture.server.asked().len() / 2;
    assert!((55..=65).contains(&looks), "{looks} looks in an hour");
    assert!(!fixture.is_open());
}

/// A new installation warns of nothing, and what stays missing is an error once.
#[test]
fn a_missing_fence_is_an_error_only_if_it_stays_away() {
    let levels = |is_news: fn(u32) -> bool| {
        let looks = 1..=TOLD_AT + 2;
        looks
            .map(|look| level(look, is_news(look)))
            .collect::<Vec<_>>()
    };
    let (info, error) = (Some(Level::INFO), Some(Level::ERROR));
    let same = levels(|look| look == 1);
    assert_eq!(same, [info, None, None, error, None, None]);
    let other = levels(|look| look == 1 || look == TOLD_AT + 1);
    assert_eq!(other, [info, None, None, error, error, None]);
}

#[tokio::test(start_paused = true)]
async fn gate_opens_when_fence_appears() {
    let fixture = Fixture::start(&[
        ApiReply::Open,
        ApiReply::Open,
        ApiReply::Open,
        ApiReply::Fenced,
    ]);
    pass(2).await;
    assert!(!fixture.is_open());
    pass(6).await;
    assert!(fixture.is_open() && fixture.is(State::Enforced));
    assert_eq!(fixture.written(), [""; 0], "too soon for an Event");
}

#[tokio::test(start_paused = true)]
async fn unrelated_errors_keep_gate_closed() {
    for (code, message) in [
        (
            403,
            "nodes \"a\" is forbidden: User cannot patch resource".to_owned(),
        ),
        (403, refusal_of("somebody-elses")),
        (404, "nodes \"a\" not found".to_owned()),
        (422, "invalid".to_owned()),
        (500, "the API server is not well".to_owned()),
    ] {
        let fixture = Fixture::start(&[ApiReply::Fails(code, message.clone())]);
        pass(300).await;
        assert!(!fixture.is_open(), "{message}");
        assert!(fixture.is(State::Unknown), "{message}");
        let asked = fixture.server.asked();
        let writes = || asked.iter().filter(|line| !line.starts_with("GET"));
        let looks = writes().count() / 2;
        assert!((30..=40).contains(&looks), "{looks} looks in 5 minutes");
        assert!(writes().all(|line| line.contains("dryRun=All")));
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_two_policies_is_not_enough() {
    let message = format!("forbidden: {}", refusal_of(policies::OWN_NODE));
    let fixture = Fixture::start(&[ApiReply::Fails(403, message)]);
    pass(300).await;
    assert!(!fixture.is_open(), "the policy for Leases was not heard of");
}

#[test]
fn waiving_opens_gate() {
    let metrics = Metrics::register(&mut Registry::default());
    let (granter, permit) = WritePermit::withheld();
    waive(&metrics, &granter);
    assert!(*permit.0.borrow());
}
