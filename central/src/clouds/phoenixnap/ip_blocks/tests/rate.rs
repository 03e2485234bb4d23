//! A cloud that takes few requests, and purchases whose answer is a 429 or gets lost.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::super::testing::{InjectedFault, RETRY_AFTER, Ration, SETTLE};
use super::*;
use crate::cloud_api::ErrorKind;

impl TestCluster {
    /// The account takes so many requests each second.
    fn taking(mut self, per_second: usize, retry_after: Option<Duration>) -> Self {
        self.cloud.1 = Some(Arc::new(Ration::of(per_second, retry_after)));
        self
    }

    /// Passes over one Service, as the queue asks for them, until it has its address.
    async fn served(&self, blocks: &IpBlocks, name: &str) {
        let mut failures = 0;
        loop {
            let wait = match self.pass(blocks, name).await {
                Ok(Progress::Ensured(_)) => return,
                Ok(Progress::Wait { after, .. }) => after,
                Err(ReconcileError::Cloud(error)) => error.retry_after.unwrap_or_else(|| {
                    failures += 1;
                    mooring_common::work_queue::Backoff::SERVICES.after(failures)
                }),
                other => panic!("{other:?}"),
            };
            sleep(wait).await;
        }
    }

    fn claim(&self) -> Option<String> {
        self.cluster.0.lock().unwrap().claim.clone()
    }

    /// What goes wrong at the next purchase.
    fn spoil_purchase(&self, fault: InjectedFault) {
        self.cloud.0.lock().unwrap().spoiled_purchase = Some(fault);
    }

    fn listings(&self) -> usize {
        let account = self.cloud.0.lock().unwrap();
        let listings = account.calls.iter().filter(|call| *call == "list blocks");
        listings.count()
    }
}

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[tokio::test(start_paused = true)]
async fn serves_all_services_at_two_requests_a_second() {
    for retry_after in [None, Some(1), Some(10)] {
        let retry_after = retry_after.map(Duration::from_secs);
        let cluster = TestCluster::new(false).with(&NAMES).taking(2, retry_after);
        let blocks = cluster.start("one");
        let served = join_all(NAMES.iter().map(|name| cluster.served(&blocks, name)));
        let limit = Duration::from_secs(240);
        let begun = Instant::now();
        let done = tokio::time::timeout(limit, served).await;
        let refused = cluster.cloud.1.as_ref().unwrap().refused();
        let calls = cluster.cloud.0.lock().unwrap().calls.len();
        let took = begun.elapsed();
        let told = format!("{retry_after:?}: {took:?}, {calls} calls, {refused} refused");
        assert!(done.is_ok(), "{told}");
        assert_eq!(cluster.bought(), NAMES.len());
        assert!(calls + refused <= 20 * NAMES.len(), "{told}");
        assert!(refused <= 10, "{told}");
        let swaps = cluster.cluster.0.lock().unwrap().version;
        assert!(swaps <= 3 * NAMES.len() as u64, "{told}, {swaps} swaps");
        assert_eq!(cluster.claim(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn rate_limited_purchase_keeps_its_claim() {
    let cluster = TestCluster::new(false).with(&["a", "b"]);
    let blocks = cluster.start("one");
    cluster.spoil_purchase(InjectedFault::Refused(ErrorKind::RateLimited));
    let refused = loop {
        match cluster.pass(&blocks, "a").await {
            Ok(Progress::Wait { after, .. }) => sleep(after).await,
            other => break other,
        }
    };
    assert!(
        matches!(refused, Err(ReconcileError::Cloud(_))),
        "{refused:?}"
    );
    let claim = cluster.claim();
    assert!(claim.is_some());
    // Passes of others, while nothing may be asked, let it be.
    cluster.put(ServiceView {
        load_balancer_ip: Some("192.0.2.1".to_owned()),
        ..service("other")
    });
    cluster.pass(&blocks, "other").await.unwrap();
    assert_eq!(cluster.claim(), claim);
    // Another replica that believes to lead does not buy meanwhile.
    let two = cluster.start("two");
    let waiting = cluster.pass(&two, "b").await.unwrap();
    assert!(matches!(waiting, Progress::Wait { .. }), "{waiting:?}");
    sleep(RETRY_AFTER).await;
    cluster.served(&blocks, "a").await;
    assert_eq!(cluster.bought(), 1);
    cluster.served(&blocks, "b").await;
    assert_eq!(cluster.claim(), None);
}

#[tokio::test(start_paused = true)]
async fn releases_claim_of_deleted_service() {
    let cluster = TestCluster::new(false).with(&["a"]);
    let blocks = cluster.start("one");
    cluster.spoil_purchase(InjectedFault::Refused(ErrorKind::RateLimited));
    while cluster.pass(&blocks, "a").await.is_ok() {
        sleep(Duration::from_secs(2)).await;
    }
    assert!(cluster.claim().is_some());
    cluster.removed(&blocks, "a").await;
    sleep(RETRY_AFTER * 2).await;
    let context = OpenGuard::default();
    blocks.round(&context).await.unwrap();
    assert_eq!(cluster.claim(), None);
}

/// A purchase whose answer was lost has been made.
#[tokio::test(start_paused = true)]
async fn finds_purchase_with_lost_answer_within_ten_seconds() {
    for sharing in [false, true] {
        let cluster = TestCluster::new(sharing).with(&["a", "b"]);
        let blocks = cluster.start("one");
        cluster.spoil_purchase(InjectedFault::Unheard);
        let begun = Instant::now();
        cluster.served(&blocks, "a").await;
        assert!(
            begun.elapsed() <= Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!((cluster.bought(), cluster.claim()), (1, None));
        cluster.served(&blocks, "b").await;
        assert!(
            begun.elapsed() <= Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(cluster.bought(), if sharing { 1 } else { 2 });
        assert_eq!(cluster.claim(), None);
    }
}

/// One that was not made, for all that is known, is not made again before it must have shown.
#[tokio::test(start_paused = true)]
async fn unlisted_purchase_is_repeated_after_settle_time() {
    let names = &NAMES[..4];
    let cluster = TestCluster::new(false).with(names);
    let blocks = cluster.start("one");
    cluster.spoil_purchase(InjectedFault::Refused(ErrorKind::Server));
    let begun = Instant::now();
    let served = async {
        join_all(names.iter().map(|name| cluster.served(&blocks, name))).await;
    };
    let looked = async {
        sleep(SETTLE - Duration::from_secs(1)).await;
        (cluster.bought(), cluster.listings())
    };
    let ((bought, listings), ()) = tokio::join!(looked, served);
    assert_eq!(bought, 0);
    assert!(listings <= 20, "{listings}");
    let took = begun.elapsed();
    assert!(took < SETTLE + Duration::from_secs(30), "{took:?}");
    assert_eq!((cluster.bought(), cluster.claim()), (4, None));
}
