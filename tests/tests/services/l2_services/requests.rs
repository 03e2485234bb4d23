//! What a user asks for: an address, a network, families; and what becomes of what cannot be had.

use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{EventNote, unique};
use mooring_test_cluster::test_namespace::{TestNamespace, annotation, ingress, is_untouched};
use serde_json::json;

use super::{cluster_with_central, never_meanwhile, ready_namespace};

const FAILED: &str = reasons::SYNC_LOAD_BALANCER_FAILED;

/// Waits for the one Warning about a Service, and asserts that nothing was written on it.
async fn refused(cluster: &Cluster, namespace: &TestNamespace, name: &str) -> EventNote {
    let told = namespace.told(name, FAILED).await;
    never_meanwhile("a refused Service is touched", cluster, async || {
        let service = namespace.get(name).await;
        (!is_untouched(&service)).then(|| format!("{service:?}"))
    })
    .await;
    let warnings = namespace.warnings(name).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    told
}

#[tokio::test]
async fn a_requested_address_is_honoured_by_field_and_by_annotation() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 8).await;
    let web = namespace
        .service("web")
        .requested_address(&namespace.address(5));
    web.create(&namespace.client).await.unwrap();
    namespace.served_with("web", &[namespace.address(5)]).await;
    let api = namespace
        .service("api")
        .requested_address(&namespace.address(6))
        .annotation(annotations::ADDRESSES_REQUEST, &namespace.address(7));
    api.create(&namespace.client).await.unwrap();
    namespace.served_with("api", &[namespace.address(7)]).await;
    let empty = namespace
        .service("empty")
        .annotation(annotations::ADDRESSES_REQUEST, "");
    empty.create(&namespace.client).await.unwrap();
    namespace.served("empty").await;
    cluster.finish().await;
}

#[tokio::test]
async fn sv_24_an_address_in_use_is_refused_and_no_other_is_taken() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 8).await;
    namespace.create("first").await;
    let taken = namespace.served("first").await.remove(0);
    let late = namespace.service("late").requested_address(&taken);
    late.create(&namespace.client).await.unwrap();
    let told = refused(&cluster, &namespace, "late").await;
    let holder = format!("Service {}/first", namespace.name);
    assert!(
        told.note.contains(&taken) && told.note.contains(&holder),
        "{told:?}"
    );
    namespace.delete("first").await;
    namespace.gone("first").await;
    namespace.served_with("late", &[taken]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_outside_of_all_ranges_or_of_another_family_is_refused() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 2).await;
    for (name, address, words) in [
        ("outside", "203.0.113.1".to_owned(), "in no range"),
        ("behind", namespace.address(2), "in no range"),
        ("v6", namespace.address_v6(0), "spec.ipFamilies"),
    ] {
        let service = namespace.service(name).requested_address(&address);
        service.create(&namespace.client).await.unwrap();
        let told = refused(&cluster, &namespace, name).await;
        assert!(
            told.note.contains(&address) && told.note.contains(words),
            "{told:?}"
        );
    }
    namespace
        .set_ranges(&namespace.network, &[namespace.range(0, 3)])
        .await;
    namespace
        .served_with("behind", &[namespace.address(2)])
        .await;
    cluster.finish().await;
}

#[tokio::test]
async fn the_network_is_chosen_by_annotation_and_can_be_changed() {
    let cluster = cluster_with_central().await;
    let (namespace, other) = (
        ready_namespace(&cluster, 2).await,
        ready_namespace(&cluster, 2).await,
    );
    namespace.create("web").await;
    namespace.served_with("web", &[namespace.address(0)]).await;
    namespace
        .annotate("web", annotations::L2_NETWORK_REQUEST, Some(&other.network))
        .await;
    namespace.served_with("web", &[other.address(0)]).await;
    let record = namespace.get("web").await;
    assert_eq!(
        annotation(&record, annotations::ALLOCATED_NETWORK),
        Some(other.network.as_str())
    );
    namespace.network_uses(&namespace.network, 0).await;
    namespace.network_uses(&other.network, 1).await;

    let missing = unique("missing");
    namespace
        .annotate("web", annotations::L2_NETWORK_REQUEST, Some(&missing))
        .await;
    let told = namespace.told("web", FAILED).await;
    assert!(told.note.contains(&missing), "{told:?}");
    assert_eq!(
        ingress(&namespace.get("web").await),
        [other.address(0)],
        "it keeps what it has"
    );
    other.create_network(&missing, &[other.range(5, 2)]).await;
    namespace.served_with("web", &[other.address(5)]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_has_addresses_of_its_families_in_their_order() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    for (name, families, expected) in [
        ("v6", vec!["IPv6"], vec![namespace.address_v6(0)]),
        (
            "both",
            vec!["IPv4", "IPv6"],
            vec![namespace.address(0), namespace.address_v6(1)],
        ),
        (
            "v6-first",
            vec!["IPv6", "IPv4"],
            vec![namespace.address_v6(2), namespace.address(1)],
        ),
    ] {
        let service = namespace.service(name).families(&families);
        service.create(&namespace.client).await.unwrap();
        namespace.served_with(name, &expected).await;
    }
    let asked = format!("{}, {}", namespace.address(3), namespace.address_v6(9));
    let service = namespace
        .service("asked")
        .families(&["IPv4", "IPv6"])
        .annotation(annotations::ADDRESSES_REQUEST, &asked);
    service.create(&namespace.client).await.unwrap();
    namespace
        .served_with("asked", &[namespace.address(3), namespace.address_v6(9)])
        .await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_second_family_is_added_and_taken_off_beside_the_first() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace.create("web").await;
    namespace.served_with("web", &[namespace.address(0)]).await;
    let both = json!({ "spec": { "ipFamilyPolicy": "RequireDualStack" } });
    namespace.patch("web", &both).await;
    namespace
        .served_with("web", &[namespace.address(0), namespace.address_v6(0)])
        .await;
    let one = json!({ "spec": {
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
        "clusterIPs": [namespace.get("web").await.spec.unwrap().cluster_ip],
    } });
    namespace.patch("web", &one).await;
    namespace.served_with("web", &[namespace.address(0)]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn two_families_where_the_network_has_one() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    namespace
        .set_ranges(&namespace.network, &[namespace.range(0, 4)])
        .await;
    namespace.network_is(&namespace.network, true).await;
    let required = namespace.service("required").families(&["IPv4", "IPv6"]);
    required.create(&namespace.client).await.unwrap();
    let told = refused(&cluster, &namespace, "required").await;
    assert!(told.note.contains("no free IPv6 address"), "{told:?}");
    namespace.create("preferred").await;
    let preferred = json!({ "spec": { "ipFamilyPolicy": "PreferDualStack" } });
    namespace.patch("preferred", &preferred).await;
    assert_eq!(namespace.served("preferred").await, [namespace.address(0)]);
    cluster.finish().await;
}

#[tokio::test]
async fn an_exhausted_pool_is_told_and_who_waits_is_served_next() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 2).await;
    namespace.create("one").await;
    namespace.create("two").await;
    namespace.served("two").await;
    let freed = namespace.served("one").await;
    namespace.create("three").await;
    let told = refused(&cluster, &namespace, "three").await;
    assert!(
        told.note.contains("no free IPv4 address") && told.note.contains(&namespace.network),
        "{told:?}"
    );
    namespace.delete("one").await;
    namespace.gone("one").await;
    namespace.served_with("three", &freed).await;
    cluster.finish().await;
}

#[tokio::test]
async fn all_faults_of_the_annotations_are_told_in_one_warning() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 8).await;
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    let [one, two] = [namespace.address(3), namespace.address(4)];
    let nonsense = format!("{one},{two},\u{7}\u{1b}[31mred,{}", namespace.address_v6(0));
    let wrong = json!({ "metadata": { "annotations": {
        annotations::ADDRESSES_REQUEST: nonsense,
        annotations::L2_NETWORK_REQUEST: "No Such/Network",
    } } });
    namespace.patch("web", &wrong).await;
    let told = namespace.told("web", FAILED).await;
    for words in [
        format!("{two} is the second of its family"),
        "is no IP address".to_owned(),
        format!("{} is of a family", namespace.address_v6(0)),
        "\"No Such/Network\" is no name of an L2Network".to_owned(),
    ] {
        assert!(told.note.contains(&words), "{words:?} is missing: {told:?}");
    }
    assert!(!told.note.contains(char::is_control), "{told:?}");
    never_meanwhile("what is served is touched", &cluster, async || {
        let found = ingress(&namespace.get("web").await);
        (found != addresses).then(|| format!("{found:?}"))
    })
    .await;
    assert_eq!(namespace.warnings("web").await.len(), 1);
    let mended = json!({ "metadata": { "annotations": {
        annotations::ADDRESSES_REQUEST: one,
        annotations::L2_NETWORK_REQUEST: namespace.network,
    } } });
    namespace.patch("web", &mended).await;
    namespace.served_with("web", &[one]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn the_longest_annotation_that_there_can_be_is_survived() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 2).await;
    let longest = "x,".repeat(120_000);
    let service = namespace
        .service("web")
        .annotation(annotations::ADDRESSES_REQUEST, &longest);
    service.create(&namespace.client).await.unwrap();
    let told = refused(&cluster, &namespace, "web").await;
    assert!(
        told.note.contains("is no IP address") && told.note.contains("more"),
        "{told:?}"
    );
    let too_long = namespace
        .service("too-long")
        .annotation(annotations::ADDRESSES_REQUEST, &"x".repeat(256 * 1024));
    let error = too_long.create(&namespace.client).await.unwrap_err();
    assert!(format!("{error:#}").contains("Too long"), "{error:#}");
    cluster.finish().await;
}
