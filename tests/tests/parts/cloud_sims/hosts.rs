//! Links in answers lead to where the request was sent, whatever it was called there.

use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::brightbox::Brightbox;
use mooring_cloud_sim::cloudscale::{Cloudscale, Interface, Machine};
use serde_json::json;

use crate::cloud_sims::client::{Answer, HOST, tell};
use crate::cloud_sims::{brightbox, client};

const ELSEWHERE: &str = "cloud.example:8080";

/// A request to a host, with a token and perhaps a body.
async fn at_host(
    host: &str,
    url: &str,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Answer {
    let (token, length) = (format!("Bearer {token}"), body.len().to_string());
    let headers = [
        (HOST, host),
        ("Authorization", token.as_str()),
        ("Content-Type", "application/json"),
        ("Content-Length", &length),
    ];
    tell(url, method, path, &headers, body)
        .await
        .expect("an answer")
}

#[tokio::test]
async fn links_of_cloudscale_lead_to_the_host_of_the_request() {
    let cloud = Cloudscale::start().await.unwrap();
    let private = Interface::private().address("10.0.0.1");
    let uuid = cloud.add(Machine::named("n1").interface(private.clone()));
    let (url, path) = (cloud.url(), format!("/v1/servers/{uuid}"));
    let shown = at_host(ELSEWHERE, &url, TOKEN, "GET", &path, "").await;
    let server = shown.json();
    assert_eq!(server["href"], format!("http://{ELSEWHERE}{path}"));
    let network = &server["interfaces"][0];
    for (at, kind) in [
        (&network["network"], "networks"),
        (&network["addresses"][0]["subnet"], "subnets"),
    ] {
        let uuid = at["uuid"].as_str().expect("a UUID");
        assert_eq!(at["href"], format!("http://{ELSEWHERE}/v1/{kind}/{uuid}"));
    }
    assert_eq!(shown.ended, client::Ended::Whole, "the length is right");
    assert!(!shown.body.contains(&url), "{}", shown.body);

    cloud.set(&uuid, "interfaces", json!([private.into_value()]));
    let listed = at_host(ELSEWHERE, &url, TOKEN, "GET", "/v1/servers", "").await;
    let href = &listed.json()[0]["interfaces"][0]["network"]["href"];
    assert!(
        href.as_str()
            .unwrap()
            .starts_with("http://cloud.example:8080/"),
        "{href}"
    );
    let body = json!({ "name": "lb", "flavor": "lb-standard", "vip_addresses": [] }).to_string();
    let path = "/v1/load-balancers";
    let made = at_host(ELSEWHERE, &url, TOKEN, "POST", path, &body).await;
    let href = made.json()["href"].clone();
    assert!(
        href.as_str()
            .unwrap()
            .starts_with("http://cloud.example:8080/v1/load-balancers/"),
        "{href}"
    );
    let own = client::get(&url, path).await.json()[0]["href"].clone();
    assert!(own.as_str().unwrap().starts_with(&url), "{own}");
}

#[tokio::test]
async fn links_of_brightbox_lead_to_the_host_of_the_request() {
    let cloud = Brightbox::start().await.unwrap();
    let token = brightbox::token(&cloud).await;
    let path = "/1.0/cloud_ips";
    let made = at_host(ELSEWHERE, &cloud.url(), &token, "POST", path, "{}").await;
    let shown = made.json();
    let wanted = format!("http://{ELSEWHERE}{path}/{}", shown["id"].as_str().unwrap());
    assert_eq!(made.header("location"), wanted);
    assert_eq!(shown["url"], wanted);
    let account = shown["account"]["url"].as_str().unwrap();
    assert!(
        account.starts_with("http://cloud.example:8080/1.0/accounts/"),
        "{account}"
    );
}
