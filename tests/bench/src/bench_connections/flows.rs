//! How long it takes to read many connections from conntrack, and to write them into the table: that is done
//! before an address is taken back.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mooring_node::announce::forwarding::attributes::Attributes;
use mooring_node::announce::forwarding::table::{Flow, Group, Table};
use mooring_node::announce::forwarding::{conntrack, keeper, messages};
use mooring_node::protocol::mac::Mac;
use mooring_node::vlan::nft;
use mooring_test_netlab::netlab::Host;

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_NEW`
const NEW: u16 = 1 << 8;
/// `NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL`
const CREATE: u16 = 0x601;
const NLM_F_ACK: u16 = 4;
/// `IPS_SEEN_REPLY | IPS_ASSURED | IPS_CONFIRMED`: the last is set by then, and not to be changed.
const STATUS: u32 = 14;
/// `TCP_CONNTRACK_ESTABLISHED`
const ESTABLISHED: u8 = 3;
/// As many at once fit a socket.
const AT_ONCE: usize = 500;
/// Seconds that they stay.
const TIMEOUT: u32 = 600;

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Flows {
    /// How many connections there were.
    pub count: usize,
    /// How long it took to read them.
    pub read: Duration,
    /// How long it took to write them.
    pub written: Duration,
    /// How much memory the kernel had less afterwards, in KiB, about.
    pub memory: u64,
}

/// Makes so many entries in the connection tracking of a host without a daemon, and measures there.
pub(super) fn measure(host: &Host, count: usize) -> Result<Flows> {
    host.inside(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(measure_here(count))
    })
}

async fn measure_here(count: usize) -> Result<Flows> {
    let all: Vec<u32> = (0..u32::try_from(count)?).collect();
    for numbers in all.chunks(AT_ONCE) {
        let mut bytes = Vec::new();
        for (place, number) in numbers.iter().enumerate() {
            let is_last = place + 1 == numbers.len();
            write_entry(&mut bytes, *number, u32::try_from(place)? + 1, is_last)?;
        }
        nft::transact(bytes, u32::try_from(numbers.len())?).await?;
    }
    let start = Instant::now();
    let flows: BTreeSet<Flow> = keeper::flows(|_| true).await?.into_iter().collect();
    let read = start.elapsed();
    ensure!(
        flows.len() >= count,
        "conntrack tells of {} connections, not of {count}",
        flows.len()
    );
    let before = slab()?;
    let start = Instant::now();
    let transactions = messages::replace(&Table::default(), &table(), &flows, true);
    keeper::write_all(transactions).await?;
    let written = start.elapsed();
    let memory = slab()?.saturating_sub(before);
    keeper::clean_up().await?;
    Ok(Flows {
        count,
        read,
        written,
        memory,
    })
}

/// What the kernel has allocated for its own objects, in KiB.
fn slab() -> Result<u64> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix("Slab:"));
    let number = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok());
    number.context("/proc/meminfo has no Slab")
}

const SERVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);

fn table() -> Table {
    let own = Mac::new([2, 0, 0, 0, 0, 1]);
    let left = Duration::from_secs(60);
    Table {
        groups: vec![Group {
            device: "eth0".to_owned(),
            own,
            former: Mac::new([2, 0, 0, 0, 0, 2]),
            never_from: [own].into(),
            learns: false,
            addresses: [(SERVICE.into(), left)].into(),
        }],
        known_for: Duration::from_secs(900),
    }
}

/// A message that makes a connection known, with a client of its own.
fn write_entry(bytes: &mut Vec<u8>, number: u32, sequence: u32, is_answered: bool) -> Result<()> {
    let client = Ipv4Addr::from(0x0a64_0000 + number / 50_000);
    let port = u16::try_from(1_024 + number % 50_000)?;
    let tuple = |(from, from_port): (Ipv4Addr, u16), (to, to_port): (Ipv4Addr, u16)| {
        let addresses = Attributes::default()
            .bytes(1, &from.octets())
            .bytes(2, &to.octets());
        let ports = Attributes::default()
            .bytes(1, &[conntrack::TCP])
            .bytes(2, &from_port.to_be_bytes())
            .bytes(3, &to_port.to_be_bytes());
        Attributes::default()
            .nested(1, &addresses)
            .nested(2, &ports)
    };
    let (here, there) = ((client, port), (SERVICE, 80));
    let state = Attributes::default().bytes(1, &[ESTABLISHED]);
    let attributes = Attributes::default()
        .nested(1, &tuple(here, there))
        .nested(2, &tuple(there, here))
        .number(3, STATUS)
        .nested(4, &Attributes::default().nested(1, &state))
        .number(7, TIMEOUT);
    let length = u32::try_from(20 + attributes.len())?;
    let flags = if is_answered {
        CREATE | NLM_F_ACK
    } else {
        CREATE
    };
    bytes.extend(length.to_ne_bytes());
    bytes.extend(NEW.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend([0; 4]);
    // `struct nfgenmsg`: AF_INET.
    bytes.extend([2, 0, 0, 0]);
    bytes.extend(attributes.as_bytes());
    Ok(())
}
