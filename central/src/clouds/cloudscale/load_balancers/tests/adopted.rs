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

/// An older Service in another namespace that names the same load balancer, and has other node ports.
fn older(uuid: &str) -> LoadBalancerRequest {
    let mut older = request(2, 1);
    older.service = service(
        2,
        &json!({keys::UUID: uuid, keys::NAME: "shop", keys::ZONE: "rma1"}),
    );
    let service = Arc::make_mut(&mut older.service);
    service.key.namespace = "elsewhere".to_owned();
    service.created = -1;
    let ports = service.ports.iter_mut();
    ports.for_each(|port| port.node_port = port.node_port.map(|port| port + 1));
    older
}

fn with_status(request: &mut LoadBalancerRequest, ip: Option<&str>) {
    let shown = ip.map(|ip| ip.parse().unwrap());
    Arc::make_mut(&mut request.service).status = shown.into_iter().collect();
}

/// Where it leads proves whose it is: neither its age nor a private address that another network has too helps the
/// other Service.
#[tokio::test]
async fn older_service_neither_gets_it_by_naming_it_nor_stands_in_its_way() {
    let private = "10.9.0.9";
    for (ip, other_ip) in [
        (None, None),
        (Some(private), None),
        (Some(private), Some(private)),
        (None, Some(private)),
    ] {
        let (project, cloud) = project(1).await;
        let (uuid, mut own) = left(&project, &cloud).await;
        let vips = json!([{"address": private, "subnet": {"uuid": uid(801)}}]);
        project.set(&uuid, "vip_addresses", vips);
        let mut other = older(&uuid);
        with_status(&mut own, ip);
        with_status(&mut other, other_ip);
        own.others = [other.service.clone()].into_iter().collect();
        other.others = [own.service.clone()].into_iter().collect();

        let balancers = balancers(&cloud);
        let before = cloud.lines().len();
        let refused = ensure(&balancers, &other, &Open::default()).await;
        let Err(ReconcileError::Refused(why)) = refused else {
            panic!("{ip:?} {other_ip:?}: {refused:?}")
        };
        assert!(why.contains(&uuid), "{why}");
        let lines = since(&cloud, before);
        assert!(
            lines.iter().all(|line| line.starts_with("GET")),
            "{lines:?}"
        );
        adopt(&cloud, &own).await;
        // It goes with its Service, whose status says that it has one.
        let prepared = self::balancers(&cloud).prepare_removal(&own).await.unwrap();
        let goes = prepared.summary().steps.len() == 1;
        assert_eq!(goes, ip.is_some(), "{ip:?} {other_ip:?}");
        let prepared = self::balancers(&cloud).prepare_removal(&other).await;
        assert!(prepared.unwrap().summary().steps.is_empty());
    }
}

/// Of two Services that name one that nobody uses, the older one gets it.
#[tokio::test]
async fn unused_one_goes_to_the_older_service() {
    let (project, cloud) = project(1).await;
    let unused = json!({
        "uuid": uid(5), "name": "shop", "status": "running", "zone": {"slug": "rma1"},
        "flavor": {"slug": "lb-standard"}, "vip_addresses": [{"address": "203.0.113.7"}],
    });
    project.put(BALANCERS, unused);
    let mut other = older(&uid(5));
    let mut own = LoadBalancerRequest {
        service: service(1, &json!({keys::NAME: "shop"})),
        ..request(1, 1)
    };
    own.others = [other.service.clone()].into_iter().collect();
    other.others = [own.service.clone()].into_iter().collect();
    let balancers = balancers(&cloud);
    let refused = ensure(&balancers, &own, &Open::default()).await;
    let Err(ReconcileError::Refused(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("used by the Service elsewhere/web-2"), "{why}");
    let end = ensure(&balancers, &other, &Open::default()).await;
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(project.of(POOLS).len(), 2);
}

/// The status shows an address that two subnets may have.
#[tokio::test]
async fn same_address_in_another_subnet_than_asked_for_is_anothers() {
    let named = |subnet: &str| Some(json!([{"subnet": subnet}]).to_string());
    for (asked, is_ours) in [
        (None, true),
        (Some("[]".to_owned()), true),
        (Some(r#"[{"address": "10.9.0.9"}]"#.to_owned()), true),
        (named(&uid(801)), true),
        (named(&uid(801).replace('-', "")), true),
        (named(&uid(802)), false),
    ] {
        let (project, cloud) = project(1).await;
        let (uuid, mut own) = left(&project, &cloud).await;
        let vips = json!([{"address": "10.9.0.9", "subnet": {"uuid": uid(801)}}]);
        project.set(&uuid, "vip_addresses", vips);
        with_status(&mut own, Some("10.9.0.9"));
        let asked = asked.map(|text| (keys::VIP_ADDRESSES.to_owned(), text));
        annotations_of(&mut own).extend(asked.clone());
        let prepared = balancers(&cloud).prepare_removal(&own).await.unwrap();
        let goes = prepared.summary().steps.len() == 1;
        assert_eq!(goes, is_ours, "{asked:?}: {:?}", prepared.summary());
    }
}
