//! L2Networks: what is refused at once, what is told afterwards, and that Services keep what they
//! have. The CRD's rules are tried one by one in `deploy_manifests`.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::AddressCounts;
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{EventNote, create_namespace, events_for, kubectl, unique};
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_cluster::test_namespace::{SOON, TestNamespace, annotation, ingress};
use mooring_test_support::wait::eventually;
use serde_json::json;

async fn events(namespace: &TestNamespace, network: &str) -> Vec<EventNote> {
    let events = events_for(&namespace.client, "L2Network", None, network).await;
    events.unwrap()
}

/// Waits for an Event about an L2Network, and gives its note.
async fn told(namespace: &TestNamespace, network: &str, reason: &str) -> EventNote {
    let what = format!("an Event {reason} about {network}");
    eventually(&what, SOON, async || {
        let events = events(namespace, network).await;
        let found = events.iter().find(|event| event.reason == reason).cloned();
        found.ok_or(events)
    })
    .await
}

/// Takes an L2Network away, as a user does.
async fn delete(namespace: &TestNamespace, network: &str) {
    let params = DeleteParams::default();
    namespace.networks().delete(network, &params).await.unwrap();
}

/// Asserts that nothing was ever wrong with a Service.
async fn no_failure(namespace: &TestNamespace, name: &str) {
    let events = namespace.events(name).await;
    let failed = events
        .iter()
        .find(|event| event.reason == reasons::SYNC_LOAD_BALANCER_FAILED);
    assert_eq!(failed, None);
}

#[tokio::test]
async fn a_good_network_becomes_ready_and_kubectl_shows_its_use() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.network_is(&namespace.network, true).await;
    let ready = told(&namespace, &namespace.network, reasons::READY).await;
    assert_eq!((ready.kind.as_str(), ready.count), ("Normal", 1));
    namespace.create("web").await;
    namespace.served("web").await;
    namespace.network_uses(&namespace.network, 1).await;
    let both = namespace.service("both").families(&["IPv4", "IPv6"]);
    both.create(&namespace.client).await.unwrap();
    namespace.served("both").await;
    namespace.network_uses(&namespace.network, 3).await;
    let shown = kubectl(&cluster, &["get", "l2networks", &namespace.network])
        .await
        .unwrap();
    let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert!(row.contains(&"3") && row.contains(&"True"), "{shown}");
    namespace.delete("both").await;
    namespace.network_uses(&namespace.network, 1).await;
    assert_eq!(
        events(&namespace, &namespace.network).await.len(),
        1,
        "one Event is enough"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn pools_of_a_network_have_rules_of_their_own() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(2).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    let pools = json!({"spec": {"pools": [
        {"name": "first", "ranges": [namespace.range(10, 1)], "priority": 1},
        {"name": "gold", "ranges": [namespace.range(20, 3)], "allocation": "OnRequest",
         "excludedRanges": [namespace.range(20, 1)],
         "allowedServices": {"matchLabels": {"tier": "gold"}}},
    ]}});
    let networks = namespace.networks();
    let patch = Patch::Merge(pools);
    let params = PatchParams::default();
    networks
        .patch(&namespace.network, &params, &patch)
        .await
        .unwrap();
    let has = async |total: i64, used: i64| {
        let what = format!("the status counts {total} and {used}");
        eventually(&what, SOON, async || {
            let network = networks.get(&namespace.network).await?;
            let counts = network.status.and_then(|status| status.ipv4);
            let free = total - used;
            let is_so = counts == Some(AddressCounts { total, used, free });
            anyhow::ensure!(is_so, "{counts:?}");
            Ok(())
        })
        .await;
    };
    has(5, 0).await;
    namespace.create("web").await;
    namespace.served_with("web", &[namespace.address(10)]).await;
    let gold = |name: &str| {
        let service = namespace.service(name);
        service.annotation(annotations::ADDRESS_POOL_REQUEST, "gold")
    };
    gold("plain").create(&namespace.client).await.unwrap();
    let refused = namespace.told_with(
        "plain",
        reasons::SYNC_LOAD_BALANCER_FAILED,
        "allowedServices",
    );
    refused.await;
    let label = json!({"metadata": {"labels": {"tier": "gold"}}});
    namespace.patch("plain", &label).await;
    namespace
        .served_with("plain", &[namespace.address(21)])
        .await;
    has(5, 2).await;
    let row = ["get", "l2networks", &namespace.network];
    let shown = kubectl(&cluster, &row).await.unwrap();
    assert!(shown.contains("FREE-V4"), "{shown}");
    // Of two pools with one address, neither is allocated from.
    let twice = json!({"spec": {"pools": [
        {"name": "first", "ranges": [namespace.range(10, 1)]},
        {"name": "second", "ranges": [namespace.range(10, 2)]},
    ]}});
    let patch = Patch::Merge(twice);
    networks
        .patch(&namespace.network, &params, &patch)
        .await
        .unwrap();
    let (reason, message) = namespace.network_is(&namespace.network, false).await;
    assert!(
        reason == "Invalid" && message.contains("spec.pools[1].ranges[0]"),
        "{message}"
    );
    assert_eq!(namespace.served("web").await, [namespace.address(10)]);
    cluster.finish().await;
}

#[tokio::test]
async fn what_one_object_shows_to_be_wrong_is_refused_with_all_its_faults() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace().await;
    let ranges = ["198.51.100.0/28".to_owned(), namespace.address(1)];
    let mut network = namespace.network_of(&namespace.network, &ranges);
    network.spec.subnets[0].gateway = Some("203.0.113.1".to_owned());
    let error = namespace
        .networks()
        .create(&Default::default(), &network)
        .await
        .unwrap_err();
    let message = error.to_string();
    for words in [
        "203.0.113.1: no address within".to_owned(),
        format!("{}: no range; write a CIDR block", namespace.address(1)),
        "198.51.100.0/28: in none of the subnets".to_owned(),
    ] {
        assert!(message.contains(&words), "{words:?} is missing: {message}");
    }
    cluster.finish().await;
}

#[tokio::test]
async fn of_two_that_overlap_the_newer_waits_until_it_is_corrected() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(8).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.network_is(&namespace.network, true).await;
    // Earlier in the alphabet, and perhaps made within the same second: newer all the same.
    let newer = unique("a-newer");
    namespace
        .create_network(&newer, &[namespace.range(4, 8)])
        .await;
    let (reason, message) = namespace.network_is(&newer, false).await;
    let event = told(&namespace, &newer, reasons::RANGE_CONFLICT).await;
    assert_eq!(
        (reason.as_str(), event.kind.as_str()),
        (reasons::RANGE_CONFLICT, "Warning")
    );
    for text in [&message, &event.note] {
        assert!(
            text.contains(&format!("the older L2Network {}", namespace.network))
                && text.contains(&namespace.range(4, 8)),
            "{text}"
        );
    }
    namespace.network_is(&namespace.network, true).await;
    let service = namespace
        .service("web")
        .annotation(annotations::L2_NETWORK_REQUEST, &newer);
    service.create(&namespace.client).await.unwrap();
    let refused = namespace
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(refused.note.contains(&newer), "{refused:?}");
    namespace.set_ranges(&newer, &[namespace.range(8, 8)]).await;
    namespace.network_is(&newer, true).await;
    told(&namespace, &newer, reasons::READY).await;
    namespace.served_with("web", &[namespace.address(8)]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_network_that_comes_into_conflict_keeps_what_it_has_given_out() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    namespace.network_is(&namespace.network, true).await;
    let newer = unique("newer");
    namespace
        .create_network(&newer, &[namespace.range(8, 4)])
        .await;
    namespace.network_is(&newer, true).await;
    let service = namespace
        .service("web")
        .annotation(annotations::L2_NETWORK_REQUEST, &newer);
    service.create(&namespace.client).await.unwrap();
    let addresses = namespace.served("web").await;
    // Now the older one claims the same addresses.
    namespace
        .set_ranges(&namespace.network, &[namespace.range(0, 12)])
        .await;
    namespace.network_is(&newer, false).await;
    for n in 0..9 {
        namespace.create(&format!("more-{n}")).await;
    }
    for n in 0..9 {
        let found = namespace.served(&format!("more-{n}")).await;
        assert_ne!(found, addresses, "it is held");
    }
    drop(central);
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("after").await;
    assert_ne!(namespace.served("after").await, addresses);
    let kept = namespace.get("web").await;
    assert_eq!(ingress(&kept), addresses);
    assert_eq!(
        annotation(&kept, annotations::ALLOCATED_NETWORK),
        Some(newer.as_str())
    );
    no_failure(&namespace, "web").await;
    namespace
        .set_ranges(&namespace.network, &[namespace.range(0, 4)])
        .await;
    namespace.network_is(&newer, true).await;
    assert_eq!(namespace.served("web").await, addresses);
    cluster.finish().await;
}

#[tokio::test]
async fn a_network_that_is_deleted_takes_no_address_away() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    delete(&namespace, &namespace.network).await;
    // A marker: once central knows this one, it knows that the other is gone.
    let marker = unique("marker");
    namespace
        .create_network(&marker, &[namespace.range(20, 1)])
        .await;
    namespace.network_is(&marker, true).await;
    namespace.create("refused").await;
    namespace
        .told("refused", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert_eq!(namespace.served("web").await, addresses);
    drop(central);
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("refused-too").await;
    namespace
        .told("refused-too", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert_eq!(namespace.served("web").await, addresses);
    no_failure(&namespace, "web").await;
    // Back again, with nothing in common but the name and the range.
    namespace
        .create_network(&namespace.network, &[namespace.range(0, 4)])
        .await;
    namespace.served("refused").await;
    assert_eq!(namespace.served("web").await, addresses);
    namespace.network_uses(&namespace.network, 3).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_network_that_gets_another_name_keeps_its_services() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace().await;
    let (old, new) = (unique("old"), unique("new"));
    namespace
        .create_network(&old, &[namespace.range(0, 4)])
        .await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.network_is(&old, true).await;
    let service = namespace
        .service("web")
        .annotation(annotations::L2_NETWORK_REQUEST, &old);
    service.create(&namespace.client).await.unwrap();
    let addresses = namespace.served("web").await;
    delete(&namespace, &old).await;
    namespace
        .create_network(&new, &[namespace.range(0, 4)])
        .await;
    namespace
        .annotate("web", annotations::L2_NETWORK_REQUEST, Some(&new))
        .await;
    eventually("the record names the new network", SOON, async || {
        let service = namespace.get("web").await;
        annotation(&service, annotations::ALLOCATED_NETWORK) == Some(new.as_str())
    })
    .await;
    namespace.served_with("web", &addresses).await;
    cluster.finish().await;
}

#[tokio::test]
async fn ranges_taken_away_take_no_address_away_and_are_used_no_more() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(2).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    namespace
        .set_ranges(&namespace.network, &[namespace.range(4, 2)])
        .await;
    namespace.network_is(&namespace.network, true).await;
    namespace.create("next").await;
    namespace.served_with("next", &[namespace.address(4)]).await;
    assert_eq!(namespace.served("web").await, addresses);
    namespace.delete("web").await;
    namespace.gone("web").await;
    namespace.create("last").await;
    namespace.served_with("last", &[namespace.address(5)]).await;
    cluster.finish().await;
}

/// Labels the namespace as of this team, or of none.
async fn of_team(namespace: &TestNamespace, team: Option<&str>) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "team": team } } }));
    Api::<Namespace>::all(namespace.client.clone())
        .patch(&namespace.name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// An L2Network for the namespaces of one team.
async fn for_team(namespace: &TestNamespace, team: &str) {
    let mut network = namespace.network_of(&namespace.network, &[namespace.range(0, 4)]);
    let selector = json!({ "matchLabels": { "team": team } });
    network.spec.allowed_namespaces = Some(serde_json::from_value(selector).unwrap());
    let params = PostParams::default();
    namespace
        .networks()
        .create(&params, &network)
        .await
        .unwrap();
}

#[tokio::test]
async fn only_namespaces_that_the_network_selects_get_its_addresses() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace().await;
    for_team(&namespace, "red").await;
    let open = unique("z-open");
    namespace
        .create_network(&open, &[namespace.range(8, 4)])
        .await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    namespace.network_is(&open, true).await;
    namespace.create("web").await;
    let told = namespace
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    for words in [
        "allowedNamespaces of L2Network",
        &namespace.network,
        &namespace.name,
    ] {
        assert!(told.note.contains(words), "{words} is missing: {told:?}");
    }
    let by_address = namespace
        .service("by-address")
        .annotation(annotations::L2_NETWORK_REQUEST, "")
        .requested_address(&namespace.address(2));
    by_address.create(&namespace.client).await.unwrap();
    let told = namespace
        .told("by-address", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(
        told.note.contains("allowedNamespaces of L2Network"),
        "{told:?}"
    );
    // Who does not choose gets an address of a network that is open to it.
    let any = namespace
        .service("any")
        .annotation(annotations::L2_NETWORK_REQUEST, "");
    any.create(&namespace.client).await.unwrap();
    let given = namespace.served("any").await;
    assert!(
        !(0..4).any(|n| given[0] == namespace.address(n)),
        "{given:?}"
    );
    of_team(&namespace, Some("red")).await;
    namespace
        .served_with("by-address", &[namespace.address(2)])
        .await;
    let addresses = namespace.served("web").await;
    // What a Service has stays, across a restart too.
    of_team(&namespace, None).await;
    drop(central);
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("late").await;
    namespace
        .told("late", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert_eq!(namespace.served("web").await, addresses);
    cluster.finish().await;
}

#[tokio::test]
async fn a_namespace_gets_no_more_addresses_than_the_network_permits() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(8).await;
    let limit = async |max: u32| {
        let patch = Patch::Merge(json!({ "spec": { "maxAddressesPerNamespace": max } }));
        let params = PatchParams::default();
        let patched = namespace
            .networks()
            .patch(&namespace.network, &params, &patch)
            .await;
        patched.unwrap();
    };
    limit(1).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("first").await;
    namespace.served("first").await;
    namespace.create("second").await;
    let told = namespace
        .told("second", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(
        told.note
            .contains("spec.maxAddressesPerNamespace permits (1)"),
        "{told:?}"
    );
    let mut other = namespace.clone();
    other.name = unique("services");
    create_namespace(&other.client, &other.name).await.unwrap();
    other.create("first").await;
    other.served("first").await;
    namespace.delete("first").await;
    namespace.served("second").await;
    namespace.create("third").await;
    namespace
        .told("third", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    limit(2).await;
    namespace.served("third").await;
    cluster.finish().await;
}

#[tokio::test]
async fn without_the_right_to_namespaces_only_networks_that_select_them_give_nothing() {
    // Its own: a role is changed.
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let cluster = Cluster::on(control_plane).await.unwrap();
    let roles = Api::<ClusterRole>::all(cluster.admin.clone());
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
    let namespace = cluster.namespace_with_network(4).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("web").await;
    namespace.served("web").await;
    assert!(
        !central.process.log().contains("amespaces"),
        "nobody needs them"
    );
    let asked = cluster.audit().await.of("namespaces");
    assert!(
        asked
            .by(mooring_test_cluster::shipped::CENTRAL_USER)
            .is_empty()
    );
    let mut red = cluster.namespace().await;
    red.name.clone_from(&namespace.name);
    for_team(&red, "red").await;
    red.create("red").await;
    let told = red.told("red", reasons::SYNC_LOAD_BALANCER_FAILED).await;
    assert!(told.note.contains("cannot list Namespaces"), "{told:?}");
    namespace.create("next").await;
    namespace.served("next").await;
    of_team(&red, Some("red")).await;
    let mut given_back = roles.get("mooring-central").await.unwrap();
    given_back.rules = whole.rules;
    roles
        .replace("mooring-central", &params, &given_back)
        .await
        .unwrap();
    // The watch is tried again after 30 s at most.
    eventually("it is served once central may", SOON * 6, async || {
        mooring_test_cluster::test_namespace::is_served(&red.get("red").await).is_ok()
    })
    .await;
}
