//! What keeps connections with their node, in a network namespace of its own: the kernel is the judge.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use mooring_node::announce::forwarding::conntrack;
use mooring_node::announce::forwarding::keeper::{self, Command, Keeper, Outcome};
use mooring_node::announce::forwarding::messages;
use mooring_node::announce::forwarding::saved::Saved;
use mooring_node::announce::forwarding::state::Device;
use mooring_node::announce::forwarding::table::{Flow, MOST_FLOWS};
use mooring_node::protocol::mac::Mac;
use mooring_node::protocol::{Awaited, NodeId};
use mooring_node::responder::ConnectionReport;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::netns::{in_netns, sh};

const FORMER: NodeId = NodeId(7);
const NEXT: NodeId = NodeId(8);
const OWN: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
/// The interfaces and segments have the same names.
const FIRST: &str = "n1";
const SECOND: &str = "n2";

fn mac(node: NodeId) -> Mac {
    let number = u8::try_from(node.0).unwrap();
    Mac::new([2, 0, 0, 0, 1, number])
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A keeper of a process, and what it says.
struct Process {
    keeper: Keeper,
    outcomes: mpsc::Receiver<Outcome>,
    work: JoinHandle<()>,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let (keeper, outcomes, work) = Keeper::new(folder.to_owned());
        let work = tokio::spawn(work);
        Self {
            keeper,
            outcomes,
            work,
        }
    }

    fn configure(&self, segments: &[&str]) {
        let of = |name: &&str| {
            let device = Device {
                name: (*name).to_owned(),
                mac: OWN,
            };
            let keep_for = Duration::from_secs(900);
            ((*name).to_owned(), (Some(device), keep_for))
        };
        let segments: BTreeMap<_, _> = segments.iter().map(of).collect();
        self.keeper.tell(Command::Configure(segments));
    }

    fn members(&self, segment: &str) {
        let members = [FORMER, NEXT].map(|node| (node, mac(node)));
        let members = Command::Members(segment.to_owned(), members.into());
        self.keeper.tell(members);
    }

    fn report(&self, segment: &str, report: ConnectionReport) {
        let report = Command::Report(segment.to_owned(), report);
        self.keeper.tell(report);
    }

    /// The next answer of whether something is prepared, and for what.
    async fn prepared(&mut self) -> (Awaited, Vec<IpAddr>, bool) {
        loop {
            let outcome = self.outcomes.recv().await.unwrap();
            if let Outcome::Prepared(_, awaited, addresses, is_done) = outcome {
                return (awaited, addresses, is_done);
            }
        }
    }

    /// Is offered an address.
    async fn offer(&mut self, segment: &str, address: IpAddr) -> bool {
        let former = FORMER;
        self.report(segment, ConnectionReport::Offered { address, former });
        let (awaited, addresses, is_done) = self.prepared().await;
        assert_eq!(
            (awaited, addresses),
            (Awaited::Offer(former), vec![address])
        );
        is_done
    }

    /// Takes an address that is offered.
    async fn take(&mut self, segment: &str, address: IpAddr) {
        assert!(self.offer(segment, address).await);
        let began = ConnectionReport::Began {
            address,
            former: Some(FORMER),
            is_announced: true,
        };
        self.report(segment, began);
    }

    /// Ends as for a successor.
    async fn end(self) {
        self.keeper.saved().await;
        drop(self.keeper);
        self.work.await.unwrap();
    }
}

fn with_kernel(test: &str, body: impl AsyncFnOnce(&Path)) {
    in_netns(test, || {
        for name in [FIRST, SECOND] {
            sh(&format!("ip link add {name} type veth peer name {name}-b"));
            sh(&format!("ip link set {name} up"));
        }
        sh("ip link set lo up");
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(body(folder.path()));
    });
}

fn table() -> String {
    sh("nft list table netdev mooring")
}

/// A segment of which the process after this one does not know yet, or that is gone, holds up no other.
#[test]
fn a_segment_that_is_not_known_yet_holds_up_no_other() {
    with_kernel(
        "a_segment_that_is_not_known_yet_holds_up_no_other",
        async |folder| {
            let (one, other) = (ip("192.0.2.100"), ip("192.0.2.101"));
            let mut process = Process::start(folder);
            process.configure(&[FIRST, SECOND]);
            for (segment, address) in [(FIRST, one), (SECOND, other)] {
                process.members(segment);
                process.take(segment, address).await;
            }
            process.end().await;
            let before = table();
            assert!(before.contains("192.0.2.100") && before.contains("192.0.2.101"));

            let mut process = Process::start(folder);
            process.configure(&[SECOND]);
            process.members(SECOND);
            let handing_on = ConnectionReport::HandingOn {
                address: other,
                to: NEXT,
            };
            process.report(SECOND, handing_on);
            let (awaited, _, is_done) = process.prepared().await;
            assert_eq!((awaited, is_done), (Awaited::HandOver(NEXT), true));
            let lets_through = |table: &str| {
                let sets = table.split("set ").filter(|set| set.starts_with("m_"));
                sets.filter(|set| !set.contains(&mac(NEXT).to_string()))
                    .count()
            };
            let now = table();
            assert_eq!((lets_through(&before), lets_through(&now)), (0, 1), "{now}");
            assert!(now.contains("192.0.2.100"), "it is still passed on: {now}");

            // Nor does one whose interface is gone.
            sh(&format!("ip link del {FIRST}"));
            assert!(process.offer(SECOND, ip("192.0.2.102")).await);
            assert!(!table().contains("192.0.2.100"));
        },
    );
}

#[test]
fn whatever_was_told_before_the_end_is_on_disk() {
    with_kernel(
        "whatever_was_told_before_the_end_is_on_disk",
        async |folder| {
            let address = ip("192.0.2.100");
            let process = Process::start(folder);
            process.configure(&[FIRST]);
            process.members(FIRST);
            let former = FORMER;
            process.report(FIRST, ConnectionReport::Offered { address, former });
            process.keeper.saved().await;
            let saved = Saved::read(folder);
            let pointed: Vec<IpAddr> = saved.segments[FIRST].pointed().collect();
            assert_eq!(pointed, [address]);
        },
    );
}

/// A connection to an address of this machine, as conntrack knows it.
async fn a_connection_to(address: IpAddr) -> (TcpStream, TcpStream) {
    sh(&format!("ip addr add {address}/32 dev lo"));
    sh("nft add table ip tracked");
    sh("nft add chain ip tracked in { type filter hook input priority 0; }");
    sh("nft add rule ip tracked in ct state established counter");
    let listener = TcpListener::bind((address, 80)).unwrap();
    let client = TcpStream::connect((address, 80)).unwrap();
    let (server, _) = listener.accept().unwrap();
    let known = keeper::flows(|flow| flow.destination == address).await;
    assert_eq!(known.unwrap().len(), 1);
    (client, server)
}

/// A flood of connections has filled what the kernel knows as this node's own, and another address is offered.
#[test]
fn an_offer_for_which_there_is_no_room_costs_no_other_connection() {
    with_kernel(
        "an_offer_for_which_there_is_no_room_costs_no_other_connection",
        async |folder| {
            let (one, other) = (ip("192.0.2.100"), ip("192.0.2.101"));
            let mut process = Process::start(folder);
            process.configure(&[FIRST]);
            process.members(FIRST);
            process.take(FIRST, one).await;
            process.keeper.saved().await;

            let flow = |number: u32| Flow {
                source: IpAddr::from((0x0a00_0000 + number).to_be_bytes()),
                destination: one,
                protocol: conntrack::TCP,
                source_port: 4242,
                destination_port: 80,
            };
            let flood: BTreeSet<Flow> = (0..MOST_FLOWS).map(flow).collect();
            let written = Saved::read(folder).written;
            let flood = messages::replace(&written, &written, &flood, false);
            keeper::write_all(flood).await.unwrap();

            let _connection = a_connection_to(other).await;
            assert!(!process.offer(FIRST, other).await, "there is no room");
            // Whatever would be written anew is written when this is answered.
            process.report(FIRST, ConnectionReport::Announced(one));
            process.keeper.saved().await;
            process.keeper.saved().await;
            let table = table();
            assert!(table.contains("10.0.0.1 . 192.0.2.100 . tcp . 4242 . 80"));
            assert!(!table.contains("192.0.2.101"));
        },
    );
}
