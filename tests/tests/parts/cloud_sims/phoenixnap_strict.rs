//! What PhoenixNAP refuses, and how it says so.

use mooring_cloud_sim::phoenixnap::{Kind, Phoenixnap, TOKEN_PATH};
use serde_json::{Value, json};

use crate::cloud_sims::client::tell;
use crate::cloud_sims::phoenixnap::{send, token};

#[tokio::test]
async fn what_is_missing_unknown_or_wrong_is_not_made() {
    let cloud = Phoenixnap::start().await.unwrap();
    let block = json!({ "location": "PHX", "cidrBlockSize": "/29" });
    let tag = json!({ "name": "usage", "isBillingTag": false });
    let group = json!({ "location": "PHX", "asn": 65401, "advertisedRoutes": "NONE" });
    for (kind, good, wrong) in [
        (
            Kind::Block,
            &block,
            vec![
                ("location", json!(null)),
                ("location", json!("phx")),
                ("cidrBlockSize", json!(null)),
                ("cidrBlockSize", json!("29")),
                ("cidrBlockSize", json!("/27")),
                ("cidrBlockSize", json!(29)),
                ("cidrBlockSize", json!("/64")),
                ("ipVersion", json!("v4")),
                ("description", json!("x".repeat(251))),
                ("tags", json!({ "usage": "auto" })),
                ("tags", json!([{ "value": "auto" }])),
                ("tags", json!([{ "name": "kube-system.web" }])),
                ("surprise", json!(1)),
            ],
        ),
        (
            Kind::Tag,
            &tag,
            vec![
                ("name", json!(null)),
                ("name", json!("")),
                ("name", json!("with space")),
                ("name", json!("a/b")),
                ("name", json!("x".repeat(101))),
                ("isBillingTag", json!(null)),
                ("isBillingTag", json!("no")),
                ("value", json!("auto")),
            ],
        ),
        (
            Kind::PeerGroup,
            &group,
            vec![
                ("location", json!(null)),
                ("asn", json!(0)),
                ("advertisedRoutes", json!("ALL")),
                ("password", json!("short")),
                ("surprise", json!(1)),
            ],
        ),
    ] {
        for (field, value) in wrong {
            let mut body = good.clone();
            body[field] = value.clone();
            let refused = send(&cloud, "POST", kind.path(), &body).await;
            assert_eq!(refused.status, 400, "{body}: {refused:?}");
            let refused = refused.json();
            let errors = refused["validationErrors"].as_array().unwrap();
            assert!(
                !errors.is_empty() && refused["message"].is_string(),
                "{refused}"
            );
        }
        assert_eq!(cloud.all(kind), [Value::Null; 0]);
        let made = send(&cloud, "POST", kind.path(), good).await;
        assert!([201, 202].contains(&made.status), "{made:?}");
    }
    let several = send(
        &cloud,
        "POST",
        Kind::Block.path(),
        &json!({ "a": 1, "b": 2 }),
    )
    .await;
    let errors = several.json()["validationErrors"].as_array().unwrap().len();
    assert_eq!(errors, 4, "all that is wrong is said at once");
}

#[tokio::test]
async fn what_is_no_json_is_refused_and_so_is_a_method_that_is_not_there() {
    let cloud = Phoenixnap::start().await.unwrap();
    let bearer = format!("Bearer {}", token(&cloud).await);
    let post = async |kind: &str, body: &str| {
        let length = body.len().to_string();
        let headers = [
            ("Authorization", &*bearer),
            ("Content-Type", kind),
            ("Content-Length", &*length),
        ];
        let path = Kind::Block.path();
        tell(&cloud.url(), "POST", path, &headers, body)
            .await
            .unwrap()
            .status
    };
    assert_eq!(post("text/plain", "{}").await, 415);
    assert_eq!(post("application/json", "{").await, 400);
    assert_eq!(post("application/json", "[]").await, 400);
    assert_eq!(
        send(&cloud, "PUT", Kind::Block.path(), &json!({}))
            .await
            .status,
        405
    );
    assert_eq!(
        send(&cloud, "GET", TOKEN_PATH, &Value::Null).await.status,
        405
    );
}

#[tokio::test]
async fn a_tag_that_is_renamed_or_deleted_is_so_on_all_that_has_it() {
    let cloud = Phoenixnap::start().await.unwrap();
    let block = cloud.put(
        Kind::Block,
        json!({ "tags": { "usage": "auto", "cluster": "a" } }),
    );
    let id = |name: &str| {
        let mut tags = cloud.all(Kind::Tag);
        tags.retain(|tag| tag["name"] == name);
        tags[0]["id"].as_str().unwrap().to_owned()
    };
    let path = format!("{}/{}", Kind::Tag.path(), id("usage"));
    let body = json!({ "name": "use", "isBillingTag": false });
    assert_eq!(send(&cloud, "PATCH", &path, &body).await.status, 200);
    assert_eq!(cloud.tagged(&[("use", "auto")]).len(), 1);
    assert_eq!(
        send(&cloud, "DELETE", &path, &Value::Null).await.status,
        200
    );
    let left = cloud.get(Kind::Block, &block).unwrap();
    assert_eq!(left["tags"].as_array().unwrap().len(), 1);
    let taken = json!({ "name": "cluster", "isBillingTag": false });
    assert_eq!(
        send(&cloud, "POST", Kind::Tag.path(), &taken).await.status,
        409
    );
}
