//! What is written on Services, and what is not (ST-…); and what the log says of it.

use mooring_common::names::reasons;
use serde_json::json;

use super::stage::{Stage, ingress};

#[tokio::test]
async fn st_07_somebody_elses_condition_survives() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.create("web").await;
    let condition = json!({
        "type": "example.org/Audited", "status": "True", "reason": "Seen", "message": "by a test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": { "conditions": [condition] } });
    let patch = kube::api::Patch::Merge(&status);
    let params = kube::api::PatchParams::default();
    let services = stage.services();
    services.patch_status("web", &params, &patch).await.unwrap();
    stage.provided("web").await;
    // The status is written a second time, with the condition there.
    let empty = json!({ "status": { "loadBalancer": { "ingress": [] } } });
    let patch = kube::api::Patch::Merge(&empty);
    services.patch_status("web", &params, &patch).await.unwrap();
    stage
        .annotate("web", "example.org/note", Some("have a look"))
        .await;
    let service = stage.provided("web").await;
    assert!(!ingress(&service).is_empty());
    let conditions = service.status.unwrap().conditions.unwrap();
    assert_eq!(conditions[0].type_, "example.org/Audited");
    stage.leave().await;
}

/// The Go controllers' own tests look for these words in the log.
#[tokio::test]
async fn a_happy_path_leaves_no_word_of_trouble_in_the_log() {
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--controllers=*").with("--v=3");
    let flags = flags.with("--concurrent-service-syncs=2");
    let central = stage.central_with(flags).await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    stage.settle().await;
    stage.join(3).await;
    stage.serves("web", &[1, 2, 3]).await;
    stage.told("web", reasons::UPDATED_LOAD_BALANCER, "").await;
    stage
        .respecify("web", json!({ "externalTrafficPolicy": "Local" }))
        .await;
    stage
        .balanced(&stage.get("web").await, "checked by HTTP", |balancer| {
            balancer
                .checks
                .iter()
                .all(|check| check.starts_with("http"))
        })
        .await;
    stage.delete("web").await;
    stage.gone("web").await;
    let log = central.process.log();
    for word in ["error", "Error", "warn", "Warn"] {
        let line = log.lines().find(|line| line.contains(word));
        assert_eq!(line, None, "{word:?}");
    }
    stage.leave().await;
}
