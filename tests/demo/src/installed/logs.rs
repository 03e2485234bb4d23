//! The logs of mooring-central and mooring-node, and what is loud in them. Not those of static Pods: they judge how fast
//! API servers answer, and on a busy machine rightly warn of that.
//!
//! A kubelet deletes a log with its Pod. So all logs are followed from the beginning, and what a program said at its
//! end is known.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};
use kube::{Client, ResourceExt as _};
use mooring_common::names::NAMESPACE;
use mooring_test_support::wait::try_eventually;
use tokio::task::{JoinHandle, JoinSet};

/// After how long is looked for new Pods again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long the log of a Pod that is gone may take to end.
const END_LIMIT: Duration = Duration::from_secs(20);

/// The levels of lines that nobody has to look at.
const QUIET: [&str; 3] = ["INFO", "DEBUG", "TRACE"];

/// A Pod: name and UID.
type PodKey = [String; 2];

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    /// When the runtime has read it.
    at: Timestamp,
    pub(super) pod: String,
    pub(super) text: String,
}

impl Line {
    /// Reads a line that begins with a time; others are not the program's.
    fn read(pod: &str, line: &str) -> Option<Self> {
        let (at, text) = line.split_once(' ')?;
        Some(Self {
            at: at.parse().ok()?,
            pod: pod.to_owned(),
            text: text.to_owned(),
        })
    }

    /// Whether it is a warning or an error, or none of the program's log lines, as that of a panic.
    pub(super) fn is_loud(&self) -> bool {
        let level = self.text.split_whitespace().nth(1);
        !level.is_some_and(|level| QUIET.contains(&level))
    }
}

#[derive(Debug, Default)]
struct State {
    lines: BTreeSet<Line>,
    followed: BTreeSet<PodKey>,
}

/// All logs since the first of the Pods started. Dropping it is the end of that.
pub(super) struct PodLogs {
    client: Client,
    state: Arc<Mutex<State>>,
    work: JoinHandle<()>,
}

impl PodLogs {
    /// Follows the logs of all Pods of Mooring from now on.
    pub(super) fn follow(client: Client) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let work = tokio::spawn(follow_all(client.clone(), Arc::clone(&state)));
        Self {
            client,
            state,
            work,
        }
    }

    /// All that was written since then, by Pods that are there and by those that are gone.
    ///
    /// # Errors
    /// If a log cannot be read, or has nothing in it.
    pub(super) async fn since(&self, since: Timestamp) -> Result<Vec<Line>> {
        let present = try_eventually(END_LIMIT, async || {
            let present = pods(&self.client).await?;
            let followed = &lock(&self.state).followed;
            let open: Vec<_> = followed.difference(&present).collect();
            ensure!(open.is_empty(), "these logs have not ended: {open:?}");
            anyhow::Ok(present)
        });
        let present = present.await.map_err(|reason| anyhow!("{reason}"))?;
        for pod in present {
            let [name, _] = &pod;
            let api = Api::<Pod>::namespaced(self.client.clone(), NAMESPACE);
            let text = api.logs(name, &parameters(false)).await?;
            let lines = text.lines().filter_map(|line| Line::read(name, line));
            let lines: Vec<Line> = lines.collect();
            ensure!(!lines.is_empty(), "the log of {name} is empty: {text}");
            lock(&self.state).lines.extend(lines);
        }
        let state = lock(&self.state);
        let lines = state.lines.iter().filter(|line| line.at >= since);
        Ok(lines.cloned().collect())
    }
}

impl Drop for PodLogs {
    fn drop(&mut self) {
        self.work.abort();
    }
}

/// Follows each Pod's log, also that of its next container.
async fn follow_all(client: Client, state: Arc<Mutex<State>>) {
    let mut turns = tokio::time::interval(LOOK_AGAIN);
    let mut tasks = JoinSet::new();
    loop {
        turns.tick().await;
        while let Some(ended) = tasks.try_join_next() {
            if let Ok(pod) = ended {
                lock(&state).followed.remove(&pod);
            }
        }
        for pod in pods(&client).await.unwrap_or_default() {
            if lock(&state).followed.insert(pod.clone()) {
                let (client, state) = (client.clone(), Arc::clone(&state));
                tasks.spawn(async move {
                    // A container that has not started yet has no log: it is asked for again.
                    let _ = follow(client, &pod, &state).await;
                    pod
                });
            }
        }
    }
}

async fn follow(client: Client, pod: &PodKey, state: &Mutex<State>) -> Result<()> {
    let [name, _] = pod;
    let pods = Api::<Pod>::namespaced(client, NAMESPACE);
    let mut lines = Box::pin(pods.log_stream(name, &parameters(true)).await?).lines();
    while let Some(line) = lines.try_next().await? {
        lock(state).lines.extend(Line::read(name, &line));
    }
    Ok(())
}

fn parameters(follow: bool) -> LogParams {
    LogParams {
        follow,
        timestamps: true,
        ..LogParams::default()
    }
}

/// Mooring's Pods that have not ended.
async fn pods(client: &Client) -> Result<BTreeSet<PodKey>> {
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let mut found = BTreeSet::new();
    for pod in pods.list(&ListParams::default()).await? {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        if !matches!(phase, Some("Failed" | "Succeeded")) {
            found.insert([pod.name_any(), pod.uid().unwrap_or_default()]);
        }
    }
    Ok(found)
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_errors_and_panics_are_loud() {
        for (text, is_loud) in [
            (
                "2026-11-28T10:00:00.1Z  INFO mooring_node::run: a WARN of others",
                false,
            ),
            ("2026-11-28T10:00:00.1Z DEBUG mooring_node::run: x", false),
            ("2026-11-28T10:00:00.1Z  WARN mooring_node::fence: x", true),
            ("2026-11-28T10:00:00.1Z ERROR mooring_central: x", true),
            ("thread 'main' panicked at src/main.rs:1:1:", true),
            ("", true),
        ] {
            let line = format!("2026-11-28T10:00:00.123456789Z {text}");
            let line = Line::read("mooring-node-x", &line).unwrap();
            assert_eq!((line.text.as_str(), line.is_loud()), (text, is_loud));
        }
    }

    #[test]
    fn what_the_kubelet_says_is_no_line() {
        let said = "unable to retrieve container logs for containerd://1";
        assert_eq!(Line::read("mooring-node-x", said), None);
    }
}
