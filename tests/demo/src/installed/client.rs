//! A client that asks without a pause, and counts what it does not get.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use mooring_test_netlab::netlab::Host;
use mooring_test_support::wait::try_eventually;
use tokio::task::JoinHandle;

/// From one request to the next.
const SPACING: Duration = Duration::from_millis(100);

/// How long a connection may take, and then its answer.
const REQUEST_LIMIT: Duration = Duration::from_secs(1);

/// A request, and whether it was answered.
#[derive(Clone, Debug)]
struct Asked {
    at: Instant,
    /// What has come of it: an answer, or the reason why not.
    outcome: Option<Result<(), String>>,
}

/// What a client has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// How many requests there were.
    pub(super) asked: usize,
    /// How many had no answer.
    pub(super) lost: usize,
    /// How long no request was answered, at most.
    pub(super) longest: Duration,
    /// Why the first one was lost.
    pub(super) why: String,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            asked,
            lost,
            longest,
            why,
        } = self;
        write!(f, "{lost} of {asked} requests lost")?;
        if *lost > 0 {
            let longest = longest.as_secs_f64();
            write!(f, ", {longest:.1} s without an answer ({why})")?;
        }
        Ok(())
    }
}

/// The client. Dropping it is the end of its requests.
#[derive(Debug)]
pub(super) struct Client {
    log: Arc<Mutex<Vec<Asked>>>,
    work: JoinHandle<()>,
}

impl Client {
    /// Asks an HTTP server at this address from now on, each time on a connection of its own.
    pub(super) fn start(host: Arc<Host>, address: IpAddr) -> Self {
        let log = Arc::<Mutex<Vec<Asked>>>::default();
        let work = tokio::spawn(ask_steadily(
            host,
            format!("http://{address}/"),
            Arc::clone(&log),
        ));
        Self { log, work }
    }

    /// What was lost of the requests since then. If none has begun yet, the next one is waited for.
    pub(super) async fn lost_since(&self, since: Instant) -> Result<Lost> {
        let until = Instant::now();
        try_eventually(Duration::from_secs(20), async || {
            let log = lock(&self.log);
            let mut open = between(&log, since, until).peekable();
            ensure!(open.peek().is_some(), "it has asked nothing");
            let open = open.filter(|asked| asked.outcome.is_none()).count();
            ensure!(open == 0, "{open} requests are under way");
            Ok(())
        })
        .await
        .map_err(|reason| anyhow!("the client does not come to an end: {reason}"))?;
        Ok(count(between(&lock(&self.log), since, until)))
    }
}

/// What began between these moments, or first after both.
fn between(log: &[Asked], since: Instant, until: Instant) -> impl Iterator<Item = &Asked> {
    let later = log.iter().filter(move |asked| asked.at >= since);
    let chosen = later
        .enumerate()
        .filter(move |(place, asked)| *place == 0 || asked.at < until);
    chosen.map(|(_, asked)| asked)
}

impl Drop for Client {
    fn drop(&mut self) {
        self.work.abort();
    }
}

fn count<'a>(requests: impl Iterator<Item = &'a Asked>) -> Lost {
    let mut lost = Lost::default();
    let mut run = Duration::ZERO;
    for request in requests {
        lost.asked += 1;
        if let Some(Err(why)) = &request.outcome {
            if lost.lost == 0 {
                lost.why.clone_from(why);
            }
            lost.lost += 1;
            run += SPACING;
        } else {
            run = Duration::ZERO;
        }
        lost.longest = lost.longest.max(run);
    }
    lost
}

async fn ask_steadily(host: Arc<Host>, url: String, log: Arc<Mutex<Vec<Asked>>>) {
    let mut turns = tokio::time::interval(SPACING);
    loop {
        turns.tick().await;
        let number = {
            let mut log = lock(&log);
            log.push(Asked {
                at: Instant::now(),
                outcome: None,
            });
            log.len() - 1
        };
        let (host, url, log) = (Arc::clone(&host), url.clone(), Arc::clone(&log));
        tokio::spawn(async move {
            let outcome = match host.get_within(&url, REQUEST_LIMIT).await {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(format!("status {}", answer.status)),
                Err(error) => Err(format!("{error:#}")),
            };
            if let Some(asked) = lock(&log).get_mut(number) {
                asked.outcome = Some(outcome);
            }
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silence_is_that_of_requests_in_a_row() {
        let at = Instant::now();
        let log = [true, false, true, false, false, true].map(|is_answered| Asked {
            at,
            outcome: Some(if is_answered {
                Ok(())
            } else {
                Err("refused".to_owned())
            }),
        });
        let lost = count(log.iter());
        assert_eq!(
            lost.to_string(),
            "3 of 6 requests lost, 0.2 s without an answer (refused)"
        );
    }
}
