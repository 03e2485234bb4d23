//! What a simulation can be told from outside: of machines, of what credentials may do, and of limits.

use mooring_cloud_sim::brightbox::{self, Brightbox};
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_cloud_sim::cloudscale::Cloudscale;
use mooring_cloud_sim::linode::Linode;
use mooring_cloud_sim::phoenixnap::Phoenixnap;
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, get, send};
use crate::cloud_sims::{brightbox as at_brightbox, phoenixnap as at_phoenixnap};

const CLOUDS: [Cloud; 4] = [
    Cloud::Linode,
    Cloud::Cloudscale,
    Cloud::Phoenixnap,
    Cloud::Brightbox,
];

/// Tells the simulation at this address something.
async fn told(url: &str, path: &str, wish: &Value) -> Answer {
    send(url, "POST", &format!("/_sim/{path}"), wish).await
}

/// Tells it something that it understands.
async fn tell(url: &str, path: &str, wish: Value) {
    let answer = told(url, path, &wish).await;
    assert_eq!(answer.status, 204, "{path} {wish}: {answer:?}");
}

/// Where machines are, and the field that has their name.
const fn machines_of(cloud: Cloud) -> (&'static str, &'static str) {
    match cloud {
        Cloud::Linode => ("/v4/linode/instances", "label"),
        Cloud::Cloudscale => ("/v1/servers", "name"),
        Cloud::Phoenixnap => ("/bmc/v1/servers", "hostname"),
        Cloud::Brightbox => ("/1.0/servers", "hostname"),
    }
}

/// A request that reads, with credentials.
async fn read(sim: &CloudSim, path: &str) -> Answer {
    match (sim.phoenixnap(), sim.brightbox()) {
        (Some(cloud), _) => at_phoenixnap::get(cloud, path).await,
        (_, Some(cloud)) => at_brightbox::get(cloud, path).await,
        _ => get(&sim.environment()[0].1, path).await,
    }
}

#[tokio::test]
async fn machines_come_change_and_go_from_outside() {
    for cloud in CLOUDS {
        let sim = CloudSim::start(cloud).await;
        let url = sim.environment()[0].1.clone();
        let (path, name) = machines_of(cloud);
        let added = told(&url, "machines", &json!({ name: "n1" })).await.json();
        let id = &added["id"];
        let id = id
            .as_str()
            .map_or_else(|| id.to_string(), ToOwned::to_owned);
        let one = format!("{path}/{id}");
        let shown = read(&sim, &one).await.json();
        assert_eq!(shown[name], "n1", "{cloud:?}: {shown}");
        assert!(
            shown["status"].is_string(),
            "the rest is filled in: {shown}"
        );

        let control = format!("/_sim/machines/{id}");
        let status = json!({ "status": "off" });
        assert_eq!(send(&url, "PATCH", &control, &status).await.status, 204);
        let changed = read(&sim, &one).await.json();
        assert_eq!(
            (&changed["status"], &changed[name]),
            (&json!("off"), &json!("n1"))
        );

        let mut again = shown.clone();
        again[name] = json!("n2");
        assert_eq!(
            told(&url, "machines", &again).await.status,
            400,
            "{cloud:?}"
        );
        assert_eq!(told(&url, "machines", &json!("n3")).await.status, 400);

        assert_eq!(
            send(&url, "DELETE", &control, &Value::Null).await.status,
            204
        );
        assert_eq!(read(&sim, &one).await.status, cloud.absence().as_u16());
        assert_eq!(
            send(&url, "DELETE", &control, &Value::Null).await.status,
            404
        );
        assert_eq!(send(&url, "PATCH", &control, &status).await.status, 404);
        assert!(
            sim.calls()
                .iter()
                .all(|call| !call.path.starts_with("/_sim")),
            "nothing of it is in the log"
        );
    }
}

#[tokio::test]
async fn credentials_are_revoked_from_outside() {
    for cloud in CLOUDS {
        let sim = CloudSim::start(cloud).await;
        let url = sim.environment()[0].1.clone();
        let (path, _) = machines_of(cloud);
        let status = async || match (sim.phoenixnap(), sim.brightbox()) {
            (Some(cloud), _) => {
                let fields = [
                    ("grant_type", "client_credentials"),
                    ("client_id", mooring_cloud_sim::phoenixnap::CLIENT_ID),
                    (
                        "client_secret",
                        mooring_cloud_sim::phoenixnap::CLIENT_SECRET,
                    ),
                ];
                at_phoenixnap::grant(cloud, &fields).await.status
            }
            (_, Some(cloud)) => {
                let fields = [
                    ("grant_type", "client_credentials"),
                    ("client_id", brightbox::CLIENT_ID),
                    ("client_secret", brightbox::CLIENT_SECRET),
                ];
                at_brightbox::grant(cloud, &fields).await.status
            }
            _ => get(&url, path).await.status,
        };
        assert_eq!(status().await, 200, "{cloud:?}");
        tell(&url, "access", json!({ "revoked": true })).await;
        assert_eq!(status().await, 401, "{cloud:?}");
        tell(&url, "access", json!({ "revoked": false })).await;
        assert_eq!(status().await, 200, "{cloud:?}");
        let odd = told(&url, "access", &json!({ "mood": "good" })).await;
        assert_eq!(odd.status, 400, "{cloud:?}");
    }
}

#[tokio::test]
async fn tokens_that_were_given_out_are_revoked_with_the_client() {
    let cloud = Phoenixnap::start().await.unwrap();
    let token = at_phoenixnap::token(&cloud).await;
    let status = async |token: &str| {
        let path = "/bmc/v1/servers";
        let answer = at_phoenixnap::with_token(&cloud, token, "GET", path, &Value::Null).await;
        answer.status
    };
    assert_eq!(status(&token).await, 200);
    tell(&cloud.url(), "access", json!({ "scopes": ["tags"] })).await;
    let narrow = at_phoenixnap::token(&cloud).await;
    assert_eq!((status(&token).await, status(&narrow).await), (200, 403));
    let odd = told(&cloud.url(), "access", &json!({ "scopes": ["gold"] })).await;
    assert_eq!(odd.status, 400);
    tell(&cloud.url(), "access", json!({ "revoked": true })).await;
    assert_eq!(status(&token).await, 401);

    let cloud = Brightbox::start().await.unwrap();
    let token = at_brightbox::token(&cloud).await;
    tell(&cloud.url(), "access", json!({ "revoked": true })).await;
    let path = "/1.0/servers";
    let refused = at_brightbox::with_token(&cloud, &token, "GET", path, &Value::Null).await;
    assert_eq!(refused.status, 401);
}

#[tokio::test]
async fn what_a_token_of_linode_may_do_is_said_from_outside() {
    let linode = Linode::start().await.unwrap();
    let url = linode.url();
    let status = async |path: &str| get(&url, &format!("/v4{path}")).await.status;
    tell(&url, "access", json!({ "scopes": ["linodes:read_only"] })).await;
    assert_eq!(
        (status("/linode/instances").await, status("/vpcs").await),
        (200, 401)
    );
    let shown = linode.put_node_balancer(&json!({ "label": "shown" }));
    let hidden = linode.put_node_balancer(&json!({ "label": "hidden" }));
    let grants = json!({
        "add_nodebalancers": false, "refusal": 404,
        "nodebalancer": [{ "id": shown, "permissions": "read_only" }],
    });
    tell(
        &url,
        "access",
        json!({ "grants": grants, "reserves": false }),
    )
    .await;
    for (path, wanted) in [
        ("/vpcs".to_owned(), 200),
        ("/networking/reserved/ips".to_owned(), 404),
        (format!("/nodebalancers/{shown}"), 200),
        (format!("/nodebalancers/{hidden}"), 404),
    ] {
        assert_eq!(status(&path).await, wanted, "{path}");
    }
    let region = json!({ "region": "eu-central" });
    let added = send(&url, "POST", "/v4/nodebalancers", &region).await;
    assert_eq!(added.status, 403);
    let path = format!("/v4/nodebalancers/{shown}");
    let changed = send(&url, "PUT", &path, &json!({ "label": "other" })).await;
    assert_eq!(changed.status, 403);
    for odd in [
        json!({ "scopes": ["everything"] }),
        json!({ "grants": { "refusal": 7 } }),
        json!({ "grants": { "nodebalancer": [{ "id": 7, "permissions": "none" }] } }),
    ] {
        assert_eq!(told(&url, "access", &odd).await.status, 400, "{odd}");
    }
    tell(&url, "access", json!({})).await;
    assert_eq!(status(&format!("/nodebalancers/{hidden}")).await, 200);
}

#[tokio::test]
async fn limits_are_said_from_outside() {
    let linode = Linode::start().await.unwrap();
    let url = linode.url();
    tell(
        &url,
        "limits",
        json!({ "seconds": 3600, "all": 3, "listings": 1 }),
    )
    .await;
    let mut statuses = Vec::new();
    for path in ["/v4/vpcs", "/v4/vpcs", "/v4/profile", "/v4/profile"] {
        statuses.push(get(&url, path).await.status);
    }
    assert_eq!(statuses, [200, 429, 200, 429]);
    tell(&url, "limits", json!({})).await;
    assert_eq!(get(&url, "/v4/profile").await.status, 200);
    let odd = told(&url, "limits", &json!({ "seconds": -1 })).await;
    assert_eq!(odd.status, 400);

    let cloud = Brightbox::start().await.unwrap();
    tell(&cloud.url(), "limits", json!({ "cloud_ips": 1 })).await;
    let token = at_brightbox::token(&cloud).await;
    let path = "/1.0/cloud_ips";
    for wanted in [201, 403] {
        let made = at_brightbox::with_token(&cloud, &token, "POST", path, &json!({})).await;
        assert_eq!(made.status, wanted, "{made:?}");
    }
    let account = at_brightbox::get(&cloud, "/1.0/accounts").await.json();
    assert_eq!(account[0]["cloud_ips_limit"], 1);
    assert_ne!(account[0]["load_balancers_limit"], 1, "it is as before");

    let cloud = Phoenixnap::start().await.unwrap();
    let block = json!({ "location": "PHX", "cidrBlockSize": "/29" });
    for (limits, wanted) in [
        (json!({ "stock": 1 }), 201),
        (json!({}), 406),
        (json!({ "stock": 5, "quota": 1 }), 403),
    ] {
        tell(&cloud.url(), "limits", limits).await;
        let bought = at_phoenixnap::send(&cloud, "POST", "/ips/v1/ip-blocks", &block).await;
        assert_eq!(bought.status, wanted, "{bought:?}");
    }

    // Nothing is known of any limit there.
    let cloud = Cloudscale::start().await.unwrap();
    assert_eq!(told(&cloud.url(), "limits", &json!({})).await.status, 404);
}

#[tokio::test]
async fn answers_of_faults_have_the_headers_that_they_are_told_to_have() {
    let cloud = Cloudscale::start().await.unwrap();
    let url = cloud.url();
    let fault = json!({ "status": 503, "headers": { "X-Maintenance-Mode": "1" } });
    tell(&url, "faults", fault).await;
    let refused = get(&url, "/v1/servers").await;
    assert_eq!(
        (refused.status, refused.header("x-maintenance-mode")),
        (503, "1")
    );
    for headers in [json!({ "no header": "1" }), json!({ "X-Odd": "\n" })] {
        let odd = json!({ "headers": headers });
        assert_eq!(told(&url, "faults", &odd).await.status, 400, "{odd}");
    }
}

#[tokio::test]
async fn behaviour_of_brightbox_that_is_no_length_is_said_from_outside() {
    let cloud = Brightbox::start().await.unwrap();
    let url = cloud.url();
    tell(
        &url,
        "behaviour",
        json!({ "keeps_last_node": true, "invalid_domains": ["a.example"] }),
    )
    .await;
    cloud.adjust(|all| {
        assert!(all.keeps_last_node && !all.takes_no_nodes);
        assert!(all.invalid_domains.contains("a.example"));
    });
    for odd in [
        json!({ "keeps_last_node": 1 }),
        json!({ "invalid_domains": "a.example" }),
        json!({ "creating": true }),
    ] {
        assert_eq!(told(&url, "behaviour", &odd).await.status, 400, "{odd}");
    }
}
