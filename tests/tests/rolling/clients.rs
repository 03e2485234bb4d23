//! Clients of a Service: as many requests each second, however long the answers take.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, timeout};

/// How many requests a second there are.
pub(crate) const RATE: u32 = 500;

/// How long one may take.
const LIMIT: Duration = Duration::from_secs(5);

/// How the requests went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) failed: u64,
}

/// Clients at work.
pub(crate) struct Clients {
    work: JoinHandle<()>,
    stop: tokio_util::sync::CancellationToken,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
}

impl Clients {
    /// They begin to ask here, each request on a connection of its own.
    pub(crate) fn begin(door: SocketAddr) -> Self {
        let stop = tokio_util::sync::CancellationToken::new();
        let counts = Arc::new(Counts::default());
        let work = tokio::spawn(ask_on(door, stop.clone(), counts.clone()));
        Self { work, stop, counts }
    }

    /// No more requests; waits for the answers to the last ones.
    pub(crate) async fn end(self) -> Tally {
        self.stop.cancel();
        self.work.await.expect("the clients do not panic");
        Tally {
            sent: self.counts.sent.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
        }
    }
}

async fn ask_on(
    door: SocketAddr,
    stop: tokio_util::sync::CancellationToken,
    counts: Arc<Counts>,
) {
    let mut requests = JoinSet::new();
    let mut turns = interval(Duration::from_secs(1) / RATE);
    while stop.run_until_cancelled(turns.tick()).await.is_some() {
        while requests.try_join_next().is_some() {}
        let counts = counts.clone();
        requests.spawn(async move {
            counts.sent.fetch_add(1, Ordering::Relaxed);
            if !matches!(timeout(LIMIT, request(door)).await, Ok(Ok(()))) {
                counts.failed.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    while requests.join_next().await.is_some() {}
}

async fn request(door: SocketAddr) -> Result<()> {
    let mut connection = TcpStream::connect(door).await?;
    connection.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await?;
    ensure!(answer.starts_with(b"HTTP/1.0 200 "), "no good answer");
    Ok(())
}
