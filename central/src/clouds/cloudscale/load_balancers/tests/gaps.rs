//! Moments in which a port is cut off.

use super::*;

/// What has been taken away is not left away for as long as a whole pass is set back.
#[tokio::test]
async fn listener_comes_back_although_cloud_is_asked_too_much() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    made(&project, &balancers, &request(1, 1)).await;
    let mut moved = request(1, 1);
    moved.service = service(1, &json!({keys::POOL_ALGORITHM: "least_connections"}));
    let busy = Reply::json(json!({"detail": "Too many requests."})).status(429);
    let line = "POST /v1/load-balancers/listeners";
    project.fail_once(line, busy.header("retry-after", 1));
    let end = ensure(&balancers, &moved, &Open::default()).await;
    assert!(project.has_failed());
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(project.of("load-balancers/listeners").len(), 2);
}
