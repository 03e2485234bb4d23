//! Clients that notice every lost packet and every broken connection, and what answers them.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::host::Host;
use super::namespace;
use super::threads::{STOP_INTERVAL, Threads};

/// How long an answer may take that counts.
const LATEST_ANSWER: Duration = Duration::from_millis(300);

/// How often a TCP client says something.
const TCP_TURN: Duration = Duration::from_millis(50);

/// How long a TCP client waits for an answer before the connection counts as broken.
const TCP_PATIENCE: Duration = Duration::from_secs(10);

// --- what answers -----------------------------------------------------------------------------------

/// Sends back what it gets, by UDP and by TCP. Ends when it is dropped.
#[derive(Debug)]
pub struct Echo {
    _threads: Threads,
}

impl Host {
    /// Sends back what comes to this address of the host.
    pub fn echo(&self, address: SocketAddr) -> Result<Echo> {
        let (udp, tcp) = namespace::inside(Some(self.name()), || {
            let udp = UdpSocket::bind(address)?;
            udp.set_read_timeout(Some(STOP_INTERVAL))?;
            let tcp = TcpListener::bind(address)?;
            tcp.set_nonblocking(true)?;
            Ok((udp, tcp))
        })
        .with_context(|| format!("echoing at {address} in {}", self.name()))?;
        let mut threads = Threads::default();
        threads.spawn(move |stop| {
            let mut buffer = [0; 64];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((length, from)) = udp.recv_from(&mut buffer) {
                    // Whether it arrives is the client's to say.
                    let _ = udp.send_to(&buffer[..length], from);
                }
            }
        });
        threads.spawn_async(async move || answer_connections(tcp).await)?;
        Ok(Echo { _threads: threads })
    }
}

async fn answer_connections(listener: TcpListener) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    loop {
        match listener.accept().await {
            // It ends with the connection.
            Ok((stream, _)) => drop(tokio::spawn(send_back(stream))),
            Err(_) => sleep(STOP_INTERVAL).await,
        }
    }
}

async fn send_back(mut stream: TcpStream) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length) = stream.read(&mut buffer).await {
        if length == 0 || stream.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

// --- datagrams --------------------------------------------------------------------------------------

/// A datagram and its answer.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    answered: Option<Instant>,
}

/// A client that sends datagrams at a steady rate and notes which are answered.
#[derive(Debug)]
pub struct UdpFlow {
    sent: Arc<Mutex<Vec<Sent>>>,
    spacing: Duration,
    threads: Threads,
}

/// What a client has missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage {
    /// Unanswered packets, times their spacing.
    pub lost: Duration,
    /// The longest run of them.
    pub longest: Duration,
    /// How many packets were sent.
    pub packets: usize,
}

impl Host {
    /// Sends datagrams to an echo, `per_second` of them. Its kernel resolves and keeps the neighbour
    /// as it does for any program.
    pub fn udp_flow(&self, to: SocketAddr, per_second: u32) -> Result<UdpFlow> {
        let socket = namespace::inside(Some(self.name()), || {
            let any: SocketAddr = if to.is_ipv4() {
                ([0, 0, 0, 0], 0).into()
            } else {
                ([0_u16; 8], 0).into()
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(STOP_INTERVAL))?;
            Ok(socket)
        })
        .with_context(|| format!("a flow from {} to {to}", self.name()))?;
        let spacing = Duration::from_secs(1) / per_second;
        let sent = Arc::<Mutex<Vec<Sent>>>::default();
        let mut threads = Threads::default();
        threads.spawn({
            let (socket, sent) = (socket.try_clone()?, Arc::clone(&sent));
            move |stop| send_steadily(&socket, &sent, spacing, stop)
        });
        threads.spawn({
            let sent = Arc::clone(&sent);
            move |stop| note_answers(&socket, &sent, stop)
        });
        Ok(UdpFlow {
            sent,
            spacing,
            threads,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send_steadily(
    socket: &UdpSocket,
    sent: &Mutex<Vec<Sent>>,
    spacing: Duration,
    stop: &AtomicBool,
) {
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let number = {
            let mut sent = lock(sent);
            sent.push(Sent {
                at: Instant::now(),
                answered: None,
            });
            sent.len() as u64 - 1
        };
        // An error may be that of a packet before: the host was unreachable, the port refused.
        if socket.send(&number.to_be_bytes()).is_err() {
            let _ = socket.send(&number.to_be_bytes());
        }
        // What is late is caught up with: each spacing has its packet.
        due += spacing;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn note_answers(socket: &UdpSocket, sent: &Mutex<Vec<Sent>>, stop: &AtomicBool) {
    let mut buffer = [0; 8];
    // Answers that are on their way are waited for.
    let mut patience = None;
    loop {
        if stop.load(Ordering::Relaxed) {
            let end = *patience.get_or_insert_with(|| Instant::now() + LATEST_ANSWER);
            let all = lock(sent).last().is_none_or(|last| last.answered.is_some());
            if all || Instant::now() > end {
                return;
            }
        }
        if socket.recv(&mut buffer).is_ok() {
            let number = usize::try_from(u64::from_be_bytes(buffer)).unwrap_or(usize::MAX);
            if let Some(packet) = lock(sent).get_mut(number) {
                packet.answered.get_or_insert_with(Instant::now);
            }
        }
    }
}

impl UdpFlow {
    /// Whether the last packets, worth this time, were all answered, leaving out those of the last
    /// 20 ms.
    pub fn flows_since(&self, span: Duration) -> bool {
        let (now, sent) = (Instant::now(), lock(&self.sent));
        let considered = |packet: &&Sent| now - packet.at > STOP_INTERVAL;
        let mut packets = sent.iter().rev().filter(considered).peekable();
        let Some(start) = packets.peek().and_then(|last| last.at.checked_sub(span)) else {
            return false;
        };
        let is_old_enough = sent.first().is_some_and(|first| first.at <= start);
        is_old_enough
            && packets
                .take_while(|packet| packet.at >= start)
                .all(|packet| packet.answered.is_some())
    }

    /// Sends no more.
    pub fn stop(&self) {
        self.threads.stop();
    }

    /// Stops, waits for what is on its way, and says what has been missed of what was sent since.
    pub fn end(mut self, since: Instant) -> Outage {
        self.threads.end();
        let sent = lock(&self.sent);
        let mut outage = Outage::default();
        let mut run = Duration::ZERO;
        for packet in sent.iter().filter(|packet| packet.at >= since) {
            outage.packets += 1;
            if packet.answered.is_some() {
                run = Duration::ZERO;
            } else {
                outage.lost += self.spacing;
                run += self.spacing;
            }
            outage.longest = outage.longest.max(run);
        }
        outage
    }
}

// --- connections ------------------------------------------------------------------------------------

/// TCP clients that talk on established connections.
#[derive(Debug)]
pub struct TcpFlows {
    broken: Arc<AtomicUsize>,
    alive: Arc<Mutex<Vec<Instant>>>,
    threads: Threads,
}

impl Host {
    /// Makes connections to an echo, and talks on each of them 20 times a second.
    pub fn tcp_flows(&self, to: SocketAddr, count: usize) -> Result<TcpFlows> {
        let connect = |_| {
            let stream = self.connect(to, Duration::from_secs(2))?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            anyhow::Ok(stream)
        };
        let streams = (0..count).map(connect).collect::<Result<Vec<_>>>()?;
        let mut flows = TcpFlows {
            broken: Arc::default(),
            alive: Arc::new(Mutex::new(vec![Instant::now(); count])),
            threads: Threads::default(),
        };
        let (broken, alive) = (Arc::clone(&flows.broken), Arc::clone(&flows.alive));
        flows.threads.spawn_async(async move || {
            let clients = streams.into_iter().enumerate();
            let clients = clients.map(async |(index, stream)| {
                // One after the other, not all at once.
                sleep(TCP_TURN.mul_f64(index as f64 / count as f64)).await;
                let note = || lock(&alive)[index] = Instant::now();
                // It ends with an error only.
                let _ = talk_on(stream, note).await;
                broken.fetch_add(1, Ordering::Relaxed);
            });
            join_all(clients).await;
        })?;
        Ok(flows)
    }
}

/// Asks and is answered until that fails.
async fn talk_on(stream: std::net::TcpStream, note: impl Fn()) -> std::io::Result<()> {
    let mut stream = TcpStream::from_std(stream)?;
    let mut answer = [0; 8];
    loop {
        stream.write_all(b"are you?").await?;
        timeout(TCP_PATIENCE, stream.read_exact(&mut answer)).await??;
        note();
        sleep(TCP_TURN).await;
    }
}

impl TcpFlows {
    /// How many are broken: reset, or closed, or without an answer for 10 s.
    pub fn broken(&self) -> usize {
        self.broken.load(Ordering::Relaxed)
    }

    /// Whether each of them is broken or has had an answer since.
    pub fn told_since(&self, since: Instant) -> bool {
        let answered = lock(&self.alive).iter().filter(|at| **at > since).count();
        answered + self.broken() >= lock(&self.alive).len()
    }
}
