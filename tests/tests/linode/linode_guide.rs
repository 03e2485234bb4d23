//! The guide of the change-over from Linode's Go controller, there and back again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::linode::{Kind, Linode};
use mooring_common::names::{annotations, labels};
use serde_json::{Value, json};

use crate::change_over::nodes::described;
use crate::change_over::{GuideCluster, NAMESPACE, OldController};
use crate::linode_services::cloud::SuiteCloud;
use crate::linode_services::cluster::{LoadBalancerCloud as _, assert_none};
use crate::linode_services::left_by_go::{RESERVED, cases, leave};

fn old_controller() -> OldController {
    OldController {
        cloud: Cloud::Linode,
        page: include_str!("../../../docs/how-to/linode.md"),
        manifest: "linode.yaml",
        name: "daemonset/ccm-linode",
        shown: "balancers",
        image: "linode/linode-cloud-controller-manager:v0.9.8",
        credentials: "The token",
        placeholders: |_| vec![("the token", TOKEN.to_owned())],
        in_manifest: |_| Vec::new(),
        everything: |cloud| Kind::ALL.map(|kind| sim(cloud).all(kind)).as_slice().into(),
        found: |cloud, service| found_by_go(sim(cloud), service),
        assert_served: |cloud, id| assert_none(&sim(cloud).outages(id)),
        is_adopted: |_, _, service| {
            let notes = service.metadata.annotations.as_ref();
            notes.is_some_and(|notes| notes.contains_key(annotations::APPLIED))
        },
        address: |address| format!("{} {}", address.type_, address.address),
    }
}

fn sim(cloud: &CloudSim) -> &Linode {
    cloud.linode().unwrap()
}

/// A cluster and its cloud as the Go controller leaves them.
async fn left_by_go() -> GuideCluster {
    let mut cluster = GuideCluster::start(old_controller()).await;
    sim(&cluster.cloud).reserve("eu-central", Some(RESERVED));
    nodes(&cluster).await;
    let (services, mut left) = (cluster.services(), BTreeMap::new());
    for case in cases(NAMESPACE) {
        let service = case.service.create(&cluster.cp.admin()).await.unwrap();
        let (sim, protocol) = (sim(&cluster.cloud), case.protocol);
        let id = leave(sim, &services, &service, protocol, case.change, case.shows).await;
        left.insert(case.name.to_owned(), id);
    }
    cluster.is_left(left).await;
    cluster
}

/// Two, described as the Go controller describes them.
async fn nodes(cluster: &GuideCluster) {
    let cloud = &cluster.cloud;
    cloud.add(Server::named("somebody-elses").private("10.250.0.1"));
    for n in [1, 2] {
        let name = format!("n{n}");
        let ipv6 = format!("2a01:7e01::{n}");
        let server = Server::named(&name)
            .public(&format!("203.0.113.{n}"))
            .private(&SuiteCloud::address(n))
            .public(&ipv6);
        let addresses = server.addresses(Cloud::Linode);
        let id = cloud.add(server);
        let host = format!("00000000-0000-4000-8000-00000000000{n}");
        cloud.set(&id, "host_uuid", json!(host));
        let node = described(n, &id, "eu-central", &addresses)
            .label(labels::LINODE_HOST_UUID, &host)
            .annotation(annotations::LINODE_PRIVATE_IP, &SuiteCloud::address(n))
            .annotation(annotations::LINODE_PUBLIC_IPV6, &format!("{ipv6}/128"));
        let node = if n == 1 {
            node.label(labels::CONTROL_PLANE, "")
        } else {
            node
        };
        node.create(&cluster.cp.admin()).await.unwrap();
    }
}

/// The NodeBalancer that the Go controller finds: by the first entry of the status alone.
fn found_by_go(sim: &Linode, service: &Service) -> Option<String> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    let entry = status.ingress.as_ref()?.first()?;
    let is_it = |balancer: &Value| match (&entry.ip, &entry.hostname) {
        (Some(ip), _) => balancer["ipv4"] == **ip || balancer["ipv6"] == **ip,
        (None, Some(hostname)) => balancer["hostname"] == **hostname,
        (None, None) => false,
    };
    let mut found = sim.all(Kind::NodeBalancer).into_iter().filter(is_it);
    let id = found.next()?["id"].to_string();
    assert!(found.next().is_none(), "two NodeBalancers fit");
    Some(id)
}

#[tokio::test]
async fn way_a_and_back_again_writes_nothing_in_the_cloud() {
    let cluster = left_by_go().await;
    let told = cluster.goes_way_a().await;
    assert!(told.contains("chosen"), "{told}");
    cluster.goes_back_from_a().await;
}

#[tokio::test]
async fn way_b_and_back_again_writes_nothing_in_the_cloud_and_leaves_no_trace() {
    let cluster = left_by_go().await;
    let told = cluster.goes_way_b().await;
    assert!(told.contains("leading"), "{told}");
    cluster.goes_back_from_b().await;
}
