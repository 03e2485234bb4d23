//! From one process to the next on the same node.
//!
//! In a rolling update the new daemon starts while the old one still runs. It finds the old one by a
//! socket whose name is the Node's in their network namespace, and waits. When the old one is told to end, it stops speaking and passes its state on, and
//! the new one goes on as the same member of each segment: nothing moves, and no neighbour notices.
//! Where the old one dies without a word, the new one starts as any other.
//!
//! The socket's name is an abstract one: it goes with the process, and is found in no other network
//! namespace. Only processes of the same user are talked to.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use crate::responder::upgrade_state::UpgradeState;

/// How the socket's name begins; the Node's name follows.
const NAME: &str = "mooring-node/";
/// How long it may take to pass on what is known.
const LIMIT: Duration = Duration::from_secs(1);
/// How long a daemon that was told to end may keep the socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(60);
/// How often to try for it until then.
const AGAIN: Duration = Duration::from_millis(50);
/// How long to look whether a successor is still there.
const PROBE_TIMEOUT: Duration = Duration::from_millis(10);
/// The longest state that is read, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A process that is there before this one.
#[derive(Debug)]
pub struct Predecessor(UnixStream);

impl Predecessor {
    /// Finds it; `None` if there is none.
    pub fn find(node: &str) -> Option<Self> {
        let stream = connect(node).ok()?;
        tracing::info!("another daemon runs on this node: waiting until it ends");
        Some(Self(stream))
    }

    /// Waits for its end, and takes what it leaves; `None` if it died without a word.
    pub async fn ended(self) -> Option<UpgradeState> {
        let mut text = Vec::new();
        if let Err(error) = self.0.take(LARGEST).read_to_end(&mut text).await {
            tracing::warn!(%error, "the daemon before this one broke off");
            return None;
        }
        if text.is_empty() {
            tracing::info!("the daemon before this one is gone, and has left nothing");
            return None;
        }
        match read(&text) {
            Ok(state) => {
                tracing::info!(
                    bytes = text.len(),
                    "going on for the daemon before this one"
                );
                Some(state)
            }
            Err(error) => {
                tracing::warn!(%error, "what the daemon before this one has left makes no sense");
                None
            }
        }
    }
}

/// What is passed on, as bytes.
///
/// # Errors
/// If something of it has no JSON.
pub fn write(state: &UpgradeState) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(state)
}

/// What was passed on.
///
/// # Errors
/// If the bytes are of no [`UpgradeState`].
pub fn read(bytes: &[u8]) -> serde_json::Result<UpgradeState> {
    serde_json::from_slice(bytes)
}

fn address(node: &str) -> io::Result<net::SocketAddr> {
    net::SocketAddr::from_abstract_name(format!("{NAME}{node}"))
}

fn connect(node: &str) -> io::Result<UnixStream> {
    // A socket of this machine takes it at once or not at all.
    let stream = net::UnixStream::connect_addr(&address(node)?)?;
    stream.set_nonblocking(true)?;
    of_same_user(UnixStream::from_std(stream)?)
}

fn of_same_user(stream: UnixStream) -> io::Result<UnixStream> {
    let (theirs, ours) = (stream.peer_cred()?.uid(), nix::unistd::geteuid().as_raw());
    if theirs == ours {
        Ok(stream)
    } else {
        let fault = format!("it is a process of the user {theirs}, not of {ours}");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, fault))
    }
}

/// Where a successor waits.
#[derive(Clone, Debug, Default)]
pub struct UpgradeSocket(Arc<Mutex<Option<UnixStream>>>);

impl UpgradeSocket {
    /// Lets a successor of this Node's daemon wait, for as long as the future is polled. Of several
    /// the last counts.
    pub async fn keep(self, node: &str) {
        let listener = match listen_soon(node).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(%error, "no successor can take over from this process: an update of \
                    the daemon moves its addresses to other nodes");
                return std::future::pending().await;
            }
        };
        loop {
            let accepted = listener.accept().await;
            match accepted.and_then(|(stream, _)| of_same_user(stream)) {
                Ok(stream) => {
                    tracing::info!("a successor waits for this daemon's end");
                    *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a successor");
                    sleep(LIMIT).await;
                }
            }
        }
    }

    /// The successor, if one waits and is still there.
    pub async fn successor(&self) -> Option<Successor> {
        let stream = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()?;
        // It never says anything: what can be read is its end.
        let end = async {
            loop {
                let readable = stream.readable().await;
                match readable.and_then(|()| stream.try_read(&mut [0])) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return,
                }
            }
        };
        let waits = timeout(PROBE_TIMEOUT, end).await.is_err();
        waits.then_some(Successor(stream))
    }
}

/// The daemon before this one may need a moment more to end than to say that it does.
async fn listen_soon(node: &str) -> io::Result<UnixListener> {
    let start = Instant::now();
    loop {
        match listen(node) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && start.elapsed() < SOCKET_TIMEOUT =>
            {
                sleep(AGAIN).await;
            }
            listening => return listening,
        }
    }
}

fn listen(node: &str) -> io::Result<UnixListener> {
    let listener = net::UnixListener::bind_addr(&address(node)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// A process that goes on after this one.
#[derive(Debug)]
pub struct Successor(UnixStream);

impl Successor {
    /// Passes on what is known.
    pub async fn inherit(mut self, state: &UpgradeState) {
        let text = match write(state) {
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
    use super::*;
    use crate::protocol::NodeId;

    fn state() -> UpgradeState {
        UpgradeState {
            node: NodeId::of("n1"),
            segments: Default::default(),
        }
    }

    /// A name that no other test has.
    fn a_node(test: &str) -> String {
        format!("{test}-{}", std::process::id())
    }

    async fn opened(node: &str) -> UpgradeSocket {
        let upgrade_socket = UpgradeSocket::default();
        let (keeping, name) = (upgrade_socket.clone(), node.to_owned());
        tokio::spawn(async move { keeping.keep(&name).await });
        upgrade_socket
    }

    async fn waiting(node: &str) -> Predecessor {
        loop {
            match Predecessor::find(node) {
                Some(found) => return found,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Waits until somebody has come in.
    async fn successor(upgrade_socket: &UpgradeSocket) -> Option<Successor> {
        while upgrade_socket.0.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        upgrade_socket.successor().await
    }

    #[tokio::test]
    async fn successor_receives_whole_state() {
        let node = a_node("gets-everything");
        assert!(Predecessor::find(&node).is_none());
        let upgrade_socket = opened(&node).await;
        let waiting = waiting(&node).await;
        successor(&upgrade_socket)
            .await
            .unwrap()
            .inherit(&state())
            .await;
        let inherited = waiting.ended().await.unwrap();
        assert_eq!(inherited.node, state().node);
        assert!(
            upgrade_socket.successor().await.is_none(),
            "it was the only one"
        );
    }

    #[tokio::test]
    async fn dead_predecessor_leaves_no_state() {
        let node = a_node("leaves-nothing");
        let upgrade_socket = opened(&node).await;
        let waiting = waiting(&node).await;
        drop(successor(&upgrade_socket).await);
        assert!(waiting.ended().await.is_none());
    }

    #[tokio::test]
    async fn slow_predecessor_does_not_block_socket() {
        let node = a_node("takes-its-time");
        let last = listen(&node).unwrap();
        let upgrade_socket = opened(&node).await;
        // Tasks take turns on the one thread of this test: it tries in vain now.
        tokio::task::yield_now().await;
        drop(last);
        let waiting = waiting(&node).await;
        assert!(successor(&upgrade_socket).await.is_some());
        drop(waiting);
    }

    #[tokio::test]
    async fn successor_that_left_is_ignored() {
        let node = a_node("has-gone");
        let upgrade_socket = opened(&node).await;
        drop(waiting(&node).await);
        assert!(successor(&upgrade_socket).await.is_none());
    }
}
