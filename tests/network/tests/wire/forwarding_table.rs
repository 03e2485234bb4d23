//! The table that passes connections on, in a network namespace of its own: the kernel is the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use mooring_node::announce::forwarding::messages::{self, Transaction};
use mooring_node::announce::forwarding::table::{Flow, Group, Table};
use mooring_node::announce::forwarding::{conntrack, keeper};
use mooring_node::protocol::mac::Mac;

use super::netns::{in_netns, sh};

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
    sh("ip link add n1 type veth peer name n1-b");
    sh("ip link set n1 up");
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
