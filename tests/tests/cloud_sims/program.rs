//! The program with which any controller can be pointed at a simulated cloud.

use std::time::Duration;

use mooring_tests::cloud_sim::TOKEN;
use mooring_tests::process::Process;
use mooring_tests::program::Program;
use mooring_tests::scratch::Scratch;
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::client::get;

const SOON: Duration = Duration::from_secs(10);

/// Starts the program with this state, and gives its address.
async fn started(scratch: &Scratch, provider: &str, state: &str) -> (Process, String) {
    let file = scratch.join("state.json");
    std::fs::write(&file, state).unwrap();
    let flags = [
        format!("--provider={provider}"),
        format!("--state={}", file.display()),
    ];
    let process = Program::CloudSim.start(scratch.path(), flags).unwrap();
    let url = eventually("it tells its address and its token", SOON, async || {
        let log = process.log();
        let url = log.split_once("_URL=")?.1.lines().next()?.to_owned();
        log.contains(TOKEN).then_some(url)
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
    let flags = ["--provider=cloudscale".to_owned(), state];
    let process = Program::CloudSim.start(scratch.path(), flags).unwrap();
    assert_eq!(process.wait_for_code(SOON).await, 1);
    assert!(process.log().contains("serverz"), "{}", process.log());
}
