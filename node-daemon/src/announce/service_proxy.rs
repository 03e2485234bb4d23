//! Whether this node's service proxy works: an address must not come to a node that drops its
//! traffic.
//!
//! kube-proxy says so on a port of its own. Where nobody answers there, the cluster may have another
//! proxy, which says nothing; so only the answer that it does not work counts. `healthCheckNodePort`
//! of single Services is not asked: the daemon knows their endpoints itself.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::header::{CONNECTION, HOST};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Where kube-proxy answers, unless it is told otherwise.
pub const KUBE_PROXY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10256);
/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// How long an answer may take.
const LIMIT: Duration = Duration::from_millis(500);

/// Keeps `works` up to date, for as long as the future is polled.
pub async fn follow(proxy: SocketAddr, works: watch::Sender<bool>) {
    loop {
        let now = timeout(LIMIT, ask(proxy)).await.ok().flatten() != Some(Health::Sick);
        works.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
        sleep(PERIOD).await;
    }
}

/// What it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    Sick,
}

/// `None` if it says nothing that can be understood.
async fn ask(proxy: SocketAddr) -> Option<Health> {
    let stream = TcpStream::connect(proxy).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::builder()
        .uri("/healthz")
        .header(HOST, proxy.to_string())
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .ok()?;
    let answered = async { sender.send_request(request).await.ok() };
    let drive = async {
        // How the connection ends says nothing: the answer is what counts.
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    let response = tokio::select! {
        response = answered => response?,
        () = drive => return None,
    };
    match response.status() {
        StatusCode::OK => Some(Health::Well),
        StatusCode::SERVICE_UNAVAILABLE => Some(Health::Sick),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A proxy that gives this answer to whoever asks.
    async fn proxy(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn only_the_answer_that_it_does_not_work_counts() {
        let table = [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
                Some(Health::Well),
            ),
            (
                "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
                Some(Health::Sick),
            ),
            ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", None),
            ("SSH-2.0-OpenSSH\r\n", None),
        ];
        for (answer, health) in table {
            assert_eq!(ask(proxy(answer).await).await, health, "{answer}");
        }
        let nobody = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap();
        assert_eq!(ask(nobody).await, None);
    }

    #[tokio::test]
    async fn it_works_until_it_says_otherwise() {
        let sick = proxy("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").await;
        let (works, mut told) = watch::channel(true);
        tokio::spawn(follow(sick, works));
        timeout(Duration::from_secs(10), told.changed())
            .await
            .unwrap()
            .unwrap();
        assert!(!*told.borrow());
    }
}
