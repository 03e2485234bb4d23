//! What is written on Services, and what is not (ST-…); and what the log says of it.

use mooring_common::names::reasons;
use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{CloudCluster, LoadBalancerCloud as _, ingress};

#[tokio::test]
async fn st_07_somebody_elses_condition_survives() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.create("web").await;
    let condition = json!({
        "type": "example.org/Audited", "status": "True", "reason": "Seen", "message": "by a test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": { "conditions": [condition] } });
    let patch = kube::api::Patch::Merge(&status);
    let params = kube::api::PatchParams::default();
    let services = cluster.services();
    services.patch_status("web", &params, &patch).await.unwrap();
    cluster.provided("web").await;
    // The status is written a second time, with the condition there.
    let empty = json!({ "status": { "loadBalancer": { "ingress": [] } } });
    let patch = kube::api::Patch::Merge(&empty);
    services.patch_status("web", &params, &patch).await.unwrap();
    cluster
        .annotate("web", "example.org/note", Some("have a look"))
        .await;
    let service = cluster.provided("web").await;
    assert!(!ingress(&service).is_empty());
    let conditions = service.status.unwrap().conditions.unwrap();
    assert_eq!(conditions[0].type_, "example.org/Audited");
    cluster.finish().await;
}

/// The Go controllers' own tests look for these words in the log.
#[tokio::test]
async fn a_happy_path_leaves_no_word_of_trouble_in_the_log() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--controllers=*").with("--v=3");
    let flags = flags.with("--concurrent-service-syncs=2");
    let central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster.settle().await;
    if SuiteCloud::FORWARDS {
        cluster.join(3).await;
        cluster.serves("web", &[1, 2, 3]).await;
        cluster
            .told("web", reasons::UPDATED_LOAD_BALANCER, "")
            .await;
        cluster
            .respecify("web", json!({ "externalTrafficPolicy": "Local" }))
            .await;
        let local = cluster.get("web").await;
        let check = SuiteCloud::local_check(&local);
        cluster
            .balanced(&local, "checked for endpoints", |balancer| {
                balancer.checks.iter().all(|one| *one == check)
            })
            .await;
    }
    cluster.delete("web").await;
    cluster.gone("web").await;
    let log = central.process.log();
    for word in ["error", "Error", "warn", "Warn"] {
        let line = log.lines().find(|line| line.contains(word));
        assert_eq!(line, None, "{word:?}");
    }
    cluster.finish().await;
}
