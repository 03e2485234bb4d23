//! Floating IPs that a Service asks for, and those that it cannot have.

use super::*;

const V4: &str = "203.0.113.9";
const V6: &str = "2001:db8::7";

fn put(project: &Project, network: &str, holder: &Value) {
    let address = network.split('/').next();
    project.put(
        "floating-ips",
        json!({"network": network, "address": address, "server": holder}),
    );
}

/// The request of this number, whose Service asks for these.
fn asking(number: usize, nodes: usize, ips: &[&str]) -> LoadBalancerRequest {
    LoadBalancerRequest {
        service: service(number, &json!({keys::FLOATING_IPS: json!(ips).to_string()})),
        ..request(number, nodes)
    }
}

/// What the refusal says, and when the pass is to be repeated.
fn refusal(end: Result<Progress, ReconcileError>) -> (String, Option<std::time::Duration>) {
    match end {
        Err(ReconcileError::Refused(why)) => (why, None),
        Err(ReconcileError::Noted { why, again, .. }) => (refusal(Err(*why)).0, again),
        end => panic!("{end:?}"),
    }
}

fn writes(cloud: &Cloud, before: usize) -> Vec<String> {
    let lines = since(cloud, before).into_iter();
    lines.filter(|line| !line.starts_with("GET")).collect()
}

/// One is a server's, one is not there: the members, and what can be assigned, do not wait for that.
#[tokio::test]
async fn denied_ones_delay_nothing_else() {
    let (project, cloud) = project(3).await;
    put(&project, "203.0.113.8/32", &json!({"uuid": uid(901)}));
    put(&project, &format!("{V4}/32"), &Value::Null);
    let balancers = balancers(&cloud);
    made(&project, &balancers, &request(1, 1)).await;
    let asks = asking(1, 2, &["203.0.113.8", V4, V6]);
    let before = cloud.lines().len();
    let prepared = balancers.prepare(&asks).await.unwrap();
    let told = prepared.summary().refused.clone().unwrap();
    let (why, again) = refusal(prepared.carry_out(&Open::default()).await);
    assert_eq!((&why, again), (&told, None));
    for part in ["203.0.113.8 leads to the server", V6] {
        assert!(why.contains(part), "{why}");
    }
    let sent = writes(&cloud, before);
    let to_members = |line: &&String| line.starts_with("POST") && line.ends_with("/members");
    assert_eq!(sent.iter().filter(to_members).count(), 2, "{sent:?}");
    let assigned: Vec<_> = sent.iter().filter(|line| line.contains("PATCH")).collect();
    assert_eq!(assigned, ["PATCH /v1/floating-ips/203.0.113.9"]);

    // It goes on like this, and says so each time.
    let before = cloud.lines().len();
    let joined = asking(1, 3, &["203.0.113.8", V4, V6]);
    let (again, _) = refusal(ensure(&balancers, &joined, &Open::default()).await);
    assert_eq!(again, why);
    let sent = writes(&cloud, before);
    assert!(
        sent.len() == 2 && sent.iter().all(|line| to_members(&line)),
        "{sent:?}"
    );
}

/// What else was left open is looked at again, although nothing changes.
#[tokio::test]
async fn refusal_keeps_nobody_from_another_attempt() {
    let (project, cloud) = project(1).await;
    let balancers = balancers(&cloud);
    made(&project, &balancers, &request(1, 1)).await;
    project.put("servers", server(2));
    project.fail_once("GET /v1/servers", Reply::json("{}").status(500));
    let end = ensure(&balancers, &asking(1, 2, &[V4]), &Open::default()).await;
    let (why, again) = refusal(end);
    assert!(why.contains(V4) && again.is_some(), "{why}: {again:?}");
}

/// A load balancer that lacks what is asked for costs as much as any.
#[tokio::test]
async fn nothing_is_made_for_whoever_cannot_have_all() {
    let (project, cloud) = project(1).await;
    put(&project, &format!("{V4}/32"), &json!({"uuid": uid(901)}));
    let balancers = balancers(&cloud);
    let end = ensure(&balancers, &asking(1, 1, &[V4]), &Open::default()).await;
    refusal(end);
    assert_eq!(writes(&cloud, 0), [""; 0]);
}

/// Whatever the length of the prefix, and however an address is written.
#[tokio::test]
async fn are_the_same_by_their_addresses() {
    let (project, cloud) = project(1).await;
    put(&project, &format!("{V4}/32"), &Value::Null);
    put(&project, &format!("{V6}/64"), &Value::Null);
    let balancers = balancers(&cloud);
    let (mut first, mut second) = (
        asking(1, 1, &["203.0.113.9/24", "2001:DB8:0::7"]),
        asking(2, 1, &["203.0.113.9", "2001:db8::7/128"]),
    );
    first.others = [second.service.clone()].into_iter().collect();
    second.others = [first.service.clone()].into_iter().collect();
    let uuid = made(&project, &balancers, &first).await;
    for ip in project.of("floating-ips") {
        assert_eq!(ip["load_balancer"], uuid, "{ip}");
        project.set_network(&ip["network"], "load_balancer", json!({"uuid": uuid}));
    }
    let (why, _) = refusal(ensure(&balancers, &second, &Open::default()).await);
    for address in [V4, V6] {
        let words = format!("{address}->default/web-1");
        assert!(why.contains(&words), "{why}");
    }
    // They lead there already.
    let before = cloud.lines().len();
    let next = super::balancers(&cloud);
    let end = ensure(&next, &first, &Open::default()).await;
    assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
    assert_eq!(writes(&cloud, before), [""; 0]);
}

/// Before one is assigned, its target is read from a listing, like all others.
#[tokio::test]
async fn none_is_asked_for_alone() {
    let (project, cloud) = project(1).await;
    for network in [format!("{V4}/32"), format!("{V6}/128")] {
        put(&project, &network, &Value::Null);
    }
    made(&project, &balancers(&cloud), &asking(1, 1, &[V4, V6])).await;
    let lines = cloud.lines();
    let of = |method: &str| lines.iter().filter(|line| line.starts_with(method)).count();
    assert_eq!(of("PATCH /v1/floating-ips/"), 2, "{lines:?}");
    assert_eq!(of("GET /v1/floating-ips/"), 0, "{lines:?}");
}

/// An older Service in another namespace that asks for this one, and may say which load balancer it has.
fn elsewhere(ip: &str, uuid: Option<&str>) -> LoadBalancerRequest {
    let mut elsewhere = asking(9, 1, &[ip]);
    let service = Arc::make_mut(&mut elsewhere.service);
    let uuid = uuid.map(|uuid| (keys::UUID.to_owned(), uuid.to_owned()));
    service.annotations.extend(uuid);
    service.key.namespace = "elsewhere".to_owned();
    service.created = -1;
    elsewhere
}

/// It is given up for Services of its own namespace: who may not have it stands in nobody's way by naming it.
#[tokio::test]
async fn given_up_one_is_not_lost_to_a_service_elsewhere() {
    for names_its_holder in [false, true] {
        let (project, cloud) = project(1).await;
        put(&project, &format!("{V4}/32"), &Value::Null);
        let balancers = balancers(&cloud);
        let had = made(&project, &balancers, &asking(1, 1, &[V4])).await;
        let former = request(1, 1);
        let end = ensure(&balancers, &former, &Open::default()).await;
        assert!(matches!(end, Ok(Progress::Ensured(_))), "{end:?}");
        // The last listing is from before it was assigned.
        balancers.observe_anew();
        let mut next = asking(2, 1, &[V4]);
        let mut other = elsewhere(V4, names_its_holder.then_some(&had));
        let (former, wants) = (former.service, next.service.clone());
        next.others = [former.clone(), other.service.clone()]
            .into_iter()
            .collect();
        other.others = [former, wants].into_iter().collect();
        refusal(ensure(&balancers, &other, &Open::default()).await);
        let uuid = made(&project, &balancers, &next).await;
        assert_eq!(project.of("floating-ips")[0]["load_balancer"], uuid);
        refusal(ensure(&balancers, &other, &Open::default()).await);
    }
}

/// A person has let it lead there since the last look.
#[tokio::test]
async fn one_that_leads_to_its_own_load_balancer_is_not_lost_to_an_older_service() {
    let (project, cloud) = project(1).await;
    put(&project, &format!("{V4}/32"), &Value::Null);
    let balancers = balancers(&cloud);
    let uuid = made(&project, &balancers, &request(1, 1)).await;
    let network = json!(format!("{V4}/32"));
    project.set_network(&network, "load_balancer", json!({"uuid": uuid}));
    let other = elsewhere(V4, Some(&uuid));
    // The other one is not there: so all are listed anew.
    let mut own = asking(1, 1, &[V4, V6]);
    own.others = [other.service].into_iter().collect();
    let (why, _) = refusal(ensure(&balancers, &own, &Open::default()).await);
    assert!(why.contains(V6) && !why.contains(V4), "{why}");
}
