//! Started in the place of the old controller, central does the same work with the same rights.

use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::Api;
use mooring_cloud_sim::cloud::Server;
use mooring_common::names::{reasons, taints};
use mooring_test_cluster::cluster::{has_taint, provider_id};
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, events_for};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

use super::cluster::{CLOUDSCALE, Container, SOON, UpstreamCluster};

/// What the integration tests of the old controller do not want to find in its log.
const COMPLAINTS: [&str; 4] = ["error", "Error", "warn", "Warn"];

/// Asserts that nothing that was logged looks like a complaint.
fn assert_no_complaint(central: &Process) {
    let log = central.log();
    let complaint = log
        .lines()
        .find(|line| COMPLAINTS.iter().any(|word| line.contains(word)));
    assert_eq!(complaint, None, "in the log:\n{log}");
}

/// Deleting a Node takes a few of the periods in which silent Nodes are looked at.
const PERIODS: Duration = Duration::from_secs(60);

pub(crate) fn has_address(service: &Service) -> bool {
    let status = service.status.as_ref();
    let ingress = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
    ingress.is_some_and(|all| !all.is_empty())
}

/// From the start to the end: two Nodes, one from before, which goes, and a Service.
pub(crate) async fn does_the_work_of_the_old_one(
    cluster: UpstreamCluster,
    container: Container,
    name: &str,
    because: &str,
) {
    let admin = cluster.cp.admin();
    let nodes = Api::<Node>::all(admin.clone());
    let add = |node: &str, address: &str| cluster.cloud.add(Server::named(node).private(address));
    let ids = [
        add("from-before", "192.168.130.1"),
        add("joins", "192.168.130.2"),
    ];
    let tainted = |node: &str| NodeBuilder::new(node).tainted().ready().create(&admin);
    tainted("from-before").await.unwrap();

    let (central, endpoints) = cluster.central(name, container);
    for (node, id) in ["from-before", "joins"].into_iter().zip(&ids) {
        if node == "joins" {
            tainted(node).await.unwrap();
        }
        eventually(&format!("{node} is initialised"), SOON, async || {
            let node = nodes.get(node).await.unwrap();
            !has_taint(&node, taints::UNINITIALIZED) && provider_id(&node) == Some(id)
        })
        .await;
        eventually("an Event says so", SOON, async || {
            let events = events_for(&admin, "Node", None, node).await.unwrap();
            let synced = events.into_iter().find(|e| e.reason == reasons::SYNCED);
            synced.map(|event| event.reporter == "cloud-node-controller")
        })
        .await;
    }
    assert_eq!(endpoints.status("/healthz").await, Some(200));
    cluster.cloud.remove(&ids[0]);
    let silent = NodeBuilder::set_condition(&admin, "from-before", "Ready", "Unknown");
    silent.await.unwrap();
    eventually("its Node is deleted", PERIODS, async || {
        nodes.get_opt("from-before").await.unwrap().is_none()
    })
    .await;
    let service = ServiceBuilder::load_balancer("default", "web").port(80, 8080);
    service.create(&admin).await.unwrap();
    let services = Api::<Service>::namespaced(admin.clone(), "default");
    eventually("the Service has an address", PERIODS, async || {
        has_address(&services.get("web").await.unwrap())
    })
    .await;
    // A whole lease renewal, and a look at Nodes that are not Ready.
    let renewals = async || {
        let log = cluster.cp.audit_settled().await;
        log.of("leases").with_verb("update").len()
    };
    let before = renewals().await;
    eventually("the lease is renewed", SOON, async || {
        renewals().await > before + 1
    })
    .await;
    central.terminate().unwrap();
    assert_eq!(central.wait_for_code(SOON).await, 0);

    let log = central.log();
    assert!(log.contains(because), "{because:?} is missing:\n{log}");
    assert_no_complaint(&central);
    cluster.assert_no_forbidden().await;
}

async fn of_cloudscale(name: &str, because: &str) {
    let cluster = UpstreamCluster::start(CLOUDSCALE).await;
    let container = cluster.container();
    does_the_work_of_the_old_one(cluster, container, name, because).await;
}

#[tokio::test]
async fn by_the_name_that_the_manifest_calls() {
    let because = "because=\"started as cloudscale-cloud-controller-manager\"";
    of_cloudscale(CLOUDSCALE.old_name, because).await;
}

#[tokio::test]
async fn by_its_own_name_with_the_credentials_of_the_manifest() {
    let because = "because=\"CLOUDSCALE_ACCESS_TOKEN is set\"";
    of_cloudscale("mooring-central", because).await;
}

#[test]
fn credentials_of_two_clouds_are_not_chosen_from() {
    let mut central = Command::new(Program::Central.path().unwrap());
    central.env("CLOUDSCALE_ACCESS_TOKEN", "secret-1");
    let output = central
        .env("LINODE_API_TOKEN", "secret-2")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    for part in [
        "CLOUDSCALE_ACCESS_TOKEN",
        "LINODE_API_TOKEN",
        "--cloud-provider=cloudscale",
    ] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
    assert!(!told.contains("secret"), "{told}");
}
