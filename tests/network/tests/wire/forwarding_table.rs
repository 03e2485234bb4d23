//! The table that passes connections on, in a network namespace of its own: the kernel is the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

use mooring_node::announce::forwarding::messages::{self, Transaction};
use mooring_node::announce::forwarding::table::{Flow, Group, MOST_FLOWS, Table};
use mooring_node::announce::forwarding::{conntrack, keeper};
use mooring_node::protocol::mac::Mac;
use mooring_test_netlab::netlab::raw;

use super::netns::{eventually, in_netns, sh};

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn table(addresses: &[&str]) -> Table {
    let (own, former) = (Mac::new([2, 0, 0, 0, 0, 1]), Mac::new([2, 0, 0, 0, 0, 2]));
    let left = Duration::from_secs(60);
    let addresses: BTreeMap<_, _> = addresses.iter().map(|text| (ip(text), left)).collect();
    Table {
        groups: vec![Group {
            device: "n1".to_owned(),
            own,
            former,
            never_from: [own, former].into(),
            learns: true,
            addresses,
        }],
        known_for: Duration::from_secs(900),
    }
}

fn flow() -> Flow {
    Flow {
        source: ip("192.0.2.9"),
        destination: ip("192.0.2.100"),
        protocol: conntrack::TCP,
        source_port: 4242,
        destination_port: 80,
    }
}

async fn write(transactions: Vec<Transaction>) {
    keeper::write_all(transactions).await.unwrap();
}

fn on_segment(body: impl Future<Output = ()>) {
    // Its kernel is to send nothing by itself.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    sh("ip link add n1 type veth peer name n1-b");
    sh("ip link set n1 up");
    sh("ip link set n1-b up");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(body);
}

#[test]
fn flows_stay_when_the_table_is_written_anew() {
    in_netns("flows_stay_when_the_table_is_written_anew", || {
        on_segment(async {
            let nothing = Table::default();
            let first = table(&["192.0.2.100", "2001:db8::100"]);
            let own = BTreeSet::from([flow()]);
            write(messages::replace(&nothing, &first, &own, true)).await;
            let own = sh("nft list set netdev mooring own4");
            assert!(
                own.contains("192.0.2.9 . 192.0.2.100 . tcp . 4242 . 80"),
                "{own}"
            );

            let second = table(&["192.0.2.101"]);
            write(messages::replace(&first, &second, &BTreeSet::new(), false)).await;
            let own = sh("nft list set netdev mooring own4");
            assert!(own.contains("4242"), "{own}");
            let passed = sh("nft list set netdev mooring a4_0");
            assert!(passed.contains("192.0.2.101"), "{passed}");
            assert!(!passed.contains("192.0.2.100"), "{passed}");
        });
    });
}

#[test]
fn clean_up_leaves_nothing_and_needs_nothing() {
    in_netns("clean_up_leaves_nothing_and_needs_nothing", || {
        on_segment(async {
            keeper::clean_up().await.unwrap();
            let nothing = Table::default();
            let some = table(&["192.0.2.100"]);
            write(messages::replace(&nothing, &some, &BTreeSet::new(), true)).await;
            assert!(sh("nft list tables").contains("netdev mooring"));
            keeper::clean_up().await.unwrap();
            assert!(!sh("nft list tables").contains("mooring"));
        });
    });
}

/// The port that all of them use.
const PORT: u16 = 40_000;

/// The address of a client.
fn address_of(number: u32) -> [u8; 4] {
    (0x0a00_0000 + number).to_be_bytes()
}

/// What a client of this number sends to 192.0.2.100, port 80; `rest` follows the ports.
fn packet(client: u32, protocol: u8, rest: &[u8]) -> Vec<u8> {
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    let source = address_of(client);
    let length = u8::try_from(24 + rest.len()).unwrap();
    let ip = [0x45, 0, 0, length, 0, 0, 0x40, 0, 64, protocol, 0, 0];
    let [high, low] = PORT.to_be_bytes();
    let ports = [high, low, 0, 80];
    let parts: [&[u8]; 6] = [&ethernet, &ip, &source, &[192, 0, 2, 100], &ports, rest];
    parts.concat()
}

/// A segment of the connection of a client of this number.
fn segment(client: u32, flags: u8) -> Vec<u8> {
    let tcp = [0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    packet(client, conntrack::TCP, &tcp)
}

/// An empty datagram of the flow of a client of this number, without a checksum.
fn datagram(client: u32) -> Vec<u8> {
    packet(client, conntrack::UDP, &[0, 8, 0, 0])
}

/// How many frames have left by the interface: what is passed on, and nothing else, since it has no address. A
/// list of the chain, which has a counter, would take seconds with so many elements.
fn passed_on() -> u32 {
    let link = sh("ip -s link show n1");
    let mut lines = link.lines();
    lines.find(|line| line.trim_start().starts_with("TX:"));
    let mut numbers = lines.next().unwrap().split_whitespace();
    numbers.nth(1).unwrap().parse().unwrap()
}

/// At first every flow that is not this node's own goes to the former speaker, new ones too; later only those that did.
#[test]
fn udp_flows_go_where_they_went_while_the_table_learned() {
    in_netns(
        "udp_flows_go_where_they_went_while_the_table_learned",
        || {
            on_segment(async {
                const OWN: u32 = 1;
                const EARLY: u32 = 2;
                const LATE: u32 = 3;
                let nothing = Table::default();
                let learning = table(&["192.0.2.100"]);
                let mut learned = learning.clone();
                learned.groups[0].learns = false;
                let own = Flow {
                    source: IpAddr::from(address_of(OWN)),
                    protocol: conntrack::UDP,
                    source_port: PORT,
                    ..flow()
                };
                let mut sender = raw::sender("n1-b").unwrap();
                let mut send = |client| sender.write_all(&datagram(client)).unwrap();
                // The last one is passed on each time, so that all before it have been looked at.
                let passed = |least: u32| {
                    eventually("the last one is passed on", || {
                        Some(passed_on()).filter(|passed| *passed >= least)
                    })
                };
                write(messages::replace(&nothing, &learning, &[own].into(), true)).await;
                [OWN, EARLY].into_iter().for_each(&mut send);
                assert_eq!(passed(1), 1);

                write(messages::replace(
                    &learning,
                    &learned,
                    &BTreeSet::new(),
                    false,
                ))
                .await;
                [OWN, LATE, EARLY].into_iter().for_each(&mut send);
                assert_eq!(passed(2), 2);
                let old = sh("nft list set netdev mooring old4");
                let has = |client| old.contains(&IpAddr::from(address_of(client)).to_string());
                assert_eq!([OWN, EARLY, LATE].map(has), [false, true, false], "{old}");
            });
        },
    );
}

#[test]
fn a_flood_of_new_connections_fills_no_memory_and_tears_none() {
    in_netns(
        "a_flood_of_new_connections_fills_no_memory_and_tears_none",
        || {
            on_segment(async {
                // All but so many are known already.
                const LEFT: u32 = 1000;
                let known = (0..MOST_FLOWS - LEFT).map(|client| Flow {
                    source: IpAddr::from(address_of(client)),
                    source_port: PORT,
                    ..flow()
                });
                let first = table(&["192.0.2.100"]);
                let nothing = Table::default();
                write(messages::replace(&nothing, &first, &known.collect(), true)).await;
                let mut sender = raw::sender("n1-b").unwrap();
                let mut send = |client, flags| sender.write_all(&segment(client, flags)).unwrap();
                let mut sent = 0;
                // The kernel may drop some of them before it looks.
                while passed_on() == 0 {
                    assert!(sent < 10 * LEFT, "{sent} more are noted");
                    (sent..sent + LEFT).for_each(|client| send(MOST_FLOWS + client, SYN));
                    sent += LEFT;
                }
                let noted = sent - passed_on();
                assert!(noted <= LEFT, "{noted} of {sent} are noted");

                // What is noted is served here; what is not goes to the former speaker from its SYN on.
                let before = passed_on();
                send(1, ACK);
                send(MOST_FLOWS, ACK);
                send(MOST_FLOWS + sent, SYN);
                send(MOST_FLOWS + sent, ACK);
                let all = eventually("both segments are passed on", || {
                    Some(passed_on()).filter(|passed| *passed >= before + 2)
                });
                assert_eq!(all, before + 2);
            });
        },
    );
}
