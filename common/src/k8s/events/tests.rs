use std::convert::Infallible;

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::Value;

use super::*;

/// An API server that answers with these codes, one after the other, and then with 201.
#[derive(Clone, Default)]
struct ApiServer {
    codes: Arc<Mutex<Vec<u16>>>,
    asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
}

impl ApiServer {
    fn answering(codes: &[u16]) -> Self {
        let server = Self::default();
        *server.codes.lock().unwrap() = codes.to_vec();
        server
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        let path = parts.uri.path().to_owned();
        self.asked.lock().unwrap().push((parts.method, path, body));
        let code = {
            let mut codes = self.codes.lock().unwrap();
            if codes.is_empty() {
                201
            } else {
                codes.remove(0)
            }
        };
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": "No", "code": code,
        });
        let object = json!({ "metadata": { "name": "e" }, "involvedObject": {} });
        let body = if code < 300 { object } else { status };
        let mut response = Response::new(Body::from(body.to_string().into_bytes()));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        response
    }

    fn events(&self) -> Events {
        Events::new(self.client(), "some-controller", "host_1")
    }

    /// Verb and count of each request.
    fn counts(&self) -> Vec<(Method, i64)> {
        let asked = self.asked.lock().unwrap();
        let count = |(verb, _, body): &(Method, String, Value)| {
            (verb.clone(), body["count"].as_i64().unwrap())
        };
        asked.iter().map(count).collect()
    }
}

fn service(name: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Service".to_owned()),
        namespace: Some("shop".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(format!("uid-{name}")),
        ..ObjectReference::default()
    }
}

const WARNING: EventKind = EventKind::Warning;

#[tokio::test]
async fn event_has_fields_of_both_apis() {
    let server = ApiServer::default();
    server
        .events()
        .report(&service("web"), WARNING, "Failed", "no room")
        .await;
    let (verb, path, body) = server.asked.lock().unwrap().remove(0);
    assert_eq!(
        (verb, &*path),
        (Method::POST, "/api/v1/namespaces/shop/events")
    );
    for (pointer, expected) in [
        ("/metadata/namespace", "shop"),
        ("/involvedObject/kind", "Service"),
        ("/involvedObject/uid", "uid-web"),
        ("/type", "Warning"),
        ("/reason", "Failed"),
        ("/action", "Failed"),
        ("/message", "no room"),
        ("/source/component", "some-controller"),
        ("/reportingComponent", "some-controller"),
        ("/reportingInstance", "host_1"),
    ] {
        assert_eq!(body.pointer(pointer), Some(&json!(expected)), "{pointer}");
    }
    assert!(
        body["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("web.")
    );
    assert_eq!(body["firstTimestamp"], body["lastTimestamp"]);
    assert_eq!(body["count"], 1);
}

#[tokio::test]
async fn cluster_scoped_events_go_to_default() {
    let server = ApiServer::default();
    let node = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some("a".to_owned()),
        ..ObjectReference::default()
    };
    server.events().report(&node, WARNING, "Failed", "").await;
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked[0].1, "/api/v1/namespaces/default/events");
}

#[tokio::test]
async fn repeated_event_raises_count() {
    let server = ApiServer::default();
    let events = server.events();
    let again = events.clone().only_while(|| true);
    events
        .report(&service("web"), WARNING, "Failed", "no room")
        .await;
    again
        .report(&service("web"), WARNING, "Failed", "no room")
        .await;
    events
        .report(&service("web"), WARNING, "Failed", "no token")
        .await;
    events
        .report(&service("web"), EventKind::Normal, "Failed", "no room")
        .await;
    events
        .report(&service("web"), WARNING, "Fell", "no room")
        .await;
    events
        .report(&service("wiki"), WARNING, "Failed", "no room")
        .await;
    events
        .report(&service("web"), WARNING, "Failed", "no room")
        .await;
    let (post, patch) = (Method::POST, Method::PATCH);
    assert_eq!(
        server.counts(),
        [
            (post.clone(), 1),
            (patch.clone(), 2),
            (post.clone(), 1),
            (post.clone(), 1),
            (post.clone(), 1),
            (post, 1),
            (patch, 3)
        ]
    );
    let asked = server.asked.lock().unwrap();
    let name = asked[0].2["metadata"]["name"].as_str().unwrap();
    assert_eq!(asked[1].1, format!("/api/v1/namespaces/shop/events/{name}"));
}

#[tokio::test]
async fn deleted_event_is_recreated_with_count() {
    let server = ApiServer::answering(&[201, 404]);
    let events = server.events();
    for _ in 0..3 {
        events
            .report(&service("web"), WARNING, "Failed", "no room")
            .await;
    }
    let (post, patch) = (Method::POST, Method::PATCH);
    assert_eq!(
        server.counts(),
        [(post.clone(), 1), (patch.clone(), 2), (post, 2), (patch, 3)]
    );
    let asked = server.asked.lock().unwrap();
    assert_eq!(
        asked[0].2["metadata"]["name"],
        asked[2].2["metadata"]["name"]
    );
    assert_eq!(asked[0].2["firstTimestamp"], asked[2].2["firstTimestamp"]);
}

#[tokio::test]
async fn failed_event_is_counted_with_the_next() {
    let server = ApiServer::answering(&[500, 404]);
    let events = server.events();
    events
        .report(&service("web"), WARNING, "Failed", "no room")
        .await;
    events
        .report(&service("web"), WARNING, "Failed", "no room")
        .await;
    let (post, patch) = (Method::POST, Method::PATCH);
    assert_eq!(server.counts(), [(post.clone(), 1), (patch, 2), (post, 2)]);
}

#[tokio::test]
async fn follower_reports_nothing() {
    let server = ApiServer::default();
    let events = server.events().only_while(|| false);
    events
        .report(&service("web"), WARNING, "Failed", "no room")
        .await;
    assert!(server.asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn unresponsive_api_server_delays_nobody() {
    let silent = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let events = Events::new(Client::new(silent, "default"), "c", "i");
    let began = tokio::time::Instant::now();
    events.report(&service("web"), WARNING, "Failed", "").await;
    assert_eq!(began.elapsed(), SEND_TIMEOUT);
}

#[test]
fn cuts_long_notes_at_characters() {
    assert_eq!(shortened("short".into(), LONGEST_NOTE), "short");
    let long = shortened("ä".repeat(2000), LONGEST_NOTE);
    assert!(long.len() <= LONGEST_NOTE && long.ends_with('…'));
}

/// What fails may have written on the object before: so its version is another one each time.
#[tokio::test]
async fn same_failure_of_an_object_that_has_changed_is_counted() {
    let server = ApiServer::default();
    let events = server.events();
    for version in ["7", "8", "9"] {
        let about = ObjectReference {
            resource_version: Some(version.to_owned()),
            ..service("web")
        };
        events.report(&about, WARNING, "Failed", "no room").await;
    }
    let expected = [(Method::POST, 1), (Method::PATCH, 2), (Method::PATCH, 3)];
    assert_eq!(server.counts(), expected);
}
