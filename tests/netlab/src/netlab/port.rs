//! A host's place on the switch, and what can go wrong there without the host's knowing.
//!
//! All of it happens in the kernel, on the switch's side of the cable: rules of nftables before a
//! frame is bridged (from the host) and after (to the host).

use std::time::Duration;

use anyhow::{Context, Result};

use super::filters::{HEARTBEAT, HEARTBEAT_PORT};
use super::host::Host;
use super::{Mac, ip, run};

/// A direction, seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What the host sends.
    Sends,
    /// What the host would receive.
    Receives,
}

/// The path of heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatPath {
    /// Frames of their own type.
    Segment,
    /// Datagrams to this UDP port.
    NodeNetwork(u16),
}

impl HeartbeatPath {
    /// Drops all heartbeats of the path that come from these hosts, at the same moment, and nothing else.
    ///
    /// # Errors
    /// If a rule cannot be set.
    pub fn lose(self, ports: &[Port]) -> Result<()> {
        let rule = match self {
            Self::Segment => format!("meta protocol {HEARTBEAT:#06x} drop"),
            Self::NodeNetwork(port) => format!("udp dport {port} drop"),
        };
        let scripts = ports
            .iter()
            .map(|port| port.script(Direction::Sends, &rule));
        nft(&scripts.collect::<String>()).with_context(|| format!("a rule at all ports: {rule}"))
    }
}

/// The switch's end of a cable.
#[derive(Clone, Debug)]
pub struct Port(pub(super) String);

impl Host {
    /// The switch's end of the host's eth0.
    pub fn port(&self) -> Port {
        Port(format!("p-{}", self.name()))
    }
}

impl Port {
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Pulls the cable: the host sees its link go down.
    pub fn pull(&self) -> Result<()> {
        ip(&format!("link set {} down", self.0)).map(drop)
    }

    /// Plugs it in again.
    pub fn plug(&self) -> Result<()> {
        ip(&format!("link set {} up", self.0)).map(drop)
    }

    /// Drops all that the host sends, or would receive. Its link stays up.
    pub fn lose_all(&self, direction: Direction) -> Result<()> {
        self.rule(direction, "drop")
    }

    /// Drops what the host would receive from another one, and nothing else.
    pub fn lose_of(&self, other: Mac) -> Result<()> {
        self.rule(Direction::Receives, &format!("ether saddr {other} drop"))
    }

    /// Drops so many of a hundred heartbeats, at random, whatever path they take.
    pub fn lose_heartbeats(&self, direction: Direction, percent: u32) -> Result<()> {
        let chance = chance(percent);
        self.rule(
            direction,
            &format!("meta protocol {HEARTBEAT:#06x} {chance}"),
        )?;
        self.rule(direction, &format!("udp dport {HEARTBEAT_PORT} {chance}"))
    }

    /// Drops so many of a hundred frames of any kind, at random.
    pub fn lose_some(&self, direction: Direction, percent: u32) -> Result<()> {
        self.rule(direction, &chance(percent))
    }

    /// Adds a rule of nftables for frames in this direction.
    pub(super) fn rule(&self, direction: Direction, rule: &str) -> Result<()> {
        let script = self.script(direction, rule);
        nft(&script).with_context(|| format!("a rule at {}: {rule}", self.0))
    }

    fn script(&self, direction: Direction, rule: &str) -> String {
        let (table, port) = (self.table(), &self.0);
        let (chain, hook) = match direction {
            Direction::Sends => ("sends", "ingress"),
            Direction::Receives => ("receives", "egress"),
        };
        format!(
            "add table netdev {table}\n\
             add chain netdev {table} {chain} {{ type filter hook {hook} device {port} priority 0; }}\n\
             add rule netdev {table} {chain} {rule}\n"
        )
    }

    /// Ends everything that [`Self::lose_all`] and its like have begun.
    pub fn mend(&self) -> Result<()> {
        let table = self.table();
        // Adding what is there already is no error: so that deleting is none either.
        nft(&format!(
            "add table netdev {table}\ndelete table netdev {table}\n"
        ))
    }

    /// The hardware address at the other end.
    pub(super) fn host_mac(&self) -> Result<Mac> {
        // Both of them end in the host's number, and so does no other entry of this port.
        let table = run("bridge", &["fdb", "show", "dev", &self.0])?;
        let learned = table.lines().filter(|line| !line.contains("permanent"));
        let macs = learned.filter_map(|line| line.split(' ').next()?.parse().ok());
        let ours = |mac: &Mac| mac.0[..4] == [0x02, 0x4d, 0x6f, 0x6f];
        macs.into_iter()
            .find(ours)
            .with_context(|| format!("nobody has been heard at {}", self.0))
    }

    /// Whether the switch knows where the host with this address is: behind this port.
    pub fn has_learned(&self, mac: Mac) -> Result<bool> {
        let table = run("bridge", &["fdb", "show", "dev", &self.0])?;
        let mac = mac.to_string();
        Ok(table
            .lines()
            .any(|line| line.starts_with(&mac) && !line.contains("permanent")))
    }

    fn table(&self) -> String {
        format!("at_{}", self.0.replace('-', "_"))
    }
}

/// What drops so many of a hundred.
fn chance(percent: u32) -> String {
    match percent {
        100.. => "drop".to_owned(),
        _ => format!("numgen random mod 100 < {percent} drop"),
    }
}

fn nft(script: &str) -> Result<()> {
    run("nft", &[script]).map(drop)
}

/// After how long the switch forgets where a host is.
pub(super) fn forget_after(bridge: &str, age: Duration) -> Result<()> {
    let hundredths = age.as_millis() / 10;
    ip(&format!(
        "link set {bridge} type bridge ageing_time {hundredths}"
    ))
    .map(drop)
}
