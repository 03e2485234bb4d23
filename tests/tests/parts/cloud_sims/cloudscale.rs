//! The API of cloudscale.ch, simulated.

use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::cloudscale::{Cloudscale, Interface, Machine};
use serde_json::{Value, json};

use crate::cloud_sims::client::{ask, get};

fn names(list: &Value) -> Vec<&str> {
    let rows = list.as_array().expect("a list");
    rows.iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_server_has_what_the_api_shows() {
    let cloud = Cloudscale::start().await.unwrap();
    let public = Interface::public()
        .address("5.102.144.1")
        .address("2a06:c01:bb::1");
    let machine = Machine::named("worker-1").flavor("flex-4-2").zone("rma1");
    let machine = machine.interface(public);
    let uuid = cloud.add(machine.interface(Interface::private().address("10.0.0.1")));
    let shown = get(&cloud.url(), &format!("/v1/servers/{uuid}"))
        .await
        .json();
    assert_eq!(shown["href"], format!("{}/v1/servers/{uuid}", cloud.url()));
    assert_eq!(
        (&shown["uuid"], &shown["status"]),
        (&json!(uuid), &json!("running"))
    );
    assert_eq!(
        (&shown["flavor"]["slug"], &shown["zone"]["slug"]),
        (&json!("flex-4-2"), &json!("rma1"))
    );
    let [public, private] = [0, 1].map(|index| &shown["interfaces"][index]);
    assert_eq!(
        (&public["type"], &private["type"]),
        (&json!("public"), &json!("private"))
    );
    assert_eq!(public["addresses"][1]["version"], 6);
    assert_eq!(public["addresses"][0]["subnet"], Value::Null);
    assert!(private["addresses"][0]["subnet"]["uuid"].is_string());
    let listed = get(&cloud.url(), "/v1/servers").await;
    assert_eq!((listed.status, listed.json()), (200, json!([shown])));

    cloud.set(&uuid, "status", "stopped");
    let stopped = get(
        &cloud.url(),
        &format!("/v1/servers/{}", uuid.to_uppercase()),
    )
    .await;
    assert_eq!(stopped.json()["status"], "stopped");
    assert!(cloud.remove(&uuid));
    let gone = get(&cloud.url(), &format!("/v1/servers/{uuid}")).await;
    assert_eq!(
        (gone.status, gone.json()),
        (404, json!({ "detail": "Not found." }))
    );
    assert_eq!(get(&cloud.url(), "/v1/servers").await.json(), json!([]));
}

#[tokio::test]
async fn tags_choose_servers_and_nothing_is_paged() {
    let cloud = Cloudscale::start().await.unwrap();
    cloud.add(Machine::named("a").tag("cluster", "one"));
    cloud.add(
        Machine::named("b")
            .tag("cluster", "two")
            .tag("role", "worker"),
    );
    for index in 0..600 {
        cloud.add(Machine::named(&format!("n{index}")));
    }
    let ask = async |query: &str| {
        get(&cloud.url(), &format!("/v1/servers{query}"))
            .await
            .json()
    };
    assert_eq!(names(&ask("").await).len(), 602);
    assert_eq!(names(&ask("?page=2&page_size=25").await).len(), 602);
    for (query, expected) in [
        ("?tag:cluster=one", vec!["a"]),
        ("?tag%3Acluster=two", vec!["b"]),
        ("?tag:cluster", vec!["a", "b"]),
        ("?tag:cluster&tag:role=worker", vec!["b"]),
        ("?tag:cluster=one&tag:role=worker", vec![]),
        ("?tag:cluster=", vec![]),
    ] {
        assert_eq!(names(&ask(query).await), expected, "{query}");
    }
}

#[tokio::test]
async fn who_has_no_token_and_what_does_not_exist_is_told_so() {
    let cloud = Cloudscale::start().await.unwrap();
    let url = cloud.url();
    for (headers, detail) in [
        (&[][..], "Authentication credentials were not provided."),
        (&[("Authorization", "Bearer wrong")], "Invalid token."),
    ] {
        let refused = ask(&url, "GET", "/v1/servers", headers).await.unwrap();
        assert_eq!(
            (refused.status, refused.json()),
            (401, json!({ "detail": detail }))
        );
    }
    for path in ["/v1/nothing", "/", "/servers", "/v1/servers/none-of-ours"] {
        let missing = get(&url, path).await;
        assert_eq!(
            (missing.status, missing.json()),
            (404, json!({ "detail": "Not found." }))
        );
    }
    let token = format!("Bearer {TOKEN}");
    let refused = ask(&url, "DELETE", "/v1/servers", &[("Authorization", &token)])
        .await
        .unwrap();
    let detail = json!({ "detail": "Method \"DELETE\" not allowed." });
    assert_eq!((refused.status, refused.json()), (405, detail));
    assert!(
        cloud.calls().writes().len() == 1,
        "{}",
        cloud.calls().summary()
    );
}
