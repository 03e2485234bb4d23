//! Members that the cloud refuses.

use super::*;

fn addresses(project: &Project, uuid: &str) -> Vec<String> {
    let pools = project.of(POOLS).into_iter();
    let own = pools.filter(|pool| pool["load_balancer"]["uuid"] == uuid);
    let first = own.map(|pool| pool["uuid"].clone()).next().unwrap();
    let members = project.of(&format!("{POOLS}/{}/members", first.as_str().unwrap()));
    let text = |member: &Value| member["address"].as_str().unwrap().to_owned();
    members.iter().map(text).collect()
}

fn among(numbers: &[usize]) -> LoadBalancerRequest {
    LoadBalancerRequest {
        nodes: numbers.iter().map(|number| node(*number)).collect(),
        ..request(1, 0)
    }
}

/// Whoever leaves is taken out all the same, and the Service has its status.
#[tokio::test]
async fn refused_member_delays_no_other() {
    let (project, cloud) = project(3).await;
    let balancers = balancers(&cloud);
    let uuid = made(&project, &balancers, &request(1, 1)).await;
    project.refuse("POST", "10.0.0.2");
    let end = ensure(&balancers, &among(&[2, 3]), &Open::default()).await;
    let Ok(Progress::Ensured(provided)) = end else {
        panic!("{end:?}")
    };
    assert_eq!(addresses(&project, &uuid), ["10.0.0.3"]);
    assert!(provided.again.is_some());
    let notes: Vec<_> = provided.notices.iter().map(|n| n.note.as_str()).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("10.0.0.2:30080") && notes[0].contains("Not in this subnet"));
}

/// A pool is not emptied for the sake of those that the cloud does not take.
#[tokio::test]
async fn keeps_last_member_if_successors_are_refused() {
    let (project, cloud) = project(2).await;
    let balancers = balancers(&cloud);
    let uuid = made(&project, &balancers, &request(1, 1)).await;
    project.refuse("POST", "10.0.0.2");
    let end = ensure(&balancers, &among(&[2]), &Open::default()).await;
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(addresses(&project, &uuid), ["10.0.0.1"]);
}

/// The cloud begins to work on the load balancer once it has refused to delete a pool that is not empty.
struct BusyAfterRefusal {
    project: Project,
    uuid: String,
}

#[async_trait]
impl WriteGuard for BusyAfterRefusal {
    fn before_write(&self) -> Result<(), Stop> {
        if self.project.has_failed() {
            self.project.set(&self.uuid, "status", json!("changing"));
            let busy = Reply::json(json!({"detail": "It is changing."})).status(400);
            self.project.fail_once("DELETE", busy);
        }
        Ok(())
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        Ok(())
    }

    fn written(&self) {}
}

/// What cannot be emptied since the cloud is at work is tried again: nothing else would wake the Service.
#[tokio::test]
async fn pool_that_cannot_be_emptied_now_goes_later() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    let uuid = made(&project, &balancers, &request(1, 1)).await;
    let mut one_port = request(1, 1);
    std::sync::Arc::make_mut(&mut one_port.service).ports.pop();
    let full = Reply::json(json!({"detail": "It has members."})).status(400);
    project.fail_once(&format!("DELETE /v1/{POOLS}/"), full);
    let guard = BusyAfterRefusal {
        project: project.clone(),
        uuid: uuid.clone(),
    };
    let waits = ensure(&balancers, &one_port, &guard).await;
    assert!(matches!(waits, Ok(Progress::Wait { .. })), "{waits:?}");
    assert_eq!(project.of(POOLS).len(), 2);
    project.set(&uuid, "status", json!("running"));
    let mut end = waits;
    while matches!(end, Ok(Progress::Wait { .. })) {
        end = ensure(&balancers, &one_port, &Open::default()).await;
        tokio::task::yield_now().await;
    }
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(project.of(POOLS).len(), 1);
}

/// Private networks end at their zone.
#[tokio::test]
async fn leaves_out_server_of_another_zone() {
    let (project, cloud) = project(2).await;
    project.set(&uid(902), "zone", json!({"slug": "lpg1"}));
    let balancers = balancers(&cloud);
    let uuid = made(&project, &balancers, &request(1, 1)).await;
    let end = ensure(&balancers, &among(&[1, 2]), &Open::default()).await;
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(addresses(&project, &uuid), ["10.0.0.1"]);
    let prepared = balancers.prepare(&among(&[1, 2])).await.unwrap();
    let notices = &prepared.summary().notices;
    let is_told = |note: &str| note.contains("node-2") && note.contains("lpg1");
    assert!(notices.iter().any(|n| is_told(&n.note)), "{notices:?}");
}
