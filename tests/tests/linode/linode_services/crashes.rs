//! Whatever happens in between, in the end there is exactly what is wanted.

use std::time::Duration;

use http::{Method, StatusCode};
use mooring_cloud_sim::linode::{Behaviour, Kind, Linode};
use mooring_cloud_sim::{Fault, When};
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::linode_services::cloud::BALANCERS;
use crate::linode_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none,
};
use crate::linode_services::forwarding_failures::{Death, storm};
use crate::linode_services::handover::protected_by_go;
use crate::linode_services::key;

const FIREWALLS: &str = "/v4/networking/firewalls";
const ACL: &str = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;

/// A Service with a firewall of its own is made.
async fn create_protected(cluster: &CloudCluster) {
    let service = cluster.service("web").annotation(&key("firewall-acl"), ACL);
    cluster.make(service).await;
}

/// Asserts that the Service is served by one NodeBalancer with one firewall, and that there is nothing else.
async fn is_whole(cluster: &CloudCluster) {
    cluster.provided_at_last("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    assert_eq!(cluster.cloud.balancers().len(), 1);
    assert_eq!(cluster.sim().all(Kind::Firewall).len(), 1);
    assert_eq!(cluster.cloud.firewalls(&id).len(), 1);
}

/// Killed at each of the writes of a creation, once before and once after it has taken effect.
#[tokio::test]
async fn killed_at_any_write_of_a_creation_it_leaves_nothing_and_makes_nothing_twice() {
    let cluster = CloudCluster::start().await;
    for (n, executed) in [(1, false), (1, true), (2, false), (2, true)] {
        let central = cluster.central().await;
        let death = Death::at(&cluster, central, n, executed);
        create_protected(&cluster).await;
        death.comes().await;
        let _central = cluster.central().await;
        is_whole(&cluster).await;
        cluster.delete("web").await;
        cluster.gone("web").await;
        cluster.nothing_is_left().await;
    }
    cluster.finish().await;
}

/// And if the Service is deleted meanwhile.
#[tokio::test]
async fn killed_at_any_write_of_a_creation_it_leaves_nothing_of_a_service_that_is_deleted_then() {
    let cluster = CloudCluster::start().await;
    for n in [1, 2] {
        let central = cluster.central().await;
        let death = Death::at(&cluster, central, n, true);
        create_protected(&cluster).await;
        death.comes().await;
        cluster.delete("web").await;
        let _central = cluster.central().await;
        cluster.gone("web").await;
        cluster.nothing_is_left().await;
    }
    cluster.finish().await;
}

/// What is half done when central dies is finished or taken back, whatever the Service says then.
#[tokio::test]
async fn killed_amid_a_change_that_is_taken_back_it_puts_back_what_was() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    let death = Death::at(&cluster, central, 2, true);
    let before = cluster.get("web").await.spec.unwrap().ports;
    let port = |number: u16| json!([{ "name": "other", "port": number, "targetPort": 8080 }]);
    cluster.respecify("web", json!({ "ports": port(81) })).await;
    death.comes().await;
    cluster.respecify("web", json!({ "ports": before })).await;
    let _central = cluster.central().await;
    eventually("it has one config", AFTER_RETRIES, async || {
        let service = cluster.get("web").await;
        let found = cluster.balancer(&service).ok_or("no NodeBalancer")?;
        let configs = cluster.cloud.parts(&found.id, Kind::Config);
        if configs.len() == 1 {
            Ok(())
        } else {
            Err("two configs")
        }
    })
    .await;
    cluster.serves("web", &[1, 2]).await;
    cluster.finish().await;
}

/// Killed at each write of taking the Go controller's firewall away: it is gone in the end.
#[tokio::test]
async fn killed_while_a_firewall_of_the_go_controller_goes_it_leaves_none() {
    let cluster = CloudCluster::start().await;
    for (n, executed) in [(1, true), (2, true), (3, true), (4, false), (4, true)] {
        protected_by_go(&cluster, "web").await;
        let central = cluster.central().await;
        cluster.marker().await;
        let death = Death::at(&cluster, central, n, executed);
        cluster.note("web", "firewall-acl", None).await;
        death.comes().await;
        let _central = cluster.central().await;
        eventually("its firewall is gone", AFTER_RETRIES, async || {
            cluster.sim().all(Kind::Firewall).is_empty()
        })
        .await;
        cluster.delete("web").await;
        cluster.gone("web").await;
        cluster.delete_markers().await;
    }
    cluster.finish().await;
}

/// Every way in which an answer can be lost, to either request.
#[tokio::test]
async fn an_answer_that_is_lost_makes_nothing_twice() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for path in [FIREWALLS, BALANCERS] {
        for fault in [
            Fault::reset().executed(),
            Fault::torn().executed(),
            Fault::status(StatusCode::SERVICE_UNAVAILABLE).executed(),
            Fault::status(StatusCode::GATEWAY_TIMEOUT).executed(),
        ] {
            let when = When::write(path).method(Method::POST).times(1);
            cluster.sim().faults().inject(when, fault);
            create_protected(&cluster).await;
            is_whole(&cluster).await;
            cluster.delete("web").await;
            cluster.gone("web").await;
            cluster.nothing_is_left().await;
        }
    }
    cluster.finish().await;
}

/// What an answer that is lost has deleted is not deleted again: the firewall is read first.
#[tokio::test]
async fn a_firewall_whose_deletion_has_no_answer_is_deleted_once() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    create_protected(&cluster).await;
    is_whole(&cluster).await;
    let firewall = format!("{FIREWALLS}/*");
    let when = When::write(&firewall).method(Method::DELETE).times(1);
    let lost = Fault::reset().executed();
    let lost = cluster.sim().faults().inject(when, lost);
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    lost.struck(1).await;
    let deletions = cluster.writes().to(&firewall).method(&Method::DELETE);
    assert_eq!(deletions.len(), 1, "{}", deletions.summary());
    cluster.finish().await;
}

/// The Go controller leaves one firewall behind with each attempt.
#[tokio::test]
async fn a_creation_that_is_refused_leaks_no_firewall() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let when = When::write(BALANCERS).method(Method::POST).times(2);
    let refusal = r#"{"errors": [{"reason": "Account Limit reached."}]}"#;
    let refusal = Fault::body(StatusCode::BAD_REQUEST, refusal);
    let refused = cluster.sim().faults().inject(when, refusal);
    create_protected(&cluster).await;
    refused.struck(2).await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains("Account Limit reached."), "{told:?}");
    is_whole(&cluster).await;
    let firewalls = cluster.writes().to(FIREWALLS).method(&Method::POST);
    assert_eq!(firewalls.len(), 1, "{}", firewalls.summary());

    // And one that never succeeds leaves nothing when its Service goes.
    cluster.delete("web").await;
    cluster.gone("web").await;
    let when = When::write(BALANCERS).method(Method::POST);
    let refusal = Fault::status(StatusCode::BAD_REQUEST);
    let refused = cluster.sim().faults().inject(when, refusal);
    create_protected(&cluster).await;
    refused.struck(1).await;
    cluster.failed("web").await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}

/// Made, and in no listing for a while: nobody else waits for it, and none is made a second time.
#[tokio::test]
async fn one_that_is_listed_late_is_waited_for_and_holds_up_nobody() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        listed_after: Duration::from_secs(8),
        ..Behaviour::default()
    });
    let flags = cluster.flags().with("--concurrent-service-syncs=1");
    let flags = flags.with("--creation-settle-time=60s");
    let central = cluster.central_with(flags.clone()).await;
    cluster.create("web").await;
    cluster.create("other").await;
    for name in ["web", "other"] {
        cluster.provided_at_last(name).await;
        assert_none(&cluster.warnings(name).await);
    }
    // Whoever is killed before it is listed does not make a second one either.
    cluster.create("last").await;
    let made = cluster.cloud.creations();
    let last = cluster.get("last").await;
    mooring_test_support::wait::eventually("it is made", SOON, async || {
        cluster.balancer(&last).is_some()
    })
    .await;
    drop(central);
    let _central = cluster.central_with(flags).await;
    cluster.provided_at_last("last").await;
    assert_eq!(cluster.cloud.creations().len(), made.len().max(2) + 1);
    assert_eq!(cluster.cloud.balancers().len(), 3);
    cluster.finish().await;
}

/// And never two writes at once on one of them.
#[tokio::test]
async fn a_storm_of_failures_ends_with_what_is_wanted() {
    let cluster = CloudCluster::start().await;
    let protected = |name: &str| cluster.service(name).annotation(&key("firewall-acl"), ACL);
    let is_whole = |services| assert_eq!(cluster.sim().all(Kind::Firewall).len(), services);
    storm(&cluster, Linode::busy(), protected, is_whole).await;
    cluster.finish().await;
}
