//! The guide of the change-over from cloudscale.ch's Go controller, there and back again.

use std::collections::BTreeMap;

use http::Method;
use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::TOKEN;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::cloudscale::{Cloudscale, Kind};
use mooring_common::names::labels;
use serde_json::{Value, json};

use crate::change_over::nodes::described;
use crate::change_over::{GuideCluster, NAMESPACE, OldController};
use crate::cloudscale_services::cloud::{SuiteCloud, annotation, name, text, uid};
use crate::cloudscale_services::cluster::{LoadBalancerCloud as _, assert_none};
use crate::cloudscale_services::key;
use crate::cloudscale_services::migration_state::{Case, cases, left_by_upstream};

fn old_controller() -> OldController {
    OldController {
        cloud: Cloud::Cloudscale,
        page: include_str!("../../../docs/how-to/cloudscale.md"),
        manifest: "cloudscale.yaml",
        name: "daemonset/cloudscale-cloud-controller-manager",
        shown: "balancers",
        image: "quay.io/cloudscalech/cloudscale-cloud-controller-manager:1.3.0",
        credentials: "The token",
        placeholders: |_| vec![("the token", TOKEN.to_owned())],
        in_manifest: |cloud| vec![("https://api.cloudscale.ch/", sim(cloud).url())],
        everything: |cloud| Kind::ALL.map(|kind| sim(cloud).all(kind)).as_slice().into(),
        found: |cloud, service| found_by_go(sim(cloud), service),
        assert_served: |cloud, id| assert_none(&sim(cloud).outages(id)),
        // Nothing is recorded: the members of all its pools have been listed.
        is_adopted: |cloud, calls, service| {
            let mut pools = sim(cloud).all(Kind::Pool);
            pools.retain(|pool| Some(&*text(&pool["load_balancer"]["uuid"])) == uuid(service));
            let listed = calls.method(&Method::GET);
            let listed = |pool: &Value| {
                let members = format!("/{}/members", text(&pool["uuid"]));
                let mut calls = listed.iter();
                calls.any(|call| call.path.ends_with(&members) && call.took.is_some())
            };
            !pools.is_empty() && pools.iter().all(listed)
        },
        address: |address| format!("{} {}", address.type_, address.address),
    }
}

fn sim(cloud: &CloudSim) -> &Cloudscale {
    cloud.cloudscale().unwrap()
}

fn uuid(service: &Service) -> Option<&str> {
    annotation(service, "k8s.cloudscale.ch/loadbalancer-uuid")
}

/// Those of which a plan has nothing to say: to this one it notes that its health monitor does not fit.
fn quiet_cases() -> Vec<Case> {
    let mut all = cases(NAMESPACE);
    all.retain(|(name, ..)| *name != "both-protocols");
    all
}

/// A cluster and its cloud as the Go controller leaves them.
async fn left_by_go() -> GuideCluster {
    let mut cluster = GuideCluster::start(old_controller()).await;
    nodes(&cluster).await;
    let (services, mut left) = (cluster.services(), BTreeMap::new());
    for (name, service, state) in quiet_cases() {
        let service = service.create(&cluster.cp.admin()).await.unwrap();
        let sim = sim(&cluster.cloud);
        let uuid = left_by_upstream(sim, &services, &service, &state).await;
        if annotation(&service, &key("floating-ips")).is_some() {
            let ip = json!({ "network": "203.0.113.9/32", "load_balancer": uuid });
            sim.put(Kind::FloatingIp, ip);
        }
        left.insert(name.to_owned(), uuid);
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
        let server = Server::named(&name)
            .public(&format!("203.0.113.{n}"))
            .private(&SuiteCloud::address(n));
        let addresses = server.addresses(Cloud::Cloudscale);
        let node = described(n, &cloud.add(server), "rma", &addresses)
            .label(labels::ZONE, "rma1")
            .label(labels::ZONE_BETA, "rma1");
        let node = if n == 1 {
            node.label(labels::CONTROL_PLANE, "")
        } else {
            node
        };
        node.create(&cluster.cp.admin()).await.unwrap();
    }
}

/// The load balancer that the Go controller finds: by the UUID that it has written, or by its name.
fn found_by_go(sim: &Cloudscale, service: &Service) -> Option<String> {
    let by_uuid = uuid(service).filter(|uuid| sim.get(Kind::LoadBalancer, uuid).is_some());
    if let Some(uuid) = by_uuid {
        return Some(uuid.to_owned());
    }
    let found = sim.named(Kind::LoadBalancer, &name(&uid(service)));
    assert!(found.len() <= 1, "two load balancers fit");
    Some(text(&found.first()?["uuid"]))
}

#[tokio::test]
async fn way_a_and_back_again_writes_nothing_in_the_cloud() {
    let cluster = left_by_go().await;
    let plan = cluster.reader.follow("From your machine").await;
    let idle = plan.matches("nothing to do").count();
    assert_eq!(idle, quiet_cases().len(), "{plan}");
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
