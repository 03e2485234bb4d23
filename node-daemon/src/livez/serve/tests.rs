use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;

use super::*;
use crate::livez::listen::Bound;
use crate::livez::plan::tests::snapshot;
use crate::livez::request::{Parsed, parse};
use crate::livez::response::Framing;
use crate::livez::server::{self, Options};

fn healthy() -> Arc<Shared> {
    let snapshot = snapshot(&[&["10.0.0.1"]]);
    Shared::new(
        Arc::new(ArcSwap::from_pointee(snapshot)),
        Metrics::default(),
        DetailNetworks::default(),
    )
}

fn listener() -> TcpListener {
    Bound::new("[::]:0".parse().unwrap())
        .unwrap()
        .listen()
        .unwrap()
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

struct Server {
    address: SocketAddr,
    cancel: CancellationToken,
}

impl Server {
    fn start() -> Self {
        Self::start_for(ListenerRole::Node)
    }

    fn start_for(site: ListenerRole) -> Self {
        let listener = listener();
        let address = loopback(listener.local_addr().unwrap().port());
        let cancel = CancellationToken::new();
        tokio::spawn(serve(listener, site, healthy(), cancel.clone()));
        Self { address, cancel }
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
async fn serves_http_1_0_and_1_1_without_host() {
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
async fn head_has_length_and_no_body() {
    let server = Server::start();
    let get = server.ask("GET /services/shop/none HTTP/1.0\r\n\r\n").await;
    let head = server
        .ask("HEAD /services/shop/none HTTP/1.0\r\n\r\n")
        .await;
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(
        header(&head, "content-length"),
        header(&get, "content-length")
    );
    assert_eq!(header(&head, "x-load-balancing-endpoint-weight"), Some("0"));
    assert!(get.contains(" 404 "), "{get}");
}

#[tokio::test]
async fn refuses_other_methods() {
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
async fn keeps_connection_alive() {
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
async fn refuses_head_above_8_kib() {
    let server = Server::start();
    let fits = format!("GET /livez HTTP/1.0\r\nX: {}\r\n\r\n", "a".repeat(7000));
    assert!(server.ask(&fits).await.contains(" 200 "));
    let long = format!("GET /livez HTTP/1.0\r\nX: {}\r\n\r\n", "a".repeat(9000));
    let response = server.ask(&long).await;
    assert!(!response.contains(" 200 "), "{response}");
}

#[tokio::test]
async fn closes_longest_idle_connection_first() {
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

/// kube-proxy answers whatever is asked at the port of a Service.
#[tokio::test]
async fn service_port_answers_for_service_only() {
    let server = Server::start_for(ListenerRole::Service(ObjectKey::new("shop", "web")));
    for line in ["GET / ", "GET /livez ", "POST /healthz ", "OPTIONS * "] {
        let response = server.ask(&format!("{line}HTTP/1.0\r\n\r\n")).await;
        assert!(response.contains(" 200 OK\r\n"), "{response}");
        assert!(response.contains("\"localEndpoints\": 1"), "{response}");
    }
    let idle = Server::start_for(ListenerRole::Service(ObjectKey::new("shop", "idle")));
    let response = idle.ask("GET /livez HTTP/1.0\r\n\r\n").await;
    assert!(response.contains(" 503 "), "{response}");
}

#[tokio::test]
async fn body_is_not_next_request() {
    let server = Server::start();
    let body = "GET /none HTTP/1.1\r\n\r\n";
    let length = body.len();
    let request = format!(
        "GET /livez HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}\
         GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n"
    );
    let responses = server.ask(&request).await;
    assert_eq!(responses.matches(" 200 OK\r\n").count(), 2, "{responses}");
    assert!(!responses.contains(" 404 "), "{responses}");
    // Where nobody can say how long it is, the connection ends.
    let chunked = "GET /livez HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let response = server
        .ask(&format!("{chunked}GET /none HTTP/1.1\r\n\r\n"))
        .await;
    assert_eq!(response.matches("HTTP/1.1").count(), 1, "{response}");
    assert_eq!(header(&response, "connection"), Some("close"));
}

#[tokio::test]
async fn answers_pipelined_requests_in_order() {
    let server = Server::start();
    let request =
        "GET /livez HTTP/1.1\r\n\r\nHEAD /none HTTP/1.1\r\n\r\nGET /livez HTTP/1.0\r\n\r\n";
    let responses = server.ask(request).await;
    let statuses: Vec<_> = responses
        .lines()
        .filter(|line| line.starts_with("HTTP/"))
        .collect();
    assert_eq!(
        statuses,
        [
            "HTTP/1.1 200 OK",
            "HTTP/1.1 404 Not Found",
            "HTTP/1.0 200 OK"
        ]
    );
}

/// Who only opens connections and sends a byte keeps nobody out.
#[tokio::test]
async fn slow_client_makes_room() {
    let server = Server::start();
    let mut slow = Vec::new();
    for _ in 0..CONNECTIONS + 20 {
        let mut stream = server.connect().await;
        stream.write_all(b"G").await.unwrap();
        slow.push(stream);
        let response = server.ask("GET /livez HTTP/1.0\r\n\r\n").await;
        assert!(response.contains(" 200 OK\r\n"), "{response}");
    }
}

#[tokio::test]
async fn shutdown_answers_then_closes() {
    let server = Server::start();
    let mut reading = server.connect().await;
    reading.write_all(b"GET /livez HTTP/1.0\r\n").await.unwrap();
    // It is read: who comes after it is answered.
    server.ask("GET /livez HTTP/1.0\r\n\r\n").await;
    server.cancel.cancel();
    within(async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    reading.write_all(b"\r\n").await.unwrap();
    let response = within(read_all(&mut reading)).await;
    assert!(response.contains(" 200 OK\r\n"), "{response}");
}

fn options(bound: Bound, snapshot: &Arc<ArcSwap<Snapshot>>) -> (Options, CancellationToken) {
    let in_charge = CancellationToken::new();
    let options = Options {
        bound,
        probes: None,
        detail: DetailNetworks::default(),
        health_check_node_ports: false,
        snapshot: Arc::clone(snapshot),
        in_charge: in_charge.clone(),
        metrics: Metrics::default(),
    };
    (options, in_charge)
}

async fn status(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream
        .write_all(b"GET /livez HTTP/1.0\r\n\r\n")
        .await
        .ok()?;
    let response = within(read_all(&mut stream)).await;
    response.lines().next().map(ToOwned::to_owned)
}

/// In an update of the daemon, whoever asks all the time is answered all the time, and well.
#[tokio::test]
async fn upgrade_refuses_nobody() {
    let known = Arc::new(ArcSwap::from_pointee(snapshot(&[])));
    // Nobody lets go of the port meanwhile.
    let reserved = Bound::new("[::]:0".parse().unwrap()).unwrap();
    let address = loopback(reserved.port());
    let bind = || Bound::new(SocketAddr::from(([0; 16], address.port()))).unwrap();
    let (first, in_charge) = options(bind(), &known);
    in_charge.cancel();
    let first = server::Server::start(first).unwrap();
    within(async { while status(address).await.is_none() {} }).await;
    let unsynced: Arc<ArcSwap<Snapshot>> = Arc::default();
    let (second, _not_in_charge) = options(bind(), &unsynced);
    let second = server::Server::start(second).unwrap();
    let (count, mut counted) = tokio::sync::watch::channel(0);
    let asking = tokio::spawn(async move {
        loop {
            let answer = status(address).await;
            assert_eq!(answer.as_deref(), Some("HTTP/1.0 200 OK"));
            count.send_modify(|count| *count += 1);
            sleep(Duration::from_millis(1)).await;
        }
    });
    let mut asked = async |times: usize| {
        let until = *counted.borrow() + times;
        counted.wait_for(|count| *count >= until).await.map(drop)
    };
    // The second one listens in the middle of all that, and then the first one ends.
    within(asked(50)).await.unwrap();
    unsynced.store(known.load_full());
    within(asked(50)).await.unwrap();
    within(first.finish()).await;
    within(asked(50)).await.unwrap();
    asking.abort();
    within(second.finish()).await;
    assert_eq!(status(address).await, None);
}

/// As long as there is no other, a daemon that knows nothing says so.
#[tokio::test]
async fn only_process_answers_before_it_is_synced() {
    let bound = Bound::new("[::]:0".parse().unwrap()).unwrap();
    let address = loopback(bound.port());
    let (options, in_charge) = options(bound, &Arc::default());
    let server = server::Server::start(options).unwrap();
    in_charge.cancel();
    let answer = within(async {
        loop {
            if let Some(answer) = status(address).await {
                break answer;
            }
        }
    })
    .await;
    assert_eq!(answer, "HTTP/1.0 503 Service Unavailable");
    drop(server);
}

/// A conversation over memory, so that time can be made to pass.
fn conversation() -> DuplexStream {
    let (client, stream) = tokio::io::duplex(4096);
    let slots = ConnectionSlots::new(1);
    tokio::spawn(async move {
        let handler = ListenerHandler::new(ListenerRole::Node, healthy());
        let slot = slots.take();
        converse(stream, &slot, &handler.to(Ipv4Addr::LOCALHOST.into())).await;
    });
    client
}

#[tokio::test(start_paused = true)]
async fn request_times_out_after_five_seconds() {
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
async fn answers_slow_request_in_time() {
    let mut slow = conversation();
    for byte in "GET /livez HTTP/1.0\r\n\r\n".bytes() {
        slow.write_all(&[byte]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(read_all(&mut slow).await.contains(" 200 OK"));
}

#[tokio::test(start_paused = true)]
async fn closes_idle_connection_after_30_seconds() {
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

#[tokio::test]
async fn client_still_sending_gets_no_reset() {
    let server = Server::start();
    let mut stream = server.connect().await;
    let head = b"POST /livez HTTP/1.1\r\nContent-Length: 60000\r\n\r\n";
    stream.write_all(head).await.unwrap();
    // The answer is there before the body is.
    within(stream.peek(&mut [0; 16])).await.unwrap();
    for _ in 0..6 {
        stream.write_all(&[b'a'; 10_000]).await.unwrap();
    }
    let mut answer = String::new();
    let read = within(stream.read_to_string(&mut answer)).await;
    assert!(read.is_ok(), "{read:?}");
    assert!(answer.contains(" 405 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn endless_sender_is_cut_off() {
    const HEAD: &[u8] = b"POST /livez HTTP/1.1\r\nContent-Length: 900000000\r\n\r\n";
    let mut slow = conversation();
    let start = tokio::time::Instant::now();
    slow.write_all(HEAD).await.unwrap();
    while slow.write_all(b"a").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = start.elapsed().as_millis();
    assert!((1000..1200).contains(&took), "{took} ms");
    let mut fast = conversation();
    fast.write_all(HEAD).await.unwrap();
    let mut sent = 0;
    while fast.write_all(&[b'a'; 1024]).await.is_ok() {
        sent += 1024;
    }
    assert!((65_536..65_536 + 8192).contains(&sent), "{sent} bytes");
}

#[test]
fn loopback_and_named_networks_see_details() {
    let detail = DetailNetworks::new(vec!["10.1.0.0/16".parse().unwrap()]);
    for (client, expected) in [
        ("127.0.0.1", true),
        ("::1", true),
        ("10.1.2.3", true),
        ("::ffff:10.1.2.3", true),
        ("10.2.0.1", false),
        ("fd00::1", false),
    ] {
        assert_eq!(
            detail.contains(client.parse().unwrap()),
            expected,
            "{client}"
        );
    }
}

#[test]
fn other_clients_see_only_status() {
    let handler = ListenerHandler::new(ListenerRole::Node, healthy());
    let ask = |client: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\n\r\n");
        let Parsed::Request(request) = parse(request.as_bytes()) else {
            panic!("{path} is a request");
        };
        let client = handler.to(client.parse().unwrap());
        let response = client.respond(&request, tokio::time::Instant::now());
        let mut out = Vec::new();
        response.write(&mut out, Framing::default());
        String::from_utf8(out).unwrap()
    };
    for path in ["/services/shop/web", "/services/shop/none"] {
        let [known, stranger] = ["127.0.0.1", "203.0.113.9"].map(|client| ask(client, path));
        let line = |text: &str| text.lines().next().unwrap().to_owned();
        assert_eq!(line(&known), line(&stranger));
        assert!(known.contains("localEndpoints"), "{known}");
        assert!(
            stranger.ends_with("Content-Length: 0\r\n\r\n"),
            "{stranger}"
        );
        for told in ["web", "Weight"] {
            assert!(!stranger.contains(told), "{stranger}");
        }
    }
    assert!(ask("203.0.113.9", "/livez").contains("healthy"));
}
