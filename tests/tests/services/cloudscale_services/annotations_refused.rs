//! Annotations that cannot be understood: one Event that says all of it, and nothing is changed.

use futures::future::join_all;
use mooring_common::names::reasons;
use mooring_test_support::wait::eventually;

use crate::cloudscale_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress,
};
use crate::cloudscale_services::key;

/// What must not be taken, each by itself.
const WRONG: &[(&str, &str)] = &[
    ("health-monitor-delay-s", "a"),
    ("health-monitor-delay-s", ""),
    ("health-monitor-delay-s", "-1"),
    ("health-monitor-timeout-s", "1.5"),
    ("health-monitor-timeout-s", " 5"),
    ("health-monitor-up-threshold", "99999999999999999999999"),
    ("health-monitor-down-threshold", "null"),
    ("timeout-client-data-ms", "4294967296"),
    ("timeout-member-connect-ms", "fast"),
    ("timeout-member-data-ms", "[]"),
    ("listener-allowed-cidrs", "["),
    ("listener-allowed-cidrs", "{}"),
    ("listener-allowed-cidrs", "[null]"),
    ("listener-allowed-cidrs", "[[]]"),
    ("listener-allowed-cidrs", "\"10.0.0.0/8\""),
    ("listener-allowed-cidrs", "[\"300.0.0.0/8\"]"),
    ("listener-allowed-subnets", "[1]"),
    ("floating-ips", "true"),
    ("floating-ips", "[\"nonsense\"]"),
    ("vip-addresses", ""),
    ("vip-addresses", "{\"subnet\": 7}"),
    ("health-monitor-http", ""),
    ("health-monitor-http", "[]"),
    ("health-monitor-http", "7"),
    ("health-monitor-http", "{\"method\": 7}"),
    ("health-monitor-http", "{\"expected_codes\": \"200\"}"),
    ("health-monitor-type", "smtp"),
    ("pool-algorithm", "fastest"),
    ("pool-algorithm", "round_robin\n"),
    ("pool-protocol", "sctp"),
    ("pool-protocol", "\u{0007}\u{001b}[31m"),
    ("listener-protocol", "quic"),
    ("ip-mode", "proxy"),
    ("name", ""),
    ("node-selector", "invalid===syntax"),
];

async fn is_refused(cluster: &CloudCluster, index: usize, (end, value): (&str, &str)) {
    let name = format!("wrong-{index}");
    cluster.create(&name).await;
    let before = ingress(&cluster.provided_at_last(&name).await);
    let uuid = cluster.uuid(&name).await;
    let writes = cluster.writes_on(&uuid).len();
    cluster.annotate(&name, &key(end), Some(value)).await;
    let told = cluster.failed(&name).await;
    assert!(told.note.contains(&key(end)), "{end}={value:?}: {told:?}");
    assert!(
        !told.note.chars().any(char::is_control),
        "{end}={value:?}: {told:?}"
    );
    assert_eq!(cluster.writes_on(&uuid).len(), writes, "{end}={value:?}");
    assert_eq!(
        ingress(&cluster.get(&name).await),
        before,
        "{end}={value:?}"
    );
    // It keeps nobody from deleting the Service.
    cluster.delete(&name).await;
    cluster.gone_within(&name, AFTER_RETRIES).await;
    assert!(!cluster.cloud.has(&uuid), "{end}={value:?}");
}

#[tokio::test]
async fn whatever_is_wrong_is_told_and_changes_nothing_and_hinders_no_deletion() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central_with(cluster.workers(4)).await;
    let all = WRONG.iter().enumerate();
    join_all(all.map(|(index, wrong)| is_refused(&cluster, index, *wrong))).await;
    assert!(central.process.is_running());
    cluster.finish().await;
}

/// The Go controller takes them, and so does Mooring; the cloud itself would refuse them.
#[tokio::test]
async fn zero_and_a_uuid_that_is_none_are_told_and_hinder_nothing() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let questionable = [
        ("health-monitor-timeout-s", "0"),
        ("health-monitor-up-threshold", "0"),
        ("timeout-client-data-ms", "0"),
        ("uuid", "abc"),
    ];
    let service = cluster.service("web");
    let service = questionable.iter().fold(service, |service, (end, value)| {
        service.annotation(&key(end), value)
    });
    cluster.make(service).await;
    cluster.provided("web").await;
    for (end, _) in questionable {
        cluster
            .told("web", reasons::QUESTIONABLE_ANNOTATION, &key(end))
            .await;
    }
    assert_ne!(cluster.uuid("web").await, "abc");
    cluster.finish().await;
}

#[tokio::test]
async fn all_faults_of_a_service_are_in_one_event() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let ends = ["health-monitor-delay-s", "floating-ips", "node-selector"];
    let service = ends.iter().fold(cluster.service("web"), |service, end| {
        service.annotation(&key(end), "]]")
    });
    cluster.make(service.port_of("SCTP", 9, 9)).await;
    let told = cluster.failed("web").await;
    for end in ends {
        assert!(told.note.contains(&key(end)), "{end}: {told:?}");
    }
    assert!(told.note.contains("SCTP"), "{told:?}");
    assert!(told.note.len() <= 1024, "{told:?}");
    cluster.marker().await;
    assert_eq!(cluster.warnings("web").await.len(), 1);
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.finish().await;
}

/// A load balancer without node ports would lead nowhere.
#[tokio::test]
async fn a_service_without_node_ports_is_refused() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster
        .make(cluster.service("web").without_node_ports())
        .await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains("nodePort"), "{told:?}");
    assert_none(&cluster.writes());
    cluster.finish().await;
}

/// As large as the API server takes them.
#[tokio::test]
async fn annotations_of_256_kib_are_shortened_in_what_is_told() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let huge = "9".repeat(255 * 1024);
    let deep = "[".repeat(255 * 1024);
    for (name, end, value) in [
        ("number", "health-monitor-delay-s", &huge),
        ("list", "listener-allowed-cidrs", &deep),
        ("json", "health-monitor-http", &deep),
        ("vips", "vip-addresses", &huge),
        ("selector", "node-selector", &deep),
        ("mode", "ip-mode", &huge),
    ] {
        let service = cluster.service(name).annotation(&key(end), value);
        cluster.make(service).await;
        let told = cluster.failed(name).await;
        assert!(told.note.contains(&key(end)), "{end}: {told:?}");
        assert!(told.note.len() <= 1024, "{end}: {}", told.note.len());
        cluster.delete(name).await;
        cluster.gone(name).await;
    }
    assert!(central.process.is_running());
    let longest = central.process.log();
    let longest = longest.lines().map(str::len).max().unwrap_or_default();
    assert!(longest < 8192, "a line of {longest} bytes in the log");
    cluster.finish().await;
}

/// What looks wrong, and has a meaning.
const ODD: &[(&str, &str)] = &[
    ("health-monitor-http", "null"),
    ("health-monitor-http", "{}"),
    ("listener-allowed-cidrs", "null"),
    ("listener-allowed-cidrs", "  "),
    ("listener-allowed-subnets", ""),
    ("floating-ips", "null"),
    ("floating-ips", "[]"),
    ("vip-addresses", "[]"),
    ("node-selector", ""),
    ("zone", ""),
    ("force-hostname", ""),
    ("uuid", ""),
    ("uuid", "00000000-0000-4000-8000-000000004711"),
];

async fn is_served(cluster: &CloudCluster, index: usize, (end, value): (&str, &str)) {
    let name = format!("odd-{index}");
    let service = cluster.service(&name).annotation(&key(end), value);
    cluster.make(service).await;
    let what = format!("{end}={value:?} is served");
    eventually(&what, SOON, async || {
        let service = cluster.get(&name).await;
        if ingress(&service).is_empty() {
            Err(cluster.warnings(&name).await)
        } else {
            Ok(())
        }
    })
    .await;
    cluster.serves(&name, &[1, 2]).await;
}

#[tokio::test]
async fn b3_null_and_nothing_are_as_good_as_the_default() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central_with(cluster.workers(4)).await;
    let all = ODD.iter().enumerate();
    join_all(all.map(|(index, odd)| is_served(&cluster, index, *odd))).await;
    assert!(central.process.is_running());
    cluster.finish().await;
}
