//! What nobody should send, in portions that nobody would choose.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use super::daemon::{Daemon, SOON};
use super::monitor::{Monitor, SPACING};

/// How many requests. `FUZZ_FROM` and `FUZZ_SEEDS` try others.
const SEEDS: u64 = 1500;

/// Parts of requests.
const WORDS: [&str; 32] = [
    "GET ",
    "HEAD ",
    "POST ",
    "get ",
    "/livez",
    "/healthz",
    "/services/a/b",
    "/services/",
    "*",
    "http://a/livez",
    "http://",
    "?",
    "#",
    " ",
    " HTTP/1.1",
    " HTTP/1.0",
    " HTTP/2.0",
    "HTTP/1.1",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "\0",
    "Host: a\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "X: é\r\n",
];

fn number(variable: &str, otherwise: u64) -> u64 {
    let said = std::env::var(variable).ok();
    said.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// What one client sends: the same for the same seed.
fn bytes(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = match random.u8(0..4) {
        0 => (0..random.usize(0..200)).map(|_| random.u8(..)).collect(),
        1 => {
            let line = "GET /livez HTTP/1.1\r\nHost: a\r\n";
            let lines = "X-Padding: 0123456789\r\n".repeat(random.usize(0..500));
            format!("{line}{lines}\r\n").into_bytes()
        }
        _ => {
            let words = (0..random.usize(1..20)).map(|_| *random.choice(WORDS.iter()).unwrap());
            words.collect::<String>().into_bytes()
        }
    };
    for _ in 0..random.usize(0..3) {
        if !bytes.is_empty() {
            let index = random.usize(0..bytes.len());
            bytes[index] = random.u8(..);
        }
    }
    bytes
}

/// Sends it in some portions, says that there is no more, and gives all that comes back.
fn send(mut stream: TcpStream, bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (portion, after) = rest.split_at(random.usize(1..=rest.len()));
        // Who has understood enough may close.
        if stream.write_all(portion).is_err() {
            break;
        }
        rest = after;
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut came = Vec::new();
    if let Err(error) = stream.read_to_end(&mut came) {
        let kind = error.kind();
        assert_eq!(kind, std::io::ErrorKind::ConnectionReset, "{error}");
    }
    came
}

/// Whether this is nothing but whole answers with a status that there is.
fn whole_answers(came: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(came).map_err(|error| error.to_string())?;
    let mut rest = text;
    while !rest.is_empty() {
        let (head, after) = rest.split_once("\r\n\r\n").ok_or("a head without an end")?;
        let status = head.strip_prefix("HTTP/1.").and_then(|line| line.get(2..5));
        let known = ["200", "400", "404", "405", "431", "503", "505"];
        if !status.is_some_and(|status| known.contains(&status)) {
            return Err(format!("an unknown status: {head}"));
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.ok_or("no length")?.parse().map_err(|_| "a length")?;
        // The answer to HEAD has no body.
        rest = if after.is_empty() || after.starts_with("HTTP/1.") {
            after
        } else {
            after.get(length..).ok_or("a body that is too short")?
        };
    }
    Ok(())
}

#[tokio::test]
async fn nothing_that_is_sent_disturbs_a_daemon() {
    let daemon = Daemon::start().await;
    daemon.has_web().await;
    let service = format!("/services/{}/web", daemon.namespace);
    let monitor = Monitor::start(daemon.address(), &service, SPACING / 10);
    let from = number("FUZZ_FROM", 0);
    let mut answered = 0;
    for seed in from..from + number("FUZZ_SEEDS", SEEDS) {
        let mut random = fastrand::Rng::with_seed(seed);
        let bytes = bytes(&mut random);
        let came = send(daemon.connect(), &bytes, &mut random);
        let whole = whole_answers(&came);
        let text = String::from_utf8_lossy(&came);
        assert_eq!(whole, Ok(()), "FUZZ_FROM={seed} FUZZ_SEEDS=1: {text}");
        answered += usize::from(!came.is_empty());
    }
    assert!(answered > 0, "not even faults were told");
    monitor.asked(10).await;
    assert_eq!(monitor.complaints(), Vec::<String>::new());
    assert!(daemon.process.is_running());
}

/// More than there is room for, each of which sends a byte and no more.
#[tokio::test]
async fn a_crowd_that_is_slow_keeps_nobody_out() {
    let daemon = Daemon::start().await;
    let monitor = Monitor::start(daemon.address(), "/livez", SPACING / 10);
    let mut crowd = Vec::new();
    for _ in 0..256 + 100 {
        let mut stream = daemon.connect();
        stream.write_all(b"G").unwrap();
        crowd.push(stream);
    }
    monitor.asked(50).await;
    assert_eq!(monitor.complaints(), Vec::<String>::new());
    let first = crowd.remove(0);
    first.set_read_timeout(Some(SOON)).unwrap();
    let end = (&first).read(&mut [0]);
    assert!(matches!(end, Ok(0) | Err(_)), "the first one made room");
}
