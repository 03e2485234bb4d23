//! So many questions per second, whether or not those before are answered.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::cluster::LivezCluster;

/// On how many connections.
const CONNECTIONS: u32 = 50;
/// How long it may take to connect.
const LIMIT: Duration = Duration::from_secs(2);

/// The 99th percentile of the time from the moment at which a question was due until its answer.
pub(super) async fn p99(
    cluster: &LivezCluster,
    per_second: u32,
    span: Duration,
) -> Result<Duration> {
    let url = cluster
        .daemon
        .url
        .strip_prefix("http://")
        .unwrap_or_default();
    let (address, path) = url.split_once('/').context("a URL with a path")?;
    let address: SocketAddr = address.parse()?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let spacing = Duration::from_secs(1) * CONNECTIONS / per_second;
    let start = Instant::now() + Duration::from_millis(100);
    let mut askers = JoinSet::new();
    for number in 0..CONNECTIONS {
        let stream = cluster.node().connect(address, LIMIT)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let stream = TcpStream::from_std(stream)?;
        let first = start + spacing * number / CONNECTIONS;
        askers.spawn(ask(stream, request.clone(), first, spacing, start + span));
    }
    let mut times = Vec::new();
    while let Some(asked) = askers.join_next().await {
        times.extend(asked??);
    }
    times.sort();
    let index = times.len() * 99 / 100;
    times.get(index).copied().context("nothing was asked")
}

async fn ask(
    mut stream: TcpStream,
    request: String,
    first: Instant,
    spacing: Duration,
    end: Instant,
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    let mut answer = [0; 2048];
    let mut due = first;
    while due < end {
        sleep_until(due).await;
        stream.write_all(request.as_bytes()).await?;
        let length = stream.read(&mut answer).await?;
        let is_well = answer.starts_with(b"HTTP/1.1 200 OK\r\n");
        ensure!(length > 0 && is_well, "not all were answered well");
        times.push(due.elapsed());
        due += spacing;
    }
    Ok(times)
}
