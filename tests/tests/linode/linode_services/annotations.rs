//! What annotations do.

use std::time::Instant;

use http::Method;
use mooring_cloud_sim::linode::Kind;
use mooring_common::names::linode_tags::{CLUSTER as CLUSTER_MARK, SERVICE as SERVICE_MARK};
use mooring_common::names::reasons;
use serde_json::{Value, json};

use crate::linode_services::cloud::{tags, text};
use crate::linode_services::cluster::{CloudCluster, LoadBalancerCloud as _, assert_none, ingress};
use crate::linode_services::key;

const ADDRESS: &str = "198.51.100.7";

/// The tags without marks.
fn unmarked(shown: &Value) -> Vec<String> {
    let all = tags(shown).into_iter().map(|tag| text(&tag));
    let is_mark = |tag: &String| tag.starts_with(SERVICE_MARK) || tag.starts_with(CLUSTER_MARK);
    all.filter(|tag| !is_mark(tag)).collect()
}

/// The Go controller writes them at every pass, since Linode keeps each once and without spaces.
#[tokio::test]
async fn tags_with_spaces_and_twice_cost_one_write() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let flags = flags.with("--nodebalancer-tags=all, of-us");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.id("web").await;
    let start = Instant::now();
    cluster.note("web", "tags", Some("one, two,one")).await;
    cluster
        .shows(&id, "it is tagged", |shown| {
            unmarked(shown) == ["kubernetes", "all", "of-us", "one", "two"]
        })
        .await;
    let shown = cluster.shown("web").await;
    let marks = tags(&shown).len() - unmarked(&shown).len();
    assert_eq!(marks, 2, "{shown}");
    // Looked at again and again, it is right.
    cluster.read_since(&id, Instant::now(), 2).await;
    let writes = cluster.cloud.writes_on(&id).since(start);
    assert_eq!(writes.len(), 1, "{}", writes.summary());
    // In another order they are the same.
    let start = Instant::now();
    cluster.note("web", "tags", Some("two,one")).await;
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.finish().await;
}

#[tokio::test]
async fn the_throttle_is_cut_told_and_changed_in_place() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide_with("web", &[("throttle", "5")]).await;
    let id = cluster.id("web").await;
    let throttle = |wanted: u64| move |shown: &Value| shown["client_conn_throttle"] == wanted;
    cluster.shows(&id, "it is throttled", throttle(5)).await;
    cluster.note("web", "throttle", Some("99")).await;
    cluster.shows(&id, "it is cut to 20", throttle(20)).await;
    cluster
        .told("web", reasons::QUESTIONABLE_ANNOTATION, &key("throttle"))
        .await;
    cluster.note("web", "throttle", None).await;
    cluster.shows(&id, "it is not throttled", throttle(0)).await;
    assert_none(&cluster.sim().outages(&id));
    cluster.finish().await;
}

#[tokio::test]
async fn a_reserved_address_is_taken_at_creation_and_another_one_is_told_to_be_ignored() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.sim().reserve("eu-central", Some(ADDRESS));
    let service = cluster
        .provide_with("web", &[("reserved-ipv4", ADDRESS)])
        .await;
    assert_eq!(ingress(&service)[0]["ip"], ADDRESS);
    let id = cluster.id("web").await;
    let start = Instant::now();
    cluster
        .note("web", "reserved-ipv4", Some("198.51.100.8"))
        .await;
    let words = format!(
        "IPv4 annotation changed to 198.51.100.8, but NodeBalancer ({id}) IP cannot be updated after creation. \
         It will remain {ADDRESS}"
    );
    let told = cluster
        .told("web", reasons::NODE_BALANCER_IP_CHANGE_IGNORED, &words)
        .await;
    assert_eq!(
        told.reporter,
        crate::linode_services::cloud::SuiteCloud::COMPONENT
    );
    assert_eq!(told.kind, "Warning");
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    assert_eq!(ingress(&cluster.get("web").await)[0]["ip"], ADDRESS);
    cluster.finish().await;
}

/// The words of the API are in the Event, as the Go controller's users look for them.
#[tokio::test]
async fn an_address_that_is_not_reserved_is_told_in_the_words_of_the_cloud() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.service("web");
    cluster
        .make(service.annotation(&key("reserved-ipv4"), ADDRESS))
        .await;
    cluster
        .told(
            "web",
            reasons::SYNC_LOAD_BALANCER_FAILED,
            "Error syncing load balancer: failed to ensure load balancer: [400] IPv4 address is not reserved",
        )
        .await;
    cluster.marker().await;
    assert_eq!(cluster.cloud.balancers().len(), 1, "the marker's");
    cluster.finish().await;
}

#[tokio::test]
async fn the_status_has_host_name_and_addresses_as_asked_for() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let shown = cluster.shown("web").await;
    let (hostname, ipv4, ipv6) = (&shown["hostname"], &shown["ipv4"], &shown["ipv6"]);
    let plain = json!([{ "hostname": hostname, "ip": ipv4, "ipMode": "VIP" }]);
    assert_eq!(
        without_modes(&ingress(&service)),
        without_modes(plain.as_array().unwrap())
    );
    let both = json!([{ "hostname": hostname, "ip": ipv4 }, { "hostname": hostname, "ip": ipv6 }]);
    let name = json!([{ "hostname": hostname }]);
    for (end, value, wanted) in [
        ("enable-ipv6-ingress", Some("true"), &both),
        ("hostname-only-ingress", Some("true"), &name),
        ("hostname-only-ingress", None, &both),
        ("enable-ipv6-ingress", None, &plain),
    ] {
        cluster.note("web", end, value).await;
        let wanted = without_modes(wanted.as_array().unwrap());
        cluster
            .is("web", &format!("has the status {wanted:?}"), |service| {
                without_modes(&ingress(service)) == wanted
            })
            .await;
    }
    let id = cluster.id("web").await;
    assert_none(&cluster.cloud.writes_on(&id));
    cluster.finish().await;
}

/// The API server fills in `ipMode`.
fn without_modes(entries: &[Value]) -> Vec<Value> {
    let strip = |entry: &Value| {
        let mut entry = entry.clone();
        entry.as_object_mut().map(|entry| entry.remove("ipMode"));
        entry
    };
    entries.iter().map(strip).collect()
}

/// An explicit false wins over the environment.
#[tokio::test]
async fn a_service_can_say_otherwise_than_the_environment() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags();
    let flags = flags.environment("LINODE_HOSTNAME_ONLY_INGRESS", "true");
    let _central = cluster.central_with(flags).await;
    let service = cluster.provide("web").await;
    assert!(ingress(&service).iter().all(|entry| entry["ip"].is_null()));
    let service = cluster
        .provide_with("other", &[("hostname-only-ingress", "false")])
        .await;
    assert!(
        ingress(&service)
            .iter()
            .all(|entry| entry["ip"].is_string())
    );
    cluster.finish().await;
}

#[tokio::test]
async fn with_preserve_the_nodebalancer_stays_without_marks_and_with_what_it_has() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let acl = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
    cluster
        .provide_with("web", &[("preserve", "true"), ("firewall-acl", acl)])
        .await;
    let id = cluster.id("web").await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    let shown = cluster.sim().get(Kind::NodeBalancer, &id).unwrap();
    assert!(
        !tags(&shown)
            .iter()
            .any(|tag| text(tag).starts_with(SERVICE_MARK)),
        "{shown}"
    );
    assert_eq!(cluster.cloud.firewalls(&id).len(), 1);
    assert_eq!(cluster.sim().traffic(&id).now()["tcp/80"].len(), 2);
    // It is no orphan either.
    drop(central);
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let start = Instant::now();
    let _central = cluster.central_with(flags.with("--delete-orphans")).await;
    cluster.marker().await;
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    assert_none(&cluster.orphans_told().await);
    cluster.finish().await;
}

#[tokio::test]
async fn a_reserved_address_is_released_only_if_the_service_says_so() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for (name, address, retain) in [
        ("kept", "198.51.100.1", None),
        ("given-up", "198.51.100.2", Some("false")),
        ("unclear", "198.51.100.3", Some("perhaps")),
    ] {
        cluster.sim().reserve("eu-central", Some(address));
        let mut notes = vec![("reserved-ipv4", address)];
        notes.extend(retain.map(|retain| ("retain-reserved-ipv4", retain)));
        cluster.provide_with(name, &notes).await;
        cluster.delete(name).await;
        cluster.gone(name).await;
        let is_there = cluster.sim().get(Kind::ReservedIp, address).is_some();
        assert_eq!(is_there, retain != Some("false"), "{name}");
    }
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// The Go controller's Service hangs for ever: an address that is not reserved answers 404.
#[tokio::test]
async fn an_address_that_was_never_reserved_hinders_no_deletion() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster
        .provide_with("web", &[("retain-reserved-ipv4", "false")])
        .await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn what_cannot_be_understood_keeps_what_there_is_and_all_of_it_is_told_at_once() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.id("web").await;
    let start = Instant::now();
    let wrong = [
        ("default-protocol", "gopher"),
        ("default-algorithm", "fairest"),
        ("check-interval", "soon"),
        ("check-passive", "perhaps"),
        ("firewall-acl", "{}"),
        ("port-80", r#"{"stickiness": 7}"#),
    ];
    let all: Value = wrong
        .iter()
        .map(|(end, value)| (key(end), json!(value)))
        .collect();
    cluster
        .patch("web", &json!({ "metadata": { "annotations": all } }))
        .await;
    let told = cluster.failed("web").await;
    for (end, value) in wrong {
        assert!(told.note.contains(&key(end)), "{end}: {}", told.note);
        let value = format!("{value:?}");
        assert!(told.note.contains(&value), "{value}: {}", told.note);
    }
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.serves("web", &[1, 2]).await;
    let told = cluster.warnings("web").await;
    assert_eq!(told.len(), 1, "{told:?}");

    // It can be deleted as it is.
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(!cluster.cloud.has(&id));
    cluster.finish().await;
}

/// A type cannot be changed: that is told, and costs no write.
#[tokio::test]
async fn the_type_is_that_of_the_creation() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--default-nodebalancer-type=premium");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    assert_eq!(cluster.shown("web").await["type"], "premium");
    let id = cluster.id("web").await;
    cluster
        .note("web", "nodebalancer-type", Some("common"))
        .await;
    cluster
        .told("web", reasons::UNSUPPORTED_FIELD, "common")
        .await;
    cluster.marker().await;
    assert_none(&cluster.cloud.writes_on(&id));
    let creation = &cluster.cloud.creations()[0];
    assert_eq!(creation.method, Method::POST);
    cluster.finish().await;
}
