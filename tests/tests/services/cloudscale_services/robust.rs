//! Whatever happens in between, in the end there is exactly what is wanted.

use std::time::Duration;

use http::StatusCode;
use mooring_cloud_sim::Fault;
use mooring_cloud_sim::cloudscale::Behaviour;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::cloudscale_services::cluster::{AFTER_RETRIES, CloudCluster, SOON, assert_none};
use crate::cloudscale_services::forwarding::ports;
use crate::cloudscale_services::forwarding_failures::{Death, storm};
use crate::cloudscale_services::key;

/// Killed at each of the writes of a creation, once before and once after it has taken effect.
#[tokio::test]
async fn killed_at_any_write_of_a_creation_it_leaves_nothing_and_makes_nothing_twice() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("whole").await;
    let wanted = cluster.sim().snapshot();
    let count = cluster.writes().len() as u64;
    cluster.delete("whole").await;
    cluster.gone("whole").await;
    drop(central);
    for n in 1..=count {
        let executed = n % 2 == 1;
        let central = cluster.central().await;
        let death = Death::at(&cluster, central, n, executed);
        cluster.create("web").await;
        death.comes().await;
        let _central = cluster.central().await;
        cluster.provided("web").await;
        cluster.serves("web", &[1, 2]).await;
        let found = cluster.sim().snapshot();
        let strip = |state: &mooring_cloud_sim::CloudState| {
            state.value()["load_balancers"].as_array().unwrap().len()
        };
        assert_eq!(strip(&found), strip(&wanted), "at write {n}: {found:?}");
        cluster.delete("web").await;
        cluster.gone("web").await;
        cluster.nothing_is_left().await;
    }
    cluster.finish().await;
}

/// The cloud refuses writes while it is changing, and ports of listeners stay taken for a while.
#[tokio::test]
async fn a_cloud_that_is_slow_and_strict_is_waited_for() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        provisioning: Duration::from_millis(500),
        change_time: Duration::from_millis(150),
        refuse_while_changing: true,
        refuse_concurrent_writes: true,
        strict_deletes: true,
        late_deletes: Duration::from_secs(1),
        pool_deletes_cascade_listeners: false,
        listed_after: Duration::ZERO,
    });
    let _central = cluster.central().await;
    let service = cluster.service("web").port(443, 8443);
    cluster.make(service).await;
    let service = cluster.provided_at_last("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster
        .annotate("web", &key("pool-algorithm"), Some("source_ip"))
        .await;
    let (one, two) = (&ports(&service)[0], &ports(&service)[1]);
    let mut swapped = json!([one, two]);
    swapped[0]["port"] = json!(443);
    swapped[1]["port"] = json!(80);
    let service = cluster.respecify("web", json!({ "ports": swapped })).await;
    let wanted = crate::cloudscale_services::cluster::wanted(&service, &[1, 2]);
    eventually("it is as wanted", AFTER_RETRIES, async || {
        let found = cluster.balancer(&service).ok_or("none")?.served;
        if found == wanted {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    assert_eq!(cluster.sim().concurrent_writes(), 0);
    cluster.delete("web").await;
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// And never two writes at once on one of them.
#[tokio::test]
async fn a_storm_of_failures_ends_with_what_is_wanted() {
    let cluster = CloudCluster::start().await;
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS);
    storm(
        &cluster,
        busy,
        |name| cluster.service(name),
        |_| {
            assert_eq!(cluster.sim().concurrent_writes(), 0);
        },
    )
    .await;
    cluster.finish().await;
}

/// A listener without a pool, and a disabled member: the one is nobody's, the other is put right.
#[tokio::test]
async fn a_listener_without_a_pool_stays_and_a_disabled_member_serves_again() {
    use mooring_cloud_sim::cloudscale::Kind;
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let uuid = cluster.uuid("web").await;
    let loose = json!({
        "name": "loose", "protocol": "tcp", "protocol_port": 9, "load_balancer": uuid,
    });
    let loose = cluster.sim().put(Kind::Listener, loose);
    let member =
        crate::cloudscale_services::cloud::text(&cluster.parts(&uuid, Kind::Member)[0]["uuid"]);
    cluster
        .sim()
        .set_in(Kind::Member, &member, "enabled", false);
    eventually("both members serve", SOON, async || {
        let members = cluster.parts(&uuid, Kind::Member);
        members.len() == 2 && members.iter().all(|member| member["enabled"] == true)
    })
    .await;
    assert!(cluster.sim().get(Kind::Listener, &loose).is_some());
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}
