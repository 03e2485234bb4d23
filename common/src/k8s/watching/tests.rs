use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::*;

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// An API server that can be away. It answers lists, and refuses connections for watches.
#[derive(Clone, Default)]
struct ApiServer {
    away: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
}

impl ApiServer {
    fn watch(&self) -> impl Stream<Item = watcher::Event<ConfigMap>> + Unpin + use<> {
        let server = self.clone();
        let service =
            tower::service_fn(move |request: Request<Body>| future::ready(server.answer(&request)));
        let api = Api::namespaced(Client::new(service, "default"), "default");
        watch(api, watcher::Config::default()).boxed()
    }

    fn answer(&self, request: &Request<Body>) -> io::Result<Response<Body>> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let query = request.uri().query().unwrap_or_default();
        if self.away.load(Ordering::SeqCst) || query.contains("watch=true") {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let list = json!({
            "kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": { "resourceVersion": "7" }, "items": [],
        });
        Ok(Response::new(Body::from(list.to_string().into_bytes())))
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_asks_an_absent_api_server_ever_more_rarely() {
    let server = ApiServer::default();
    server.away.store(true, Ordering::SeqCst);
    let mut events = server.watch();
    let waits = timeout(TEN_MINUTES, events.next()).await;
    assert!(waits.is_err(), "an absent API server has said something");
    // In pauses of 5 to 10 s. At a second each, there would be 600.
    let requests = server.requests();
    assert!((60..=125).contains(&requests), "{requests} requests");

    server.away.store(false, Ordering::SeqCst);
    let back = Instant::now();
    assert!(matches!(events.next().await, Some(watcher::Event::Init)));
    assert!(matches!(
        events.next().await,
        Some(watcher::Event::InitDone)
    ));
    assert!(back.elapsed() <= 2 * LONGEST_PAUSE, "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_answer_makes_the_pauses_short_again() {
    let mut events = ApiServer::default().watch();
    let mut lists = 0;
    let _ = timeout(TEN_MINUTES, async {
        while let Some(event) = events.next().await {
            lists += usize::from(matches!(event, watcher::Event::InitDone));
        }
    })
    .await;
    // In pauses of 0.8 to 1.6 s. Of 5 to 10 s, there would be 120.
    assert!((375..=750).contains(&lists), "{lists} lists");
}
