//! Whether voters live, as far as the Leases of their daemons tell.
//!
//! A voter that is dead says nothing, and what others say of it does not count. So its Lease is looked
//! at, by central's own clock, as long as there is any doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use mooring_common::errors::with_causes;
use mooring_common::names::{NAMESPACE, node_lease};
use tokio::time::timeout;

/// How long a Lease must have stood still until its daemon counts as dead: two renewals left out.
const STILL: Duration = Duration::from_secs(20);
/// How long one reading may take.
const LIMIT: Duration = Duration::from_secs(2);

/// The daemons' Leases, as they were read.
pub(super) struct Leases {
    api: Api<Lease>,
    seen: Mutex<Readings>,
}

/// What was read of each Node's Lease.
#[derive(Default)]
struct Readings(BTreeMap<String, Seen>);

/// A Lease as it was read.
struct Seen {
    /// `metadata.resourceVersion`; `None`: there was none.
    version: Option<String>,
    /// When it was first read so.
    since: Instant,
    /// When it was last read.
    read: Instant,
}

impl Leases {
    /// Those in the namespace that this process runs in: the daemons run there as well.
    pub(super) fn new(client: Client) -> Self {
        let namespace = std::env::var("POD_NAMESPACE").ok();
        let namespace = namespace.filter(|name| !name.is_empty());
        let namespace = namespace.as_deref().unwrap_or(NAMESPACE);
        Self {
            api: Api::namespaced(client, namespace),
            seen: Mutex::default(),
        }
    }

    /// Which of these Nodes have not renewed their Leases for long, as far as they can be read.
    pub(super) async fn standing_still<'a>(
        &self,
        nodes: impl Iterator<Item = &'a String>,
    ) -> BTreeSet<String> {
        let read = nodes.map(async |node| {
            let name = node_lease(node);
            match timeout(LIMIT, self.api.get_opt(&name)).await {
                Ok(Ok(lease)) => {
                    let version = lease.and_then(|lease| lease.metadata.resource_version);
                    let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                    let still = seen.note(node, version, Instant::now());
                    still.then(|| node.clone())
                }
                Ok(Err(error)) => {
                    tracing::warn!(
                        lease = name,
                        error = with_causes(&error),
                        "cannot look whether a voter lives"
                    );
                    None
                }
                Err(_) => None,
            }
        });
        let still = join_all(read).await.into_iter().flatten().collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.forget(Instant::now());
        still
    }
}

impl Readings {
    /// Takes a reading down; whether the Lease stands still.
    fn note(&mut self, node: &str, version: Option<String>, now: Instant) -> bool {
        match self.0.get_mut(node) {
            Some(known) if known.version == version => {
                known.read = now;
                now.saturating_duration_since(known.since) >= STILL
            }
            _ => {
                let reading = Seen {
                    version,
                    since: now,
                    read: now,
                };
                self.0.insert(node.to_owned(), reading);
                false
            }
        }
    }

    /// What has not been looked at for long has to be found out anew.
    fn forget(&mut self, now: Instant) {
        self.0
            .retain(|_, known| now.saturating_duration_since(known.read) < STILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_is_stale_after_two_equal_readings() {
        let mut leases = Readings::default();
        let start = Instant::now();
        let version = |text: &str| Some(text.to_owned());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!leases.note("n1", version("7"), start));
        assert!(!leases.note("n1", version("7"), at(19)));
        assert!(leases.note("n1", version("7"), at(20)));
        assert!(!leases.note("n1", version("8"), at(21)), "it was renewed");
        assert!(!leases.note("n2", None, start));
        assert!(leases.note("n2", None, at(20)), "there is none");
        leases.forget(at(41));
        assert!(!leases.note("n1", version("8"), at(42)), "found out anew");
    }
}
