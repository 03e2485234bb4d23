use mooring_common::k8s::Slim;
use mooring_common::node_view::NodeView;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;

use super::*;
use crate::announce::observe::Synced;

fn healthy() -> Arc<ArcSwap<Snapshot>> {
    let node = json!({"metadata": {"name": "n1"}});
    Arc::new(ArcSwap::from_pointee(Snapshot {
        node: Some(Arc::new(NodeView::slim(
            serde_json::from_value(node).unwrap(),
        ))),
        synced: Synced {
            services: true,
            slices: true,
            node: true,
            ..Synced::default()
        },
        ..Snapshot::default()
    }))
}

struct Server {
    address: SocketAddr,
    cancel: CancellationToken,
}

impl Server {
    fn start() -> Self {
        let listener = bind("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let cancel = CancellationToken::new();
        tokio::spawn(serve(listener, healthy(), cancel.clone()));
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            cancel,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes as they are, and reads until the server closes.
    async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        within(read_all(&mut stream)).await
    }
}

async fn read_all(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut response = Vec::new();
    // A reset is an end like any other here.
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8(response).unwrap()
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, what)
        .await
        .expect("an answer in time")
}

fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let (head, _) = response.split_once("\r\n\r\n")?;
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

#[tokio::test]
async fn old_and_new_http_is_served_with_and_without_a_host() {
    let server = Server::start();
    for request in [
        "GET /livez HTTP/1.0\r\n\r\n",
        "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /livez?verbose HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET http://lb.example/livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ] {
        let response = server.ask(request).await;
        assert!(response.contains(" 200 OK\r\n"), "{request:?}: {response}");
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let length = body.len().to_string();
        for (name, value) in [
            ("content-type", "application/json"),
            ("content-length", length.as_str()),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("connection", "close"),
        ] {
            assert_eq!(
                header(&response, name),
                Some(value),
                "{request:?}: {response}"
            );
        }
    }
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let server = Server::start();
    let get = server.ask("GET /services/a/b HTTP/1.0\r\n\r\n").await;
    let head = server.ask("HEAD /services/a/b HTTP/1.0\r\n\r\n").await;
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(
        header(&head, "content-length"),
        header(&get, "content-length")
    );
    assert_eq!(header(&head, "x-load-balancing-endpoint-weight"), Some("0"));
    assert!(get.contains(" 404 "), "{get}");
}

#[tokio::test]
async fn other_methods_are_refused() {
    let server = Server::start();
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let response = server
            .ask(&format!(
                "{method} /livez HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
            ))
            .await;
        assert!(response.contains(" 405 "), "{response}");
        assert_eq!(header(&response, "allow"), Some("GET, HEAD"));
    }
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let server = Server::start();
    let mut stream = server.connect().await;
    for _ in 0..3 {
        stream
            .write_all(b"GET /livez HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let mut buffer = [0; 2048];
        let length = within(stream.read(&mut buffer)).await.unwrap();
        assert!(buffer[..length].starts_with(b"HTTP/1.1 200 OK"));
    }
}

#[tokio::test]
async fn a_head_of_more_than_8_kib_is_refused() {
    let server = Server::start();
    let fits = format!("GET /livez HTTP/1.0\r\nX: {}\r\n\r\n", "a".repeat(7000));
    assert!(server.ask(&fits).await.contains(" 200 "));
    let long = format!("GET /livez HTTP/1.0\r\nX: {}\r\n\r\n", "a".repeat(9000));
    let response = server.ask(&long).await;
    assert!(!response.contains(" 200 "), "{response}");
}

#[tokio::test]
async fn the_one_idle_for_longest_makes_room() {
    let server = Server::start();
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = server.connect().await;
        stream
            .write_all(b"GET /livez HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let mut buffer = [0; 2048];
        assert!(within(stream.read(&mut buffer)).await.unwrap() > 0);
        idle.push(stream);
    }
    let response = server.ask("GET /livez HTTP/1.0\r\n\r\n").await;
    assert!(response.contains(" 200 "), "{response}");
    let mut buffer = [0; 16];
    let end = within(idle[0].read(&mut buffer)).await;
    assert!(matches!(end, Ok(0) | Err(_)), "the first one is closed");
    idle[1]
        .write_all(b"GET /livez HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    assert!(
        within(idle[1].read(&mut buffer)).await.unwrap() > 0,
        "the second one is kept"
    );
}

#[tokio::test]
async fn the_end_closes_what_is_open() {
    let server = Server::start();
    let mut stream = server.connect().await;
    stream.write_all(b"GET /liv").await.unwrap();
    server.cancel.cancel();
    assert_eq!(within(read_all(&mut stream)).await, "");
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_remedy() {
    let somebody_else = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = somebody_else.local_addr().unwrap();
    let error = bind(address).unwrap_err().to_string();
    for part in [&*address.to_string(), "--livez-bind-address"] {
        assert!(error.contains(part), "{error}");
    }
}

/// In an update of the daemon, two of them listen for a while.
#[tokio::test]
async fn the_next_daemon_listens_beside_the_last_one() {
    let server = Server::start();
    bind(server.address).unwrap();
}

/// A conversation over memory, so that time can be made to pass.
fn conversation() -> DuplexStream {
    let (client, stream) = tokio::io::duplex(4096);
    let room = Room::new(1);
    tokio::spawn(async move {
        let seat = room.enter().unwrap();
        converse(Timed::new(stream, &seat), healthy()).await;
    });
    client
}

#[tokio::test(start_paused = true)]
async fn a_request_must_arrive_within_five_seconds_of_its_first_byte() {
    let mut slow = conversation();
    let start = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(20)).await;
    for byte in "GET /livez HTTP/1.1\r\nHost: somewhere\r\n\r\n".bytes() {
        if slow.write_all(&[byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(read_all(&mut slow).await, "");
    let took = start.elapsed().as_millis();
    assert!((25_000..26_000).contains(&took), "{took} ms");
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_that_is_in_time_is_answered() {
    let mut slow = conversation();
    for byte in "GET /livez HTTP/1.0\r\n\r\n".bytes() {
        slow.write_all(&[byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(read_all(&mut slow).await.contains(" 200 OK"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_thirty_seconds() {
    let mut client = conversation();
    for _ in 0..2 {
        client
            .write_all(b"GET /livez HTTP/1.1\r\n\r\n")
            .await
            .unwrap();
        let mut buffer = [0; 2048];
        assert!(client.read(&mut buffer).await.unwrap() > 0);
        tokio::time::sleep(Duration::from_secs(29)).await;
    }
    let start = tokio::time::Instant::now();
    assert_eq!(read_all(&mut client).await, "");
    let took = start.elapsed().as_secs();
    assert!(took <= 2, "29 s and {took} s idle");
}
