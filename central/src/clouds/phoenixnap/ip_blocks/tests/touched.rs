//! Somebody touches a Service: the cloud is looked at before it is said that all is as wanted.

use super::super::testing::in_network;
use super::*;

impl TestCluster {
    /// Somebody changes something about a Service that nobody here reads.
    fn touch(&self, name: &str) {
        self.put(self.service(name));
    }

    /// Passes until no further one is asked for.
    async fn settled(&self, blocks: &IpBlocks, name: &str) -> String {
        loop {
            let wait = match self.pass(blocks, name).await.unwrap() {
                Progress::Ensured(LoadBalancerStatus {
                    again: None,
                    ingress,
                    ..
                }) => {
                    return ingress[0].ip.clone().unwrap();
                }
                Progress::Ensured(LoadBalancerStatus {
                    again: Some(wait), ..
                }) => wait,
                Progress::Wait { after, .. } => after,
                Progress::Removed => panic!("removed"),
            };
            advance(wait).await;
        }
    }

    fn calls_since(&self) -> Vec<String> {
        std::mem::take(&mut self.cloud.0.lock().unwrap().calls)
    }

    /// Somebody gives all blocks back.
    fn release_by_hand(&self) {
        let mut account = self.cloud.0.lock().unwrap();
        account.blocks.clear();
        account.network.as_mut().unwrap().blocks.clear();
    }
}

#[tokio::test(start_paused = true)]
async fn touch_replaces_lost_block() {
    for sharing in [true, false] {
        let cluster = TestCluster::new(sharing).with(&["web"]);
        let blocks = cluster.start("one");
        assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
        cluster.provided(&blocks, "web").await;
        cluster.release_by_hand();
        cluster.calls_since();
        advance(LONG).await;
        // Nobody has told anything.
        cluster.provided(&blocks, "web").await;
        assert!(cluster.calls_since().is_empty());
        cluster.touch("web");
        let begun = tokio::time::Instant::now();
        assert_eq!(cluster.settled(&blocks, "web").await, "203.0.113.18");
        let took = begun.elapsed();
        assert!(took <= Duration::from_secs(20), "{took:?}");
        assert_eq!(cluster.bought(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn notices_touch_right_after_own_write() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.release_by_hand();
    cluster.touch("web");
    assert_eq!(cluster.settled(&blocks, "web").await, "203.0.113.18");
}

/// The last listing is recent, and older than what was done by hand.
#[tokio::test(start_paused = true)]
async fn listing_before_touch_does_not_count() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.provided(&blocks, "web").await;
    advance(Duration::from_millis(100)).await;
    cluster.release_by_hand();
    cluster.touch("web");
    assert_eq!(cluster.settled(&blocks, "web").await, "203.0.113.18");
}

#[tokio::test(start_paused = true)]
async fn touch_reassigns_block_detached_by_hand() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.provided(&blocks, "web").await;
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        let block = account.blocks.get_mut("b1").unwrap();
        assert_eq!(block.holder, in_network(NETWORK));
        (block.status, block.holder) = (BlockStatus::Unassigned, None);
        account.network.as_mut().unwrap().blocks.clear();
    }
    cluster.cloud.writes();
    advance(LONG).await;
    cluster.touch("web");
    cluster.provided(&blocks, "web").await;
    assert_eq!(cluster.cloud.writes(), ["attach b1 to net"]);
}

#[tokio::test(start_paused = true)]
async fn touched_services_share_one_listing() {
    let names = ["a", "b", "c", "d", "e"];
    let cluster = TestCluster::new(true).with(&names);
    let blocks = cluster.start("one");
    for name in names {
        cluster.provided(&blocks, name).await;
    }
    advance(LONG).await;
    cluster.calls_since();
    for name in names {
        cluster.provided(&blocks, name).await;
    }
    assert!(
        cluster.calls_since().is_empty(),
        "what was written is known"
    );
    for name in names {
        cluster.touch(name);
    }
    for name in names {
        cluster.provided(&blocks, name).await;
        cluster.provided(&blocks, name).await;
    }
    assert_eq!(cluster.calls_since(), ["list blocks"]);
    // One after the other within a second: the first has one at once, the others share one.
    advance(LONG).await;
    for name in names {
        advance(Duration::from_millis(200)).await;
        cluster.touch(name);
        cluster.pass(&blocks, name).await.unwrap();
    }
    for name in names {
        cluster.settled(&blocks, name).await;
    }
    assert_eq!(cluster.calls_since(), ["list blocks", "list blocks"]);
}
