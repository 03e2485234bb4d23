//! A network namespace of its own for a test, with a segment in it.

use std::process::Command;
use std::time::{Duration, Instant};

use mooring_node::protocol::mac::Mac;

const IN_NETNS: &str = "MOORING_TEST_IN_NETNS";

/// Runs `body` in network and mount namespaces of its own, by running this very test there.
pub fn in_netns<F: FnOnce()>(test: &str, body: F) {
    if std::env::var_os(IN_NETNS).is_some() {
        return body();
    }
    // The closure is `wire::suite::…`.
    let suite = std::any::type_name::<F>().split("::").nth(1);
    let test = format!("{}::{test}", suite.expect("a suite"));
    // What hangs is ended, and what it has printed is shown.
    let output = Command::new("timeout")
        .args(["60", "unshare", "-Urnm", "--propagation", "private", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &test, "--nocapture"])
        .env(IN_NETNS, "1")
        .output()
        .expect("this test needs `unshare` (Debian package util-linux) and user namespaces");
    for said in [&output.stdout, &output.stderr] {
        println!("{}", String::from_utf8_lossy(said));
    }
    assert!(
        output.status.success(),
        "the test failed in its namespace, or took more than a minute; its output is above"
    );
}

/// Runs a command line, words separated by spaces.
pub fn sh(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "`{}` is needed (Debian package iproute2): {error}",
                words[0]
            )
        });
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{line}: {out}{err}");
    out
}

/// A bridge with the interfaces of so many nodes, `n1`, `n2` and so on, `tap` to listen at, and a
/// client in a namespace of its own.
pub fn build_segment(nodes: usize) {
    sh("mount -t tmpfs tmpfs /run");
    sh("ip link set lo up");
    sh("ip link add br0 type bridge forward_delay 0 mcast_snooping 0");
    sh("ip link set br0 up");
    sh("ip netns add client");
    let nodes = (1..=nodes).map(|n| format!("n{n}"));
    for name in nodes.chain(["tap".to_owned(), "c".to_owned()]) {
        sh(&format!("ip link add {name} type veth peer name {name}-b"));
        sh(&format!("ip link set {name}-b master br0 up"));
        if name != "c" {
            // All nodes live in one namespace here: their kernels must not speak for each other.
            sh(&format!("ip link set {name} up"));
        }
    }
    sh("ip link set c netns client");
    sh("ip -n client link set c up");
    sh("ip -n client address add 192.0.2.200/24 dev c");
    sh("ip -n client address add 2001:db8::200/64 dev c nodad");
}

/// The kernel's number for an interface.
pub fn link_index(name: &str) -> u32 {
    let line = sh(&format!("ip -o link show {name}"));
    line.split(':').next().unwrap().trim().parse().unwrap()
}

/// The MAC address of an interface.
pub fn link_mac(name: &str) -> Mac {
    let line = sh(&format!("ip -o link show {name}"));
    let mut words = line.split_whitespace();
    words.find(|word| *word == "link/ether").unwrap();
    words.next().unwrap().parse().unwrap()
}

/// What the client's kernel believes, after it was made to ask if `ask`.
pub fn neighbour(address: &str, ask: bool) -> Option<Mac> {
    if ask {
        let line = format!("echo x > /dev/udp/{address}/9");
        // Nobody answers the datagram; what counts is that the kernel looks for its receiver.
        let _ = Command::new("ip")
            .args(["netns", "exec", "client", "bash", "-c", &line])
            .output()
            .unwrap();
    }
    let entry = sh(&format!("ip -n client neigh show {address} dev c"));
    let words: Vec<_> = entry.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "lladdr")?;
    words[at + 1].parse().ok()
}

/// Waits until the test gives a value, for at most 15 s.
pub fn eventually<T>(what: &str, mut test: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = test() {
            return value;
        }
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{what}: not within 15 s"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
