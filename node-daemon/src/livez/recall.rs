//! What health checks are answered from, kept where it outlives the process: so that a daemon that is
//! started while the API server is away answers as the one before did.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use mooring_common::k8s::ObjectKey;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::sleep;

use super::plan::local_endpoints;
use crate::announce::observe::{Snapshot, TrafficPolicy};
use crate::announce::state_file;

/// The file's name in the folder of its Node.
const NAME: &str = "health.json";
/// The version of what is in it. Another is not read.
const VERSION: u32 = 1;
/// How long changes are gathered before they are written.
const GATHER: Duration = Duration::from_millis(500);

/// What there was to answer from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recalled {
    version: u32,
    node: String,
    /// Whether the Node was there.
    pub present: bool,
    /// Whether it was to carry no more traffic.
    pub draining: bool,
    services: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    namespace: String,
    name: String,
    #[serde(flatten)]
    known: RecalledService,
}

/// What was known of a Service of type LoadBalancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecalledService {
    /// Its ready endpoints on this Node.
    pub endpoints: usize,
    /// Where load balancers ask about it, if it takes traffic only where its endpoints are.
    pub health_check_node_port: Option<u16>,
}

impl Recalled {
    /// What is worth keeping; `None` as long as that is not known whole.
    #[must_use]
    pub fn of(node: &str, snapshot: &Snapshot) -> Option<Self> {
        if !snapshot.answers_health() {
            return None;
        }
        let services = snapshot.services.iter().map(|(key, service)| Entry {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            known: RecalledService {
                endpoints: local_endpoints(snapshot, key),
                health_check_node_port: service
                    .health_check_node_port
                    .filter(|_| service.policy == TrafficPolicy::Local),
            },
        });
        Some(Self {
            version: VERSION,
            node: node.to_owned(),
            present: snapshot.node.is_some(),
            draining: snapshot.draining(),
            services: services.collect(),
        })
    }

    /// What was known of a Service. They are in the order of their keys.
    #[must_use]
    pub fn service(&self, key: &ObjectKey) -> Option<RecalledService> {
        let wanted = (key.namespace.as_str(), key.name.as_str());
        let order = |entry: &Entry| (entry.namespace.as_str(), entry.name.as_str()).cmp(&wanted);
        let index = self.services.binary_search_by(order).ok()?;
        self.services.get(index).map(|entry| entry.known)
    }

    /// All Services.
    #[must_use]
    pub fn services(&self) -> BTreeMap<ObjectKey, RecalledService> {
        let entries = self.services.iter();
        entries
            .map(|entry| {
                let key = ObjectKey::new(entry.namespace.as_str(), entry.name.as_str());
                (key, entry.known)
            })
            .collect()
    }
}

/// Reads what the process before left. `None`: nothing that can be gone by.
#[must_use]
pub fn read(folder: &Path, node: &str) -> Option<Recalled> {
    let path = folder.join(NAME);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what was known of health cannot be read");
            return None;
        }
    };
    match serde_json::from_slice::<Recalled>(&text) {
        Ok(found) if found.version == VERSION && found.node == node => Some(found),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what was known of health makes no sense");
            None
        }
    }
}

/// Writes what is known whenever it changes, for as long as the future is polled.
pub async fn keep(
    folder: PathBuf,
    node: String,
    snapshot: Arc<ArcSwap<Snapshot>>,
    mut published: watch::Receiver<u64>,
) {
    let mut written = None;
    loop {
        let known = Recalled::of(&node, &snapshot.load());
        if let Some(known) = known.filter(|known| written.as_ref() != Some(known)) {
            let into = folder.clone();
            let text = serde_json::to_vec(&known).unwrap_or_default();
            let done = tokio::task::spawn_blocking(move || state_file::replace(&into, NAME, &text));
            match done.await {
                Ok(Ok(())) => written = Some(known),
                // The keeper of the state file, which lies beside it, tells what that means.
                Ok(Err(error)) => tracing::debug!(%error, "what is known of health is not kept"),
                Err(error) => tracing::error!(%error, "what is known of health is not kept"),
            }
        }
        sleep(GATHER).await;
        if published.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::snapshot;
    use super::*;

    #[tokio::test]
    async fn what_is_written_is_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("n1");
        assert_eq!(read(&folder, "n1"), None);
        let (publish, published) = watch::channel(0);
        let known = Arc::new(ArcSwap::from_pointee(snapshot(&[&[
            "10.0.0.1", "10.0.0.2",
        ]])));
        let keeping = keep(folder.clone(), "n1".into(), Arc::clone(&known), published);
        tokio::spawn(keeping);
        let found = loop {
            match read(&folder, "n1") {
                Some(found) => break found,
                None => tokio::task::yield_now().await,
            }
        };
        let service = |endpoints, port| RecalledService {
            endpoints,
            health_check_node_port: port,
        };
        assert!(found.present && !found.draining);
        let wanted = [
            (ObjectKey::new("shop", "idle"), service(0, None)),
            (ObjectKey::new("shop", "web"), service(2, Some(31000))),
        ];
        assert_eq!(found.services(), wanted.clone().into());
        for (key, known) in wanted {
            assert_eq!(found.service(&key), Some(known));
        }
        assert_eq!(found.service(&ObjectKey::new("shop", "none")), None);
        assert_eq!(read(&folder, "n2"), None, "it is another Node's");
        // Of what is not known whole nothing is kept.
        known.store(Arc::default());
        publish.send_replace(1);
        assert_eq!(Recalled::of("n1", &known.load()), None);
        std::fs::write(folder.join(NAME), "{\"version\":").unwrap();
        assert_eq!(read(&folder, "n1"), None);
    }
}
