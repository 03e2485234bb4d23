//! The frames themselves, byte for byte (l2.md sections 4.7 and 6).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use mooring_test_netlab::netlab::raw::{ArpToSend, Solicitation, icmpv6_checksum, solicited_node};
use mooring_test_netlab::netlab::{Mac, Netlab};
use mooring_test_support::wait::{eventually, never};

use crate::announce::cluster::{Addresses, AnnounceCluster, SOON};

/// When the rounds of a burst are due, in milliseconds.
const ROUNDS: [u64; 6] = [0, 50, 200, 600, 1100, 2000];
/// The rounds in which the router is told as well.
const PRIMED: [u64; 3] = [0, 200, 1100];
/// How much later than due a round may be seen, on two cores that carry a whole cluster.
const LATEST: Duration = Duration::from_millis(40);

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Both forms for IPv4, the advertisement for IPv6, and the router told first, all in their time.
/// A machine with more to do than it can may be late: then the next burst counts.
pub async fn burst_follows_the_schedule(cluster: &AnnounceCluster, web: Addresses, since: Instant) {
    let mut lateness = vec![burst(cluster, web, since).await];
    for number in [105, 106] {
        if lateness.iter().any(Option::is_none) {
            return;
        }
        let (start, addresses) = (Instant::now(), Addresses::number(number));
        let name = format!("again-{number}");
        cluster.pod(&name, "n1").await;
        cluster.service(&name, addresses, false).await;
        lateness.push(burst(cluster, addresses, start).await);
    }
    assert!(lateness.iter().any(Option::is_none), "{lateness:#?}");
}

/// Every frame of one burst; says what was late, if anything was.
async fn burst(cluster: &AnnounceCluster, addresses: Addresses, since: Instant) -> Option<String> {
    let (_, speaker) = cluster.announced(addresses.v4, since).await;
    let mut late = None;
    for (form, bytes, due) in forms(speaker.mac(), addresses) {
        let seen = eventually(&format!("all rounds of the {form}"), SOON, async || {
            let seen = times_of(cluster, &bytes, since);
            (seen.len() >= due.len()).then_some(seen)
        })
        .await;
        assert_eq!(seen.len(), due.len(), "{form}: a burst and nothing more");
        late = late.or(lateness(form, &seen, &due));
        let after_a_second = |at: &&Instant| **at - seen[0] >= Duration::from_secs(1);
        let count = seen.iter().filter(after_a_second).count();
        assert!(
            due.len() < ROUNDS.len() || count >= 2,
            "{form}: some take nothing for a second"
        );
    }
    late
}

/// The frames of a burst, each with the times at which it is due.
fn forms(own: Mac, Addresses { v4, v6 }: Addresses) -> [(&'static str, Vec<u8>, Vec<u64>); 5] {
    let all = &[0xff; 6];
    let request = arp(all, own, 1, (own, v4), (None, v4));
    let reply = arp(all, own, 2, (own, v4), (Some(own), v4));
    let question = arp(all, own, 1, (own, v4), (None, Netlab::GATEWAY_V4));
    [
        ("request form", request, ROUNDS.to_vec()),
        ("reply form", reply, ROUNDS.to_vec()),
        ("question for the router", question, PRIMED.to_vec()),
        ("advertisement", advertisement(own, v6), ROUNDS.to_vec()),
        (
            "solicitation of the router",
            prime(own, v6),
            PRIMED.to_vec(),
        ),
    ]
}

fn times_of(cluster: &AnnounceCluster, bytes: &[u8], since: Instant) -> Vec<Instant> {
    let frames = cluster.capture.since(since);
    let same = frames.iter().filter(|frame| frame.bytes == bytes);
    same.map(|frame| frame.at).collect()
}

/// The round that is seen soonest after it was due tells when the burst began.
fn lateness(form: &str, seen: &[Instant], due: &[u64]) -> Option<String> {
    let after = |at: &Instant, due: &u64| (*at - seen[0]).as_secs_f64() - *due as f64 / 1000.0;
    let lags: Vec<f64> = seen
        .iter()
        .zip(due)
        .map(|(at, due)| after(at, due))
        .collect();
    let start = lags.iter().copied().fold(f64::INFINITY, f64::min);
    let late = |lag: &&f64| Duration::from_secs_f64(*lag - start) > LATEST;
    lags.iter().find(late)?;
    Some(format!(
        "{form}: seconds between the rounds' times and when they were due: {lags:?}"
    ))
}

/// Broadcast, unicast, and the questions of those who want to take the address.
pub async fn questions_are_answered(cluster: &AnnounceCluster, web: Addresses, speaker: &str) {
    let client = &cluster.netlab.client;
    let (own, asker) = (cluster.netlab.node(speaker).mac(), client.mac());
    let ask = ArpToSend::who_has(web.v4, client.ipv4(), asker);
    let probe = ArpToSend {
        sender: Ipv4Addr::UNSPECIFIED,
        ..ask
    };
    let reply = |to| arp(&asker.0, own, 2, (own, web.v4), (Some(asker), to));
    for (what, sent, expected) in [
        ("who-has to everybody", ask.bytes(), reply(client.ipv4())),
        (
            "who-has to the speaker",
            ask.to(own).bytes(),
            reply(client.ipv4()),
        ),
        ("a probe", probe.bytes(), reply(Ipv4Addr::UNSPECIFIED)),
    ] {
        answered_once(cluster, what, &sent, &expected).await;
    }
    let ask = Solicitation {
        to: None,
        mac: asker,
        sender: client.ipv6(),
        target: web.v6,
    };
    let to_speaker = Solicitation {
        to: Some(own),
        ..ask
    };
    let detection = Solicitation {
        sender: Ipv6Addr::UNSPECIFIED,
        ..ask
    };
    let told = solicited(own, web.v6, asker, client.ipv6());
    let to_all = advertisement_with(own, web.v6, [0x33, 0x33, 0, 0, 0, 1], ALL_NODES, 0);
    for (what, sent, expected) in [
        ("a solicitation of the group", ask.bytes(), told.clone()),
        ("a solicitation of the speaker", to_speaker.bytes(), told),
        ("duplicate address detection", detection.bytes(), to_all),
    ] {
        answered_once(cluster, what, &sent, &expected).await;
    }
}

async fn answered_once(cluster: &AnnounceCluster, what: &str, question: &[u8], answer: &[u8]) {
    let start = Instant::now();
    cluster.netlab.client.inject(question).unwrap();
    eventually(
        &format!("{what} is answered byte for byte"),
        SOON,
        async || match times_of(cluster, answer, start).as_slice() {
            [_] => Ok(()),
            [] => Err(format!(
                "expected {answer:02x?} among {:02x?}",
                cluster
                    .capture
                    .since(start)
                    .iter()
                    .map(|frame| &frame.bytes)
                    .collect::<Vec<_>>()
            )),
            more => panic!("{what} was answered {} times", more.len()),
        },
    )
    .await;
}

/// The other nodes do not answer, not even when they are asked themselves.
pub async fn others_are_silent(cluster: &AnnounceCluster, web: Addresses, speaker: &str) {
    let client = &cluster.netlab.client;
    let start = Instant::now();
    let others = cluster
        .netlab
        .nodes
        .iter()
        .filter(|node| node.name() != speaker);
    let macs: Vec<Mac> = others.map(|node| node.mac()).collect();
    for mac in &macs {
        let who_has = ArpToSend::who_has(web.v4, client.ipv4(), client.mac());
        client.inject(&who_has.to(*mac).bytes()).unwrap();
        let solicitation = Solicitation {
            to: Some(*mac),
            mac: client.mac(),
            sender: client.ipv6(),
            target: web.v6,
        };
        client.inject(&solicitation.bytes()).unwrap();
    }
    never(
        "a second voice",
        SOON,
        async || {
            // They have heard it: their kernels answer for their own addresses, asked later.
            for node in &cluster.netlab.nodes {
                cluster.answered(node.ipv4()).await;
                cluster.answered(node.ipv6()).await;
            }
            true
        },
        async || {
            let claims = web
                .both()
                .map(|address| cluster.claims(address, start))
                .concat();
            claims
                .iter()
                .find(|claim| macs.contains(&claim.mac) || macs.contains(&claim.source))
                .map(|claim| format!("{claim:?}"))
        },
    )
    .await;
}

// --- the bytes, written out from l2.md section 6 ------------------------------------------------

fn arp(
    to: &[u8; 6],
    from: Mac,
    operation: u8,
    sender: (Mac, Ipv4Addr),
    target: (Option<Mac>, Ipv4Addr),
) -> Vec<u8> {
    [
        to.as_slice(),
        &from.0,
        &[
            0x08, 0x06, 0x00, 0x01, 0x08, 0x00, 0x06, 0x04, 0x00, operation,
        ],
        &sender.0.0,
        &sender.1.octets(),
        &target.0.map_or([0; 6], |mac| mac.0),
        &target.1.octets(),
    ]
    .concat()
}

/// To everybody, from the address itself: O=1, S=0, R=0.
fn advertisement(own: Mac, address: Ipv6Addr) -> Vec<u8> {
    advertisement_with(own, address, [0x33, 0x33, 0, 0, 0, 1], ALL_NODES, 0x20)
}

/// To who has asked: S=1, R=0. O=0, so that a late answer does not take the address back.
fn solicited(own: Mac, address: Ipv6Addr, asker: Mac, to: Ipv6Addr) -> Vec<u8> {
    advertisement_with(own, address, asker.0, to, 0x40)
}

fn advertisement_with(
    own: Mac,
    address: Ipv6Addr,
    to_mac: [u8; 6],
    to: Ipv6Addr,
    flags: u8,
) -> Vec<u8> {
    let message = [
        [136, 0, 0, 0, flags, 0, 0, 0].as_slice(),
        &address.octets(),
        &[2, 1],
        &own.0,
    ]
    .concat();
    ndp(own, to_mac, address, to, message)
}

/// The router is asked by the address itself, and so learns where that is.
fn prime(own: Mac, address: Ipv6Addr) -> Vec<u8> {
    let message = [
        [135, 0, 0, 0, 0, 0, 0, 0].as_slice(),
        &Netlab::GATEWAY_V6.octets(),
        &[1, 1],
        &own.0,
    ]
    .concat();
    let group = solicited_node(Netlab::GATEWAY_V6);
    let [.., a, b, c] = group.octets();
    ndp(own, [0x33, 0x33, 0xff, a, b, c], address, group, message)
}

fn ndp(
    from: Mac,
    to_mac: [u8; 6],
    source: Ipv6Addr,
    to: Ipv6Addr,
    mut message: Vec<u8>,
) -> Vec<u8> {
    let sum = icmpv6_checksum(source, to, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let hop_limit = 255;
    [
        to_mac.as_slice(),
        &from.0,
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, hop_limit],
        &source.octets(),
        &to.octets(),
        &message,
    ]
    .concat()
}
