//! What this machine has: interfaces, the routes and rules of ours, the nftables table.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use futures::TryStreamExt;
use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion, RouteMessageBuilder};

use super::PROTOCOL;
use super::nft::{self, Firewall};
use super::sysctl::{self, Ipv6Settings};
use crate::wire::links::{self, Link};

/// Everything that is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// All interfaces.
    pub links: Vec<Link>,
    /// IPv6 settings of VLAN interfaces, by number.
    pub ipv6: BTreeMap<u32, Ipv6Settings>,
    /// Routes with our protocol.
    pub routes: Vec<Route>,
    /// Rules with our protocol.
    pub rules: Vec<Rule>,
    /// The nftables table.
    pub firewall: Firewall,
}

/// A route to a router, or to the subnet that is reached without one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The routing table.
    pub table: u32,
    /// What it leads to.
    pub destination: IpNet,
    /// The router.
    pub router: Option<IpAddr>,
    /// The interface's number.
    pub device: u32,
}

/// A rule that sends packets with a mark to a routing table; if it names an interface, only those that
/// come in by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Whether it is one for IPv6.
    pub v6: bool,
    /// The mark.
    pub mark: u32,
    /// The bits of the mark that count.
    pub mask: u32,
    /// The routing table.
    pub table: u32,
    /// Its place among the rules.
    pub priority: u32,
    /// The interface's name.
    pub comes_in_by: Option<String>,
}

/// Why the machine could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The kernel refused.
    #[error("the kernel refused to list interfaces, routes or rules")]
    Refused(#[from] rtnetlink::Error),
    /// nftables did not answer as it should.
    #[error("cannot read the nftables table")]
    Nft(#[from] nft::NftError),
}

/// Looks at everything.
///
/// # Errors
/// [`ObserveError`].
pub async fn observe(handle: &Handle, proc_sys_net: &Path) -> Result<Observed, ObserveError> {
    let links = links::read(handle).await?;
    let vlans = links.iter().filter(|link| link.stack.vlan.is_some());
    let ipv6 = vlans
        .filter_map(|link| Some((link.index, sysctl::read(proc_sys_net, &link.name)?)))
        .collect();
    Ok(Observed {
        links,
        ipv6,
        routes: routes(handle).await?,
        rules: rules(handle).await?,
        firewall: nft::observe().await?,
    })
}

async fn routes(handle: &Handle) -> Result<Vec<Route>, rtnetlink::Error> {
    let mut found = Vec::new();
    for request in [
        RouteMessageBuilder::<Ipv4Addr>::new().build(),
        RouteMessageBuilder::<Ipv6Addr>::new().build(),
    ] {
        let mut messages = handle.route().get(request).execute();
        while let Some(message) = messages.try_next().await? {
            found.extend(route(&message));
        }
    }
    Ok(found)
}

/// Reads a route, if it is ours.
pub(super) fn route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.protocol != RouteProtocol::Other(PROTOCOL) {
        return None;
    }
    let mut table = header.table.into();
    let mut device = None;
    let mut router = None;
    let mut destination = match header.address_family {
        AddressFamily::Inet6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        _ => IpAddr::from(Ipv4Addr::UNSPECIFIED),
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::Gateway(address) => router = ip(address),
            RouteAttribute::Destination(address) => destination = ip(address)?,
            _ => {}
        }
    }
    Some(Route {
        table,
        destination: IpNet::new(destination, header.destination_prefix_length).ok()?,
        router,
        device: device?,
    })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

async fn rules(handle: &Handle) -> Result<Vec<Rule>, rtnetlink::Error> {
    let mut found = Vec::new();
    for version in [IpVersion::V4, IpVersion::V6] {
        let mut messages = handle.rule().get(version).execute();
        loop {
            match messages.try_next().await {
                Ok(Some(message)) => found.extend(rule(&message)),
                Ok(None) => break,
                // A kernel without rules for this family.
                Err(error) if errno(&error) == Some(nix::libc::EOPNOTSUPP) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Reads a rule, if it is ours.
pub(super) fn rule(message: &RuleMessage) -> Option<Rule> {
    let mut ours = false;
    let mut rule = Rule {
        v6: message.header.family == AddressFamily::Inet6,
        mark: 0,
        mask: 0,
        table: message.header.table.into(),
        priority: 0,
        comes_in_by: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Protocol(protocol) => ours = u8::from(*protocol) == PROTOCOL,
            RuleAttribute::FwMark(mark) => rule.mark = *mark,
            RuleAttribute::FwMask(mask) => rule.mask = *mask,
            RuleAttribute::Table(table) => rule.table = *table,
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::Iifname(name) => rule.comes_in_by = Some(name.clone()),
            _ => {}
        }
    }
    ours.then_some(rule)
}

/// The error number of a refusal, positive.
#[must_use]
pub fn errno(error: &rtnetlink::Error) -> Option<i32> {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.code.map(|code| code.get().abs()),
        _ => None,
    }
}
