//! Services that are another's to serve: another cloud's, or another controller's.

use mooring_common::names::annotations;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{Notice, ReconcileError};

const MINUTE: Duration = Duration::from_secs(60);

/// A Service that another cloud serves, as one process after the other finds it.
fn served_elsewhere(world: &World) -> Arc<ServiceView> {
    world.add("web");
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["finalizers"] = json!([finalizers::SERVICE]);
        service["status"] = json!({"loadBalancer": {"ingress": [{"hostname": "theirs.example"}]}});
    });
    world.cluster.service(&key("web")).unwrap()
}

/// Another serves it from now on.
fn elsewhere(service: &mut Value) {
    service["spec"]["loadBalancerClass"] = json!("example.com/x");
}

/// Its class is another controller's from now on, and it was ours a moment before.
fn leave(world: &World) {
    world.cluster.edit(&key("web"), |service| {
        elsewhere(service);
        service["status"] = json!({"loadBalancer": {}});
    });
}

fn down() -> ReconcileError {
    CloudError::new("fake", ErrorKind::Server, "down").into()
}

fn plans(world: &World) -> usize {
    world.cloud.plans.load(Ordering::SeqCst)
}

fn removals(world: &World) -> Vec<bool> {
    std::mem::take(&mut world.cloud.state.lock().unwrap().removals)
}

/// Goes on until nothing is left here.
async fn handed_over(world: &World) {
    handed_over_of(world, "web").await;
}

async fn handed_over_of(world: &World, name: &str) {
    for _ in 0..3 {
        let service = world.cluster.service(&key(name)).unwrap();
        if world.services.hand_over(&service).await.is_none() {
            return;
        }
    }
    panic!("something is left");
}

#[tokio::test(start_paused = true)]
async fn status_that_another_has_written_proves_nothing() {
    let world = World::new();
    let theirs = served_elsewhere(&world);
    assert!(world.services.hand_over(&theirs).await.is_none());
    assert_eq!(removals(&world), [false]);

    // What this process has written for this cloud counts.
    let world = World::served().await;
    world.cluster.edit(&key("web"), elsewhere);
    handed_over(&world).await;
    let removals = removals(&world);
    assert!(!removals.is_empty() && removals.iter().all(|by_status| *by_status));
}

/// It says nothing that this cloud writes, so that it does not wait for this cloud.
#[tokio::test(start_paused = true)]
async fn outage_holds_up_no_service_of_another_cloud() {
    let world = World::new();
    let theirs = served_elsewhere(&world);
    world.cloud.state.lock().unwrap().failures = vec![down()];
    assert!(world.services.hand_over(&theirs).await.is_none());
    assert!(world.cluster.reasons().is_empty());
    // The next pass looks again, and the one after that need not.
    for _ in 0..2 {
        assert!(world.services.hand_over(&theirs).await.is_none());
        assert_eq!(plans(&world), 2);
    }
}

/// It holds up the first only, and is asked again later.
#[tokio::test(start_paused = true)]
async fn hung_cloud_holds_up_no_service_of_another() {
    let world = World::new();
    let theirs = served_elsewhere(&world);
    world.cloud.state.lock().unwrap().hangs = true;
    let begun = Instant::now();
    for _ in 0..3 {
        assert!(world.services.hand_over(&theirs).await.is_none());
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }
    assert_eq!(removals(&world), [false]);
    assert!(world.cluster.reasons().is_empty());

    // It is looked for once the cloud is asked again, without a change of the Service.
    let (queue, stop) = (world.services.queue.clone(), CancellationToken::new());
    let (passes, mut passed) = mpsc::unbounded_channel();
    let work = mooring_common::work_queue::work("test", queue, 1, stop, move |key| {
        passes.send(key).unwrap();
        async { Outcome::<Failure>::Done }
    });
    tokio::select! {
        () = work => panic!("it goes on"),
        key_passed = timeout(MINUTE, passed.recv()) => assert_eq!(key_passed, Ok(Some(key("web")))),
    }
    assert_eq!(begun.elapsed(), Duration::from_secs(35));
    world.cloud.state.lock().unwrap().hangs = false;
    assert!(world.services.hand_over(&theirs).await.is_none());
    assert_eq!(removals(&world), [false]);
}

/// They wait for what they have there, and no worker does for long: once there was no answer, none is asked for.
#[tokio::test(start_paused = true)]
async fn hung_cloud_occupies_no_worker_for_what_it_has_of_others_services() {
    let world = World::served().await;
    for name in ["too", "leaving"] {
        world.add(name);
        assert_eq!(world.pass(name).await, Outcome::Done);
    }
    for name in ["web", "too", "leaving"] {
        world.cluster.edit(&key(name), elsewhere);
    }
    world.cluster.reasons();
    world.cloud.state.lock().unwrap().hangs = true;
    let (begun, again) = (Instant::now(), Duration::from_secs(30));
    for name in ["web", "too"] {
        let moved = world.cluster.service(&key(name)).unwrap();
        let unfinished = timeout(MINUTE, world.services.hand_over(&moved)).await;
        assert_eq!(
            unfinished.unwrap().map(told),
            Some(Outcome::RetryAfter(again))
        );
    }
    assert_eq!(world.pass("leaving").await, Outcome::RetryAfter(again));
    assert_eq!(begun.elapsed(), Duration::from_secs(20));
    assert_eq!(
        world.cluster.reasons(),
        [reasons::SYNC_LOAD_BALANCER_FAILED; 3]
    );

    tokio::time::advance(again).await;
    assert_eq!(world.pass("leaving").await, Outcome::RetryAfter(again));
    assert_eq!(
        begun.elapsed(),
        Duration::from_secs(70),
        "it is asked again"
    );
    tokio::time::advance(again).await;
    world.cloud.state.lock().unwrap().hangs = false;
    assert!(matches!(world.pass("leaving").await, Outcome::NotOurs(_)));
    for name in ["web", "too"] {
        handed_over_of(&world, name).await;
    }
    assert!(world.cloud.state.lock().unwrap().balancers.is_empty());
}

/// Who would wait for longer asks, since the cloud may be slow.
#[tokio::test(start_paused = true)]
async fn who_waits_for_longer_asks_although_another_had_no_answer() {
    let world = World::served().await;
    world.services.unanswered.begin(Duration::from_secs(5));
    world.cluster.edit(&key("web"), elsewhere);
    handed_over(&world).await;
    assert!(world.cloud.members("web").is_none());
}

#[tokio::test(start_paused = true)]
async fn service_that_records_something_waits_until_it_is_gone() {
    let world = World::new();
    served_elsewhere(&world);
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["annotations"] = json!({"k8s.cloudscale.ch/loadbalancer-uuid": "lb"});
    });
    let theirs = world.cluster.service(&key("web")).unwrap();
    world.cloud.state.lock().unwrap().failures = vec![down()];
    let unfinished = world.services.hand_over(&theirs).await.map(told);
    assert_eq!(unfinished, Some(Outcome::Backoff("fake: down".to_owned())));
    assert!(world.services.hand_over(&theirs).await.is_none());
    assert_eq!(removals(&world), [false, false]);
}

/// That a load balancer was asked for says not where: what is found here goes all the same, and is waited for.
#[tokio::test(start_paused = true)]
async fn what_is_found_is_removed_although_nothing_records_it() {
    let world = World::new();
    world.add("web");
    world.cluster.edit(&key("web"), |service| {
        elsewhere(service);
        service["metadata"]["finalizers"] = json!([finalizers::SERVICE]);
        service["metadata"]["annotations"] =
            json!({annotations::CREATION_ASKED: "2026-01-01T00:00:00Z"});
    });
    let moved = world.cluster.service(&key("web")).unwrap();
    let there = ("web".to_owned(), Vec::new());
    world.cloud.state.lock().unwrap().balancers.extend([there]);
    world.cluster.deposed.store(true, Ordering::SeqCst);
    assert!(world.services.hand_over(&moved).await.is_some());
    assert!(world.cloud.members("web").is_some());
    world.cluster.deposed.store(false, Ordering::SeqCst);
    handed_over(&world).await;
    assert!(world.cloud.members("web").is_none());
}

/// A load balancer was asked for, and who it was asked of: that is this Service's only word.
fn asking(world: &World, text: &str) {
    world.cluster.edit(&key("web"), |service| {
        service["metadata"]["finalizers"] = json!([finalizers::SERVICE]);
        service["metadata"]["annotations"] = json!({annotations::CREATION_ASKED: text});
    });
}

fn asks(world: &World) -> bool {
    let service = world.cluster.service(&key("web")).unwrap();
    service.creation_asked.is_some()
}

/// What is asked of another cloud may still turn up there.
#[tokio::test(start_paused = true)]
async fn note_of_what_another_cloud_was_asked_for_stays() {
    for (text, stays) in [
        ("2026-01-01T00:00:00Z[cloud=other]", true),
        ("2026-01-01T00:00:00Z[cloud=fake]", false),
        ("2026-01-01T00:00:00Z", false),
    ] {
        let world = World::new();
        world.add("web");
        asking(&world, text);
        assert_eq!(world.pass("web").await, Outcome::Done);
        assert_eq!(asks(&world), stays, "{text}");
        // Nor does it go with the finalizer.
        asking(&world, text);
        world.cluster.edit(&key("web"), |service| {
            service["spec"] = json!({"type": "ClusterIP"});
        });
        assert_eq!(world.pass("web").await, Outcome::Done);
        assert_eq!(asks(&world), stays, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn service_waits_for_what_this_cloud_was_asked_for() {
    let world = World::new();
    world.add("web");
    asking(&world, "2026-01-01T00:00:00Z[cloud=fake]");
    world.cloud.state.lock().unwrap().failures = vec![down()];
    let failed = Outcome::Backoff("fake: down".to_owned());
    for (outcome, stays) in [
        (Some(failed), true),
        (Some(Outcome::RetryAfter(SOON)), false),
        (None, false),
    ] {
        let moved = world.cluster.service(&key("web")).unwrap();
        let unfinished = world.services.hand_over(&moved).await.map(told);
        assert_eq!((unfinished, asks(&world)), (outcome, stays));
    }
    assert_eq!(plans(&world), 2);

    // Of another cloud it says nothing.
    let world = World::new();
    world.add("web");
    asking(&world, "2026-01-01T00:00:00Z[cloud=other]");
    let theirs = world.cluster.service(&key("web")).unwrap();
    assert!(world.services.hand_over(&theirs).await.is_none());
    assert_eq!((plans(&world), asks(&world)), (0, true));
}

/// Type and class have changed between two passes.
#[tokio::test(start_paused = true)]
async fn service_that_leaves_for_another_class_leaves_nothing_here() {
    let world = World::served().await;
    leave(&world);
    assert!(matches!(world.pass("web").await, Outcome::NotOurs(_)));
    assert!(world.cloud.members("web").is_none());
    assert_eq!(removals(&world), [false], "its status is another's");
    let expected = [
        reasons::DELETING_LOAD_BALANCER,
        reasons::DELETED_LOAD_BALANCER,
    ];
    assert_eq!(world.cluster.reasons(), expected);

    // The finalizer is the other controller's by now, also when the class goes with the type.
    let (patches, before) = (world.patches(), plans(&world));
    assert!(matches!(world.pass("web").await, Outcome::NotOurs(_)));
    world.cluster.edit(&key("web"), |service| {
        service["spec"] = json!({"type": "ClusterIP"});
    });
    assert!(matches!(world.pass("web").await, Outcome::NotOurs(_)));
    assert_eq!((world.patches(), plans(&world)), (patches, before));
    assert!(world.cluster.reasons().is_empty());
}

/// Nobody has changed the Service: a class that was ours is missing in the flags of the next process.
#[tokio::test(start_paused = true)]
async fn class_that_flags_lack_costs_no_load_balancer() {
    let world = World::served().await;
    world.cluster.edit(&key("web"), elsewhere);
    let (plans_before, options) = (plans(&world), world.services.options.clone());
    let services = restarted(&world.cluster, &world.cloud, options);
    let service = world.cluster.service(&key("web")).unwrap();
    let outcome = services.pass(service).await;
    assert!(matches!(outcome, Outcome::NotOurs(_)));
    assert!(world.cloud.members("web").is_some());
    assert_eq!(plans(&world), plans_before);
}

/// What may have been its own is there still, and was told of.
#[tokio::test(start_paused = true)]
async fn what_is_kept_is_not_said_to_be_deleted() {
    let world = World::served().await;
    leave(&world);
    let kept = Notice {
        reason: reasons::LOAD_BALANCER_KEPT,
        note: "it is not provably its own".to_owned(),
        by_provider: false,
    };
    world.cloud.state.lock().unwrap().notices = vec![kept];
    assert!(matches!(world.pass("web").await, Outcome::NotOurs(_)));
    let told = world.cluster.reasons();
    assert!(told.contains(&reasons::LOAD_BALANCER_KEPT), "{told:?}");
    assert!(!told.contains(&reasons::DELETED_LOAD_BALANCER), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn outage_only_delays_what_a_leaving_service_leaves() {
    let world = World::served().await;
    leave(&world);
    world.cloud.state.lock().unwrap().failures = vec![down()];
    let failed = Outcome::Backoff("fake: down".to_owned());
    assert_eq!(world.pass("web").await, failed);
    assert!(world.cloud.members("web").is_some());
    assert!(matches!(world.pass("web").await, Outcome::NotOurs(_)));
    assert!(world.cloud.members("web").is_none());
}
