//! Asks the API server of this node whether it is ready, over loopback.
//!
//! The certificate of the API server is not verified: whoever can listen on loopback in its place is root here,
//! and has the address anyway. `/readyz` includes the API server's etcd, by the check `etcd-readiness`.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use mooring_common::errors::with_causes;
use mooring_common::k8s::ClientError;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::fitness::{Fitness, Outcome, Readiness, Urgency};

/// What is asked for. The check `etcd` would repeat an error for up to a second after etcd is well again; how long
/// `etcd-readiness` does is up to the API server's `--etcd-readycheck-timeout`.
const PATH: &str = "/readyz?exclude=etcd";
/// How often it is asked.
const PERIOD: Duration = Duration::from_millis(100);
/// How long an answer may take. With three failures in a row a hung API server is noticed within 0.45 s.
const LIMIT: Duration = Duration::from_millis(150);
/// An API server that starts permits nobody anything before it knows its own roles. After that, the certificate may have
/// expired: the files are read again that often.
const FORBIDDEN_FOR: Duration = Duration::from_secs(15);
/// The longest answer that is read. One that is ready says `ok`.
const LONGEST: usize = 64 * 1024;

/// Keeps `readiness` up to date, for as long as the future is polled. `renew` gives a client with the certificate as it is
/// on disk by then.
pub async fn follow(
    mut client: Client,
    renew: impl Fn() -> Result<Client, ClientError>,
    readiness: watch::Sender<Readiness>,
    urgency: watch::Receiver<Urgency>,
) {
    let mut fitness = Fitness::default();
    let mut forbidden = Forbidden::default();
    let mut period = interval(PERIOD);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Each begins in time, whether or not the one before it is answered, and counts in its turn.
    let mut probes = FuturesOrdered::new();
    loop {
        let outcome = tokio::select! {
            _ = period.tick() => {
                let client = client.clone();
                probes.push_back(async move { ask(&client).await });
                continue;
            }
            Some(outcome) = probes.next() => outcome,
        };
        let changed = fitness.note(&outcome, *urgency.borrow(), Instant::now().into_std());
        if changed {
            let before = readiness.send_replace(fitness.readiness());
            report(before, fitness.readiness(), &outcome);
        }
        let Some(times) = forbidden.note(&outcome, Instant::now()) else {
            continue;
        };
        if times == 1 {
            tracing::warn!(
                "the API server does not permit this process to read /readyz, so that it counts as not ready; name a \
                 client certificate in probe.clientCertificate and probe.clientKey of the control plane file, or, if it \
                 names one, renew that: the files are read again"
            );
        }
        match renew() {
            Ok(renewed) => client = renewed,
            Err(error) => tracing::debug!(
                error = with_causes(&error),
                "the certificate cannot be used"
            ),
        }
    }
}

/// How long the API server has permitted nothing.
#[derive(Debug, Default)]
struct Forbidden {
    /// When to use the files anew.
    due: Option<Instant>,
    /// How often that was due.
    times: u32,
}

impl Forbidden {
    /// Takes in an answer. If it is time to use the files anew: how often it was.
    fn note(&mut self, outcome: &Outcome, now: Instant) -> Option<u32> {
        if *outcome != Outcome::Forbidden {
            *self = Self::default();
            return None;
        }
        let due = self.due.get_or_insert(now + FORBIDDEN_FOR);
        if now < *due {
            return None;
        }
        *due = now + FORBIDDEN_FOR;
        self.times = self.times.saturating_add(1);
        Some(self.times)
    }
}

fn report(before: Readiness, now: Readiness, outcome: &Outcome) {
    match outcome {
        _ if now.is_ready() && before.is_ready() => {
            tracing::debug!(readiness = ?now, ?outcome, "an answer of the API server of this node");
        }
        _ if now.is_ready() => tracing::info!("the API server of this node is ready"),
        _ if !before.is_ready() => {
            tracing::debug!(readiness = ?now, ?outcome, "the API server of this node is still not ready");
        }
        Outcome::Unreachable(error) => tracing::warn!(
            error,
            "the API server of this node cannot be reached: offering the address to others"
        ),
        Outcome::Hung => tracing::warn!(
            "the API server of this node has not answered /readyz within {LIMIT:?}: offering the address to others"
        ),
        Outcome::Ready | Outcome::NotReady | Outcome::Forbidden => {
            tracing::warn!(
                "the API server of this node is not ready: offering the address to others"
            );
        }
    }
}

/// Asks once.
pub async fn ask(client: &Client) -> Outcome {
    let Ok(request) = Request::get(PATH).body(Body::empty()) else {
        return Outcome::Unreachable("the request cannot be made".to_owned());
    };
    let answer = async {
        let response = client.send(request).await?;
        let status = response.status();
        // What is left unread would cost the connection. How it ends says nothing more.
        let _ = Limited::new(response.into_body(), LONGEST).collect().await;
        Ok::<_, kube::Error>(status)
    };
    match timeout(LIMIT, answer).await {
        Ok(Ok(status)) => of(status),
        Ok(Err(error)) => Outcome::Unreachable(with_causes(&error)),
        Err(_) => Outcome::Hung,
    }
}

fn of(status: StatusCode) -> Outcome {
    match status {
        StatusCode::OK => Outcome::Ready,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Forbidden,
        _ => Outcome::NotReady,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Somebody who gives this answer to whoever asks; `None`: who takes connections, and says nothing.
    async fn server(answer: Option<&'static str>) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut held = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some(answer) = answer else {
                    held.push(stream);
                    continue;
                };
                let mut request = [0; 1024];
                let length = stream.read(&mut request).await.unwrap_or(0);
                assert!(request[..length].starts_with(b"GET /readyz"));
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        client(&format!("http://{address}"))
    }

    fn client(url: &str) -> Client {
        let mut config = kube::Config::new(url.parse().unwrap());
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    #[tokio::test]
    async fn tells_ready_from_not_ready() {
        const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        const ETCD_LOST: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
        const ANONYMOUS: &str = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
        for (answer, outcome) in [
            (OK, Outcome::Ready),
            (ETCD_LOST, Outcome::NotReady),
            (ANONYMOUS, Outcome::Forbidden),
        ] {
            assert_eq!(ask(&server(Some(answer)).await).await, outcome);
        }
    }

    #[test]
    fn certificate_is_read_again_while_nothing_is_permitted() {
        let start = Instant::now();
        let mut forbidden = Forbidden::default();
        let mut at =
            |seconds, outcome| forbidden.note(&outcome, start + Duration::from_secs(seconds));
        assert_eq!(at(0, Outcome::Forbidden), None);
        assert_eq!(at(14, Outcome::Forbidden), None);
        assert_eq!(at(15, Outcome::Forbidden), Some(1));
        assert_eq!(at(16, Outcome::Forbidden), None);
        assert_eq!(at(30, Outcome::Forbidden), Some(2));
        assert_eq!(at(31, Outcome::Ready), None);
        assert_eq!(at(32, Outcome::Forbidden), None);
        assert_eq!(at(47, Outcome::Forbidden), Some(1));
    }

    #[tokio::test]
    async fn tells_hung_from_dead() {
        assert_eq!(ask(&server(None).await).await, Outcome::Hung);
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let dead = ask(&client(&format!("http://{address}"))).await;
        assert!(matches!(dead, Outcome::Unreachable(_)), "{dead:?}");
    }
}
