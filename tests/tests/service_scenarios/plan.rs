//! `mooring-central plan`: what it prints is what is done, and it does nothing itself.

use std::time::Instant;

use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{CloudCluster, LoadBalancerCloud as _};
use super::forwarding::{ForwardingCloud as _, node_port, ports};

#[tokio::test]
async fn a_plan_for_a_new_service_touches_nothing_and_is_what_is_then_done() {
    let cluster = CloudCluster::start().await;
    cluster.create("web").await;
    let since = cluster.now();
    let plan = cluster
        .plan(&format!("{} -o json", cluster.key("web")))
        .await;
    assert_eq!(plan.code, 0, "{plan:?}");
    assert!(plan.steps("web") >= SuiteCloud::STEPS, "{plan:?}");
    let table = cluster.plan(&cluster.key("web")).await;
    assert!(table.text.contains("IMPACT"), "{table:?}");
    assert!(cluster.writes().is_empty());
    let audit = cluster.audit().await.since(since);
    let by_plan = audit.filter(|record| record.user_agent.starts_with("mooring-plan"));
    assert!(!by_plan.is_empty());
    assert!(by_plan.writes().is_empty(), "{}", by_plan.summary());

    let _central = cluster.central().await;
    cluster.provided("web").await;
    let writes = cluster.writes();
    assert_eq!(writes.len(), plan.steps("web"), "{}", writes.summary());
    let after = cluster
        .plan(&format!("{} -o json", cluster.key("web")))
        .await;
    assert_eq!(after.steps("web"), 0, "{after:?}");
    cluster.finish().await;
}

#[tokio::test]
async fn a_plan_for_a_change_is_what_is_then_done() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let service = cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    drop(central);
    let mut port = json!(ports(&service)[0]);
    let other = if node_port(&service) == 30200 {
        30201
    } else {
        30200
    };
    port["nodePort"] = json!(other);
    port["port"] = json!(81);
    cluster.respecify("web", json!({ "ports": [port] })).await;
    let start = Instant::now();
    let plan = cluster
        .plan(&format!("{} -o json", cluster.key("web")))
        .await;
    assert_eq!(plan.code, 0, "{plan:?}");
    assert!(cluster.writes().since(start).is_empty());

    let _central = cluster.central().await;
    cluster.serves("web", &[1, 2]).await;
    cluster.marker().await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let marker = cluster.cloud.balancers();
    let marker = marker.iter().find(|other| other.id != id).unwrap();
    let of_marker = cluster.cloud.writes_on(&marker.id).since(start).len() + 1;
    let done = cluster.writes().since(start);
    let done_here = done.len() - of_marker;
    assert_eq!(done_here, plan.steps("web"), "{plan:?}\n{}", done.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn a_plan_for_all_has_each_service_and_one_for_a_file_need_not_be_applied() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("one").await;
    cluster.provide("two").await;
    let start = Instant::now();
    let all = cluster.plan("--all -o json").await;
    assert_eq!((all.steps("one"), all.steps("two")), (0, 0), "{all:?}");
    let nothing = cluster.plan(&cluster.key("one")).await;
    assert!(nothing.text.contains("nothing to do"), "{nothing:?}");

    let manifest = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "three", "namespace": cluster.namespace },
        "spec": {
            "type": "LoadBalancer",
            "ports": [{ "port": 80, "nodePort": 30300, "protocol": "TCP" }],
        },
    });
    let file = cluster.folder().join(format!("{}.json", cluster.namespace));
    std::fs::write(&file, manifest.to_string()).unwrap();
    let planned = cluster
        .plan(&format!("-f {} -o json", file.display()))
        .await;
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(planned.steps("three") >= SuiteCloud::STEPS, "{planned:?}");
    assert!(cluster.services().get_opt("three").await.unwrap().is_none());
    assert!(cluster.writes().since(start).is_empty());
    drop(central);
    cluster.finish().await;
}

#[tokio::test]
async fn a_plan_for_a_service_that_cannot_be_understood_is_refused() {
    let cluster = CloudCluster::start().await;
    let (key, value) = SuiteCloud::REFUSED_ANNOTATION;
    cluster
        .make(cluster.service("web").annotation(key, value))
        .await;
    let plan = cluster
        .plan(&format!("{} -o json", cluster.key("web")))
        .await;
    assert_eq!(plan.code, 1, "{plan:?}");
    let refused = plan.of("web")["refused"].to_string();
    assert!(refused.contains(key), "{refused}");
    assert!(!plan.complaint.is_empty());
    let nobody = cluster.plan(&cluster.key("nobody")).await;
    assert_eq!(nobody.code, 1, "{nobody:?}");
    cluster.finish().await;
}
