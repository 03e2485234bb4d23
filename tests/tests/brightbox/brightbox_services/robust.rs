//! A cloud in which something is odd: states that nobody wants, values that nobody knows, silence.

use std::time::Instant;

use http::StatusCode;
use mooring_cloud_sim::brightbox::{Behaviour, Kind};
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::{finalizers, reasons};
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::objects::events_for;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::brightbox_services::cloud::{BALANCERS, text, usual};
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, has_finalizer,
};

/// The Go controller makes a second one, and its address stays with the first.
#[tokio::test]
async fn a_load_balancer_that_fails_is_told_of_and_replaced_once_it_has_failed() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    let ip = cluster.shown("web").await["cloud_ips"][0]["id"].clone();
    let set = |id: &str, status: &str| {
        cluster
            .sim()
            .set_in(Kind::LoadBalancer, id, "status", status);
    };
    set(&id, "failing");
    cluster
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED, "failing")
        .await;
    assert_eq!(cluster.cloud.creations().len(), 1);
    set(&id, "failed");
    eventually("another one has its Cloud IP", AFTER_RETRIES, async || {
        let service = cluster.get("web").await;
        let found = cluster.balancer(&service).ok_or("none")?.id;
        let shown = cluster.sim().get(Kind::LoadBalancer, &found);
        let leads = shown.is_some_and(|shown| shown["cloud_ips"][0]["id"] == ip);
        if found != id && leads {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    cluster.serves("web", &[1, 2]).await;
    assert_eq!(cluster.cloud.creations().len(), 2);
    let id = cluster.serves("web", &[1, 2]).await.id;
    // It can be deleted as it is.
    cluster
        .sim()
        .set_in(Kind::LoadBalancer, &id, "status", "failed");
    cluster.delete("web").await;
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// The Go controller does nothing any more for anybody.
#[tokio::test]
async fn values_that_nobody_knows_elsewhere_in_the_account_hinder_nobody() {
    let cluster = CloudCluster::start().await;
    let sim = cluster.sim();
    sim.put(
        Kind::LoadBalancer,
        json!({
            "name": null, "status": "hibernating", "policy": "fairest",
            "listeners": [{ "protocol": "http+ws", "in": 80, "out": 80, "timeout": 5, "proxy_protocol": "v9" }],
            "healthcheck": { "type": "gopher", "port": 70 },
        }),
    );
    sim.put(
        Kind::CloudIp,
        json!({ "name": null, "status": "parked", "mode": "telepathy", "fqdn": null }),
    );
    let policy = sim.put(Kind::FirewallPolicy, json!({ "name": null }));
    sim.put(
        Kind::FirewallRule,
        json!({ "firewall_policy": policy, "protocol": "ospf", "source": "any" }),
    );
    sim.put(
        Kind::ServerGroup,
        json!({ "name": "default", "default": true }),
    );
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

/// Half an answer about any part proves nothing about it.
#[tokio::test]
async fn a_listing_that_is_no_listing_makes_and_deletes_nothing() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let old = cluster.provide("old").await;
    drop(central);
    cluster.delete("old").await;
    cluster.create("new").await;
    for path in [
        BALANCERS,
        "/1.0/server_groups",
        "/1.0/firewall_policies",
        "/1.0/cloud_ips",
    ] {
        let start = Instant::now();
        let fault = Fault::body(StatusCode::OK, r#"{"load_balancers": []}"#);
        let fault = cluster.cloud.faults().inject(When::get(path), fault);
        let central = cluster.central().await;
        fault.struck(2).await;
        cluster.failed("new").await;
        let writes = cluster.writes().since(start);
        assert!(writes.is_empty(), "{path}: {}", writes.summary());
        assert!(has_finalizer(&cluster.get("old").await), "{path}");
        assert!(cluster.balancer(&old).is_some(), "{path}");
        drop(central);
        fault.lift();
    }
    let _central = cluster.central().await;
    cluster.gone_within("old", AFTER_RETRIES).await;
    cluster.provided_at_last("new").await;
    cluster.finish().await;
}

/// The Go controller ends.
#[tokio::test]
async fn pr_16_without_the_api_at_the_start_it_lives_says_why_it_is_not_ready_and_goes_on() {
    let cluster = CloudCluster::start().await;
    cluster.cloud.set_down(true);
    let endpoints = Endpoints::on_free_port().unwrap();
    let flags = cluster
        .flags()
        .with(format!("--secure-port={}", endpoints.port()));
    let central = cluster.central_with(flags).await;
    cluster.create("web").await;
    eventually("it lives", SOON, async || {
        endpoints.status("/livez").await == Some(200)
    })
    .await;
    // Until its caches are filled it names these.
    eventually("it says why it is not ready", SOON, async || {
        let (status, said) = endpoints
            .get("/readyz?verbose", None)
            .await
            .map_err(|e| e.to_string())?;
        let names_it = said.to_lowercase().contains("brightbox");
        if status == 503 && names_it {
            Ok(())
        } else {
            Err(said)
        }
    })
    .await;
    cluster.failed("web").await;
    assert!(central.process.is_running());
    cluster.cloud.set_down(false);
    cluster.provided_at_last("web").await;
    cluster.serves("web", &[1, 2]).await;
    eventually("it is ready", SOON, async || {
        endpoints.status("/readyz").await == Some(200)
    })
    .await;
    cluster.finish().await;
}

/// The Go controller makes everything anew, and nobody deletes that.
#[tokio::test]
async fn a_node_that_joins_amid_a_deletion_makes_nothing() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let service = cluster.provide("web").await;
    cluster.provide("other").await;
    let id = cluster.balancer(&service).unwrap().id;
    let start = Instant::now();
    // It cannot go yet.
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cluster
        .cloud
        .faults()
        .inject(When::write("/1.0/cloud_ips/*"), failure);
    cluster.delete("web").await;
    failing.struck(1).await;
    cluster.join(3).await;
    cluster.serves("other", &[1, 2, 3]).await;
    // Nor does a start bring it back.
    drop(central);
    let _central = cluster.central().await;
    failing.struck(2).await;
    assert!(!cluster.cloud.has(&id));
    assert_none(&cluster.cloud.creations().since(start));
    failing.lift();
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.delete("other").await;
    cluster.gone("other").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// A locked one cannot be deleted until somebody unlocks it.
#[tokio::test]
async fn sd_15_a_locked_load_balancer_is_told_of_and_goes_once_it_is_unlocked() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.balancer(&service).unwrap().id;
    cluster
        .sim()
        .set_in(Kind::LoadBalancer, &id, "locked", true);
    cluster.delete("web").await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains("locked"), "{}", told.note);
    cluster.serves("web", &[1, 2]).await;
    cluster
        .sim()
        .set_in(Kind::LoadBalancer, &id, "locked", false);
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// Somebody deletes parts by hand, in any order, and then the Service.
#[tokio::test]
async fn what_is_gone_already_holds_no_deletion_up() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for kind in [
        Kind::LoadBalancer,
        Kind::ServerGroup,
        Kind::FirewallPolicy,
        Kind::CloudIp,
    ] {
        cluster.provide("web").await;
        let part = cluster.parts("web", kind).pop().expect("a part");
        cluster.sim().take(kind, &text(&part["id"]));
        cluster.delete("web").await;
        cluster.gone_within("web", AFTER_RETRIES).await;
        let rules = cluster.sim().all(Kind::FirewallRule);
        let orphaned: Vec<&Value> = rules
            .iter()
            .filter(|rule| rule["firewall_policy"].is_null())
            .collect();
        for rule in orphaned {
            cluster.sim().take(Kind::FirewallRule, &text(&rule["id"]));
        }
        cluster.nothing_is_left().await;
    }
    cluster.finish().await;
}

/// A deletion that takes its time: the Service waits, nobody complains, and nobody else waits.
#[tokio::test]
async fn a_deletion_that_takes_long_is_waited_for_and_holds_up_nobody() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        deleting: std::time::Duration::from_secs(8),
        ..usual()
    });
    let flags = cluster.flags().with("--concurrent-service-syncs=1");
    let _central = cluster.central_with(flags).await;
    let service = cluster.provide("web").await;
    let id = cluster.balancer(&service).unwrap().id;
    cluster.delete("web").await;
    eventually("it is being deleted", SOON, async || {
        !cluster.cloud.has(&id)
    })
    .await;
    let start = Instant::now();
    cluster.provide("quick").await;
    assert!(start.elapsed().as_secs() < 6, "{:?}", start.elapsed());
    assert!(has_finalizer(&cluster.get("web").await));
    cluster.gone("web").await;
    assert_none(&cluster.warnings("web").await);
    let deletions = cluster.writes().to(&format!("{BALANCERS}/{id}"));
    assert_eq!(deletions.len(), 1, "{}", deletions.summary());
    cluster.finish().await;
}

/// Whoever strips the finalizer while central is down leaves parts that are reported, and removed if allowed;
/// what bears no mark is nobody's.
#[tokio::test]
async fn sd_17_all_parts_of_an_orphan_go_together() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("web").await;
    drop(central);
    let none = json!({ "metadata": { "finalizers": null } });
    cluster.patch("web", &none).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(!finalizers::SERVICE.is_empty());
    let unmarked = cluster
        .sim()
        .put(Kind::CloudIp, json!({ "name": "somebody's" }));
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags.with("--delete-orphans")).await;
    eventually("all of it is gone", AFTER_RETRIES, async || {
        let left = cluster.cloud.left();
        if left == [unmarked.clone()] {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
    cluster.finish().await;
}

/// What its former namesake has left is in its way: it is told so, and goes on once that is gone, all of it.
#[tokio::test]
async fn a_service_made_again_gets_its_own_once_the_orphan_of_its_name_is_gone() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let former = cluster.provide("web").await;
    let id = cluster.balancer(&former).unwrap().id;
    drop(central);
    let none = json!({ "metadata": { "finalizers": null } });
    cluster.patch("web", &none).await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    let start = Instant::now();
    cluster.create("web").await;

    let central = cluster.central().await;
    let told = cluster.failed("web").await;
    let uid = former.metadata.uid.unwrap();
    for part in [&uid, "--delete-orphans"] {
        assert!(told.note.contains(part), "{}", told.note);
    }
    cluster.marker().await;
    assert!(cluster.cloud.has(&id), "nobody has permitted it");
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    drop(central);

    let _central = cluster
        .central_with(cluster.flags().with("--delete-orphans"))
        .await;
    let now = cluster.provided_at_last("web").await;
    let own = cluster.serves("web", &[1, 2]).await.id;
    assert!(own != id && !cluster.cloud.has(&id));
    let groups = cluster.parts("web", Kind::ServerGroup);
    let marks: Vec<String> = groups.iter().map(|one| text(&one["description"])).collect();
    assert!(
        marks.len() == 1 && marks[0].contains(&now.metadata.uid.unwrap()),
        "{marks:?}"
    );
    // The removal took several looks, and is told of once.
    let about = events_for(&cluster.admin, "Service", Some("default"), "kubernetes").await;
    let about = about.unwrap().into_iter();
    let deleted = about.filter(|event| event.reason == reasons::DELETED_ORPHAN);
    let notes: Vec<String> = deleted.map(|event| event.note).collect();
    let of_name = notes
        .iter()
        .filter(|note| note.contains(&cluster.named("web")));
    assert_eq!(of_name.count(), 1, "{notes:?}");
    cluster.finish().await;
}
