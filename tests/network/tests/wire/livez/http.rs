//! The dialects of HTTP that load balancers speak.

use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::process::Command;

use super::daemon::{Daemon, read_one, read_to_end};

#[tokio::test]
async fn all_dialects_are_understood() {
    let daemon = Daemon::start().await;
    let plain = daemon.send("GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!(plain.status, 200, "{plain:?}");
    for (name, value) in [
        ("Content-Type", "application/json"),
        ("X-Content-Type-Options", "nosniff"),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ] {
        assert_eq!(plain.header(name), Some(value), "{plain:?}");
    }
    assert_eq!(
        plain.header("Content-Length"),
        Some(plain.body.len().to_string().as_str())
    );
    for request in [
        "GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n",
        "GET http://node:10266/livez HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n",
        "GET /livez?probe=1 HTTP/1.0\r\nUser-Agent: NodeBalancer\r\n\r\n",
    ] {
        assert_eq!(daemon.send(request).status, 200, "{request:?}");
    }
    let refused = daemon.send("POST /livez HTTP/1.0\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(
        (refused.status, refused.header("Allow")),
        (405, Some("GET, HEAD"))
    );
    assert_eq!(daemon.send("GET /other HTTP/1.0\r\n\r\n").status, 404);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let daemon = Daemon::start().await;
    for path in [
        "/livez".to_owned(),
        format!("/services/{}/none", daemon.namespace),
    ] {
        let get = daemon.send(&format!("GET {path} HTTP/1.0\r\n\r\n"));
        let head = daemon.send(&format!("HEAD {path} HTTP/1.0\r\n\r\n"));
        assert_eq!((head.status, head.body.as_str()), (get.status, ""));
        assert_eq!(head.header("Content-Type"), get.header("Content-Type"));
        // The ages in it may have one digit more by now, but it is not the empty body's.
        let length = |answer: &super::daemon::Answer| -> usize {
            answer
                .header("Content-Length")
                .expect("a length")
                .parse()
                .unwrap()
        };
        assert!(
            length(&head).abs_diff(length(&get)) <= 8,
            "{head:?} {get:?}"
        );
    }
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let daemon = Daemon::start().await;
    let mut stream = daemon.connect();
    for byte in b"GET /livez HTTP/1.0\r\nUser-Agent: slow\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_to_end(stream).status, 200);
}

#[tokio::test]
async fn connections_are_kept_and_both_families_are_served() {
    let daemon = Daemon::start().await;
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let mut stream = daemon.connect_to(address);
        for _ in 0..3 {
            stream
                .write_all(b"GET /livez HTTP/1.1\r\nHost: n\r\n\r\n")
                .unwrap();
            assert_eq!(read_one(&mut stream).status, 200);
        }
    }
}

#[tokio::test]
async fn a_crowd_and_a_flood_hold_nothing_up() {
    let daemon = Daemon::start().await;
    // More than there is room for, all of them silent.
    let crowd: Vec<TcpStream> = (0..300).map(|_| daemon.connect()).collect();
    assert_eq!(daemon.get("/livez").status, 200);
    drop(crowd);
    let mut endless = daemon.connect();
    let line = format!("X-Padding: {}\r\n", "x".repeat(1000));
    let _ = endless.write_all(b"GET /livez HTTP/1.0\r\n");
    let refused = (0..64).any(|_| endless.write_all(line.as_bytes()).is_err());
    assert!(
        refused || read_to_end(endless).status >= 400,
        "a head has a limit"
    );
    assert_eq!(daemon.get("/livez").status, 200);
}

/// The commands of docs/how-to/health-checks.md, of a Service whose traffic may come.
#[tokio::test]
async fn the_commands_of_the_guide_are_answered() {
    let daemon = Daemon::start().await;
    daemon.has_web().await;
    let page = include_str!("../../../../../docs/how-to/health-checks.md");
    let commands = page.lines().filter(|line| line.starts_with("curl "));
    let commands: Vec<&str> = commands.collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let service = format!("/{}/web", daemon.namespace);
        let command = command
            .replace("NODE:10266", &daemon.address().to_string())
            .replace("/shop/web", &service);
        let mut words = command.split(' ');
        let output = Command::new(words.next().unwrap()).args(words).output();
        let answer = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{command}: {answer}");
    }
}
