//! The guide of the change-over from PhoenixNAP's Go controller, there and back again.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{Api, Patch, PatchParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::phoenixnap::{CLIENT_ID, CLIENT_SECRET, Kind, Phoenixnap};
use mooring_common::names::{annotations, finalizers, labels};
use mooring_test_cluster::objects::ServiceBuilder;
use serde_json::{Value, json};

use crate::change_over::nodes::described;
use crate::change_over::{GuideCluster, NAMESPACE, OldController};
use crate::phoenixnap_services::blocks::{USAGE, address, has_tag, id, tags};
use crate::phoenixnap_services::cloud::SuiteCloud;
use crate::phoenixnap_services::cluster::LoadBalancerCloud as _;

/// The public network of the guide.
const NETWORK: &str = "60473c2509268bc77fd06d29";

fn old_controller() -> OldController {
    OldController {
        cloud: Cloud::Phoenixnap,
        page: include_str!("../../../docs/how-to/phoenixnap.md"),
        manifest: "phoenixnap.yaml",
        name: "deployment/cloud-provider-phoenixnap",
        shown: "addresses",
        image: "ghcr.io/phoenixnap/k8s-cloud-provider-bmc:1.1.0",
        credentials: "The credential",
        placeholders: |_| Vec::new(),
        in_manifest: |cloud| {
            vec![
                ("PhoenixNAP client ID", CLIENT_ID.to_owned()),
                ("PhoenixNAP client secret", CLIENT_SECRET.to_owned()),
                ("https://api.phoenixnap.com", sim(cloud).url()),
                ("https://auth.phoenixnap.com/auth", sim(cloud).token_url()),
            ]
        },
        everything: |cloud| json!([sim(cloud).all(Kind::Block)]),
        found: |cloud, service| found_by_go(sim(cloud), service),
        assert_served: |cloud, id| {
            assert!(sim(cloud).blocks_on(NETWORK).contains(&id.to_owned()));
        },
        is_adopted: |_, _, service| {
            let notes = service.metadata.annotations.as_ref();
            notes.is_some_and(|notes| notes.contains_key(annotations::ALLOCATED_ADDRESSES))
        },
        address: |address| format!("{} {}", address.type_, address.address),
    }
}

fn sim(cloud: &CloudSim) -> &Phoenixnap {
    cloud.phoenixnap().unwrap()
}

/// A cluster and its cloud as the Go controller leaves them: three Services with a block each.
async fn left_by_go() -> GuideCluster {
    let mut cluster = GuideCluster::start(old_controller()).await;
    let network = json!({ "id": NETWORK, "name": "services", "location": "PHX" });
    sim(&cluster.cloud).put(Kind::Network, network);
    nodes(&cluster).await;
    let admin = cluster.cp.admin();
    let system = Api::<Namespace>::all(admin.clone())
        .get("kube-system")
        .await;
    let uid = system.unwrap().metadata.uid;
    let (services, mut left) = (cluster.services(), BTreeMap::new());
    for n in [0, 1, 2] {
        let (name, ip) = (format!("web-{n}"), format!("203.0.113.{}", 66 + n * 8));
        let tags = json!({
            USAGE.0: USAGE.1, "cluster": uid, "serviceNamespace": NAMESPACE, "serviceName": name,
        });
        let block = json!({
            "cidr": format!("203.0.113.{}/29", 64 + n * 8), "tags": tags, "assignedResourceId": NETWORK,
        });
        let block = sim(&cluster.cloud).put(Kind::Block, block);
        let service = ServiceBuilder::load_balancer(NAMESPACE, &name).port(80, 8080);
        let service = service.requested_address(&ip);
        service.create(&admin).await.unwrap();
        let (params, finalizer) = (PatchParams::default(), json!([finalizers::SERVICE]));
        let noted = Patch::Merge(json!({ "metadata": { "finalizers": finalizer } }));
        services.patch(&name, &params, &noted).await.unwrap();
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": ip }] } } });
        let status = Patch::Merge(status);
        let shown = services.patch_status(&name, &params, &status);
        assert_eq!(address(&shown.await.unwrap()), Some(ip));
        left.insert(name, block);
    }
    cluster.is_left(left).await;
    cluster
}

/// Two, described as the Go controller describes them.
async fn nodes(cluster: &GuideCluster) {
    let mut members = Vec::new();
    for n in [1, 2] {
        let name = format!("n{n}");
        let server = Server::named(&name)
            .public(&format!("192.0.2.{n}"))
            .private(&SuiteCloud::address(n));
        let addresses = server.addresses(Cloud::Phoenixnap);
        let id = cluster.cloud.add(server);
        let server = id.strip_prefix("phoenixnap://").unwrap();
        members.push(json!({ "resourceId": server, "resourceType": "server", "ips": [] }));
        let node = described(n, &id, "PHX", &addresses).label(labels::CONTROL_PLANE, "");
        node.create(&cluster.cp.admin()).await.unwrap();
    }
    sim(&cluster.cloud).set_in(Kind::Network, NETWORK, "memberships", members);
}

/// The block that the Go controller finds: by the tags that name the Service.
fn found_by_go(sim: &Phoenixnap, service: &Service) -> Option<String> {
    let own = ("serviceName".to_owned(), service.metadata.name.clone()?);
    let is_it = |block: &Value| tags(block).contains(&own) && !has_tag(block, "delete");
    let mut found = sim.tagged(&[USAGE]).into_iter().filter(is_it);
    let block = id(&found.next()?);
    assert!(found.next().is_none(), "two blocks fit");
    Some(block)
}

#[tokio::test]
async fn way_a_and_back_again_writes_nothing_in_the_cloud() {
    let cluster = left_by_go().await;
    let told = cluster.goes_way_a().await;
    assert!(told.contains("chosen"), "{told}");
    let log = "kubectl --namespace kube-system logs -l app=cloud-provider-phoenixnap";
    let told = cluster.reader.run(log).await;
    assert!(told.contains("the public network is there"), "{told}");
    cluster.goes_back_from_a().await;
}

#[tokio::test]
async fn way_b_and_back_again_writes_nothing_in_the_cloud_and_leaves_no_trace() {
    let cluster = left_by_go().await;
    cluster.goes_way_b().await;
    cluster.goes_back_from_b().await;
}
