//! The guide of the change-over from Brightbox's Go controller, there and back again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeAddress};
use kube::api::{Api, Patch, PatchParams};
use mooring_cloud_sim::brightbox::{Brightbox, CLIENT_ID, CLIENT_SECRET, Kind};
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_common::names::labels;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::{BALANCERS, SuiteCloud, name, text, usual};
use crate::brightbox_services::cluster::{LoadBalancerCloud as _, SOON, assert_none};
use crate::brightbox_services::left_by_go::{cases, leave};
use crate::change_over::nodes::described;
use crate::change_over::{GuideCluster, NAMESPACE, OldController};

/// What Services have: accounts and servers show how much of that there is.
const OF_SERVICES: [Kind; 5] = [
    Kind::LoadBalancer,
    Kind::ServerGroup,
    Kind::FirewallPolicy,
    Kind::FirewallRule,
    Kind::CloudIp,
];

fn old_controller() -> OldController {
    OldController {
        cloud: Cloud::Brightbox,
        page: include_str!("../../../docs/how-to/brightbox.md"),
        manifest: "brightbox.yaml",
        name: "daemonset/brightbox-cloud-controller-manager",
        shown: "balancers",
        image: "brightbox/brightbox-cloud-controller-manager:1.35.2",
        credentials: "The credentials",
        placeholders: |cloud| {
            vec![
                ("cli-12345", CLIENT_ID.to_owned()),
                ("the secret", CLIENT_SECRET.to_owned()),
                ("https://api.gb1.brightbox.com", sim(cloud).url()),
            ]
        },
        in_manifest: |_| Vec::new(),
        everything: |cloud| {
            OF_SERVICES
                .map(|kind| sim(cloud).all(kind))
                .as_slice()
                .into()
        },
        found: |cloud, service| found_by_go(sim(cloud), &name(service)),
        assert_served: |cloud, id| assert_none(&sim(cloud).outages(id)),
        // Where nothing is to be done, nothing is recorded either.
        is_adopted: |_, calls, _| {
            let listings = calls.to(BALANCERS);
            listings.iter().any(|call| call.took.is_some())
        },
        address,
    }
}

/// Private ones become internal: the one change that the guide tells of.
fn address(address: &NodeAddress) -> String {
    let is_private = address.address.starts_with("10.") && address.type_ == "ExternalIP";
    let kind = if is_private {
        "InternalIP"
    } else {
        &address.type_
    };
    format!("{kind} {}", address.address)
}

fn sim(cloud: &CloudSim) -> &Brightbox {
    cloud.brightbox().unwrap()
}

/// A cluster and its cloud as the Go controller leaves them.
async fn left_by_go() -> GuideCluster {
    let mut cluster = GuideCluster::start(old_controller()).await;
    let cloud = &cluster.cloud;
    sim(cloud).behave(usual());
    cloud.add(Server::named("somebody-elses").private("10.250.0.1"));
    let mut servers = Vec::new();
    for n in [1, 2] {
        let id = node(&cluster, n).await;
        servers.push(id.strip_prefix("brightbox://").unwrap().to_owned());
    }
    let (services, mut left) = (cluster.services(), BTreeMap::new());
    for case in cases(NAMESPACE) {
        let service = case.service.create(&cluster.cp.admin()).await.unwrap();
        let sim = sim(&cluster.cloud);
        let parts = leave(sim, &services, &service, &servers, None, case.change).await;
        left.insert(case.name.to_owned(), parts.balancer);
    }
    cluster.is_left(left).await;
    cluster
}

/// The n-th Node, described as the Go controller describes it: no address is an internal one. Gives its
/// provider ID.
async fn node(cluster: &GuideCluster, n: usize) -> String {
    let name = format!("n{n}");
    let (private, public) = (SuiteCloud::address(n), format!("2a02:1348::{n}"));
    let server = Server::named(&name).private(&private).public(&public);
    let id = cluster.cloud.add(server);
    let addresses = [
        format!("Hostname {name}"),
        format!("ExternalIP {private}"),
        format!("ExternalIP {public}"),
    ];
    let node = described(n, &id, "gb1", &addresses)
        .label(labels::ZONE, "gb1-a")
        .label(labels::ZONE_BETA, "gb1-a")
        .label(labels::CONTROL_PLANE, "");
    node.create(&cluster.cp.admin()).await.unwrap();
    // Nobody else here takes off what the API server puts on new Nodes, and this DaemonSet does not tolerate it.
    let untainted = Patch::Merge(json!({ "spec": { "taints": null } }));
    let nodes = Api::<Node>::all(cluster.cp.admin());
    let params = PatchParams::default();
    nodes.patch(&name, &params, &untainted).await.unwrap();
    id
}

/// The load balancer that the Go controller finds: the first one that is called so.
fn found_by_go(sim: &Brightbox, name: &str) -> Option<String> {
    let is_it = |balancer: &Value| {
        let status = &balancer["status"];
        balancer["name"] == name && (status == "active" || status == "creating")
    };
    let mut found = sim.all(Kind::LoadBalancer).into_iter().filter(is_it);
    let id = text(&found.next()?["id"]);
    assert!(found.next().is_none(), "two load balancers fit");
    Some(id)
}

/// Waits until the private addresses of the Nodes are internal ones. With the chart that is up to the Nodes' own
/// daemons, which nobody plays here.
async fn are_internal(cluster: &GuideCluster) {
    let nodes = Api::<Node>::all(cluster.cp.admin());
    for n in [1, 2] {
        eventually("the private address is an internal one", SOON, async || {
            let node = nodes.get(&format!("n{n}")).await.unwrap();
            let addresses = node.status.unwrap_or_default().addresses;
            let is_it = |one: &NodeAddress| {
                one.type_ == "InternalIP" && one.address == SuiteCloud::address(n)
            };
            addresses.unwrap_or_default().iter().any(is_it)
        })
        .await;
    }
}

#[tokio::test]
async fn way_a_and_back_again_writes_nothing_in_the_cloud() {
    let cluster = left_by_go().await;
    cluster.goes_way_a().await;
    are_internal(&cluster).await;
    cluster.goes_back_from_a().await;
}

#[tokio::test]
async fn way_b_and_back_again_writes_nothing_in_the_cloud_and_leaves_no_trace() {
    let cluster = left_by_go().await;
    cluster.goes_way_b().await;
    cluster.goes_back_from_b().await;
}
