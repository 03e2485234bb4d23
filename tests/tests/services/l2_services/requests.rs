//! What a user asks for: an address, a network, families; and what becomes of what cannot be had.

use mooring_common::names::{annotations, reasons};
use mooring_tests::objects::{EventNote, unique};
use mooring_tests::stage::{Stage, annotation, ingress, is_untouched};
use serde_json::json;

use super::{Scene, never_meanwhile};

const FAILED: &str = reasons::SYNC_LOAD_BALANCER_FAILED;

/// Waits for the one Warning about a Service, and asserts that nothing was written on it.
async fn refused(scene: &Scene, stage: &Stage, name: &str) -> EventNote {
    let told = stage.told(name, FAILED).await;
    never_meanwhile("a refused Service is touched", scene, async || {
        let service = stage.get(name).await;
        (!is_untouched(&service)).then(|| format!("{service:?}"))
    })
    .await;
    let warnings = stage.warnings(name).await;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    told
}

#[tokio::test]
async fn a_requested_address_is_honoured_by_field_and_by_annotation() {
    let scene = Scene::enter().await;
    let stage = scene.stage(8).await;
    let web = stage.service("web").requested_address(&stage.address(5));
    web.create(&stage.client).await.unwrap();
    stage.served_with("web", &[stage.address(5)]).await;
    let api = stage
        .service("api")
        .requested_address(&stage.address(6))
        .annotation(annotations::ADDRESSES_REQUEST, &stage.address(7));
    api.create(&stage.client).await.unwrap();
    stage.served_with("api", &[stage.address(7)]).await;
    let empty = stage
        .service("empty")
        .annotation(annotations::ADDRESSES_REQUEST, "");
    empty.create(&stage.client).await.unwrap();
    stage.served("empty").await;
    scene.leave().await;
}

#[tokio::test]
async fn sv_24_an_address_in_use_is_refused_and_no_other_is_taken() {
    let scene = Scene::enter().await;
    let stage = scene.stage(8).await;
    stage.create("first").await;
    let taken = stage.served("first").await.remove(0);
    let late = stage.service("late").requested_address(&taken);
    late.create(&stage.client).await.unwrap();
    let told = refused(&scene, &stage, "late").await;
    let holder = format!("Service {}/first", stage.namespace);
    assert!(
        told.note.contains(&taken) && told.note.contains(&holder),
        "{told:?}"
    );
    stage.delete("first").await;
    stage.gone("first").await;
    stage.served_with("late", &[taken]).await;
    scene.leave().await;
}

#[tokio::test]
async fn an_address_outside_of_all_ranges_or_of_another_family_is_refused() {
    let scene = Scene::enter().await;
    let stage = scene.stage(2).await;
    for (name, address, words) in [
        ("outside", "203.0.113.1".to_owned(), "in no range"),
        ("behind", stage.address(2), "in no range"),
        ("v6", stage.address_v6(0), "spec.ipFamilies"),
    ] {
        let service = stage.service(name).requested_address(&address);
        service.create(&stage.client).await.unwrap();
        let told = refused(&scene, &stage, name).await;
        assert!(
            told.note.contains(&address) && told.note.contains(words),
            "{told:?}"
        );
    }
    stage.set_ranges(&stage.network, &[stage.range(0, 3)]).await;
    stage.served_with("behind", &[stage.address(2)]).await;
    scene.leave().await;
}

#[tokio::test]
async fn the_network_is_chosen_by_annotation_and_can_be_changed() {
    let scene = Scene::enter().await;
    let (stage, other) = (scene.stage(2).await, scene.stage(2).await);
    stage.create("web").await;
    stage.served_with("web", &[stage.address(0)]).await;
    stage
        .annotate("web", annotations::L2_NETWORK_REQUEST, Some(&other.network))
        .await;
    stage.served_with("web", &[other.address(0)]).await;
    let record = stage.get("web").await;
    assert_eq!(
        annotation(&record, annotations::ALLOCATED_NETWORK),
        Some(other.network.as_str())
    );
    stage.network_uses(&stage.network, 0).await;
    stage.network_uses(&other.network, 1).await;

    let missing = unique("missing");
    stage
        .annotate("web", annotations::L2_NETWORK_REQUEST, Some(&missing))
        .await;
    let told = stage.told("web", FAILED).await;
    assert!(told.note.contains(&missing), "{told:?}");
    assert_eq!(
        ingress(&stage.get("web").await),
        [other.address(0)],
        "it keeps what it has"
    );
    other.create_network(&missing, &[other.range(5, 2)]).await;
    stage.served_with("web", &[other.address(5)]).await;
    scene.leave().await;
}

#[tokio::test]
async fn a_service_has_addresses_of_its_families_in_their_order() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    for (name, families, expected) in [
        ("v6", vec!["IPv6"], vec![stage.address_v6(0)]),
        (
            "both",
            vec!["IPv4", "IPv6"],
            vec![stage.address(0), stage.address_v6(1)],
        ),
        (
            "v6-first",
            vec!["IPv6", "IPv4"],
            vec![stage.address_v6(2), stage.address(1)],
        ),
    ] {
        let service = stage.service(name).families(&families);
        service.create(&stage.client).await.unwrap();
        stage.served_with(name, &expected).await;
    }
    let asked = format!("{}, {}", stage.address(3), stage.address_v6(9));
    let service = stage
        .service("asked")
        .families(&["IPv4", "IPv6"])
        .annotation(annotations::ADDRESSES_REQUEST, &asked);
    service.create(&stage.client).await.unwrap();
    stage
        .served_with("asked", &[stage.address(3), stage.address_v6(9)])
        .await;
    scene.leave().await;
}

#[tokio::test]
async fn a_second_family_is_added_and_taken_off_beside_the_first() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.create("web").await;
    stage.served_with("web", &[stage.address(0)]).await;
    let both = json!({ "spec": { "ipFamilyPolicy": "RequireDualStack" } });
    stage.patch("web", &both).await;
    stage
        .served_with("web", &[stage.address(0), stage.address_v6(0)])
        .await;
    let one = json!({ "spec": {
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
        "clusterIPs": [stage.get("web").await.spec.unwrap().cluster_ip],
    } });
    stage.patch("web", &one).await;
    stage.served_with("web", &[stage.address(0)]).await;
    scene.leave().await;
}

#[tokio::test]
async fn two_families_where_the_network_has_one() {
    let scene = Scene::enter().await;
    let stage = scene.stage(4).await;
    stage.set_ranges(&stage.network, &[stage.range(0, 4)]).await;
    stage.network_is(&stage.network, true).await;
    let required = stage.service("required").families(&["IPv4", "IPv6"]);
    required.create(&stage.client).await.unwrap();
    let told = refused(&scene, &stage, "required").await;
    assert!(told.note.contains("no free IPv6 address"), "{told:?}");
    stage.create("preferred").await;
    let preferred = json!({ "spec": { "ipFamilyPolicy": "PreferDualStack" } });
    stage.patch("preferred", &preferred).await;
    assert_eq!(stage.served("preferred").await, [stage.address(0)]);
    scene.leave().await;
}

#[tokio::test]
async fn an_exhausted_pool_is_told_and_who_waits_is_served_next() {
    let scene = Scene::enter().await;
    let stage = scene.stage(2).await;
    stage.create("one").await;
    stage.create("two").await;
    stage.served("two").await;
    let freed = stage.served("one").await;
    stage.create("three").await;
    let told = refused(&scene, &stage, "three").await;
    assert!(
        told.note.contains("no free IPv4 address") && told.note.contains(&stage.network),
        "{told:?}"
    );
    stage.delete("one").await;
    stage.gone("one").await;
    stage.served_with("three", &freed).await;
    scene.leave().await;
}

#[tokio::test]
async fn all_faults_of_the_annotations_are_told_in_one_warning() {
    let scene = Scene::enter().await;
    let stage = scene.stage(8).await;
    stage.create("web").await;
    let addresses = stage.served("web").await;
    let [one, two] = [stage.address(3), stage.address(4)];
    let nonsense = format!("{one},{two},\u{7}\u{1b}[31mred,{}", stage.address_v6(0));
    let wrong = json!({ "metadata": { "annotations": {
        annotations::ADDRESSES_REQUEST: nonsense,
        annotations::L2_NETWORK_REQUEST: "No Such/Network",
    } } });
    stage.patch("web", &wrong).await;
    let told = stage.told("web", FAILED).await;
    for words in [
        format!("{two} is the second of its family"),
        "is no IP address".to_owned(),
        format!("{} is of a family", stage.address_v6(0)),
        "\"No Such/Network\" is no name of an L2Network".to_owned(),
    ] {
        assert!(told.note.contains(&words), "{words:?} is missing: {told:?}");
    }
    assert!(!told.note.contains(char::is_control), "{told:?}");
    never_meanwhile("what is served is touched", &scene, async || {
        let found = ingress(&stage.get("web").await);
        (found != addresses).then(|| format!("{found:?}"))
    })
    .await;
    assert_eq!(stage.warnings("web").await.len(), 1);
    let mended = json!({ "metadata": { "annotations": {
        annotations::ADDRESSES_REQUEST: one,
        annotations::L2_NETWORK_REQUEST: stage.network,
    } } });
    stage.patch("web", &mended).await;
    stage.served_with("web", &[one]).await;
    scene.leave().await;
}

#[tokio::test]
async fn the_longest_annotation_that_there_can_be_is_survived() {
    let scene = Scene::enter().await;
    let stage = scene.stage(2).await;
    let longest = "x,".repeat(120_000);
    let service = stage
        .service("web")
        .annotation(annotations::ADDRESSES_REQUEST, &longest);
    service.create(&stage.client).await.unwrap();
    let told = refused(&scene, &stage, "web").await;
    assert!(
        told.note.contains("is no IP address") && told.note.contains("more"),
        "{told:?}"
    );
    let too_long = stage
        .service("too-long")
        .annotation(annotations::ADDRESSES_REQUEST, &"x".repeat(256 * 1024));
    let error = too_long.create(&stage.client).await.unwrap_err();
    assert!(format!("{error:#}").contains("Too long"), "{error:#}");
    scene.leave().await;
}
