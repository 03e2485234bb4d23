//! Whatever call is the last one of a process, or gets no answer: nothing is bought twice or left.

use super::super::testing::InjectedFault;
use super::*;
use crate::cloud_api::ErrorKind;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// A life from the first Service to the last block's end, with a fault at one call, after which
/// another process goes on if the first is to die of it.
async fn live(sharing: bool, call: usize, fault: InjectedFault, dies: bool) -> usize {
    let cluster = TestCluster::new(sharing).with(&NAMES);
    cluster.cloud.0.lock().unwrap().faults.insert(call, fault);
    let mut process = cluster.start("one");
    let has_happened = || cluster.cloud.0.lock().unwrap().faults.is_empty();
    let mut is_dead = false;
    for name in NAMES {
        for _ in 0..200 {
            let passed = cluster.pass(&process, name).await;
            if dies && !is_dead && has_happened() {
                is_dead = true;
                process = cluster.start("two");
            }
            match passed {
                Ok(Progress::Ensured(_)) => break,
                Ok(Progress::Wait { after, .. }) => advance(after).await,
                _ => advance(LONG / 10).await,
            }
        }
        assert!(
            !cluster.service(name).ingress.is_empty(),
            "{name} has no address"
        );
    }
    let addresses: std::collections::BTreeSet<_> = NAMES
        .iter()
        .map(|name| cluster.service(name).ingress[0].ip.clone())
        .collect();
    assert_eq!(addresses.len(), NAMES.len());
    let bought = cluster.bought();
    for name in NAMES {
        cluster.removed(&process, name).await;
        if dies && !is_dead && has_happened() {
            is_dead = true;
            process = cluster.start("two");
        }
    }
    for _ in 0..100 {
        let round = process.round(&OpenGuard::default()).await;
        if dies && !is_dead && has_happened() {
            is_dead = true;
            process = cluster.start("two");
        }
        if cluster.cloud.0.lock().unwrap().blocks.is_empty() {
            break;
        }
        advance(round.unwrap_or(LONG / 10)).await;
    }
    let left = cluster.cloud.0.lock().unwrap().blocks.clone();
    assert!(left.is_empty(), "left behind: {left:?}");
    assert!(has_happened(), "there were fewer calls than {call}");
    bought
}

/// How many calls a life without faults takes.
async fn calls(sharing: bool) -> usize {
    let cluster = TestCluster::new(sharing).with(&NAMES);
    let process = cluster.start("one");
    for name in NAMES {
        cluster.provided(&process, name).await;
    }
    for name in NAMES {
        cluster.removed(&process, name).await;
    }
    cluster.tended(&process).await;
    cluster.cloud.0.lock().unwrap().calls.len()
}

#[tokio::test(start_paused = true)]
async fn fault_at_any_call_buys_and_strands_nothing() {
    for (sharing, expected) in [(true, 1), (false, 3)] {
        let calls = calls(sharing).await;
        assert!(calls > 10, "{calls}");
        for call in 0..calls {
            for fault in [
                InjectedFault::Unheard,
                InjectedFault::Refused(ErrorKind::Server),
                InjectedFault::Refused(ErrorKind::Busy),
                InjectedFault::Refused(ErrorKind::Forbidden),
                InjectedFault::Refused(ErrorKind::RateLimited),
            ] {
                for dies in [false, true] {
                    let bought = live(sharing, call, fault, dies).await;
                    assert_eq!(bought, expected, "call {call}, {fault:?}, dies: {dies}");
                }
            }
        }
    }
}
