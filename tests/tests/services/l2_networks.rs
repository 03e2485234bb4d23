//! L2Networks: what is refused at once, what is told afterwards, and that Services keep what they
//! have. The CRD's rules are tried one by one in `deploy_manifests`.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::names::{annotations, reasons};
use mooring_tests::control_plane::{ControlPlane, Options};
use mooring_tests::objects::{EventNote, create_namespace, events_for, kubectl, unique};
use mooring_tests::shipped::{CentralFlags, Shipped};
use mooring_tests::stage::{SOON, Stage, annotation, ingress};
use mooring_tests::turn::Turn;
use mooring_tests::wait::eventually;
use serde_json::json;

async fn events(stage: &Stage, network: &str) -> Vec<EventNote> {
    let events = events_for(&stage.client, "L2Network", None, network).await;
    events.unwrap()
}

/// Waits for an Event about an L2Network, and gives its note.
async fn told(stage: &Stage, network: &str, reason: &str) -> EventNote {
    let what = format!("an Event {reason} about {network}");
    eventually(&what, SOON, async || {
        let events = events(stage, network).await;
        let found = events.iter().find(|event| event.reason == reason).cloned();
        found.ok_or(events)
    })
    .await
}

/// Takes an L2Network away, as a user does.
async fn delete(stage: &Stage, network: &str) {
    let params = DeleteParams::default();
    stage.networks().delete(network, &params).await.unwrap();
}

/// Asserts that nothing was ever wrong with a Service.
async fn no_failure(stage: &Stage, name: &str) {
    let events = stage.events(name).await;
    let failed = events
        .iter()
        .find(|event| event.reason == reasons::SYNC_LOAD_BALANCER_FAILED);
    assert_eq!(failed, None);
}

#[tokio::test]
async fn a_good_network_becomes_ready_and_kubectl_shows_its_use() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.network_is(&stage.network, true).await;
    let ready = told(&stage, &stage.network, reasons::READY).await;
    assert_eq!((ready.kind.as_str(), ready.count), ("Normal", 1));
    stage.create("web").await;
    stage.served("web").await;
    stage.network_uses(&stage.network, 1).await;
    let both = stage.service("both").families(&["IPv4", "IPv6"]);
    both.create(&stage.client).await.unwrap();
    stage.served("both").await;
    stage.network_uses(&stage.network, 3).await;
    let shown = kubectl(turn.cp, &["get", "l2networks", &stage.network])
        .await
        .unwrap();
    let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert!(row.contains(&"3") && row.contains(&"True"), "{shown}");
    stage.delete("both").await;
    stage.network_uses(&stage.network, 1).await;
    assert_eq!(
        events(&stage, &stage.network).await.len(),
        1,
        "one Event is enough"
    );
    turn.leave().await;
}

#[tokio::test]
async fn what_one_object_shows_to_be_wrong_is_refused_with_all_its_faults() {
    let turn = Turn::take().await;
    let stage = Stage::without_network(turn.admin()).await;
    let ranges = ["198.51.100.0/28".to_owned(), stage.address(1)];
    let mut network = stage.network_of(&stage.network, &ranges);
    network.spec.subnets[0].gateway = Some("203.0.113.1".to_owned());
    let error = stage
        .networks()
        .create(&Default::default(), &network)
        .await
        .unwrap_err();
    let message = error.to_string();
    for words in [
        "203.0.113.1: no address within".to_owned(),
        format!("{}: no range; write a CIDR block", stage.address(1)),
        "198.51.100.0/28: in none of the subnets".to_owned(),
    ] {
        assert!(message.contains(&words), "{words:?} is missing: {message}");
    }
    turn.leave().await;
}

#[tokio::test]
async fn of_two_that_overlap_the_newer_waits_until_it_is_corrected() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 8).await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.network_is(&stage.network, true).await;
    // Earlier in the alphabet, and perhaps made within the same second: newer all the same.
    let newer = unique("a-newer");
    stage.create_network(&newer, &[stage.range(4, 8)]).await;
    let (reason, message) = stage.network_is(&newer, false).await;
    let event = told(&stage, &newer, reasons::RANGE_CONFLICT).await;
    assert_eq!(
        (reason.as_str(), event.kind.as_str()),
        (reasons::RANGE_CONFLICT, "Warning")
    );
    for text in [&message, &event.note] {
        assert!(
            text.contains(&format!("the older L2Network {}", stage.network))
                && text.contains(&stage.range(4, 8)),
            "{text}"
        );
    }
    stage.network_is(&stage.network, true).await;
    let service = stage
        .service("web")
        .annotation(annotations::L2_NETWORK_REQUEST, &newer);
    service.create(&stage.client).await.unwrap();
    let refused = stage.told("web", reasons::SYNC_LOAD_BALANCER_FAILED).await;
    assert!(refused.note.contains(&newer), "{refused:?}");
    stage.set_ranges(&newer, &[stage.range(8, 8)]).await;
    stage.network_is(&newer, true).await;
    told(&stage, &newer, reasons::READY).await;
    stage.served_with("web", &[stage.address(8)]).await;
    turn.leave().await;
}

#[tokio::test]
async fn a_network_that_comes_into_conflict_keeps_what_it_has_given_out() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let central = turn.central(CentralFlags::alone()).await;
    stage.network_is(&stage.network, true).await;
    let newer = unique("newer");
    stage.create_network(&newer, &[stage.range(8, 4)]).await;
    stage.network_is(&newer, true).await;
    let service = stage
        .service("web")
        .annotation(annotations::L2_NETWORK_REQUEST, &newer);
    service.create(&stage.client).await.unwrap();
    let addresses = stage.served("web").await;
    // Now the older one claims the same addresses.
    stage
        .set_ranges(&stage.network, &[stage.range(0, 12)])
        .await;
    stage.network_is(&newer, false).await;
    for n in 0..9 {
        stage.create(&format!("more-{n}")).await;
    }
    for n in 0..9 {
        let found = stage.served(&format!("more-{n}")).await;
        assert_ne!(found, addresses, "it is held");
    }
    drop(central);
    let _central = turn.central(CentralFlags::alone()).await;
    stage.create("after").await;
    assert_ne!(stage.served("after").await, addresses);
    let kept = stage.get("web").await;
    assert_eq!(ingress(&kept), addresses);
    assert_eq!(
        annotation(&kept, annotations::ALLOCATED_NETWORK),
        Some(newer.as_str())
    );
    no_failure(&stage, "web").await;
    stage.set_ranges(&stage.network, &[stage.range(0, 4)]).await;
    stage.network_is(&newer, true).await;
    assert_eq!(stage.served("web").await, addresses);
    turn.leave().await;
}

#[tokio::test]
async fn a_network_that_is_deleted_takes_no_address_away() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let central = turn.central(CentralFlags::alone()).await;
    stage.create("web").await;
    let addresses = stage.served("web").await;
    delete(&stage, &stage.network).await;
    // A marker: once central knows this one, it knows that the other is gone.
    let marker = unique("marker");
    stage.create_network(&marker, &[stage.range(20, 1)]).await;
    stage.network_is(&marker, true).await;
    stage.create("refused").await;
    stage
        .told("refused", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert_eq!(stage.served("web").await, addresses);
    drop(central);
    let _central = turn.central(CentralFlags::alone()).await;
    stage.create("refused-too").await;
    stage
        .told("refused-too", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert_eq!(stage.served("web").await, addresses);
    no_failure(&stage, "web").await;
    // Back again, with nothing in common but the name and the range.
    stage
        .create_network(&stage.network, &[stage.range(0, 4)])
        .await;
    stage.served("refused").await;
    assert_eq!(stage.served("web").await, addresses);
    stage.network_uses(&stage.network, 3).await;
    turn.leave().await;
}

#[tokio::test]
async fn a_network_that_gets_another_name_keeps_its_services() {
    let turn = Turn::take().await;
    let stage = Stage::without_network(turn.admin()).await;
    let (old, new) = (unique("old"), unique("new"));
    stage.create_network(&old, &[stage.range(0, 4)]).await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.network_is(&old, true).await;
    let service = stage
        .service("web")
        .annotation(annotations::L2_NETWORK_REQUEST, &old);
    service.create(&stage.client).await.unwrap();
    let addresses = stage.served("web").await;
    delete(&stage, &old).await;
    stage.create_network(&new, &[stage.range(0, 4)]).await;
    stage
        .annotate("web", annotations::L2_NETWORK_REQUEST, Some(&new))
        .await;
    eventually("the record names the new network", SOON, async || {
        let service = stage.get("web").await;
        annotation(&service, annotations::ALLOCATED_NETWORK) == Some(new.as_str())
    })
    .await;
    stage.served_with("web", &addresses).await;
    turn.leave().await;
}

#[tokio::test]
async fn ranges_taken_away_take_no_address_away_and_are_used_no_more() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 2).await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.create("web").await;
    let addresses = stage.served("web").await;
    stage.set_ranges(&stage.network, &[stage.range(4, 2)]).await;
    stage.network_is(&stage.network, true).await;
    stage.create("next").await;
    stage.served_with("next", &[stage.address(4)]).await;
    assert_eq!(stage.served("web").await, addresses);
    stage.delete("web").await;
    stage.gone("web").await;
    stage.create("last").await;
    stage.served_with("last", &[stage.address(5)]).await;
    turn.leave().await;
}

/// Labels the stage's namespace as of this team, or of none.
async fn of_team(stage: &Stage, team: Option<&str>) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "team": team } } }));
    Api::<Namespace>::all(stage.client.clone())
        .patch(&stage.namespace, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// An L2Network for the namespaces of one team.
async fn for_team(stage: &Stage, team: &str) {
    let mut network = stage.network_of(&stage.network, &[stage.range(0, 4)]);
    let selector = json!({ "matchLabels": { "team": team } });
    network.spec.allowed_namespaces = Some(serde_json::from_value(selector).unwrap());
    let params = PostParams::default();
    stage.networks().create(&params, &network).await.unwrap();
}

#[tokio::test]
async fn only_namespaces_that_the_network_selects_get_its_addresses() {
    let turn = Turn::take().await;
    let stage = Stage::without_network(turn.admin()).await;
    for_team(&stage, "red").await;
    let open = unique("z-open");
    stage.create_network(&open, &[stage.range(8, 4)]).await;
    let central = turn.central(CentralFlags::alone()).await;
    stage.network_is(&open, true).await;
    stage.create("web").await;
    let told = stage.told("web", reasons::SYNC_LOAD_BALANCER_FAILED).await;
    for words in ["spec.allowedNamespaces", &stage.network, &stage.namespace] {
        assert!(told.note.contains(words), "{words} is missing: {told:?}");
    }
    let by_address = stage
        .service("by-address")
        .annotation(annotations::L2_NETWORK_REQUEST, "")
        .requested_address(&stage.address(2));
    by_address.create(&stage.client).await.unwrap();
    let told = stage
        .told("by-address", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(told.note.contains("spec.allowedNamespaces"), "{told:?}");
    // Who does not choose gets an address of a network that is open to it.
    let any = stage
        .service("any")
        .annotation(annotations::L2_NETWORK_REQUEST, "");
    any.create(&stage.client).await.unwrap();
    let given = stage.served("any").await;
    assert!(!(0..4).any(|n| given[0] == stage.address(n)), "{given:?}");
    of_team(&stage, Some("red")).await;
    stage.served_with("by-address", &[stage.address(2)]).await;
    let addresses = stage.served("web").await;
    // What a Service has stays, across a restart too.
    of_team(&stage, None).await;
    drop(central);
    let _central = turn.central(CentralFlags::alone()).await;
    stage.create("late").await;
    stage.told("late", reasons::SYNC_LOAD_BALANCER_FAILED).await;
    assert_eq!(stage.served("web").await, addresses);
    turn.leave().await;
}

#[tokio::test]
async fn a_namespace_gets_no_more_addresses_than_the_network_permits() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 8).await;
    let limit = async |max: u32| {
        let patch = Patch::Merge(json!({ "spec": { "maxAddressesPerNamespace": max } }));
        let params = PatchParams::default();
        let patched = stage
            .networks()
            .patch(&stage.network, &params, &patch)
            .await;
        patched.unwrap();
    };
    limit(1).await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.create("first").await;
    stage.served("first").await;
    stage.create("second").await;
    let told = stage
        .told("second", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(
        told.note
            .contains("spec.maxAddressesPerNamespace permits (1)"),
        "{told:?}"
    );
    let mut other = stage.clone();
    other.namespace = unique("services");
    create_namespace(&other.client, &other.namespace)
        .await
        .unwrap();
    other.create("first").await;
    other.served("first").await;
    stage.delete("first").await;
    stage.served("second").await;
    stage.create("third").await;
    stage
        .told("third", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    limit(2).await;
    stage.served("third").await;
    turn.leave().await;
}

#[tokio::test]
async fn without_the_right_to_namespaces_only_networks_that_select_them_give_nothing() {
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    let shipped = Shipped::install(&cp).await.unwrap();
    let roles = Api::<ClusterRole>::all(cp.admin());
    let mut role = roles.get("mooring-central").await.unwrap();
    let whole = role.clone();
    let names = |rule: &k8s_openapi::api::rbac::v1::PolicyRule| {
        let resources = rule.resources.iter().flatten();
        resources.clone().any(|name| name == "namespaces")
    };
    role.rules.as_mut().unwrap().retain(|rule| !names(rule));
    let params = PostParams::default();
    roles
        .replace("mooring-central", &params, &role)
        .await
        .unwrap();
    let stage = Stage::new(cp.admin(), 4).await;
    let central = shipped
        .start_central(&cp, CentralFlags::alone())
        .await
        .unwrap();
    stage.create("web").await;
    stage.served("web").await;
    assert!(
        !central.process.log().contains("amespaces"),
        "nobody needs them"
    );
    let asked = cp.audit_settled().await.of("namespaces");
    assert!(asked.by(mooring_tests::shipped::CENTRAL_USER).is_empty());
    let mut red = Stage::without_network(cp.admin()).await;
    red.namespace.clone_from(&stage.namespace);
    for_team(&red, "red").await;
    red.create("red").await;
    let told = red.told("red", reasons::SYNC_LOAD_BALANCER_FAILED).await;
    assert!(told.note.contains("cannot list Namespaces"), "{told:?}");
    stage.create("next").await;
    stage.served("next").await;
    of_team(&red, Some("red")).await;
    let mut given_back = roles.get("mooring-central").await.unwrap();
    given_back.rules = whole.rules;
    roles
        .replace("mooring-central", &params, &given_back)
        .await
        .unwrap();
    // The watch is tried again after 30 s at most.
    eventually("it is served once central may", SOON * 6, async || {
        mooring_tests::stage::is_served(&red.get("red").await).is_ok()
    })
    .await;
}
