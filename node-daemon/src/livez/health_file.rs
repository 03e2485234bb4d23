//! What health checks are answered from, kept where it outlives the process: so that a daemon that is
//! started while the API server is away answers as the one before did.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::sleep;

use super::plan::local_endpoints;
use crate::cluster::saved_health::{SavedHealth, SavedService};
use crate::cluster::snapshot::{Snapshot, TrafficPolicy};
use crate::cluster::state_dir;

/// The file's name in the folder of its Node.
const NAME: &str = "health.json";
/// How long changes are gathered before they are written.
const GATHER: Duration = Duration::from_millis(500);

/// What is worth keeping; `None` as long as that is not known whole.
#[must_use]
pub fn worth_keeping(node: &str, snapshot: &Snapshot) -> Option<SavedHealth> {
    if !snapshot.answers_health() {
        return None;
    }
    let services = snapshot.services.iter().map(|(key, service)| {
        let known = SavedService {
            endpoints: local_endpoints(snapshot, key),
            health_check_node_port: service
                .health_check_node_port
                .filter(|_| service.policy == TrafficPolicy::Local),
        };
        (key.clone(), known)
    });
    let (present, draining) = (snapshot.node.is_some(), snapshot.draining());
    Some(SavedHealth::new(node, present, draining, services))
}

/// Reads what the process before left. `None`: nothing that can be gone by.
#[must_use]
pub fn read(folder: &Path, node: &str) -> Option<SavedHealth> {
    let path = folder.join(NAME);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what was known of health cannot be read");
            return None;
        }
    };
    match serde_json::from_slice::<SavedHealth>(&text) {
        Ok(found) if found.is_of(node) => Some(found),
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
        let known = worth_keeping(&node, &snapshot.load());
        if let Some(known) = known.filter(|known| written.as_ref() != Some(known)) {
            let into = folder.clone();
            let text = serde_json::to_vec(&known).unwrap_or_default();
            let done = tokio::task::spawn_blocking(move || state_dir::replace(&into, NAME, &text));
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
    use crate::livez::plan::tests::snapshot;
    use mooring_common::k8s::ObjectKey;

    use super::*;

    #[tokio::test]
    async fn reads_back_what_it_writes() {
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
        let service = |endpoints, port| SavedService {
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
        assert_eq!(worth_keeping("n1", &known.load()), None);
        std::fs::write(folder.join(NAME), "{\"version\":").unwrap();
        assert_eq!(read(&folder, "n1"), None);
    }
}
