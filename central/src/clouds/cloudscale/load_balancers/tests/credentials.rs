//! A token of another project, and listings that lack what is there.

use super::*;

/// The Service says that it has a load balancer: by UUID, and by the address in its status.
fn recorded(number: usize, uuid: &str) -> LoadBalancerRequest {
    let mut request = request(number, 1);
    let service = std::sync::Arc::make_mut(&mut request.service);
    service
        .annotations
        .insert(keys::UUID.to_owned(), uuid.to_owned());
    service
        .annotations
        .insert(keys::ZONE.to_owned(), "rma1".to_owned());
    service.status = vec!["203.0.113.7".parse().unwrap()];
    request
}

/// What the Go controller made: it bears no tags.
fn of_go(project: &Project, uuid: &str, name: &str) {
    let vips = json!([{"address": "203.0.113.7"}]);
    project.put(
        BALANCERS,
        json!({"uuid": uuid, "name": name, "status": "running", "zone": {"slug": "rma1"},
            "flavor": {"slug": "lb-standard"}, "vip_addresses": vips}),
    );
}

fn writes(cloud: &Cloud) -> Vec<String> {
    let lines = cloud.lines().into_iter();
    lines.filter(|line| !line.starts_with("GET")).collect()
}

#[tokio::test]
async fn asks_for_unlisted_recorded_load_balancer_by_uuid() {
    let (project, cloud) = project(1).await;
    of_go(&project, &uid(5), "mine");
    let balancers = balancers(&cloud);
    project.fail_once("GET /v1/load-balancers", Reply::json("[]"));
    let request = recorded(1, &uid(5));
    let prepared = balancers.prepare(&request).await.unwrap();
    let steps = &prepared.summary().steps;
    assert!(
        !steps
            .iter()
            .any(|step| step.step.contains("create load balancer")),
        "{steps:?}"
    );
}

/// Neither the Nodes' servers are there, nor what Services have: it is another project.
#[tokio::test]
async fn token_of_another_project_changes_nothing() {
    for is_empty in [true, false] {
        let project = Project::default();
        if !is_empty {
            project.put("servers", server(77));
            project.put(BALANCERS, json!({"uuid": uid(700), "name": "somebody's"}));
        }
        let cloud = project.start().await;
        let balancers = balancers(&cloud);
        let mut new = recorded(2, "");
        std::sync::Arc::make_mut(&mut new.service).status.clear();
        for request in [recorded(1, &uid(5)), new] {
            let ensured = ensure(&balancers, &request, &Open::default()).await;
            let Err(ReconcileError::Cloud(error)) = &ensured else {
                panic!("{ensured:?}")
            };
            assert!(error.to_string().contains("project"), "{error}");
        }
        let removed = remove(&balancers, &recorded(1, &uid(5))).await;
        assert!(
            matches!(removed, Err(ReconcileError::Cloud(_))),
            "{removed:?}"
        );
        assert_eq!(writes(&cloud), [""; 0]);
    }
}

/// As long as the servers cannot be listed, nothing tells whose project it is: a first load balancer there
/// would bear the cluster's mark, and disarm the check.
#[tokio::test]
async fn another_project_whose_servers_cannot_be_listed_gets_nothing() {
    let (project, cloud) = project(0).await;
    let balancers = balancers(&cloud);
    project.fail_once("GET /v1/servers", Reply::json("{}").status(500));
    let mut request = recorded(1, &uid(5));
    let others = [recorded(2, &uid(6)).service];
    request.others = others.into_iter().collect();
    let waits = ensure(&balancers, &request, &Open::default()).await;
    let Ok(Progress::Wait { after, .. }) = waits else {
        panic!("{waits:?}")
    };
    assert_eq!(writes(&cloud), [""; 0]);
    tokio::time::sleep(after).await;
    let refused = ensure(&balancers, &request, &Open::default()).await;
    let Err(ReconcileError::Cloud(error)) = &refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("project"), "{error}");
    assert_eq!(writes(&cloud), [""; 0]);
}

/// In the cluster's own project it is only later.
#[tokio::test]
async fn own_project_whose_servers_cannot_be_listed_gets_it_later() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    project.fail_once("GET /v1/servers", Reply::json("{}").status(500));
    let request = recorded(1, &uid(5));
    let waits = ensure(&balancers, &request, &Open::default()).await;
    let Ok(Progress::Wait { after, .. }) = waits else {
        panic!("{waits:?}")
    };
    assert_eq!(writes(&cloud), [""; 0]);
    tokio::time::sleep(after).await;
    let made = ensure(&balancers, &request, &Open::default()).await;
    assert!(matches!(made, Ok(Progress::Wait { .. })), "{made:?}");
    assert_eq!(project.of(BALANCERS).len(), 1);
}

/// The servers are there: somebody has deleted it by hand.
#[tokio::test]
async fn recreates_deleted_load_balancer_when_servers_are_known() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    let made = ensure(&balancers, &recorded(1, &uid(5)), &Open::default()).await;
    assert!(matches!(made, Ok(Progress::Wait { .. })), "{made:?}");
    assert_eq!(project.of(BALANCERS).len(), 1);
}

/// What has been served has pools; a listing without any is not believed by itself.
#[tokio::test]
async fn one_false_listing_recreates_no_pools() {
    let (project, cloud) = project(1).await;
    let uuid = made(&project, &balancers(&cloud), &request(1, 1)).await;
    let before = project.of(POOLS).len();
    for kind in ["pools", "listeners", "health-monitors"] {
        let next = balancers(&cloud);
        let line = format!("GET /v1/load-balancers/{kind}");
        project.fail_once(&line, Reply::json("[]"));
        let mut request = recorded(1, &uuid);
        request.cluster = Some("cluster".to_owned());
        let lines = cloud.lines().len();
        // An error or the truth, but no change.
        let _ = ensure(&next, &request, &Open::default()).await;
        let changed: Vec<_> = since(&cloud, lines)
            .into_iter()
            .filter(|line| !line.starts_with("GET"))
            .collect();
        assert_eq!(changed, [""; 0], "{kind}");
        assert_eq!(project.of(POOLS).len(), before);
    }
}
