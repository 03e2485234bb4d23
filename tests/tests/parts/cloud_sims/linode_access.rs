//! What a token of the simulated Linode may do, and how the rest is refused.

use http::StatusCode;
use mooring_cloud_sim::linode::{Access, Entity, Grants, Linode, Right};
use serde_json::{Value, json};

use crate::cloud_sims::client::{Answer, ask, get, send};
use crate::cloud_sims::node_balancers::{
    balancer, delete, made, path, post, put, read, with_backends,
};

fn reason(answer: &Answer) -> String {
    let reason = answer.json()["errors"][0]["reason"].clone();
    reason.as_str().unwrap().to_owned()
}

async fn status(linode: &Linode, path: &str) -> u16 {
    get(&linode.url(), &format!("/v4{path}")).await.status
}

#[tokio::test]
async fn a_token_without_the_scope_is_refused() {
    let linode = with_backends().await;
    let first = made(&linode, "/nodebalancers", &balancer("ccm-1")).await;
    linode.allow(Access {
        scopes: Some(vec![
            "linodes:read_only",
            "nodebalancers:read_only",
            "ips:read_write",
        ]),
        ..Access::default()
    });
    for (path, right) in [
        ("/linode/instances", 200),
        ("/nodebalancers", 200),
        ("/networking/reserved/ips", 200),
        ("/vpcs", 401),
        ("/networking/firewalls", 401),
        ("/profile", 401),
    ] {
        assert_eq!(status(&linode, path).await, right, "{path}");
    }
    for refused in [
        post(&linode, "/nodebalancers", &balancer("ccm-2")).await,
        put(&linode, &path(&first), &json!({ "label": "ccm-3" })).await,
        delete(&linode, &path(&first)).await,
    ] {
        assert_eq!(refused.status, 401);
        assert_eq!(
            reason(&refused),
            "Your OAuth token is not authorized to use this endpoint."
        );
        assert_eq!(
            refused.header("x-accepted-oauth-scopes"),
            "nodebalancers:read_write"
        );
        let scopes = "linodes:read_only nodebalancers:read_only ips:read_write";
        assert_eq!(refused.header("x-oauth-scopes"), scopes);
    }
    let unknown = ask(&linode.url(), "GET", "/v4/nodebalancers", &[])
        .await
        .unwrap();
    assert_eq!(unknown.header("x-oauth-scopes"), "unknown");
    assert_eq!(reason(&unknown), "Invalid Token");
    linode.allow(Access::default());
    let all = get(&linode.url(), "/v4/nodebalancers").await;
    assert_eq!(all.header("x-oauth-scopes"), "*");
    assert_eq!(all.json()["data"][0]["label"], "ccm-1");
}

#[tokio::test]
async fn a_restricted_user_meets_only_what_is_granted() {
    let linode = with_backends().await;
    let [looked_at, hidden] = [
        made(&linode, "/nodebalancers", &balancer("looked-at")).await,
        made(&linode, "/nodebalancers", &balancer("hidden")).await,
    ];
    let of_others = linode.put_firewall(&json!({ "label": "of-others" }));
    assert_eq!(status(&linode, "/profile/grants").await, 204);
    let instance = read(&linode, "/linode/instances").await["data"][0]["id"]
        .as_u64()
        .unwrap();
    let grants = Grants {
        of: [
            ((Entity::Linode, instance), Right::ReadOnly),
            (
                (Entity::NodeBalancer, looked_at["id"].as_u64().unwrap()),
                Right::ReadOnly,
            ),
        ]
        .into(),
        ..Grants::default()
    };
    for refusal in [StatusCode::FORBIDDEN, StatusCode::NOT_FOUND] {
        let grants = Grants {
            refusal,
            ..grants.clone()
        };
        linode.allow(Access {
            grants: Some(grants),
            ..Access::default()
        });
        assert_eq!(read(&linode, "/linode/instances").await["results"], 1);
        assert_eq!(
            read(&linode, "/nodebalancers").await["data"],
            json!([looked_at])
        );
        assert_eq!(read(&linode, "/networking/firewalls").await["results"], 0);
        assert_eq!(status(&linode, &path(&looked_at)).await, 200);
        let write = put(&linode, &path(&looked_at), &json!({ "label": "mine" })).await;
        assert_eq!((write.status, &*reason(&write)), (403, "Unauthorized"));
        let configs = format!("{}/configs", path(&hidden));
        for path in [&path(&hidden), &configs] {
            assert_eq!(status(&linode, path).await, refusal.as_u16(), "{path}");
        }
        assert_eq!(
            delete(&linode, &path(&hidden)).await.status,
            refusal.as_u16()
        );
    }
    assert_eq!(read(&linode, "/profile").await["restricted"], true);

    let own = made(&linode, "/nodebalancers", &balancer("own")).await;
    let granted = read(&linode, "/profile/grants").await["nodebalancer"].clone();
    assert_eq!(granted[1]["permissions"], "read_write");
    assert_eq!(granted[1]["id"], own["id"]);
    let attach = json!({ "firewall_ids": [of_others] });
    let refused = put(&linode, &format!("{}/firewalls", path(&own)), &attach).await;
    assert_eq!(reason(&refused), "There is no such firewall");
    let rules = json!({ "inbound_policy": "DROP", "outbound_policy": "ACCEPT" });
    let firewall = json!({ "label": "own", "rules": rules });
    let firewall = made(&linode, "/networking/firewalls", &firewall).await;
    let devices = format!("/networking/firewalls/{}/devices", firewall["id"]);
    let device = json!({ "type": "nodebalancer", "id": hidden["id"] });
    assert_eq!(post(&linode, &devices, &device).await.status, 400);
    assert_eq!(delete(&linode, &path(&own)).await.status, 200);
}

#[tokio::test]
async fn a_restricted_user_may_be_refused_to_add_anything() {
    let linode = with_backends().await;
    let grants = Grants {
        adds_node_balancers: false,
        adds_firewalls: false,
        ..Grants::default()
    };
    linode.allow(Access {
        grants: Some(grants),
        ..Access::default()
    });
    for path in ["/nodebalancers", "/networking/firewalls"] {
        let refused = post(&linode, path, &Value::Null).await;
        assert_eq!(
            (refused.status, &*reason(&refused)),
            (403, "Unauthorized"),
            "{path}"
        );
        assert_eq!(status(&linode, path).await, 200, "{path}");
    }
}

#[tokio::test]
async fn an_account_without_reserved_addresses_is_told_so() {
    let linode = with_backends().await;
    linode.allow(Access {
        reserves: false,
        ..Access::default()
    });
    let reserve = json!({ "region": "eu-central" });
    for refused in [
        send(
            &linode.url(),
            "POST",
            "/v4beta/networking/reserved/ips",
            &reserve,
        )
        .await,
        delete(&linode, "/networking/reserved/ips/198.18.0.1").await,
    ] {
        assert_eq!(refused.status, 404);
        assert!(reason(&refused).starts_with("Account doesn't have permission"));
    }
    linode.allow(Access::default());
    let reserved = made(&linode, "/networking/reserved/ips", &reserve).await;
    assert_eq!(
        (&reserved["reserved"], &reserved["linode_id"]),
        (&json!(true), &Value::Null)
    );
}
