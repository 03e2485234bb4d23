//! What keeps the program from starting, and what does not.

use std::process::Command;
use std::time::Duration;

use mooring_cloud_sim::phoenixnap::{CLIENT_SECRET, Kind};
use mooring_test_cluster::cluster::logged;
use mooring_test_support::program::Program;
use serde_json::json;

use crate::phoenixnap_nodes::cluster::CloudCluster;
use crate::phoenixnap_nodes::phoenixnap;

const SOON: Duration = Duration::from_secs(10);

/// Starts the program with nothing but this environment, and gives what it says and its exit code.
fn started(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut central = Command::new(Program::Central.path().unwrap());
    central.env_clear().args(arguments);
    central.envs(environment.iter().copied());
    let output = central.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), told)
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cloud-sa.json");
    let content = json!({"clientSecret": "s3cr3t", "base-url": "not an address"});
    std::fs::write(&file, content.to_string()).unwrap();
    let config = format!("--cloud-config={}", file.display());
    let (code, told) = started(
        &["--cloud-provider=phoenixnap", &config],
        &[
            ("PNAP_LOAD_BALANCER", "metallb:///kube-system/config"),
            ("PNAP_API_SERVER_PORT", "https"),
        ],
    );
    assert_eq!(code, Some(1), "{told}");
    for part in [
        "PNAP_CLIENT_ID: must be set",
        "base-url in --cloud-config=not an address",
        "PNAP_LOAD_BALANCER=metallb:///kube-system/config: asks for metallb",
        "write kube-vip://NETWORK",
        "PNAP_API_SERVER_PORT=https: must be a number",
    ] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
    assert!(!told.contains("s3cr3t"), "{told}");
}

#[test]
fn a_size_of_blocks_that_does_not_exist_is_told_with_those_that_do() {
    let (code, told) = started(
        &[
            "--cloud-provider=phoenixnap",
            "--ip-block-size=/24",
            "--max-ip-blocks=many",
        ],
        &[],
    );
    assert_eq!(code, Some(2), "{told}");
    for part in [
        "--ip-block-size=/24: write /28",
        "--max-ip-blocks=many: write a whole",
    ] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
}

/// B27.
#[test]
fn the_provider_is_known_in_capitals_too() {
    for provider in ["PhoenixNAP", "PHOENIXNAP", "phoenixnap"] {
        let provider = format!("--cloud-provider={provider}");
        let (code, told) = started(&[&provider], &[]);
        assert_eq!(code, Some(1), "{told}");
        assert!(told.contains("PNAP_CLIENT_ID: must be set"), "{told}");
    }
}

#[tokio::test]
async fn a_network_is_looked_at_with_one_request() {
    let cluster = CloudCluster::start().await;
    let cloud = phoenixnap(&cluster);
    let network = cloud.add_network("services", "PHX");
    let setting = format!("kube-vip:///{network}");
    let central = cluster.for_cloud().env("PNAP_LOAD_BALANCER", &setting);
    let central = central.flag("--controllers=cloud-node").try_start().await;
    logged(&central, "the public network is there").await;
    logged(&central, &network).await;
    let path = format!("/networks/v1/public-networks/{network}");
    let asked = cluster.cloud.calls().filter(|call| call.path == path);
    assert_eq!(asked.len(), 1, "{}", asked.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn a_network_that_is_not_there_or_elsewhere_keeps_it_from_starting() {
    let cluster = CloudCluster::start().await;
    let network = phoenixnap(&cluster).add_network("services", "ASH");
    for (setting, told) in [
        (
            "l2://60473c25ffffffff00004711",
            "there is no such public network",
        ),
        (&*format!("l2://{network}"), "is in ASH, and an IP block"),
    ] {
        let central = cluster.for_cloud().env("PNAP_LOAD_BALANCER", setting);
        let central = central.env("PNAP_LOCATION", "PHX").try_start().await;
        assert_eq!(central.wait_for_code(SOON).await, 1);
        let log = central.log();
        assert!(log.contains(told), "{told} is missing:\n{log}");
        assert!(!log.contains(CLIENT_SECRET), "{log}");
    }
    cluster.finish().await;
}

/// Nothing gives them back then, and they are billed.
#[tokio::test]
async fn marked_blocks_are_named_where_services_get_no_addresses() {
    let cluster = CloudCluster::start().await;
    let tags = json!({
        "usage": "cloud-provider-phoenixnap-auto", "cluster": "theirs", "delete": "true",
    });
    let block = json!({ "cidr": "203.0.113.64/29", "tags": tags });
    let block = phoenixnap(&cluster).put(Kind::Block, block);
    let central = cluster.for_cloud().try_start().await;
    logged(&central, "PNAP_LOAD_BALANCER is empty").await;
    logged(&central, &block).await;
    cluster.finish().await;
}
