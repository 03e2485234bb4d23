//! Routes while programs end and clouds fail: what is believed, and what is remembered.

use std::time::Instant;

use http::StatusCode;
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::pod_network::{AT_LAST, GENERATIONS, VpcCluster};

const IPS: &str = "**/vpcs/*/ips";

/// A Node that registers again, with another pod CIDR, on the same machine.
#[tokio::test]
async fn rt_10_another_pod_cidr_replaces_the_route() {
    let cluster = VpcCluster::start().await;
    let _central = cluster.with_routes().try_start().await;
    for (number, generation) in GENERATIONS.into_iter().enumerate() {
        let (name, address) = (unique("n"), format!("10.0.0.{}", number + 2));
        let (before, after) = (
            format!("10.128.1{number}.0/24"),
            format!("10.128.2{number}.0/24"),
        );
        let member = cluster
            .with_node(&name, generation, &address, &[&before])
            .await;
        cluster.is_routed(&name).await;
        cluster.delete(&name).await;
        cluster.join(&member, &[&after]).await;
        cluster.is_routed(&name).await;
        cluster.has_ranges(&member, &[&after]).await;
        // And the range that is free now goes to another.
        let other = unique("n");
        let address = format!("10.0.1.{}", number + 2);
        let other_member = cluster
            .with_node(&other, generation, &address, &[&before])
            .await;
        cluster.is_routed(&other).await;
        cluster.has_ranges(&other_member, &[&before]).await;
    }
    cluster.finish().await;
}

/// All replicas were away when the Node was deleted, so that nobody remembers: the route stays until another
/// Node needs its range, and then goes if its machine is a Node's.
#[tokio::test]
async fn rt_06_after_a_restart_only_what_is_provably_ours_goes() {
    let cluster = VpcCluster::start().await;
    let central = cluster.with_routes().try_start().await;
    let (gone, lost) = (unique("n"), unique("n"));
    let first = cluster
        .with_node(&gone, "linode", "10.0.0.2", &["10.128.1.0/24"])
        .await;
    let second = cluster
        .with_node(&lost, "linode", "10.0.0.3", &["10.128.2.0/24"])
        .await;
    cluster.is_routed(&gone).await;
    cluster.is_routed(&lost).await;
    drop(central);
    cluster.delete(&gone).await;
    cluster.delete(&lost).await;
    // One registers again; the other machine is no Node's any more.
    cluster.join(&first, &["10.128.11.0/24"]).await;
    let central = cluster.with_routes().try_start().await;
    cluster.is_routed(&gone).await;
    cluster.pass(21).await;
    cluster
        .has_ranges(&first, &["10.128.1.0/24", "10.128.11.0/24"])
        .await;
    cluster.has_ranges(&second, &["10.128.2.0/24"]).await;
    assert!(
        central
            .log()
            .contains("nothing shows that the route is this cluster's")
    );
    // Others get their ranges.
    let (third, fourth) = (unique("n"), unique("n"));
    cluster
        .with_node(&third, "linode", "10.0.0.4", &["10.128.1.0/24"])
        .await;
    cluster.is_routed(&third).await;
    cluster.has_ranges(&first, &["10.128.11.0/24"]).await;
    cluster
        .with_node(&fourth, "linode", "10.0.0.5", &["10.128.2.0/24"])
        .await;
    cluster.says(&fourth, "True", "NoRouteCreated").await;
    let note = cluster.told(&fourth, reasons::FAILED_TO_CREATE_ROUTE).await;
    assert!(note.contains(&second.id()), "{note}");
    cluster.has_ranges(&second, &["10.128.2.0/24"]).await;
    // Once that is gone by hand, nothing is in the way.
    cluster.linode().set_ranges(second.number, &[]);
    cluster.is_routed(&fourth).await;
    cluster.finish().await;
}

/// The replica that stands by remembers too.
#[tokio::test]
async fn a_new_leader_knows_what_the_last_one_knew() {
    let cluster = VpcCluster::start().await;
    let replica = || {
        let central = cluster.with_routes().flag("--leader-elect=true");
        let central = central.flag("--leader-elect-lease-duration=3s");
        let central = central.flag("--leader-elect-renew-deadline=2s");
        central.flag("--leader-elect-retry-period=250ms")
    };
    let name = unique("n");
    let leader = replica().try_start().await;
    let member = cluster
        .with_node(&name, "linode", "10.0.0.2", &["10.128.1.0/24"])
        .await;
    cluster.is_routed(&name).await;
    let standby = replica().try_start().await;
    // Its cache is full when it asks for the Lease.
    let agents = async || {
        let audit = cluster.audit().await.of("leases");
        audit.filter(|record| record.verb == "get").len()
    };
    let before = agents().await;
    eventually("the other one tries for the Lease", AT_LAST, async || {
        agents().await > before + 20
    })
    .await;
    let failing = Fault::status(StatusCode::SERVICE_UNAVAILABLE);
    let failing = cluster
        .cloud
        .faults()
        .inject(When::write("**/interfaces/*"), failing);
    cluster.delete(&name).await;
    eventually("the deletion fails", AT_LAST, async || failing.hits() > 0).await;
    drop(leader);
    failing.lift();
    cluster.has_ranges(&member, &[]).await;
    drop(standby);
    cluster.finish().await;
}

/// A listing that is cut off, or has a page too few, tells of no route that is lacking or too many.
#[tokio::test]
async fn a_listing_that_is_not_whole_changes_nothing() {
    let cluster = VpcCluster::start().await;
    let name = unique("n");
    let _central = cluster.with_routes().try_start().await;
    let member = cluster
        .with_node(&name, "linode", "10.0.0.2", &["10.128.1.0/24"])
        .await;
    cluster.is_routed(&name).await;
    let faults = [
        Fault::status(StatusCode::INTERNAL_SERVER_ERROR),
        Fault::rewritten(|page| page["data"] = json!([])),
        Fault::rewritten(|page| page["results"] = json!(5_000)),
        Fault::rewritten(|page| {
            for row in page["data"].as_array_mut().into_iter().flatten() {
                if row["address_range"].is_string() {
                    row["address_range"] = json!("10.128.1.0");
                }
            }
        }),
        Fault::cut_off(),
    ];
    for fault in faults {
        let start = Instant::now();
        let injected = cluster.cloud.faults().inject(When::get(IPS), fault);
        eventually("three listings fail", AT_LAST, async || {
            injected.hits() >= 3
        })
        .await;
        let writes = cluster.cloud.calls().since(start).writes();
        assert!(writes.is_empty(), "{}", writes.summary());
        cluster.is_routed(&name).await;
        injected.lift();
    }
    cluster.has_ranges(&member, &["10.128.1.0/24"]).await;
    let events = cluster.events(&name, reasons::FAILED_TO_CREATE_ROUTE).await;
    assert!(events.is_empty(), "{events:?}");
    cluster.finish().await;
}

/// The cloud has done what it did not answer.
#[tokio::test]
async fn an_answer_that_is_lost_costs_nothing() {
    for generation in GENERATIONS {
        let cluster = VpcCluster::start().await;
        let name = unique("n");
        let cut = cluster
            .cloud
            .faults()
            .inject(When::write("**/interfaces/*").times(1), Fault::cut_off());
        let _central = cluster.with_routes().try_start().await;
        let member = cluster
            .with_node(&name, generation, "10.0.0.2", &["10.128.1.0/24"])
            .await;
        cluster.is_routed(&name).await;
        cluster.has_ranges(&member, &["10.128.1.0/24"]).await;
        assert_eq!(cut.hits(), 1);
        let writes = cluster.cloud.calls().to("**/interfaces/*").writes();
        assert_eq!(writes.len(), 1, "{}", writes.summary());
        cluster.finish().await;
    }
}

/// What somebody else puts on the interface between a listing and a write is kept.
#[tokio::test]
async fn ranges_are_read_afresh_before_they_are_written() {
    let cluster = VpcCluster::start().await;
    let name = unique("n");
    let central = cluster
        .with_routes()
        .env("LINODE_ROUTES_CACHE_TTL_SECONDS", "60");
    let _central = central.try_start().await;
    let member = cluster
        .with_node(&name, "legacy_config", "10.0.0.2", &["10.128.1.0/24"])
        .await;
    cluster.is_routed(&name).await;
    cluster
        .linode()
        .set_ranges(member.number, &["10.128.1.0/24", "10.64.0.0/24"]);
    cluster.delete(&name).await;
    cluster.has_ranges(&member, &["10.64.0.0/24"]).await;
    let listings = cluster.cloud.calls().to(IPS).len();
    assert!(listings <= 3, "{listings} listings within a minute");
    cluster.finish().await;
}
