//! Whether an address answers from here: connections to its TCP ports, and what the neighbour table says.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::pages;
use crate::run::inspect::finding::Finding;
use crate::run::inspect::flags::Target;
use crate::run::inspect::snapshot::Snapshot;
use crate::views::service_view::ServiceView;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many ports are tried.
const MOST_TRIED: usize = 16;
/// The neighbour table of the kernel, for IPv4.
const NEIGHBOURS: &str = "/proc/net/arp";

/// What came of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run::inspect) enum Outcome {
    Connected,
    Refused,
    Silent,
    /// The error of this machine: there is no route.
    Unreachable(String),
}

/// One connection that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run::inspect) struct Reach {
    pub(super) to: SocketAddr,
    pub(super) outcome: Outcome,
    /// The MAC address that this machine knows for it, if it is on the same segment.
    pub(super) neighbour: Option<String>,
}

/// Tries the TCP ports of the target.
pub(in crate::run::inspect) async fn reach(snapshot: &Snapshot, target: &Target) -> Vec<Reach> {
    let (service, addresses) = match target {
        Target::Service(key) => {
            let service = snapshot.service(key);
            let addresses = service.map(|service| service.status.clone());
            (service, addresses.unwrap_or_default())
        }
        Target::Address(address) => {
            let mut all = snapshot.services.iter();
            let service = all.find(|service| service.status.contains(address));
            (service, vec![*address])
        }
        Target::All | Target::Node(_) => return Vec::new(),
    };
    let ports: Vec<u16> = service
        .map(|service| tcp_ports(service))
        .unwrap_or_default();
    let pairs = addresses
        .iter()
        .flat_map(|address| ports.iter().map(|port| SocketAddr::new(*address, *port)));
    join_all(pairs.take(MOST_TRIED).map(attempt)).await
}

fn tcp_ports(service: &ServiceView) -> Vec<u16> {
    let ports = service.ports.iter();
    ports
        .filter(|port| port.protocol == "TCP")
        .map(|port| port.port)
        .collect()
}

async fn attempt(to: SocketAddr) -> Reach {
    let outcome = match timeout(PATIENCE, TcpStream::connect(to)).await {
        Ok(Ok(_)) => Outcome::Connected,
        Ok(Err(error)) => match error.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Outcome::Refused,
            ErrorKind::TimedOut => Outcome::Silent,
            _ => Outcome::Unreachable(error.to_string()),
        },
        Err(_) => Outcome::Silent,
    };
    let table = std::fs::read_to_string(NEIGHBOURS).unwrap_or_default();
    Reach {
        to,
        outcome,
        neighbour: neighbour(&table, to.ip()),
    }
}

/// The MAC address of a complete entry.
fn neighbour(table: &str, address: IpAddr) -> Option<String> {
    let text = address.to_string();
    let mut lines = table.lines().map(|line| line.split_whitespace());
    let mut words = lines.find_map(|mut words| (words.next() == Some(&text)).then_some(words))?;
    let mac = words.nth(2)?;
    (mac != "00:00:00:00:00:00").then(|| mac.to_owned())
}

/// What the connections show.
pub(super) fn findings(
    snapshot: &Snapshot,
    service: Option<&ServiceView>,
    reached: Vec<Reach>,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = reached
        .into_iter()
        .map(|reach| of_reach(snapshot, service, &reach))
        .collect();
    let tried = service.is_some_and(|service| {
        let mut ports = service.ports.iter();
        !service.status.is_empty() && ports.any(|port| port.protocol != "TCP")
    });
    if tried {
        let line = "ports of UDP and SCTP were not tried: nothing tells silence from loss there";
        findings.push(Finding::ok("connections from here", "NotTried", line));
    }
    findings
}

fn of_reach(snapshot: &Snapshot, service: Option<&ServiceView>, reach: &Reach) -> Finding {
    let subject = "connections from here";
    let to = reach.to;
    let mut finding = match &reach.outcome {
        Outcome::Connected => Finding::ok(subject, "Answers", format!("{to} answers")),
        Outcome::Refused => Finding::error(subject, "Refused", format!("{to} refuses connections"))
            .remedy("the packet has reached a host: no ready endpoint, or none on that node; or it is another host")
            .see(pages::NO_ANSWER),
        Outcome::Silent => Finding::error(
            subject,
            "Silent",
            format!("{to} does not answer within {} s", PATIENCE.as_secs()),
        )
        .remedy("see what is said of the address; then look at the routes and firewalls between here and the segment")
        .see(pages::NO_ANSWER),
        Outcome::Unreachable(error) => {
            Finding::error(subject, "Unreachable", format!("{to} cannot be reached from here"))
                .evidence(error.clone())
                .remedy("no router here has a way to it, or on the same segment nobody answers for it; see what is said of the address")
                .see(pages::NO_ANSWER)
        }
    };
    let speakers = snapshot.speakers(to.ip());
    let speaker = speakers.first().and_then(|one| one.node.mac.as_deref());
    if let Some(mac) = &reach.neighbour {
        finding = finding.evidence(format!("this machine's neighbour table has {mac} for it"));
        if let Some(speaker) = speaker.filter(|speaker| !speaker.eq_ignore_ascii_case(mac)) {
            finding = finding
                .evidence(format!("the node that speaks for it has {speaker}"))
                .remedy("another host answers for it, or the table is old: ip neigh show, and take the address from that host")
                .see(pages::OTHER_HOST);
        }
    }
    let ranges = service.map(|service| service.source_ranges.join(", "));
    match ranges.filter(|ranges| !ranges.is_empty()) {
        Some(ranges) if reach.outcome != Outcome::Connected => finding.evidence(format!(
            "spec.loadBalancerSourceRanges permits only {ranges}"
        )),
        _ => finding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_mac_address_of_neighbour_table() {
        let table = "IP address HW type Flags HW address Mask Device\n\
                     192.0.2.10 0x1 0x2 02:00:00:00:09:09 * eth0\n\
                     192.0.2.11 0x1 0x0 00:00:00:00:00:00 * eth0\n";
        let of = |last: u8| neighbour(table, [192, 0, 2, last].into());
        assert_eq!(of(10).as_deref(), Some("02:00:00:00:09:09"));
        assert_eq!(of(11), None);
        assert_eq!(of(1), None);
    }

    #[tokio::test]
    async fn tells_answer_from_refusal() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        assert_eq!(attempt(to).await.outcome, Outcome::Connected);
        drop(listener);
        assert_eq!(attempt(to).await.outcome, Outcome::Refused);
    }
}
