//! From one process to the next on the same node.
//!
//! In a rolling update the new daemon starts while the old one still runs. It finds the old one's
//! socket, and waits. When the old one is told to end, it falls silent and passes on what it knows, and
//! the new one goes on as the same member of each segment: nothing moves, and no neighbour notices.
//! Where the old one dies without a word, the new one starts as any other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::inheritance::Inheritance;
use super::state_file::make_folder;

/// The socket's name in the folder of its Node.
const NAME: &str = "successor.sock";
/// How long it may take to pass on what is known.
const LIMIT: Duration = Duration::from_secs(1);
/// How long to look whether a successor is still there.
const GLANCE: Duration = Duration::from_millis(10);
/// What is longer than this is no inheritance, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A process that is there before this one.
#[derive(Debug)]
pub struct Predecessor(UnixStream);

impl Predecessor {
    /// Finds it; `None` if there is none.
    pub async fn find(folder: &Path) -> Option<Self> {
        let stream = UnixStream::connect(folder.join(NAME)).await.ok()?;
        tracing::info!("another daemon runs on this node: waiting until it ends");
        Some(Self(stream))
    }

    /// Waits for its end, and takes what it leaves; `None` if it died without a word.
    pub async fn ended(self) -> Option<Inheritance> {
        let mut text = Vec::new();
        if let Err(error) = self.0.take(LARGEST).read_to_end(&mut text).await {
            tracing::warn!(%error, "the daemon before this one broke off");
            return None;
        }
        if text.is_empty() {
            tracing::info!("the daemon before this one is gone, and has left nothing");
            return None;
        }
        match serde_json::from_slice(&text) {
            Ok(inheritance) => {
                tracing::info!(bytes = text.len(), "going on for the daemon before this one");
                Some(inheritance)
            }
            Err(error) => {
                tracing::warn!(%error, "what the daemon before this one has left makes no sense");
                None
            }
        }
    }
}

/// Where a successor waits.
#[derive(Clone, Debug, Default)]
pub struct Door(Arc<Mutex<Option<UnixStream>>>);

impl Door {
    /// Lets a successor wait, for as long as the future is polled. Of several the last counts.
    pub async fn keep(self, folder: PathBuf) {
        let listener = match listen(&folder) {
            Ok(listener) => listener,
            Err(error) => {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "no successor can take over from this process: an \
                    update of the daemon moves its addresses to other nodes");
                return std::future::pending().await;
            }
        };
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    tracing::info!("a successor waits for this daemon's end");
                    *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a successor");
                    tokio::time::sleep(LIMIT).await;
                }
            }
        }
    }

    /// The successor, if one waits and is still there.
    pub async fn successor(&self) -> Option<Successor> {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // It never says anything: what can be read is its end.
        match timeout(GLANCE, stream.readable()).await {
            Err(_) => Some(Successor(stream)),
            Ok(_) => None,
        }
    }
}

fn listen(folder: &Path) -> io::Result<UnixListener> {
    make_folder(folder)?;
    let path = folder.join(NAME);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => UnixListener::bind(path),
    }
}

/// A process that goes on after this one.
#[derive(Debug)]
pub struct Successor(UnixStream);

impl Successor {
    /// Passes on what is known.
    pub async fn inherit(mut self, inheritance: &Inheritance) {
        let text = match serde_json::to_vec(inheritance) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, "nothing can be passed on");
                return;
            }
        };
        let pass_on = async {
            self.0.write_all(&text).await?;
            self.0.shutdown().await
        };
        match timeout(LIMIT, pass_on).await {
            Ok(Ok(())) => tracing::info!(bytes = text.len(), "passed on to the successor"),
            Ok(Err(error)) => tracing::warn!(%error, "the successor did not take over"),
            Err(_) => tracing::warn!("the successor did not take over within {LIMIT:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{Incarnation, NodeId};
    use super::*;

    fn inheritance() -> Inheritance {
        Inheritance {
            node: NodeId::of("n1"),
            incarnation: Incarnation(7),
            segments: [("lan".to_owned(), Default::default())].into(),
        }
    }

    async fn opened(folder: &Path) -> Door {
        let door = Door::default();
        tokio::spawn(door.clone().keep(folder.to_owned()));
        while !folder.join(NAME).exists() {
            tokio::task::yield_now().await;
        }
        door
    }

    /// Waits until somebody has come in.
    async fn successor(door: &Door) -> Option<Successor> {
        while door.0.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        door.successor().await
    }

    #[tokio::test]
    async fn a_successor_waits_and_gets_everything() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Predecessor::find(folder.path()).await.is_none());
        let door = opened(folder.path()).await;
        assert!(door.successor().await.is_none());
        let waiting = Predecessor::find(folder.path()).await.unwrap();
        successor(&door).await.unwrap().inherit(&inheritance()).await;
        assert_eq!(waiting.ended().await, Some(inheritance()));
    }

    #[tokio::test]
    async fn a_predecessor_that_dies_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let door = opened(folder.path()).await;
        let waiting = Predecessor::find(folder.path()).await.unwrap();
        drop(successor(&door).await);
        assert_eq!(waiting.ended().await, None);
    }

    #[tokio::test]
    async fn a_successor_that_has_gone_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let door = opened(folder.path()).await;
        drop(Predecessor::find(folder.path()).await.unwrap());
        assert!(successor(&door).await.is_none());
    }

    #[tokio::test]
    async fn a_socket_that_a_dead_process_has_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(folder.path().join(NAME)).unwrap());
        assert!(Predecessor::find(folder.path()).await.is_none());
        let door = Door::default();
        tokio::spawn(door.clone().keep(folder.path().to_owned()));
        let found = async {
            loop {
                match Predecessor::find(folder.path()).await {
                    Some(found) => return found,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        timeout(Duration::from_secs(10), found).await.unwrap();
    }
}
