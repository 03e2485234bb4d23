//! What goes wrong, and what happens meanwhile.

use std::sync::atomic::Ordering;

use mooring_common::engine::Outcome;
use mooring_common::names::reasons;
use serde_json::json;

use super::*;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{InvalidField, Notice, ReconcileError};

fn error() -> CloudError {
    CloudError::new("fake", ErrorKind::Server, "out of order")
}

#[tokio::test(start_paused = true)]
async fn sv_06_reports_and_retries_failure() {
    let world = World::new();
    world.add("web");
    world.cloud.state.lock().unwrap().failures = vec![error().into()];
    let failed = Outcome::Backoff("fake: out of order".to_owned());
    assert_eq!(world.pass("web").await, failed);
    let told = world.cluster.events.lock().unwrap().pop().unwrap();
    assert_eq!(told.1, reasons::SYNC_LOAD_BALANCER_FAILED);
    let begin = "Error syncing load balancer: failed to ensure load balancer:";
    assert_eq!(told.2, format!("{begin} fake: out of order"));
    assert_eq!(world.pass("web").await, Outcome::Done);
}

/// As the Go controllers tell it: the users of Linode's look for the words right after that.
#[tokio::test(start_paused = true)]
async fn words_of_the_cloud_come_first() {
    let world = World::new();
    world.add("web");
    let words = "[400] IPv4 address is not reserved";
    let message = format!("POST /v4/nodebalancers: 400 Bad Request: {words}; write another one");
    let refused = CloudError {
        words: Some(words.to_owned()),
        ..CloudError::new("fake", ErrorKind::Invalid, message)
    };
    world.cloud.state.lock().unwrap().failures = vec![refused.into()];
    world.pass("web").await;
    let told = world.cluster.events.lock().unwrap().pop().unwrap();
    let expected = "Error syncing load balancer: failed to ensure load balancer: [400] IPv4 address is not \
                    reserved (fake: POST /v4/nodebalancers: 400 Bad Request; write another one)";
    assert_eq!(told.2, expected);
}

#[tokio::test(start_paused = true)]
async fn sv_30_honours_retry_after() {
    let world = World::new();
    world.add("web");
    let after = Duration::from_secs(20);
    let later = CloudError {
        retry_after: Some(after),
        ..error()
    };
    world.cloud.state.lock().unwrap().failures = vec![later.into()];
    assert_eq!(world.pass("web").await, Outcome::RetryAfter(after));
}

/// What cannot be had stands in the Event, and something else was left open that time will tell.
#[tokio::test(start_paused = true)]
async fn refusal_is_told_and_something_else_looked_at_again() {
    let world = World::new();
    world.add("web");
    let after = Duration::from_secs(20);
    let refused = ReconcileError::Refused("not that".to_owned());
    let refused = refused.with_retry(Vec::new(), Some(after));
    world.cloud.state.lock().unwrap().fails_late = Some(refused);
    assert_eq!(world.pass("web").await, Outcome::RetryAfter(after));
    let told = world.cluster.events.lock().unwrap().pop().unwrap();
    assert_eq!(told.1, reasons::SYNC_LOAD_BALANCER_FAILED);
    assert!(told.2.ends_with(": not that"), "{told:?}");
}

/// Also if it comes to light only while the plan is carried out.
#[tokio::test(start_paused = true)]
async fn what_a_person_should_know_is_told_beside_a_failure() {
    let world = World::new();
    world.add("web");
    let notice = Notice {
        reason: reasons::MEMBER_REFUSED,
        note: "a member is refused".to_owned(),
        by_provider: false,
    };
    let noted = ReconcileError::from(error()).with(vec![notice]);
    world.cloud.state.lock().unwrap().fails_late = Some(noted);
    assert!(matches!(world.pass("web").await, Outcome::BackoffAnew(_)));
    let told = world.cluster.reasons();
    assert!(
        told.ends_with(&[reasons::MEMBER_REFUSED, reasons::SYNC_LOAD_BALANCER_FAILED]),
        "{told:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn progress_resets_backoff() {
    let world = World::new();
    world.add("web");
    world.cloud.state.lock().unwrap().fails_late = Some(error().into());
    assert!(matches!(world.pass("web").await, Outcome::BackoffAnew(_)));
}

#[tokio::test(start_paused = true)]
async fn invalid_service_waits_for_change() {
    let world = World::served().await;
    let field = InvalidField {
        place: "annotation x".to_owned(),
        value: "y".to_owned(),
        remedy: "is no number; write one".to_owned(),
    };
    let refused = ReconcileError::Refused("there is no such flavor".to_owned());
    let failures = vec![ReconcileError::Invalid(vec![field]), refused];
    world.cloud.state.lock().unwrap().failures = failures;
    for words in ["flavor", "stays as it is"] {
        match world.pass("web").await {
            Outcome::WaitForChange(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{other:?}"),
        }
        let told = world.cluster.reasons();
        assert_eq!(told, [reasons::SYNC_LOAD_BALANCER_FAILED]);
    }
}

#[tokio::test(start_paused = true)]
async fn sd_09_deletion_stops_creation() {
    let world = World::new();
    world.add("web");
    let cluster = world.cluster.clone();
    world.cloud.state.lock().unwrap().before_write = Some(Box::new(move || {
        cluster.edit(&key("web"), |service| {
            service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
    }));
    assert_eq!(world.pass("web").await, Outcome::RetryAfter(SOON));
    assert!(world.cloud.members("web").is_none());
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert!(world.cluster.service(&key("web")).is_none());
}

#[tokio::test(start_paused = true)]
async fn creates_nothing_for_service_only_in_cache() {
    let world = World::new();
    world.add("web");
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["finalizers"] = json!([mooring_common::names::finalizers::SERVICE]);
    });
    let before = world.cluster.json(&key("web"));
    world
        .cluster
        .stale
        .lock()
        .unwrap()
        .insert(key("web"), before);
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["uid"] = json!("another");
    });
    assert_eq!(world.pass("web").await, Outcome::RetryAfter(SOON));
    assert_eq!(world.writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn edit_during_pass_makes_it_replan() {
    let world = World::new();
    world.add("web");
    let cluster = world.cluster.clone();
    world.cloud.state.lock().unwrap().before_write = Some(Box::new(move || {
        cluster.edit(&key("web"), |service| {
            service["spec"]["ports"][0]["port"] = json!(81);
        });
    }));
    assert_eq!(world.pass("web").await, Outcome::RetryAfter(SOON));
    assert_eq!(world.writes(), 0);
    assert_eq!(world.pass("web").await, Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn former_leader_writes_nothing() {
    let world = World::served().await;
    world.cluster.join("c");
    world.cluster.deposed.store(true, Ordering::SeqCst);
    let writes = world.writes();
    assert!(matches!(world.pass("web").await, Outcome::Backoff(_)));
    assert_eq!(world.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn pass_over_budget_yields_after_write() {
    let world = World::new();
    world.add("web");
    let service = world.cluster.service(&key("web")).unwrap();
    let guard = guard::PassGuard::new(
        &world.services,
        service,
        guard::Aim::Provide,
        tokio::time::Instant::now(),
    );
    tokio::time::advance(guard::BUDGET).await;
    use crate::cloud_provider::load_balancers::{Stop, WriteGuard as _};
    guard.before_write().unwrap();
    guard.written();
    assert!(matches!(guard.before_write(), Err(Stop::Yield)));
}
