//! Deletions, many of them.

use super::*;

/// One that the cloud shows, with the marks of the Service of this number.
fn marked(project: &Project, number: usize) -> String {
    let uuid = uid(100 + number);
    let tags = json!({"mooring-service-uid": uid(number), "mooring-cluster": "cluster"});
    let name = format!("k8s-service-{}", uid(number));
    project.put(
        BALANCERS,
        json!({"uuid": uuid, "name": name, "tags": tags, "status": "running"}),
    );
    uuid
}

fn count(cloud: &Cloud, line: &str) -> usize {
    let lines = cloud.lines();
    lines.iter().filter(|seen| seen.starts_with(line)).count()
}

/// Each is read and deleted; what they have in common is listed once before and once after.
#[tokio::test]
async fn one_listing_confirms_twenty_deletions() {
    let (project, cloud) = project(1).await;
    for number in 1..=20 {
        marked(&project, number);
    }
    let balancers = balancers(&cloud);
    let demands: Vec<LoadBalancerRequest> = (1..=20).map(|number| request(number, 1)).collect();
    let deleted = join_all(demands.iter().map(|request| remove(&balancers, request))).await;
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    assert!(project.of(BALANCERS).is_empty());
    for request in &demands {
        let end = remove(&balancers, request).await;
        assert_eq!(end.unwrap(), Progress::Removed);
    }
    let lists = cloud.lines().into_iter();
    let lists = lists
        .filter(|line| line == "GET /v1/load-balancers")
        .count();
    assert_eq!(lists, 2);
    assert_eq!(count(&cloud, "DELETE"), 20);
    assert_eq!(cloud.lines().len(), 2 + 20 * 2);
}

/// The pass that deletes does not wait for the cloud: other Services have their turn.
#[tokio::test]
async fn does_not_delete_twice() {
    let (project, cloud) = project(1).await;
    let uuid = marked(&project, 1);
    project.linger();
    let balancers = balancers(&cloud);
    for _ in 0..3 {
        let waits = remove(&balancers, &request(1, 1)).await.unwrap();
        assert!(matches!(waits, Progress::Wait { .. }), "{waits:?}");
    }
    assert_eq!(count(&cloud, "DELETE"), 1);
    // It runs again: the cloud has not deleted it after all.
    project.set(&uuid, "status", json!("running"));
    remove(&balancers, &request(1, 1)).await.unwrap();
    assert_eq!(count(&cloud, "DELETE"), 2);
    project.clear();
    let end = remove(&balancers, &request(1, 1)).await;
    assert_eq!(end.unwrap(), Progress::Removed);
}
