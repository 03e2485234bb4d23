//! What the command line does.

use std::process::{Command, Output};

use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use mooring_common::names::taints;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::cluster::has_taint;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_cluster::test_namespace::{SOON, is_untouched};
use mooring_test_support::program::Program;
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::never;

fn run(args: &[&str]) -> Output {
    let mut central = Command::new(Program::Central.path().unwrap());
    central.args(args).output().unwrap()
}

#[tokio::test]
async fn pr_10_without_the_service_controller_no_service_is_touched() {
    let cluster = Cluster::exclusive().await;
    let nodes = Api::<Node>::all(cluster.admin.clone());
    let namespace = cluster.namespace_with_network(32).await;
    for without in [
        "--controllers=-service",
        "--controllers=*,-service",
        "--controllers=*,-service-lb-controller",
    ] {
        let _central = cluster
            .start_central(CentralFlags::alone().with(without))
            .await;
        namespace.create("web").await;
        // One of the two machines that are built in.
        let node = NodeBuilder::new("master-c2-1").tainted().ready();
        node.create(&cluster.admin).await.unwrap();
        let initialised = async || {
            let node = nodes.get("master-c2-1").await.unwrap();
            !has_taint(&node, taints::UNINITIALIZED)
        };
        never(
            &format!("a Service is touched with {without}"),
            SOON,
            initialised,
            async || {
                let service = namespace.get("web").await;
                (!is_untouched(&service)).then(|| format!("{service:?}"))
            },
        )
        .await;
        assert!(namespace.events("web").await.is_empty());
        namespace.delete("web").await;
        nodes
            .delete("master-c2-1", &Default::default())
            .await
            .unwrap();
    }
    cluster.finish().await;
}

#[tokio::test]
async fn pr_10_without_the_node_controllers_services_are_served() {
    let cluster = Cluster::exclusive().await;
    let nodes = Api::<Node>::all(cluster.admin.clone());
    let namespace = cluster.namespace_with_network(32).await;
    let only = CentralFlags::alone().with("--controllers=service-lb-controller");
    let _central = cluster.start_central(only).await;
    let node = NodeBuilder::new("master-c2-1").tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    namespace.create("web").await;
    namespace.served("web").await;
    let node = nodes.get("master-c2-1").await.unwrap();
    assert!(has_taint(&node, taints::UNINITIALIZED));
    nodes
        .delete("master-c2-1", &Default::default())
        .await
        .unwrap();
    cluster.finish().await;
}

#[test]
fn pr_21_several_configuration_errors_are_reported_at_once() {
    let output = run(&[
        "--cloud-provider=nowhere",
        "--node-monitor-period=often",
        "--secure-port=99999",
        "--controllers=*,-servcie",
        "--leader-elect-lease-duration=5s",
        "--leader-elect-renew-deadline=10s",
        "--tls-cert-file=/nonexistent.pem",
        "--leader-elect-resource-lock=configmaps",
    ]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in [
        "nowhere",
        "often",
        "99999",
        "servcie",
        "--leader-elect-lease-duration > --leader-elect-renew-deadline",
        "--tls-private-key-file",
        "configmaps",
    ] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
    let misspelt = run(&["--cloud-provider=cloudlycke", "--concurent-service-syncs=3"]);
    let told = String::from_utf8_lossy(&misspelt.stderr);
    assert_eq!(misspelt.status.code(), Some(2), "{told}");
    assert!(told.contains("concurrent-service-syncs"), "{told}");
}

#[test]
fn pr_21_a_machines_file_is_refused_with_all_its_faults() {
    let scratch = Scratch::new("machines").unwrap();
    let file = scratch.path().join("machines.yaml");
    std::fs::write(
        &file,
        "version: 1\nscheme: \"no scheme\"\nnodes:\n  - match: {cidr: 10.0.0.0/99}\n    id: a b\n",
    )
    .unwrap();
    let config = format!("--cloud-config={}", file.display());
    let output = run(&[
        "--cloud-provider=cloudlycke",
        "--kubeconfig=/nonexistent",
        &config,
    ]);
    let told = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    for part in [
        "machines.yaml",
        "no scheme",
        "nodes[0].match.cidr",
        "\"a b\"",
    ] {
        assert!(told.contains(part), "{part} is missing:\n{told}");
    }
}

#[test]
fn help_version_and_a_missing_kubeconfig() {
    let version = run(&["--version"]);
    assert!(version.status.success());
    let help = run(&["--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("--leader-elect-renew-deadline"));
    let output = run(&["--cloud-provider=cloudlycke", "--kubeconfig=/nonexistent"]);
    let told = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("check --kubeconfig"), "{told}");
}
