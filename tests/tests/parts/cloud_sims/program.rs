//! The program with which any controller can be pointed at a simulated cloud.

use std::time::Duration;

use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::phoenixnap::{CLIENT_ID, CLIENT_SECRET, TOKEN_PATH};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::cloud_sims::client::{ask, get, send, tell, try_get};

const SOON: Duration = Duration::from_secs(10);

/// Starts the program with this state, and gives its address.
async fn started(scratch: &Scratch, provider: &str, state: &str) -> (Process, String) {
    let file = scratch.join("state.json");
    std::fs::write(&file, state).unwrap();
    let flags = [provider.to_owned(), format!("--state={}", file.display())];
    let process = Program::CloudSim.start(scratch.path(), flags).unwrap();
    let url = eventually("it tells its address and its token", SOON, async || {
        let log = process.log();
        let url = log.split_once("_URL=")?.1.lines().next()?.to_owned();
        let credentials = [TOKEN, CLIENT_SECRET];
        credentials
            .iter()
            .any(|credential| log.contains(credential))
            .then_some(url)
    })
    .await;
    (process, url)
}

#[tokio::test]
async fn it_serves_what_is_in_its_file() {
    let scratch = Scratch::new("cloud-sim").unwrap();
    let state = json!({
        "instances": [{ "label": "n1", "id": 7, "ipv4": ["192.0.2.1"] }],
        "vpcs": [{ "id": 3, "label": "net", "subnets": [{ "id": 4, "label": "default" }],
                   "ips": [{ "subnet_id": 4, "linode_id": 7, "address": "10.0.0.7" }] }],
    });
    let (_linode, url) = started(&scratch, "linode", &state.to_string()).await;
    let instance = get(&url, "/v4/linode/instances/7").await.json();
    assert_eq!(
        (&instance["label"], &instance["status"]),
        (&json!("n1"), &json!("running"))
    );
    let ips = get(&url, "/v4/vpcs/3/ips").await.json();
    assert_eq!(ips["data"][0]["address"], "10.0.0.7");

    let state = json!({ "servers": [{ "name": "n2" }] }).to_string();
    let (_cloudscale, url) = started(&scratch, "cloudscale", &state).await;
    assert_eq!(get(&url, "/v1/servers").await.json()[0]["name"], "n2");
}

#[tokio::test]
async fn it_refuses_a_file_that_it_does_not_understand() {
    let scratch = Scratch::new("cloud-sim").unwrap();
    let file = scratch.join("state.json");
    std::fs::write(&file, r#"{"serverz": []}"#).unwrap();
    let state = format!("--state={}", file.display());
    let flags = ["cloudscale".to_owned(), state];
    let process = Program::CloudSim.start(scratch.path(), flags).unwrap();
    assert_eq!(process.wait_for_code(SOON).await, 1);
    assert!(process.log().contains("serverz"), "{}", process.log());
}

#[tokio::test]
async fn a_controller_from_outside_meets_what_it_is_told_to() {
    let scratch = Scratch::new("cloud-sim").unwrap();
    let marker = scratch.join("died");
    let flags = [
        "cloudscale".to_owned(),
        "--provisioning=0s".to_owned(),
        "--die-at=3".to_owned(),
        format!("--die-run=touch {}", marker.display()),
    ];
    let process = Program::CloudSim.start(scratch.path(), flags).unwrap();
    let url = eventually("it tells its address", SOON, async || {
        let log = process.log();
        let url = log.split_once("_URL=")?.1.lines().next()?.to_owned();
        log.contains(TOKEN).then_some(url)
    })
    .await;
    // Without a token, as a script asks; and it does not count as a call.
    let control = async |path: &str| ask(&url, "GET", path, &[]).await.unwrap().json();
    assert_eq!(control("/_sim/state").await["load_balancers"], json!([]));
    let body = json!({ "name": "lb", "flavor": "lb-standard", "vip_addresses": [] });
    let path = "/v1/load-balancers";
    let balancer = send(&url, "POST", path, &body).await.json();
    assert_eq!(
        control("/_sim/state").await["load_balancers"][0]["name"],
        "lb"
    );

    let fault = json!({ "path": path, "method": "get", "status": 429, "retry_after": 5 });
    assert_eq!(send(&url, "POST", "/_sim/faults", &fault).await.status, 204);
    let busy = get(&url, path).await;
    assert_eq!((busy.status, busy.header("retry-after")), (429, "5"));
    let odd = json!({ "fault": "earthquake" });
    assert_eq!(send(&url, "POST", "/_sim/faults", &odd).await.status, 400);
    let calls = control("/_sim/calls").await;
    assert_eq!(
        (&calls[0]["body"], &calls[1]["status"]),
        (&body, &json!(429))
    );
    assert!(!calls.to_string().contains(TOKEN));

    assert!(try_get(&url, path).await.is_none(), "the third is the last");
    eventually("what is to be run has run", SOON, async || marker.exists()).await;
    assert_eq!(get(&url, path).await.json()[0]["uuid"], balancer["uuid"]);
    let traffic = control("/_sim/traffic").await;
    assert_eq!(
        (
            &traffic["concurrent_writes"],
            &traffic["load_balancers"][0]["name"]
        ),
        (&json!(0), &json!("lb"))
    );

    let fault = json!({ "fault": "dropped", "times": 100 });
    send(&url, "POST", "/_sim/faults", &fault).await;
    assert!(try_get(&url, path).await.is_none());
    let cleared = send(&url, "DELETE", "/_sim/faults", &Value::Null).await;
    assert_eq!((cleared.status, get(&url, path).await.status), (204, 200));

    let away = json!({ "seconds": 0.2 });
    assert_eq!(send(&url, "POST", "/_sim/down", &away).await.status, 204);
    eventually("nobody is at home", SOON, async || {
        try_get(&url, path).await.is_none()
    })
    .await;
    eventually("somebody is again", SOON, async || {
        try_get(&url, path).await.is_some()
    })
    .await;
}

#[tokio::test]
async fn a_controller_from_outside_can_be_shown_phoenixnap() {
    let scratch = Scratch::new("cloud-sim").unwrap();
    let network = "60473c2509268bc77fd06d29";
    let state = json!({
        "servers": [{ "hostname": "n1" }],
        "networks": [{ "id": network, "vlanId": 77 }],
        "blocks": [{ "cidr": "203.0.113.8/29", "assignedResourceId": network,
                     "tags": { "usage": "auto" } }],
    });
    let (_process, url) = started(&scratch, "phoenixnap", &state.to_string()).await;
    let form = format!(
        "grant_type=client_credentials&client_id={CLIENT_ID}&client_secret={CLIENT_SECRET}"
    );
    let headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Content-Length", &*form.len().to_string()),
    ];
    let granted = tell(&url, "POST", TOKEN_PATH, &headers, &form).await;
    let token = granted.unwrap().json()["access_token"].clone();
    let bearer = format!("Bearer {}", token.as_str().unwrap());
    let asked = async |path: &str| {
        let headers = [("Authorization", bearer.as_str())];
        ask(&url, "GET", path, &headers).await.unwrap()
    };
    let block = asked("/ips/v1/ip-blocks?tag=usage.auto").await.json();
    assert_eq!(
        (&block[0]["status"], &block[0]["cidrBlockSize"]),
        (&json!("assigned"), &json!("/29"))
    );
    let control = async |path: &str| ask(&url, "GET", path, &[]).await.unwrap().json();
    let shown = control("/_sim/state").await;
    assert_eq!(shown["networks"][0]["ipBlocks"][0]["id"], block[0]["id"]);
    assert_eq!(control("/_sim/ledger").await["purchases"], json!([]));
    let calls = control("/_sim/calls").await.to_string();
    assert!(!calls.contains(CLIENT_SECRET) && !calls.contains(token.as_str().unwrap()));
    let later = json!({ "seconds": 301 });
    assert_eq!(
        send(&url, "POST", "/_sim/advance", &later).await.status,
        204
    );
    assert_eq!(asked("/bmc/v1/servers").await.status, 401);
}
