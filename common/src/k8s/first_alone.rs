//! The request that opens a connection goes first; what begins beside it waits for its answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Response;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

/// How long requests wait for the first one. A server that accepts connections and is slow to answer delays them by
/// no more.
const LIMIT: Duration = Duration::from_secs(1);

/// Whether a connection is known to be there. That the server speaks HTTP/2 is known once one is open (RFC 7301), and
/// until then each request would open one of its own, on which its watch then stays.
#[derive(Debug, Default)]
pub(super) struct FirstAlone {
    answered: AtomicBool,
    first: Mutex<()>,
}

impl FirstAlone {
    /// Sends a request: at once if the last one was answered, or if no other is on its way. Others wait until the first has
    /// its answer or has failed, and then go together.
    pub(super) async fn send<B, E>(
        &self,
        request: impl Future<Output = Result<Response<B>, E>>,
    ) -> Result<Response<B>, E> {
        let first = self.first_or_wait().await;
        let answer = request.await;
        self.answered.store(answer.is_ok(), Ordering::Relaxed);
        drop(first);
        answer
    }

    async fn first_or_wait(&self) -> Option<MutexGuard<'_, ()>> {
        if self.answered.load(Ordering::Relaxed) {
            return None;
        }
        if let Ok(first) = self.first.try_lock() {
            return Some(first);
        }
        // Once it is over, it does not matter how it went.
        let _ = timeout(LIMIT, self.first.lock()).await;
        None
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::future::join_all;
    use tokio::sync::Notify;
    use tokio::time::Instant;

    use super::*;

    type Answer = Result<Response<()>, &'static str>;

    async fn answered() -> Answer {
        Ok(Response::new(()))
    }

    #[tokio::test(start_paused = true)]
    async fn what_begins_beside_the_first_request_waits_for_its_answer() {
        let gate = FirstAlone::default();
        let (open, others) = (Notify::new(), AtomicBool::new(false));
        let first = gate.send(async {
            open.notified().await;
            assert!(!others.load(Ordering::Relaxed));
            answered().await
        });
        let second = gate.send(async {
            others.store(true, Ordering::Relaxed);
            answered().await
        });
        let (first, second, ()) = tokio::join!(first, second, async { open.notify_one() });
        first.and(second).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn requests_go_together_once_one_was_answered_or_the_first_has_failed() {
        let gate = FirstAlone::default();
        let failed: Answer = gate.send(async { Err("refused") }).await;
        failed.unwrap_err();
        gate.send(answered()).await.unwrap();
        let both = tokio::sync::Barrier::new(2);
        let meet = || {
            gate.send(async {
                both.wait().await;
                Ok::<_, Infallible>(Response::new(()))
            })
        };
        join_all([meet(), meet()]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_request_that_hangs_delays_others_by_a_second() {
        let gate = FirstAlone::default();
        let hangs = gate.send(std::future::pending::<Answer>());
        let began = Instant::now();
        let other = async {
            tokio::task::yield_now().await;
            gate.send(answered()).await.unwrap();
            began.elapsed()
        };
        tokio::select! {
            biased;
            _ = hangs => unreachable!("it hangs"),
            waited = other => assert_eq!(waited, LIMIT),
        }
    }
}
