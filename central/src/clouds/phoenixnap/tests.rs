use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Url;
use serde_json::{Value, json};

use super::*;
use crate::cloud_api::testing::{Cloud, Reply, Seen, metrics};

fn phoenixnap(base: &Url) -> Arc<PhoenixNap> {
    with(base, None)
}

fn with(base: &Url, services: Option<Settings>) -> Arc<PhoenixNap> {
    let env = |name: &str| match name {
        "PNAP_BASE_URL" => Some(base.to_string()),
        "PNAP_TOKEN_URL" => Some(base.join("token").unwrap().to_string()),
        "PNAP_CLIENT_ID" => Some("an-id".to_owned()),
        "PNAP_CLIENT_SECRET" => Some("s3cr3t".to_owned()),
        _ => None,
    };
    let mut config = Config::read(&env, None, Flags::default()).unwrap();
    config.access.timeout = Duration::from_secs(10);
    config.services = services;
    let limits = Limits {
        qps: 1000.0,
        burst: 1000,
    };
    PhoenixNap::new(config, limits, metrics()).unwrap()
}

/// Answers tokens by itself, and the rest by this function.
async fn cloud(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Cloud {
    Cloud::start(move |seen, before| match seen.line.as_str() {
        "POST /token" => {
            Reply::json(json!({"access_token": format!("t{before}"), "expires_in": 300}))
        }
        _ => answer(seen),
    })
    .await
}

/// The requests apart from those for tokens.
fn asked(cloud: &Cloud) -> Vec<String> {
    let mut lines = cloud.lines();
    lines.retain(|line| line != "POST /token");
    lines
}

fn denied() -> Reply {
    Reply::json(json!({"message": "Access denied"})).status(403)
}

fn id(text: &str) -> ProviderId {
    facts::parse_id(text).unwrap()
}

const LIST: &str = "GET /bmc/v1/servers";

fn list(servers: Value) -> impl Fn(&Seen) -> Reply + Send + Sync + 'static {
    move |seen| match seen.line.as_str() {
        LIST => Reply::json(servers.clone()),
        _ => denied(),
    }
}

/// phoenixnap.md 7.8, row 15.
#[tokio::test]
async fn exchanges_revoked_token_and_repeats_once() {
    let cloud = cloud(|seen| match seen.header("authorization") {
        Some("Bearer t0") => Reply::json(json!({"message": "expired"})).status(401),
        _ => Reply::json(json!([{"id": "a1"}])),
    })
    .await;
    let cloud_machines = phoenixnap(&cloud.base).list().await.unwrap();
    assert_eq!(cloud_machines.len(), 1);
    assert_eq!(cloud.lines(), ["POST /token", LIST, "POST /token", LIST]);
}

/// As long as a client is refused everything, nothing is asked without end.
#[tokio::test]
async fn reports_client_without_rights() {
    let cloud = cloud(|_| Reply::json(json!({"message": "no"})).status(401)).await;
    let phoenixnap = phoenixnap(&cloud.base);
    let error = phoenixnap.list().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    let before = cloud.lines().len();
    let _ = phoenixnap.list().await.unwrap_err();
    assert_eq!(cloud.lines().len(), before + 1, "{:?}", cloud.lines());
}

/// 2.2 and 7.8, row 16: 403 is said of what does not exist, and of what may not be seen.
#[tokio::test]
async fn hidden_listed_server_exists() {
    let cloud = cloud(list(json!([{"id": "a1", "status": "powered-on"}]))).await;
    let machine = phoenixnap(&cloud.base).get(&id("a1")).await.unwrap();
    assert!(machine.is_some());
    assert_eq!(asked(&cloud), ["GET /bmc/v1/servers/a1", LIST]);
}

#[tokio::test]
async fn hidden_unlisted_server_is_gone() {
    for gone in [
        denied(),
        Reply::json(json!({"message": "none"})).status(404),
    ] {
        let answer = move |seen: &Seen| match seen.line.as_str() {
            LIST => Reply::json(json!([{"id": "b2"}])),
            _ => gone.clone(),
        };
        let cloud = cloud(answer).await;
        assert_eq!(phoenixnap(&cloud.base).get(&id("a1")).await, Ok(None));
    }
}

#[tokio::test]
async fn only_404_means_server_is_gone() {
    type Answer = fn(&Seen) -> Reply;
    let cases: [(&str, Answer); 6] = [
        ("no server at all", |seen| match seen.line.as_str() {
            LIST => Reply::json("[]"),
            _ => denied(),
        }),
        ("all is denied", |_| denied()),
        ("an error of the server", |seen| match seen.line.as_str() {
            LIST => Reply::json(json!([{"id": "b2"}])),
            _ => Reply::json(json!({"message": "oops"})).status(500),
        }),
        ("a page", |seen| match seen.line.as_str() {
            LIST => Reply::json(json!([{"id": "b2"}])),
            _ => Reply::html().status(404),
        }),
        ("another server", |_| Reply::json(json!({"id": "b2"}))),
        ("half a listing", |seen| match seen.line.as_str() {
            LIST => Reply::json(json!([{"id": "b2"}])).cut(3),
            _ => denied(),
        }),
    ];
    for (what, answer) in cases {
        let cloud = cloud(answer).await;
        let answer = phoenixnap(&cloud.base).get(&id("a1")).await;
        assert!(answer.is_err(), "{what}: {answer:?}");
    }
}

#[tokio::test]
async fn odd_server_hides_no_other_and_proves_none_gone() {
    let cloud = cloud(list(json!([{"id": "a1"}, {"id": null, "hostname": "odd"}]))).await;
    let phoenixnap = phoenixnap(&cloud.base);
    let (machines, unread) = phoenixnap.readable().await.unwrap();
    assert_eq!((machines[0].id.clone(), machines.len()), (id("a1"), 1));
    assert!(unread[0].contains("odd"), "{unread:?}");
    assert!(phoenixnap.list().await.is_err());
    let gone = phoenixnap.get(&id("c3")).await;
    assert!(gone.is_err(), "{gone:?}");
}

#[tokio::test]
async fn entry_that_is_no_server_hides_no_other_and_proves_none_gone() {
    for odd in [json!(null), json!("s3cr3t"), json!(["a2"])] {
        let cloud = cloud(list(json!([{"id": "a1"}, odd]))).await;
        let phoenixnap = phoenixnap(&cloud.base);
        let (machines, unread) = phoenixnap.readable().await.unwrap();
        assert_eq!((machines[0].id.clone(), machines.len()), (id("a1"), 1));
        assert!(
            unread.len() == 1 && !unread[0].contains("s3cr3t"),
            "{unread:?}"
        );
        assert!(phoenixnap.list().await.is_err());
        assert!(phoenixnap.get(&id("a1")).await.unwrap().is_some());
        let gone = phoenixnap.get(&id("c3")).await;
        assert!(gone.is_err(), "{gone:?}");
    }
}

/// B30: what is left of it is the bill.
#[tokio::test]
async fn released_reserved_server_is_gone() {
    let server = json!({"id": "a1", "status": "reserved", "hostname": "n1"});
    let cloud = cloud(move |seen| match seen.line.as_str() {
        LIST => Reply::json(json!([server])),
        _ => Reply::json(server.clone()),
    })
    .await;
    let phoenixnap = phoenixnap(&cloud.base);
    assert_eq!(phoenixnap.list().await, Ok(vec![]));
    assert_eq!(phoenixnap.get(&id("a1")).await, Ok(None));
}

/// 7.8, row 17 and B1.
#[tokio::test]
async fn unreachable_cloud_recovers() {
    let away: Url = "http://127.0.0.1:9/".parse().unwrap();
    let error = phoenixnap(&away).list().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transport);

    static BACK: AtomicBool = AtomicBool::new(false);
    let cloud = cloud(|_| {
        if BACK.load(Ordering::SeqCst) {
            Reply::json(json!([{"id": "a1"}]))
        } else {
            Reply::html().status(503)
        }
    })
    .await;
    let phoenixnap = phoenixnap(&cloud.base);
    assert_eq!(phoenixnap.list().await.unwrap_err().kind, ErrorKind::Server);
    BACK.store(true, Ordering::SeqCst);
    assert_eq!(phoenixnap.list().await.unwrap().len(), 1);
}

fn on_network(location: Option<&str>) -> Option<Settings> {
    Some(Settings {
        setting: "kube-vip://n1".parse().unwrap(),
        location: location.map(ToOwned::to_owned),
        location_annotation: String::new(),
        flags: Flags::default(),
    })
}

#[tokio::test]
async fn reads_network_with_one_call() {
    let network = json!({"id": "n1", "location": "PHX", "ipBlocks": []});
    let cloud = cloud(move |_| Reply::json(network.clone())).await;
    for location in [None, Some("PHX")] {
        let phoenixnap = with(&cloud.base, on_network(location));
        assert!(phoenixnap.check().await.is_ok(), "{location:?}");
    }
    assert_eq!(asked(&cloud), ["GET /networks/v1/public-networks/n1"; 2]);
    assert!(phoenixnap(&cloud.base).check().await.is_ok());
    assert_eq!(asked(&cloud).len(), 2, "without a setting nothing is asked");
}

#[tokio::test]
async fn reports_missing_or_distant_network_with_remedy() {
    let hidden = cloud(|_| denied()).await;
    let told = with(&hidden.base, on_network(None)).check().await;
    let told = told.unwrap_err().to_string();
    assert!(told.contains("PNAP_LOAD_BALANCER=kube-vip://n1"), "{told}");
    assert!(told.contains("Access denied"), "{told}");
    let network = json!({"id": "n1", "location": "ASH", "ipBlocks": []});
    let elsewhere = cloud(move |_| Reply::json(network.clone())).await;
    let told = with(&elsewhere.base, on_network(Some("PHX"))).check().await;
    let told = told.unwrap_err().to_string();
    assert!(
        told.contains("PNAP_LOCATION=PHX") && told.contains("write ASH"),
        "{told}"
    );
}

/// The controller must start while the cloud is away.
#[tokio::test]
async fn starts_while_cloud_is_unreachable() {
    for status in [401, 429, 500, 503] {
        let cloud = cloud(move |_| Reply::json(json!({"message": "no"})).status(status)).await;
        let checked = with(&cloud.base, on_network(Some("PHX"))).check().await;
        assert!(checked.is_ok(), "{status}: {checked:?}");
    }
    let away: Url = "http://127.0.0.1:9/".parse().unwrap();
    assert!(with(&away, on_network(None)).check().await.is_ok());
}
