//! The steps to a VLAN interface and its return paths, as data.

use std::fmt;
use std::net::Ipv6Addr;

use mooring_common::engine::{self, Impact};

use super::nft::NftRule;
use super::observe::{Route, Rule};
use super::sysctl::Ipv6Settings;
use crate::wire::links::{Ipv4Settings, Vlan};

/// IPv4 settings of every VLAN interface of ours.
///
/// A source is right if any interface leads to it, for answers to clients leave by rules that the
/// filter does not see; the address of another interface is not answered for.
pub const IPV4: Ipv4Settings = Ipv4Settings {
    forwarding: 1,
    rp_filter: 2,
    arp_ignore: 1,
    arp_announce: 2,
    src_valid_mark: 1,
};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make an interface, down, and mark it as ours.
    Create {
        /// Where.
        vlan: Vlan,
        /// Its name.
        name: String,
        /// Its MTU in bytes.
        mtu: u32,
    },
    /// Put our mark on it again.
    Mark(Device),
    /// Change its MTU.
    SetMtu(Device, u32),
    /// Set [`IPV4`].
    SetIpv4(Device),
    /// Set these.
    SetIpv6(Device, Ipv6Settings),
    /// Set it up.
    SetUp(Device),
    /// Give it the link-local address that the kernel would.
    AddLinkLocal(Device, Ipv6Addr),
    /// Delete it.
    Delete(Device),
    /// Add a route.
    AddRoute(Device, Route),
    /// Delete a route.
    DeleteRoute(Route),
    /// Add a rule.
    AddRule(Rule),
    /// Delete a rule.
    DeleteRule(Rule),
    /// Replace the nftables table by one with these rules.
    ReplaceTable(Vec<NftRule>),
    /// Delete the nftables table.
    DeleteTable,
}

/// An interface that a step is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Which VLAN it is.
    pub vlan: Vlan,
    /// The kernel's number.
    pub index: u32,
    /// Its name.
    pub name: String,
}

/// What a step brings about, so that it can be told whether it was there before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// The VLAN it belongs to, if it is gone with the VLAN's interface.
    pub vlan: Option<Vlan>,
    /// What it is: a label of the metric.
    pub what: &'static str,
    /// Which of them.
    pub which: String,
}

impl Step {
    /// What it brings about; `None` if it takes something away.
    #[must_use]
    pub fn subject(&self) -> Option<Subject> {
        let of = |vlan: Option<Vlan>, what, which: String| Some(Subject { vlan, what, which });
        let device = |device: &Device, what| of(Some(device.vlan), what, String::new());
        match self {
            Self::Create { vlan, .. } => of(Some(*vlan), "device", String::new()),
            Self::Mark(of) => device(of, "alias"),
            Self::SetMtu(of, _) => device(of, "mtu"),
            Self::SetIpv4(of) => device(of, "settings"),
            Self::SetIpv6(of, _) => device(of, "settings"),
            Self::SetUp(of) => device(of, "state"),
            Self::AddLinkLocal(of, _) => device(of, "address"),
            Self::AddRoute(device, route) => of(
                Some(device.vlan),
                "route",
                format!("{} {}", route.table, route.destination),
            ),
            Self::AddRule(rule) => of(
                None,
                "rule",
                format!("{} {} {}", rule.v6, rule.mark, rule.priority),
            ),
            Self::ReplaceTable(_) => of(None, "table", String::new()),
            Self::Delete(_) | Self::DeleteRoute(_) | Self::DeleteRule(_) | Self::DeleteTable => {
                None
            }
        }
    }
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::SetMtu(..) | Self::DeleteRoute(_) | Self::DeleteRule(_) | Self::DeleteTable => {
                Impact::Brief
            }
            Self::Delete(_) => Impact::Considerable,
            _ => Impact::None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { vlan, name, mtu } => write!(
                f,
                "make {name}, VLAN {} on interface number {}, MTU {mtu}",
                vlan.id, vlan.parent
            ),
            Self::Mark(device) => write!(f, "mark {} as Mooring's", device.name),
            Self::SetMtu(device, mtu) => write!(f, "set the MTU of {} to {mtu}", device.name),
            Self::SetIpv4(device) => write!(f, "set the IPv4 settings of {}", device.name),
            Self::SetIpv6(device, _) => write!(f, "set the IPv6 settings of {}", device.name),
            Self::SetUp(device) => write!(f, "set {} up", device.name),
            Self::AddLinkLocal(device, address) => write!(f, "add {address} to {}", device.name),
            Self::Delete(device) => write!(f, "delete {}", device.name),
            Self::AddRoute(device, route) => {
                write!(f, "add a route to {} by {}", route.destination, device.name)?;
                match route.router {
                    Some(router) => write!(f, " and {router}, in table {}", route.table),
                    None => write!(f, ", in table {}", route.table),
                }
            }
            Self::DeleteRoute(route) => {
                write!(
                    f,
                    "delete the route to {} in table {}",
                    route.destination, route.table
                )
            }
            Self::AddRule(rule) => {
                match &rule.comes_in_by {
                    Some(device) => write!(f, "send what comes in by {device}")?,
                    None => f.write_str("send packets")?,
                }
                write!(f, " with mark {:#x} to table {}", rule.mark, rule.table)
            }
            Self::DeleteRule(rule) => write!(f, "delete the rule for mark {:#x}", rule.mark),
            Self::ReplaceTable(rules) => {
                write!(
                    f,
                    "make the nftables table anew, with {} rules",
                    rules.len()
                )
            }
            Self::DeleteTable => f.write_str("delete the nftables table"),
        }
    }
}
