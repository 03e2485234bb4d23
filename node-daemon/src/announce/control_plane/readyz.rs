//! Asks the API server of this node whether it is ready, over loopback or at an address of the node.
//!
//! The certificate of the API server is not verified: whoever can listen there in its place is root here, and has the
//! address anyway. `/readyz` includes the API server's etcd, by the check `etcd-readiness`.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Collected, Limited};
use kube::Client;
use kube::client::Body;
use mooring_common::errors::with_causes;
use mooring_common::k8s::ClientError;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::fitness::{Fitness, Outcome, Readiness, Urgency};

/// What is asked for. The check `etcd` would repeat an error for up to a second after etcd is well again; how long
/// `etcd-readiness` does is up to the API server's `--etcd-readycheck-timeout`.
const PATH: &str = "/readyz?exclude=etcd";
/// How often it is asked.
const PERIOD: Duration = Duration::from_millis(100);
/// How long an answer may take. With three failures in a row a hung API server is noticed within 0.45 s.
const LIMIT: Duration = Duration::from_millis(150);
/// An API server that starts permits nobody anything before it knows its own roles. After that, the certificate may have
/// expired: the files are read again that often.
const FORBIDDEN_FOR: Duration = Duration::from_secs(15);
/// The longest answer that is read. One that is ready says `ok`; one that is not names each check, as with `?verbose`.
const LONGEST: usize = 64 * 1024;
/// How often it is explained, at most, why the API server is not ready.
const EXPLAINED_EVERY: Duration = Duration::from_secs(60);
/// How a check that fails begins in the answer.
const FAILING: &str = "[-]";
/// How many failing checks are named, at most.
const MOST_NAMED: usize = 10;
/// How many characters of each are.
const LONGEST_CHECK: usize = 200;

/// What an API server answers, or why nothing came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What follows from it.
    pub outcome: Outcome,
    /// The checks that fail, in the words of the API server.
    pub failing: Vec<String>,
}

/// Keeps `readiness` up to date while `is_member` of the file, for as long as the future is polled: a witness has no
/// API server, and need not have the files of `probe`. `connect` gives a client with the certificate as it is on disk
/// by then.
pub async fn follow_while<T>(
    mut file: watch::Receiver<T>,
    is_member: impl Fn(&T) -> bool,
    connect: impl Fn() -> Result<Client, ClientError>,
    readiness: watch::Sender<Readiness>,
    urgency: watch::Receiver<Urgency>,
) {
    loop {
        if file.wait_for(|file| is_member(file)).await.is_err() {
            return readiness.closed().await;
        }
        tokio::select! {
            () = follow(&connect, &readiness, &urgency) => {}
            _ = file.wait_for(|file| !is_member(file)) => {}
        }
        readiness.send_replace(Readiness::Unknown);
    }
}

/// A client, once there is one.
async fn connected(connect: impl Fn() -> Result<Client, ClientError>) -> Client {
    let mut known = None;
    loop {
        let error = match connect() {
            Ok(client) => return client,
            Err(error) => with_causes(&error),
        };
        if known.as_ref() != Some(&error) {
            tracing::warn!(
                error,
                "cannot ask the API server of this node, so that it counts as not ready; correct probe of the control \
                 plane file, and mount the files that it names: they are read again"
            );
            known = Some(error);
        }
        tokio::time::sleep(FORBIDDEN_FOR).await;
    }
}

async fn follow(
    connect: &impl Fn() -> Result<Client, ClientError>,
    readiness: &watch::Sender<Readiness>,
    urgency: &watch::Receiver<Urgency>,
) {
    let mut client = connected(connect).await;
    let mut fitness = Fitness::default();
    let mut forbidden = Forbidden::default();
    let mut explanation = Explanation::from(Instant::now());
    let mut period = interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Each begins in time, whether or not the one before it is answered, and counts in its turn.
    let mut probes = FuturesOrdered::new();
    loop {
        let answer = tokio::select! {
            _ = period.tick() => {
                let client = client.clone();
                probes.push_back(async move { ask(&client).await });
                continue;
            }
            Some(answer) = probes.next() => answer,
        };
        let outcome = &answer.outcome;
        let changed = fitness.note(outcome, *urgency.borrow(), Instant::now().into_std());
        if changed {
            let before = readiness.send_replace(fitness.readiness());
            report(before, fitness.readiness(), outcome);
        }
        if let Some(reason) = explanation.note(fitness.readiness(), &answer, Instant::now()) {
            tracing::warn!(
                reason,
                "the API server of this node is not ready; it is asked at probe.address, else 127.0.0.1, and port of the \
                 control plane file"
            );
        }
        let Some(times) = forbidden.note(outcome, Instant::now()) else {
            continue;
        };
        if times == 1 {
            tracing::warn!(
                "the API server does not permit this process to read /readyz, so that it counts as not ready; name a \
                 client certificate in probe.clientCertificate and probe.clientKey of the control plane file, or, if it \
                 names one, renew that: the files are read again"
            );
        }
        match connect() {
            Ok(renewed) => client = renewed,
            Err(error) => tracing::debug!(
                error = with_causes(&error),
                "the certificate cannot be used"
            ),
        }
    }
}

/// How long the API server has permitted nothing.
#[derive(Debug, Default)]
struct Forbidden {
    /// When to use the files anew.
    due: Option<Instant>,
    /// How often that was due.
    times: u32,
}

impl Forbidden {
    /// Takes in an answer. If it is time to use the files anew: how often it was.
    fn note(&mut self, outcome: &Outcome, now: Instant) -> Option<u32> {
        if *outcome != Outcome::Forbidden {
            *self = Self::default();
            return None;
        }
        let due = self.due.get_or_insert(now + FORBIDDEN_FOR);
        if now < *due {
            return None;
        }
        *due = now + FORBIDDEN_FOR;
        self.times = self.times.saturating_add(1);
        Some(self.times)
    }
}

/// When it is to be explained next why the API server is not ready. One that starts has that long to become ready.
#[derive(Debug)]
struct Explanation {
    due: Instant,
}

impl Explanation {
    fn from(now: Instant) -> Self {
        Self {
            due: now + EXPLAINED_EVERY,
        }
    }

    /// Takes in an answer. If it is time to explain it: why the API server is not ready.
    fn note(&mut self, readiness: Readiness, answer: &Answer, now: Instant) -> Option<String> {
        if readiness.is_ready() || now < self.due {
            return None;
        }
        let reason = match &answer.outcome {
            // Of what is not permitted there is a warning with its own remedy.
            Outcome::Ready | Outcome::Forbidden => return None,
            Outcome::NotReady if answer.failing.is_empty() => {
                "it answers so, and names no check that fails".to_owned()
            }
            Outcome::NotReady => answer.failing.join("; "),
            Outcome::Hung => format!("it has not answered within {LIMIT:?}"),
            Outcome::Unreachable(error) => format!("it cannot be reached: {error}"),
        };
        self.due = now + EXPLAINED_EVERY;
        Some(reason)
    }
}

fn report(before: Readiness, now: Readiness, outcome: &Outcome) {
    match outcome {
        _ if now.is_ready() && before.is_ready() => {
            tracing::debug!(readiness = ?now, ?outcome, "an answer of the API server of this node");
        }
        _ if now.is_ready() => tracing::info!("the API server of this node is ready"),
        _ if !before.is_ready() => {
            tracing::debug!(readiness = ?now, ?outcome, "the API server of this node is still not ready");
        }
        Outcome::Unreachable(error) => tracing::warn!(
            error,
            "the API server of this node cannot be reached: offering the address to others"
        ),
        Outcome::Hung => tracing::warn!(
            "the API server of this node has not answered /readyz within {LIMIT:?}: offering the address to others"
        ),
        Outcome::Ready | Outcome::NotReady | Outcome::Forbidden => {
            tracing::warn!(
                "the API server of this node is not ready: offering the address to others"
            );
        }
    }
}

/// Asks once.
pub async fn ask(client: &Client) -> Answer {
    let nothing = |outcome| Answer {
        outcome,
        failing: Vec::new(),
    };
    let Ok(request) = Request::get(PATH).body(Body::empty()) else {
        return nothing(Outcome::Unreachable(
            "the request cannot be made".to_owned(),
        ));
    };
    let answer = async {
        let response = client.send(request).await?;
        let status = response.status();
        // What is left unread would cost the connection. How it ends says nothing more.
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        Ok::<_, kube::Error>(Answer {
            outcome: of(status),
            failing: failing(&String::from_utf8_lossy(&body)),
        })
    };
    match timeout(LIMIT, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => nothing(Outcome::Unreachable(with_causes(&error))),
        Err(_) => nothing(Outcome::Hung),
    }
}

/// The checks that fail. An API server that is not ready names all checks, whether or not it was asked to.
fn failing(body: &str) -> Vec<String> {
    let lines = body.lines().filter(|line| line.starts_with(FAILING));
    let shortened = lines.map(|line| line.chars().take(LONGEST_CHECK).collect());
    shortened.take(MOST_NAMED).collect()
}

fn of(status: StatusCode) -> Outcome {
    match status {
        StatusCode::OK => Outcome::Ready,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Forbidden,
        _ => Outcome::NotReady,
    }
}

#[cfg(test)]
mod tests;
