//! What the Go controller has left under a name of the user's own.

use super::*;

/// A Service with a load balancer without marks, and what the Go controller has written on the Service.
async fn left(project: &Project, cloud: &Cloud) -> (String, LoadBalancerRequest) {
    let asks = json!({keys::NAME: "shop"});
    let named = LoadBalancerRequest {
        service: service(1, &asks),
        ..request(1, 1)
    };
    let uuid = made(project, &balancers(cloud), &named).await;
    project.set(&uuid, "tags", json!({}));
    let written = json!({
        keys::NAME: "shop", keys::UUID: uuid, keys::CONFIG_VERSION: "1", keys::ZONE: "rma1",
    });
    let mut left = LoadBalancerRequest {
        service: service(1, &written),
        ..named
    };
    Arc::make_mut(&mut left.service).status = vec!["203.0.113.7".parse().unwrap()];
    (uuid, left)
}

/// The same as the API server makes it when its type changes to ClusterIP.
fn without_type(request: &LoadBalancerRequest) -> LoadBalancerRequest {
    let mut request = request.clone();
    let service = Arc::make_mut(&mut request.service);
    service.is_load_balancer = false;
    service.status.clear();
    service
        .ports
        .iter_mut()
        .for_each(|port| port.node_port = None);
    request
}

/// Adopts it, and sees that nothing is written.
async fn adopt(cloud: &Cloud, request: &LoadBalancerRequest) -> Arc<dyn LoadBalancers> {
    let balancers = balancers(cloud);
    let before = cloud.lines().len();
    let end = ensure(&balancers, request, &Open::default()).await;
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    let lines = since(cloud, before);
    assert!(
        lines.iter().all(|line| line.starts_with("GET")),
        "{lines:?}"
    );
    balancers
}

#[tokio::test]
async fn is_adopted_unchanged_and_goes_with_its_service() {
    let (project, cloud) = project(1).await;
    let (_, request) = left(&project, &cloud).await;
    for balancers in [adopt(&cloud, &request).await, balancers(&cloud)] {
        let prepared = balancers.prepare_removal(&request).await.unwrap();
        assert_eq!(prepared.summary().steps.len(), 1);
    }
    let removed = remove(&balancers(&cloud), &request).await;
    assert!(matches!(removed, Ok(Progress::Wait { .. })), "{removed:?}");
    assert!(project.of(BALANCERS).is_empty());
}

/// The API server empties the status then: this process has seen what stood there.
#[tokio::test]
async fn goes_when_its_service_becomes_cluster_ip() {
    let (project, cloud) = project(1).await;
    let (_, request) = left(&project, &cloud).await;
    let adopted = adopt(&cloud, &request).await;
    let request = without_type(&request);
    // A process that has not seen it proves nothing by an annotation.
    let prepared = balancers(&cloud).prepare_removal(&request).await.unwrap();
    let shown = prepared.summary();
    assert!(shown.steps.is_empty(), "{shown:?}");
    assert!(shown.notices[0].note.contains("bears no mark"), "{shown:?}");

    let removed = remove(&adopted, &request).await;
    assert!(matches!(removed, Ok(Progress::Wait { .. })), "{removed:?}");
    assert!(project.of(BALANCERS).is_empty());
    let removed = remove(&adopted, &request).await;
    assert_eq!(removed.unwrap(), Progress::Removed);
}

/// Neither does what an annotation names that was written since, nor what is another's by now.
#[tokio::test]
async fn nothing_else_goes_then() {
    let (project, cloud) = project(1).await;
    let (uuid, request) = left(&project, &cloud).await;
    let adopted = adopt(&cloud, &request).await;
    let mut request = without_type(&request);
    project.put(BALANCERS, json!({"uuid": uid(5), "name": "theirs"}));
    let annotations = &mut Arc::make_mut(&mut request.service).annotations;
    annotations.insert(keys::UUID.to_owned(), uid(5));
    annotations.insert(keys::NAME.to_owned(), "theirs".to_owned());
    let prepared = adopted.prepare_removal(&request).await.unwrap();
    assert!(prepared.summary().steps.is_empty());

    let annotations = &mut Arc::make_mut(&mut request.service).annotations;
    annotations.insert(keys::UUID.to_owned(), uuid.clone());
    let prepared = adopted.prepare_removal(&request).await.unwrap();
    assert!(prepared.summary().steps.is_empty(), "two may be meant");

    annotations_of(&mut request).remove(keys::NAME);
    let prepared = adopted.prepare_removal(&request).await.unwrap();
    assert_eq!(prepared.summary().steps.len(), 1);
    let tags = json!({"mooring-service-uid": uid(9), "mooring-cluster": "cluster"});
    project.set(&uuid, "tags", tags);
    let end = prepared.carry_out(&Open::default()).await;
    assert!(matches!(end, Ok(Progress::Wait { .. })), "{end:?}");
    assert_eq!(project.of(BALANCERS).len(), 2);
}

fn annotations_of(
    request: &mut LoadBalancerRequest,
) -> &mut std::collections::BTreeMap<String, String> {
    &mut Arc::make_mut(&mut request.service).annotations
}

/// A Service was deleted, and made anew with all annotations: what was made for the former one is not its own.
#[tokio::test]
async fn what_bears_uid_of_dead_service_in_its_name_is_nobodys() {
    let dead = uid(9);
    for name in [
        format!("k8s-service-{dead}"),
        format!("k8s-service-{}", dead.replace('-', "")),
    ] {
        let (project, cloud) = project(1).await;
        let (uuid, mut request) = left(&project, &cloud).await;
        project.set(&uuid, "name", json!(name));
        annotations_of(&mut request).insert(keys::NAME.to_owned(), name.clone());
        for may_take_over in [false, true] {
            request.may_take_over = may_take_over;
            let balancers = balancers(&cloud);
            let before = cloud.lines().len();
            let end = ensure(&balancers, &request, &Open::default()).await;
            let Err(ReconcileError::Refused(why)) = end else {
                panic!("{name}: {end:?}")
            };
            assert!(
                why.contains("this cluster does not have (any more)"),
                "{why}"
            );
            let removed = remove(&balancers, &request).await;
            assert_eq!(removed.unwrap(), Progress::Removed);
            let lines = since(&cloud, before);
            assert!(
                lines.iter().all(|line| line.starts_with("GET")),
                "{lines:?}"
            );
        }
    }
}

/// Another cluster may have the same addresses and node ports, in a private network of its own.
#[tokio::test]
async fn same_address_in_another_subnet_is_another_machines() {
    for (subnet, is_ours) in [(uid(800), true), (uid(801), false)] {
        let (project, cloud) = project(1).await;
        let (_, mut request) = left(&project, &cloud).await;
        Arc::make_mut(&mut request.service).status.clear();
        for pool in project.of(POOLS) {
            let members = format!("{POOLS}/{}/members", pool["uuid"].as_str().unwrap());
            for member in project.of(&members) {
                let uuid = member["uuid"].as_str().unwrap();
                project.set(uuid, "subnet", json!({"uuid": subnet}));
            }
        }
        let end = ensure(&balancers(&cloud), &request, &Open::default()).await;
        let is_adopted = matches!(end, Ok(Progress::Ensured(_)));
        assert_eq!(is_adopted, is_ours, "{subnet}: {end:?}");
    }
}
