use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use mooring_common::l2_network::SegmentNode;
use serde_json::Value;

use super::*;

/// Takes down what is written, and answers with these statuses, then with 200.
#[derive(Clone, Default)]
struct ApiServer {
    /// How long an answer takes.
    takes: Duration,
    written: Arc<Mutex<Vec<Value>>>,
    faults: Arc<Mutex<Vec<u16>>>,
}

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
        let uri = request.uri().to_string();
        assert!(uri.contains("/l2networks/lan/status?"), "{uri}");
        assert!(uri.contains("fieldManager=mooring-node-n1"), "{uri}");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        self.written
            .lock()
            .unwrap()
            .push(body["status"]["nodes"].clone());
        sleep(self.takes).await;
        let mut faults = self.faults.lock().unwrap();
        if faults.is_empty() {
            let network = json!({
                "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network", "metadata": {},
                "spec": {"subnets": [], "ranges": []},
            });
            return Response::new(Body::from(network.to_string().into_bytes()));
        }
        let code = faults.remove(0);
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no", "reason": "Test", "code": code,
        });
        let mut response = Response::new(Body::from(status.to_string().into_bytes()));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        response
    }

    fn written(&self) -> usize {
        std::mem::take(&mut *self.written.lock().unwrap()).len()
    }
}

fn start(server: &ApiServer) -> watch::Sender<Entries> {
    let (wanted, entries) = watch::channel(Entries::new());
    tokio::spawn(StatusWriter::new(server.client(), "n1").run(entries));
    wanted
}

fn put(ready: bool) -> Entries {
    saying(ready, "")
}

fn saying(ready: bool, message: &str) -> Entries {
    let entry = SegmentNode {
        name: "n1".into(),
        ready,
        message: message.into(),
        ..SegmentNode::default()
    };
    [("lan".to_owned(), Change::Put(Box::new(entry)))].into()
}

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn writes_change_once() {
    let server = ApiServer::default();
    let wanted = start(&server);
    pass(60).await;
    assert_eq!(server.written(), 0);
    wanted.send_replace(put(true));
    pass(5).await;
    assert_eq!(server.written(), 1);
    // The watch has shown it: it is wanted no more.
    wanted.send_replace(Entries::new());
    pass(3600).await;
    assert_eq!(server.written(), 0);
    wanted.send_replace([("lan".to_owned(), Change::Take)].into());
    pass(5).await;
    assert_eq!(*server.written.lock().unwrap(), [json!([])]);
}

#[tokio::test(start_paused = true)]
async fn batches_rapid_changes() {
    let server = ApiServer::default();
    let wanted = start(&server);
    for turn in 0..100 {
        wanted.send_replace(saying(false, &turn.to_string()));
        sleep(Duration::from_millis(100)).await;
    }
    let writes = server.written();
    assert!((5..=11).contains(&writes), "{writes} writes in 10 s");
}

#[tokio::test(start_paused = true)]
async fn slow_write_delays_next_round() {
    let server = ApiServer {
        takes: Duration::from_secs(2),
        ..ApiServer::default()
    };
    let wanted = start(&server);
    for turn in 0..3000 {
        wanted.send_replace(saying(false, &turn.to_string()));
        sleep(Duration::from_millis(100)).await;
    }
    // Every 13 s on average; every 3 s if no room were made.
    let writes = server.written();
    assert!((14..=40).contains(&writes), "{writes} writes in 300 s");
}

#[tokio::test(start_paused = true)]
async fn timeouts_back_off_exponentially() {
    let server = ApiServer {
        takes: Duration::from_secs(60),
        ..ApiServer::default()
    };
    let wanted = start(&server);
    wanted.send_replace(put(true));
    pass(3600).await;
    // Every 170 s on average in the end; every 36 s if it were not ever later.
    let writes = server.written();
    assert!((10..=40).contains(&writes), "{writes} writes in an hour");
}

/// The status would say for half a minute that a cable is out which is in.
#[tokio::test(start_paused = true)]
async fn own_link_failure_skips_backoff() {
    let server = ApiServer {
        takes: Duration::from_secs(60),
        ..ApiServer::default()
    };
    let wanted = start(&server);
    let Change::Put(entry) = put(false).remove("lan").unwrap() else {
        unreachable!();
    };
    let down = SegmentNode {
        reason: segment_reasons::INTERFACE_DOWN.into(),
        ..*entry
    };
    wanted.send_replace([("lan".to_owned(), Change::Put(Box::new(down)))].into());
    pass(9).await;
    wanted.send_replace(put(true));
    server.written();
    pass(3).await;
    assert_eq!(server.written(), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_failures_soon_and_refusals_slowly() {
    let server = ApiServer::default();
    let wanted = start(&server);
    server.faults.lock().unwrap().extend([500, 409]);
    wanted.send_replace(put(true));
    pass(35).await;
    // What was written is still wanted, so that it is written again.
    let writes = server.written();
    assert!((3..=6).contains(&writes), "{writes} writes in 35 s");
    server.faults.lock().unwrap().extend([403; 10]);
    wanted.send_replace(put(false));
    pass(600).await;
    assert_eq!(server.written(), 2);
}

#[test]
fn truncates_field_manager() {
    assert_eq!(manager("n1"), "mooring-node-n1");
    let [a, b] = ["a", "b"].map(|end| manager(&format!("{}{end}", "n".repeat(252))));
    assert_eq!((a.len(), b.len()), (LONGEST_MANAGER, LONGEST_MANAGER));
    assert_ne!(a, b);
}
