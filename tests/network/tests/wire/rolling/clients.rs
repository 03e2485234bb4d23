//! Clients of a Service: as many requests each second, however long the answers take.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;

/// How many requests a second there are.
pub(crate) const RATE: u32 = 500;

/// How long one may take. Whoever waits for long on a busy machine has not been turned away.
const LIMIT: Duration = Duration::from_secs(30);

/// How the requests went.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) sent: usize,
    /// When after the begin, and why.
    pub(crate) failed: Vec<(Duration, String)>,
}

/// Clients at work.
pub(crate) struct Clients {
    work: JoinHandle<Tally>,
    stop: CancellationToken,
}

impl Clients {
    /// They begin to ask here, each request on a connection of its own.
    pub(crate) fn begin(door: SocketAddr) -> Self {
        let stop = CancellationToken::new();
        let work = tokio::spawn(ask_on(door, stop.clone()));
        Self { work, stop }
    }

    /// No more requests; waits for the answers to the last ones.
    pub(crate) async fn end(self) -> Tally {
        self.stop.cancel();
        self.work.await.expect("the clients do not panic")
    }
}

async fn ask_on(door: SocketAddr, stop: CancellationToken) -> Tally {
    let begun = Instant::now();
    let mut requests = JoinSet::new();
    let mut tally = Tally {
        sent: 0,
        failed: Vec::new(),
    };
    let mut turns = interval(Duration::from_secs(1) / RATE);
    while stop.run_until_cancelled(turns.tick()).await.is_some() {
        while let Some(ended) = requests.try_join_next() {
            tally
                .failed
                .extend(ended.expect("a request does not panic"));
        }
        tally.sent += 1;
        requests.spawn(async move {
            let sent = begun.elapsed();
            let failure = match timeout(LIMIT, request(door)).await {
                Ok(Ok(())) => return None,
                Ok(Err(error)) => format!("{error:#}"),
                Err(_) => "no answer in time".to_owned(),
            };
            Some((sent, failure))
        });
    }
    while let Some(ended) = requests.join_next().await {
        tally
            .failed
            .extend(ended.expect("a request does not panic"));
    }
    tally
}

async fn request(door: SocketAddr) -> Result<()> {
    let mut connection = TcpStream::connect(door).await.context("connecting")?;
    let sent = connection.write_all(b"GET / HTTP/1.0\r\n\r\n").await;
    sent.context("asking")?;
    let mut answer = Vec::new();
    let read = connection.read_to_end(&mut answer).await;
    read.context("reading")?;
    ensure!(answer.starts_with(b"HTTP/1.0 200 "), "no good answer");
    Ok(())
}
