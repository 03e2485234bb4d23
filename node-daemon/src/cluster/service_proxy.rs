//! Whether this node's service proxy works: an address must not come to a node that drops its
//! traffic.
//!
//! kube-proxy says so on a port of its own. Where nobody answers there, the cluster may have another
//! proxy, which says nothing; so only the answer that it does not work counts. What it says goes into
//! the [`super::snapshot::Snapshot`], so that addresses and health checks follow it together.

mod endpoints;
mod services;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, HOST};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mooring_common::k8s::ObjectKey;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub use self::endpoints::{follow as follow_endpoints, is_awaited};
pub use self::services::follow as follow_services;

/// Where kube-proxy answers, unless it is told otherwise.
pub const KUBE_PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);
/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// How often it is looked for while nobody is there and the daemon has its ports. They are to be free
/// when it comes: it tries each of them once, about 0.2 s after it listens, and then only when a Service
/// changes.
const PERIOD_SILENT: Duration = Duration::from_millis(20);
/// How long an answer may take.
const LIMIT: Duration = Duration::from_millis(500);

/// What is known of the service proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceProxy {
    /// It was not asked yet, or says nothing that can be understood.
    #[default]
    Unclear,
    /// Nobody listens where it would answer.
    Silent {
        /// When that was found.
        since: Instant,
    },
    /// It works.
    Works,
    /// It says that it does not work.
    Broken,
}

impl ServiceProxy {
    /// Whether traffic may come, as far as anybody can tell.
    #[must_use]
    pub fn may_work(self) -> bool {
        self != Self::Broken
    }

    fn after(self, answer: Option<Health>, now: Instant) -> Self {
        match (answer, self) {
            (None, Self::Silent { since }) => Self::Silent { since },
            (None, _) => Self::Silent { since: now },
            (Some(Health::Unclear), _) => Self::Unclear,
            (Some(Health::Well), _) => Self::Works,
            (Some(Health::Sick), _) => Self::Broken,
        }
    }
}

/// Keeps `known` up to date, for as long as the future is polled. `has_its_ports`: the daemon takes
/// ports that are the proxy's, if that is silent.
pub async fn follow(proxy: SocketAddr, has_its_ports: bool, known: watch::Sender<ServiceProxy>) {
    let learn = |answer| {
        known.send_if_modified(|known| {
            let now = known.after(answer, Instant::now());
            let changed = *known != now;
            *known = now;
            changed
        });
    };
    loop {
        let is_silent = matches!(timeout(LIMIT, TcpStream::connect(proxy)).await, Ok(Err(_)));
        if is_silent {
            learn(None);
        } else {
            if matches!(*known.borrow(), ServiceProxy::Silent { .. }) {
                learn(Some(Health::Unclear));
            }
            learn(ask_node(proxy).await);
        }
        let is_awaited = is_silent && has_its_ports;
        sleep(if is_awaited { PERIOD_SILENT } else { PERIOD }).await;
    }
}

/// The Services of which the service proxy does not say that they have an endpoint on this Node.
/// `None` as long as it was not asked.
pub type UnservedServices = Option<Arc<BTreeSet<ObjectKey>>>;

/// The Services of which the service proxy has said that they have an endpoint on this Node, or was
/// waited for long enough.
pub type Confirmed = Arc<BTreeSet<ObjectKey>>;

/// What somebody says of himself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    Sick,
    /// Somebody is there, and does not say.
    Unclear,
}

/// `/healthz` of kube-proxy is also about the Node, which the daemon knows itself; `/livez`, which
/// older ones do not have, is about kube-proxy alone. `None`: nobody is there.
async fn ask_node(proxy: SocketAddr) -> Option<Health> {
    match ask(proxy, "/livez").await {
        Some(Health::Unclear) => ask(proxy, "/healthz").await,
        answer => answer,
    }
}

async fn ask(address: SocketAddr, path: &str) -> Option<Health> {
    let answer = timeout(LIMIT, async {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let status = request(stream, address, path).await;
                Some(status.map_or(Health::Unclear, Health::of))
            }
            Err(_) => None,
        }
    });
    answer.await.unwrap_or(Some(Health::Unclear))
}

impl Health {
    fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::OK => Self::Well,
            StatusCode::SERVICE_UNAVAILABLE => Self::Sick,
            _ => Self::Unclear,
        }
    }
}

async fn request(stream: TcpStream, address: SocketAddr, path: &str) -> Option<StatusCode> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::builder()
        .uri(path)
        .header(HOST, address.to_string())
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .ok()?;
    let answered = async { sender.send_request(request).await.ok() };
    let drive = async {
        // How the connection ends says nothing: the answer is what counts.
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        response = answered => Some(response?.status()),
        () = drive => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Somebody who gives the first of these answers that is for the path, to whoever asks.
    pub(super) async fn proxy(answers: &'static [(&'static str, &'static str)]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                let length = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let answer = answers.iter().find(|(path, _)| request.contains(path));
                let answer = answer
                    .map_or("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", |a| {
                        a.1
                    });
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    pub(super) const WELL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    pub(super) const SICK: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

    async fn nobody() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn prefers_livez_over_healthz() {
        let table: [(&'static [(&str, &str)], _); 5] = [
            (&[(" /livez ", WELL), (" /healthz ", SICK)], Health::Well),
            (&[(" /livez ", SICK), (" /healthz ", WELL)], Health::Sick),
            (&[(" /healthz ", SICK)], Health::Sick),
            (&[], Health::Unclear),
            (&[("", "SSH-2.0-OpenSSH\r\n")], Health::Unclear),
        ];
        for (answers, health) in table {
            assert_eq!(
                ask_node(proxy(answers).await).await,
                Some(health),
                "{answers:?}"
            );
        }
        assert_eq!(ask_node(nobody().await).await, None);
    }

    #[test]
    fn silent_since_first_failed_probe() {
        let start = Instant::now();
        let later = start + PERIOD;
        let silent = ServiceProxy::Silent { since: start };
        assert_eq!(ServiceProxy::Works.after(None, start), silent);
        assert_eq!(silent.after(None, later), silent);
        for (answer, known) in [
            (Health::Well, ServiceProxy::Works),
            (Health::Sick, ServiceProxy::Broken),
            (Health::Unclear, ServiceProxy::Unclear),
        ] {
            assert_eq!(silent.after(Some(answer), later), known);
            assert_eq!(
                known.after(None, later),
                ServiceProxy::Silent { since: later }
            );
        }
    }

    #[tokio::test]
    async fn works_until_it_reports_failure() {
        let sick = proxy(&[("", SICK)]).await;
        let (sender, mut known) = watch::channel(ServiceProxy::default());
        assert!(known.borrow().may_work());
        tokio::spawn(follow(sick, false, sender));
        timeout(Duration::from_secs(10), known.changed())
            .await
            .unwrap()
            .unwrap();
        assert!(!known.borrow().may_work());
    }
}
