//! What the cloud refuses of one block alone, fails at, or does not come to an end with.

use super::super::super::api::ip_blocks::BlockStatus;
use super::*;
use crate::cloud_api::ErrorKind;

impl TestCluster {
    /// Rounds for so long.
    async fn goes_on(&self, blocks: &IpBlocks, context: &OpenGuard, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            let _ = blocks.round(context).await;
            advance(super::super::POLL).await;
        }
    }

    /// A block is in this state, and does not say where.
    fn fails(&self, id: &str, status: BlockStatus) {
        let mut account = self.cloud.0.lock().unwrap();
        let block = account.blocks.get_mut(id).unwrap();
        (block.status, block.holder) = (status, None);
        let network = account.network.as_mut().unwrap();
        network.blocks.retain(|(listed, _)| listed != id);
    }

    /// The blocks that are there.
    fn left(&self) -> Vec<String> {
        self.cloud
            .0
            .lock()
            .unwrap()
            .blocks
            .keys()
            .cloned()
            .collect()
    }
}

/// What was told with this reason.
fn told(context: &OpenGuard, reason: &str) -> Vec<String> {
    let told = context.told.lock().unwrap();
    let notes = told.iter().filter(|(with, _)| *with == reason);
    notes.map(|(_, note)| note.clone()).collect()
}

/// The cloud refuses changes of this block from now on.
fn refuses(cluster: &TestCluster, block: &str) {
    let mut account = cluster.cloud.0.lock().unwrap();
    account.refused.insert(block.to_owned());
}

/// Marked blocks, each of one of these Services, which are deleted.
async fn marked(names: &[&str]) -> (TestCluster, IpBlocks) {
    let cluster = TestCluster::new(false).with(names);
    let blocks = cluster.start("one");
    for name in names {
        cluster.provided(&blocks, name).await;
    }
    for name in names {
        cluster.removed(&blocks, name).await;
    }
    cluster.cloud.writes();
    (cluster, blocks)
}

#[tokio::test(start_paused = true)]
async fn block_in_use_by_a_member_holds_up_no_other() {
    let (cluster, blocks) = marked(&["a", "b"]).await;
    refuses(&cluster, "b1");
    let context = OpenGuard::default();
    cluster.goes_on(&blocks, &context, LONG).await;
    assert_eq!(cluster.left(), ["b1"]);
    let tries = cluster.cloud.writes();
    let tries = tries.iter().filter(|call| *call == "detach b1 from net");
    assert!((5..=8).contains(&tries.count()), "ever more slowly");
    let stuck = told(&context, reasons::IP_BLOCK_STUCK);
    assert_eq!(stuck.len(), 1, "{stuck:?}");
    assert!(stuck[0].contains("in use by a member"), "{stuck:?}");
    // Nor does it keep the network from a new one.
    cluster.put(service("new"));
    let begun = tokio::time::Instant::now();
    cluster.provided(&blocks, "new").await;
    assert!(begun.elapsed() < Duration::from_secs(10));
    cluster.cloud.0.lock().unwrap().refused.clear();
    cluster.goes_on(&blocks, &context, LONG * 2).await;
    assert_eq!(cluster.left(), ["b3"]);
}

#[tokio::test(start_paused = true)]
async fn refused_assignment_is_told_to_its_service() {
    let cluster = TestCluster::new(false).with(&["web", "next"]);
    refuses(&cluster, "b1");
    let blocks = cluster.start("one");
    let mut why = String::new();
    for _ in 0..20 {
        match cluster.pass(&blocks, "web").await {
            Ok(Progress::Wait { after, .. }) => advance(after).await,
            Err(ReconcileError::Cloud(refused)) => {
                let after = refused.retry_after.unwrap();
                assert!(after <= Duration::from_secs(60), "{after:?}");
                why = refused.message.clone();
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(why.contains("in use by a member"), "{why}");
    cluster.provided(&blocks, "next").await;
}

/// 5a: only what the network may have waits for it.
#[tokio::test(start_paused = true)]
async fn unreadable_network_keeps_no_other_block_from_release() {
    let (cluster, blocks) = marked(&["a", "b"]).await;
    cluster.fails("b1", BlockStatus::ErrorAssigning);
    cluster.fails("b2", BlockStatus::Unassigned);
    advance(LONG).await;
    cluster.cloud.0.lock().unwrap().network_fault = Some(ErrorKind::Server);
    let context = OpenGuard::default();
    cluster.goes_on(&blocks, &context, LONG).await;
    assert_eq!(cluster.left(), ["b1"]);
    // The cloud's word for a network that does not exist.
    cluster.cloud.0.lock().unwrap().network_fault = Some(ErrorKind::Forbidden);
    cluster.goes_on(&blocks, &context, LONG).await;
    assert_eq!(cluster.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn block_that_failed_to_leave_and_is_nowhere_is_released() {
    let (cluster, blocks) = marked(&["a"]).await;
    cluster.fails("b1", BlockStatus::ErrorUnassigning);
    refuses(&cluster, "b1");
    let context = OpenGuard::default();
    cluster.goes_on(&blocks, &context, LONG).await;
    let stuck = told(&context, reasons::IP_BLOCK_STUCK);
    assert!(
        stuck[0].contains("something is attached to it"),
        "{stuck:?}"
    );
    let tries = cluster.cloud.writes();
    assert!((3..=6).contains(&tries.len()), "{tries:?}");
    cluster.cloud.0.lock().unwrap().refused.clear();
    cluster.goes_on(&blocks, &context, LONG * 2).await;
    assert_eq!(cluster.left(), Vec::<String>::new());
}

/// A network that takes one change at a time is asked nevertheless when one takes too long.
#[tokio::test(start_paused = true)]
async fn block_that_never_arrives_holds_up_others_for_minutes_only() {
    let cluster = TestCluster::new(false).with(&["a", "b"]);
    let blocks = cluster.start("one");
    loop {
        let progress = cluster.pass(&blocks, "a").await.unwrap();
        assert!(matches!(progress, Progress::Wait { .. }), "{progress:?}");
        if cluster.cloud.0.lock().unwrap().blocks["b1"].status == BlockStatus::Assigning {
            break;
        }
        advance(super::super::POLL).await;
    }
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        account.held.insert("b1".to_owned());
        account.busy = 1;
    }
    let begun = tokio::time::Instant::now();
    cluster.provided(&blocks, "b").await;
    let took = begun.elapsed();
    assert!(took > LONG && took < LONG * 4, "{took:?}");
    let context = OpenGuard::default();
    cluster.goes_on(&blocks, &context, LONG).await;
    assert!(told(&context, reasons::IP_BLOCK_STUCK).is_empty());
    cluster.goes_on(&blocks, &context, LONG * 15).await;
    let stuck = told(&context, reasons::IP_BLOCK_STUCK);
    assert!(
        stuck[0].contains("b1") && stuck[0].contains("assigning"),
        "{stuck:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn block_on_its_way_elsewhere_is_not_waited_for() {
    let cluster = TestCluster::new(false).with(&["a"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "a").await;
    let mut state = blocks.lock().await;
    state.takes_one_change_at_a_time(NETWORK);
    state.state.blocks[0].block.status = BlockStatus::Unassigning;
    assert!(state.is_at_work(NETWORK));
    state.state.blocks[0].block.holder = testing::in_network("old");
    assert!(!state.is_at_work(NETWORK));
}
