//! Whatever happens in between, in the end there is exactly what is wanted.

use std::time::Duration;

use http::{Method, StatusCode};
use mooring_cloud_sim::brightbox::{Behaviour, Kind};
use mooring_cloud_sim::{Fault, When};
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::brightbox_services::cloud::{BALANCERS, text, usual};
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none,
};
use crate::brightbox_services::forwarding_failures::{Death, storm};

/// What makes something: of each the answer can be lost.
const POSTS: [&str; 5] = [
    "/1.0/server_groups",
    "/1.0/firewall_policies",
    "/1.0/firewall_rules",
    "/1.0/cloud_ips",
    BALANCERS,
];

/// Of many cases, those that `make test` has time for: the first, one in the middle, the last.
/// `make sweep-brightbox` takes all of them.
fn some<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let all: Vec<T> = all.into_iter().collect();
    let (middle, last) = (all.len() / 2, all.len() - 1);
    let is_every = std::env::var_os("EVERY").is_some();
    let numbered = all.into_iter().enumerate();
    let kept = numbered.filter(|(n, _)| is_every || [0, middle, last].contains(n));
    kept.map(|(_, case)| case).collect()
}

/// Each of these writes, before and after it is done.
fn before_and_after(writes: u64) -> impl Iterator<Item = (u64, bool)> {
    (1..=writes).flat_map(|n| [(n, false), (n, true)])
}

/// How many writes it takes to make what a Service has, and to be rid of it.
async fn counted(cluster: &CloudCluster) -> [u64; 2] {
    let _central = cluster.central().await;
    cluster.provide("counted").await;
    let made = cluster.writes().len();
    cluster.delete("counted").await;
    cluster.gone("counted").await;
    let gone = cluster.writes().len() - made;
    [made, gone].map(|count| u64::try_from(count).unwrap())
}

/// Asserts that the Service is served by one of each part, and that there is nothing else.
async fn is_whole(cluster: &CloudCluster) {
    cluster.provided_at_last("web").await;
    cluster.serves("web", &[1, 2]).await;
    for kind in [Kind::ServerGroup, Kind::FirewallPolicy, Kind::CloudIp] {
        let found = cluster.sim().all(kind);
        assert_eq!(found.len(), 1, "{kind:?}: {found:#?}");
    }
    assert_eq!(cluster.cloud.balancers().len(), 1);
}

async fn is_gone(cluster: &CloudCluster) {
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
}

#[tokio::test]
async fn killed_at_any_write_of_a_creation_it_makes_nothing_twice() {
    let cluster = CloudCluster::start().await;
    let [writes, _] = counted(&cluster).await;
    for (n, executed) in some(before_and_after(writes)) {
        let central = cluster.central().await;
        let death = Death::at(&cluster, central, n, executed);
        cluster.create("web").await;
        death.comes().await;
        let _central = cluster.central().await;
        is_whole(&cluster).await;
        cluster.delete("web").await;
        is_gone(&cluster).await;
    }
    cluster.finish().await;
}

/// And if the Service is deleted meanwhile.
#[tokio::test]
async fn killed_at_any_write_of_a_creation_it_leaves_nothing_of_a_service_that_is_deleted_then() {
    let cluster = CloudCluster::start().await;
    let [writes, _] = counted(&cluster).await;
    for n in some(1..=writes) {
        let central = cluster.central().await;
        let death = Death::at(&cluster, central, n, true);
        cluster.create("web").await;
        death.comes().await;
        cluster.delete("web").await;
        let _central = cluster.central().await;
        is_gone(&cluster).await;
    }
    cluster.finish().await;
}

/// The Go controller leaks the address each time, and the rest at most of these writes.
#[tokio::test]
async fn killed_at_any_write_of_a_deletion_it_strands_nothing() {
    let cluster = CloudCluster::start().await;
    let [_, writes] = counted(&cluster).await;
    for (n, executed) in some(before_and_after(writes)) {
        let central = cluster.central().await;
        cluster.provide("web").await;
        let death = Death::at(&cluster, central, n, executed);
        cluster.delete("web").await;
        death.comes().await;
        let _central = cluster.central().await;
        is_gone(&cluster).await;
    }
    cluster.finish().await;
}

/// Killed at each write of the way to another Cloud IP.
#[tokio::test]
async fn killed_on_the_way_to_another_cloud_ip_it_arrives_there_and_leaves_none_behind() {
    let cluster = CloudCluster::start().await;
    let ip = json!({ "name": "mine", "public_ip": "192.0.2.1", "public_ipv4": "192.0.2.1" });
    let ip = cluster.sim().put(Kind::CloudIp, ip);
    for (n, executed) in some(before_and_after(3)) {
        let central = cluster.central().await;
        cluster.provide("web").await;
        let death = Death::at(&cluster, central, n, executed);
        cluster.note("web", "cloudip-allocations", Some(&ip)).await;
        death.comes().await;
        let _central = cluster.central().await;
        eventually("it has that one alone", AFTER_RETRIES, async || {
            let shown = cluster.shown("web").await;
            let ips = shown["cloud_ips"].as_array().cloned().unwrap_or_default();
            let all = cluster.sim().all(Kind::CloudIp).len();
            ips.len() == 1 && ips[0]["id"] == json!(ip) && all == 1
        })
        .await;
        cluster.delete("web").await;
        cluster.gone_within("web", AFTER_RETRIES).await;
        eventually("only the chosen one is left", SOON, async || {
            cluster.cloud.left() == [ip.clone()]
        })
        .await;
    }
    cluster.finish().await;
}

/// Every way in which an answer can be lost, to each request that makes something.
#[tokio::test]
async fn an_answer_that_is_lost_makes_nothing_twice() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let faults = || {
        [
            Fault::reset().executed(),
            Fault::torn().executed(),
            Fault::status(StatusCode::SERVICE_UNAVAILABLE).executed(),
            Fault::status(StatusCode::GATEWAY_TIMEOUT).executed(),
        ]
    };
    let all = POSTS
        .iter()
        .flat_map(|path| faults().map(|fault| (path, fault)));
    for (path, fault) in some(all) {
        let when = When::write(path).method(Method::POST).times(1);
        let lost = cluster.sim().faults().inject(when, fault);
        cluster.create("web").await;
        is_whole(&cluster).await;
        assert_eq!(lost.hits(), 1, "{path}");
        cluster.delete("web").await;
        is_gone(&cluster).await;
    }
    cluster.finish().await;
}

/// A refusal of each of these requests is told, and what was made until then is used afterwards.
#[tokio::test]
async fn a_refusal_at_any_step_leaks_nothing() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for path in some(POSTS) {
        let when = When::write(path).method(Method::POST).times(2);
        let body = r#"{"error_name": "account_limit_reached", "errors": ["The account is full"]}"#;
        let refusal = Fault::body(StatusCode::FORBIDDEN, body);
        let refused = cluster.sim().faults().inject(when, refusal);
        cluster.create("web").await;
        refused.struck(2).await;
        let told = cluster.failed("web").await;
        assert!(told.note.contains("The account is full"), "{}", told.note);
        is_whole(&cluster).await;
        cluster.delete("web").await;
        is_gone(&cluster).await;
    }
    cluster.finish().await;
}

/// Made, and in no listing for a while.
#[tokio::test]
async fn one_that_is_listed_late_is_waited_for_and_not_made_again() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        listed_after: Duration::from_secs(8),
        ..usual()
    });
    let flags = cluster.flags().with("--creation-settle-time=60s");
    let central = cluster.central_with(flags.clone()).await;
    let service = cluster.create("web").await;
    eventually("it is made", SOON, async || cluster.balancer(&service)).await;
    drop(central);
    let _central = cluster.central_with(flags).await;
    is_whole(&cluster).await;
    assert_eq!(cluster.cloud.creations().len(), 1);
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn a_storm_of_failures_ends_with_what_is_wanted() {
    let cluster = CloudCluster::start().await;
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS);
    storm(
        &cluster,
        busy,
        |name| cluster.service(name),
        |services| {
            for kind in [Kind::ServerGroup, Kind::FirewallPolicy, Kind::CloudIp] {
                assert_eq!(cluster.sim().all(kind).len(), services, "{kind:?}");
            }
        },
    )
    .await;
    let deleted = cluster.sim().all(Kind::LoadBalancer);
    assert!(deleted.iter().all(|one| text(&one["status"]) == "deleted"));
    cluster.finish().await;
}
