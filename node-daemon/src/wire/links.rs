//! The network interfaces of this node, as the kernel reports them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use ipnet::IpNet;
use mooring_common::errors::with_causes;
use mooring_common::l2_network::Segment;
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::link::{
    AfSpecInet, AfSpecUnspec, InfoData, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType,
};
use netlink_packet_route::route::RouteAttribute;
use rtnetlink::{Handle, MulticastGroup, RouteMessageBuilder};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::netlink::{self, Ended, Notifications};
use crate::protocol::mac::Mac;

/// How often interfaces are read anew even if the kernel told of no change: of default routes it is
/// not asked to tell.
const REREAD: Duration = Duration::from_secs(10);
/// The shortest time between two readings. The first change is looked at immediately.
const SETTLE: Duration = Duration::from_millis(50);
/// How long to wait for the kernel's answer, and after a failure.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(1);

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The kernel's number for it; one that is deleted and made again has another.
    pub index: u32,
    /// Its MAC address, if it has Ethernet and ARP.
    pub mac: Option<Mac>,
    /// Whether it is set up and has a carrier.
    pub up: bool,
    /// Its addresses with their subnets, but for service addresses that Mooring has put there.
    pub addresses: Vec<IpNet>,
    /// The metric of the best default route through it, if there is one; the least is used.
    pub default_route: Option<u32>,
    /// What it stands on, and its settings.
    pub stack: Stack,
}

/// What an interface stands on, and the settings that VLAN interfaces need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// For a VLAN interface: which one.
    pub vlan: Option<Vlan>,
    /// The bond, bridge or the like that it is a part of.
    pub master: Option<u32>,
    /// `IFLA_IFALIAS`: free text, by which Mooring knows its own.
    pub alias: String,
    /// `IFLA_GROUP`: a number, by which Mooring knows one that has no alias yet.
    pub group: u32,
    /// The MTU, in bytes.
    pub mtu: u32,
    /// Whether it is set up, whatever its carrier.
    pub set_up: bool,
    /// `net.ipv4.conf.<interface>`, where the kernel has IPv4.
    pub ipv4: Option<Ipv4Settings>,
}

/// A VLAN of an interface. There is at most one interface for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vlan {
    /// The interface below, as the kernel numbers it.
    pub parent: u32,
    /// The 802.1Q id.
    pub id: u16,
}

/// Settings of `net.ipv4.conf.<interface>`, with the kernel's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Settings {
    /// 1 where packets that come in may be passed on.
    pub forwarding: i32,
    /// 2: the source must be reachable by some interface; 1: by this one.
    pub rp_filter: i32,
    /// 1: answer ARP only for addresses of this interface.
    pub arp_ignore: i32,
    /// 2: ask by ARP from the best address for the neighbour.
    pub arp_announce: i32,
    /// 1: `rp_filter` looks the way up with the packet's mark.
    pub src_valid_mark: i32,
}

/// Why no interface can be taken for a segment. Says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLink {
    /// The interface that the user named is not there.
    #[error(
        "there is no interface {0:?} on this node; correct spec.parent of the L2Network, or list the names \
         that it has on different nodes in spec.interfaces"
    )]
    Missing(String),
    /// The interface that the user named has no Ethernet.
    #[error(
        "interface {0:?} has no Ethernet address or no ARP; name another in spec.parent of the \
         L2Network"
    )]
    NoEthernet(String),
    /// The interface that the segment was on is not there.
    #[error(
        "interface {0:?}, which the L2Network was on, is gone from this node, and no other has an \
         address in one of its subnets; bring it back, or name another in spec.parent or \
         spec.interfaces of the L2Network"
    )]
    Gone(String),
    /// No interface is one of those that the user lists.
    #[error(
        "no interface of this node that has Ethernet is called {names}, as spec.interfaces of the L2Network \
         lists for it; there are {there}: add one of these to the list, or correct it"
    )]
    NotListed {
        /// What was looked for.
        names: String,
        /// What there is.
        there: String,
    },
    /// The user lists interfaces for other nodes only.
    #[error(
        "no entry of spec.interfaces of the L2Network is for this node; add one, or take the node out by \
         spec.nodeSelector"
    )]
    NoEntry,
    /// There is nothing to go by.
    #[error(
        "no interface of this node has an address in a subnet of the L2Network, and there is no \
         default route; name the interface in its spec.parent or spec.interfaces"
    )]
    Unknown,
}

/// The interface that a segment is on: the one that the user named; the first that is there of those that the
/// user listed ([`Segment::on_node`]); else the one with an address in one of its subnets; else the one that it was on, `home`; and only if it was on none, the one of the
/// default route, which may lead to another network.
///
/// So an interface that loses its address keeps the segment, and one that is gone is not replaced by any
/// that nothing shows to be on the same network. The bond or bridge that an interface has become a part of
/// is.
///
/// # Errors
/// [`NoLink`] if there is none that can speak ARP.
pub fn choose<'a>(
    segment: &Segment,
    links: &'a [Link],
    home: Option<&str>,
) -> Result<&'a Link, NoLink> {
    if let Some(parent) = &segment.parent {
        let link = links.iter().find(|link| link.name == *parent);
        let link = link.ok_or_else(|| NoLink::Missing(parent.clone()))?;
        return match link.mac {
            Some(_) => Ok(link),
            None => Err(NoLink::NoEthernet(parent.clone())),
        };
    }
    if let Some(entries) = &segment.interfaces {
        return listed::choose(segment, entries, links, home);
    }
    let able = || links.iter().filter(|link| link.mac.is_some());
    // Somebody may have put a single service address on another interface: a whole subnet counts
    // for more.
    let is_home = |link: &Link| Some(link.name.as_str()) == home;
    let in_subnet = able()
        .filter_map(|link| Some((narrowness(segment, link)?, link)))
        .min_by_key(|(narrowness, link)| (*narrowness, !is_home(link), link.index));
    if let Some(home) = home {
        return match in_subnet {
            Some((0, link)) => Ok(link),
            _ => able()
                .find(|link| is_home(link))
                .map(|link| whole(link, links))
                .ok_or_else(|| NoLink::Gone(home.to_owned())),
        };
    }
    let by_default_route = || {
        able()
            .filter_map(|link| Some((link.default_route?, link)))
            .min_by_key(|(metric, link)| (*metric, link.index))
            .map(|(_, link)| link)
    };
    in_subnet
        .map(|(_, link)| link)
        .or_else(by_default_route)
        .ok_or(NoLink::Unknown)
}

/// The bond, bridge or the like that a link is a part of, if that has Ethernet.
fn whole<'a>(link: &'a Link, links: &'a [Link]) -> &'a Link {
    let whole = link.stack.master;
    let whole = whole.and_then(|index| links.iter().find(|link| link.index == index));
    whole.filter(|whole| whole.mac.is_some()).unwrap_or(link)
}

/// The interface that a segment's VLAN is on: the one that the user named or listed; else the one below an
/// interface of that VLAN with an address in one of the subnets; else the one below the only
/// interface of that VLAN, whoever has made it; else that of the default route, without its own VLAN. A part
/// of a bond, bridge or the like is replaced by the whole.
///
/// # Errors
/// [`NoLink`] if there is none with Ethernet.
pub fn choose_parent<'a>(segment: &Segment, links: &'a [Link]) -> Result<&'a Link, NoLink> {
    let by_index = |index: u32| links.iter().find(|link| link.index == index);
    let below = |link: &Link| link.stack.vlan.and_then(|vlan| by_index(vlan.parent));
    let bare = |mut link: &'a Link| {
        // A VLAN within a VLAN is as deep as Ethernet goes.
        for _ in 0..2 {
            link = below(link).unwrap_or(link);
        }
        link
    };
    let is_of_vlan = |link: &&Link| {
        let id = link.stack.vlan.map(|vlan| vlan.id);
        id.is_some() && id == segment.vlan
    };
    let mut of_vlan = links.iter().filter(is_of_vlan);
    let home = of_vlan.next().filter(|_| of_vlan.next().is_none());
    let is_listed = segment.interfaces.is_some();
    let home = home.map(|link| below(link).filter(|_| is_listed).unwrap_or(link));
    let parent = match choose(segment, links, home.map(|link| link.name.as_str()))? {
        link if segment.parent.is_some() || is_listed => link,
        link => bare(link),
    };
    Ok(whole(parent, links))
}

/// The fewest host bits left out by an address of the link in a subnet of the segment: 0 for the
/// whole subnet. `None` if it has no such address.
fn narrowness(segment: &Segment, link: &Link) -> Option<u8> {
    link.addresses
        .iter()
        .flat_map(|address| {
            segment
                .subnets
                .iter()
                .filter(|(subnet, _)| subnet.contains(&address.addr()))
                .map(|(subnet, _)| address.prefix_len().saturating_sub(subnet.prefix_len()))
        })
        .min()
}

/// Why interfaces could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LinksError {
    /// No netlink socket.
    #[error("cannot open a netlink socket")]
    Open(#[from] std::io::Error),
    /// What the kernel told of is incomplete.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The kernel refused.
    #[error("the kernel refused to list network interfaces")]
    Refused(#[from] rtnetlink::Error),
    /// The kernel does not answer.
    #[error("the kernel did not list network interfaces within {KERNEL_TIMEOUT:?}")]
    Silent,
}

/// Keeps `links` as the kernel has them, for as long as the future is polled. Failures are logged
/// and tried again; until then the last known state stands.
pub async fn follow(links: watch::Sender<Arc<Vec<Link>>>) {
    loop {
        let Err(error) = follow_once(&links).await;
        let pause = if let LinksError::Ended(Ended::Overrun) = error {
            tracing::debug!("{error}, reading interfaces anew");
            SETTLE
        } else {
            let error = with_causes(&error);
            tracing::warn!(error, "network interfaces unknown");
            KERNEL_TIMEOUT
        };
        sleep(pause).await;
    }
}

async fn follow_once(links: &watch::Sender<Arc<Vec<Link>>>) -> Result<Infallible, LinksError> {
    let (sockets, handle, mut notifications) = netlink::open(&[
        MulticastGroup::Link,
        MulticastGroup::Ipv4Ifaddr,
        MulticastGroup::Ipv6Ifaddr,
    ])?;
    let follow = async {
        loop {
            let read = timeout(KERNEL_TIMEOUT, read(&handle));
            let now = Arc::new(read.await.map_err(|_| LinksError::Silent)??);
            links.send_if_modified(|known| {
                let changed = *known != now;
                *known = now;
                changed
            });
            let again = Instant::now() + SETTLE;
            if let Ok(ended) = timeout(REREAD, told(&mut notifications)).await {
                ended?;
            }
            sleep_until(again).await;
            notifications.skip()?;
        }
    };
    tokio::select! {
        () = sockets => Err(Ended::Closed.into()),
        ended = follow => ended,
    }
}

/// Waits for what is worth a reading. Service addresses that this daemon has put on an interface are
/// renewed all the time.
async fn told(notifications: &mut Notifications) -> Result<(), Ended> {
    while netlink::is_told_of(&notifications.next().await?) {}
    Ok(())
}

/// All interfaces, as the kernel has them now.
pub(crate) async fn read(handle: &Handle) -> Result<Vec<Link>, rtnetlink::Error> {
    let mut links = BTreeMap::new();
    let mut messages = handle.link().get().execute();
    while let Some(message) = messages.try_next().await? {
        let flags = message.header.flags;
        let ethernet = message.header.link_layer_type == LinkLayerType::Ether
            && !flags.intersects(LinkFlags::Noarp | LinkFlags::Loopback);
        let mut link = Link {
            name: String::new(),
            index: message.header.index,
            mac: None,
            up: flags.contains(LinkFlags::Up | LinkFlags::Running),
            addresses: Vec::new(),
            default_route: None,
            stack: Stack {
                set_up: flags.contains(LinkFlags::Up),
                ..Stack::default()
            },
        };
        let (mut below, mut id) = (None, None);
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::Address(bytes) if ethernet => link.mac = Mac::from_slice(&bytes),
                LinkAttribute::IfAlias(alias) => link.stack.alias = alias,
                LinkAttribute::Group(group) => link.stack.group = group,
                LinkAttribute::Mtu(mtu) => link.stack.mtu = mtu,
                LinkAttribute::Controller(master) => link.stack.master = Some(master),
                LinkAttribute::Link(index) => below = Some(index),
                LinkAttribute::LinkInfo(info) => id = vlan_id(&info),
                LinkAttribute::AfSpecUnspec(families) => link.stack.ipv4 = ipv4(&families),
                _ => {}
            }
        }
        link.stack.vlan = below.zip(id).map(|(parent, id)| Vlan { parent, id });
        links.insert(link.index, link);
    }
    read_addresses(handle, &mut links).await?;
    read_default_routes(handle, &mut links).await?;
    Ok(links.into_values().collect())
}

fn vlan_id(info: &[LinkInfo]) -> Option<u16> {
    let vlan = info.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vlan(vlan)) => Some(vlan),
        _ => None,
    })?;
    vlan.iter().find_map(|attribute| match attribute {
        InfoVlan::Id(id) => Some(*id),
        _ => None,
    })
}

fn ipv4(families: &[AfSpecUnspec]) -> Option<Ipv4Settings> {
    let ipv4 = families.iter().find_map(|family| match family {
        AfSpecUnspec::Inet(ipv4) => Some(ipv4),
        _ => None,
    })?;
    ipv4.iter().find_map(|attribute| match attribute {
        AfSpecInet::DevConf(settings) => Some(Ipv4Settings {
            forwarding: settings.forwarding,
            rp_filter: settings.rp_filter,
            arp_ignore: settings.arp_ignore,
            arp_announce: settings.arp_announce,
            src_valid_mark: settings.src_vmark,
        }),
        _ => None,
    })
}

async fn read_addresses(
    handle: &Handle,
    links: &mut BTreeMap<u32, Link>,
) -> Result<(), rtnetlink::Error> {
    let mut messages = handle.address().get().execute();
    while let Some(message) = messages.try_next().await? {
        if netlink::is_ours(&message) {
            continue;
        }
        // Where both are given (IPv4), LOCAL is this side's address, ADDRESS may be the peer's.
        let mut address: Option<IpAddr> = None;
        let mut local = None;
        for attribute in message.attributes {
            match attribute {
                AddressAttribute::Address(ip) => address = Some(ip),
                AddressAttribute::Local(ip) => local = Some(ip),
                _ => {}
            }
        }
        let net = local
            .or(address)
            .and_then(|ip| IpNet::new(ip, message.header.prefix_len).ok());
        if let (Some(net), Some(link)) = (net, links.get_mut(&message.header.index)) {
            link.addresses.push(net);
        }
    }
    Ok(())
}

async fn read_default_routes(
    handle: &Handle,
    links: &mut BTreeMap<u32, Link>,
) -> Result<(), rtnetlink::Error> {
    for request in [
        RouteMessageBuilder::<std::net::Ipv4Addr>::new().build(),
        RouteMessageBuilder::<std::net::Ipv6Addr>::new().build(),
    ] {
        let mut messages = handle.route().get(request).execute();
        while let Some(message) = messages.try_next().await? {
            let main_table = message.header.table == 254;
            if message.header.destination_prefix_length != 0 || !main_table {
                continue;
            }
            let mut index = None;
            let mut metric = 0;
            for attribute in message.attributes {
                match attribute {
                    RouteAttribute::Oif(oif) => index = Some(oif),
                    RouteAttribute::Priority(priority) => metric = priority,
                    _ => {}
                }
            }
            if let Some(link) = index.and_then(|index| links.get_mut(&index)) {
                let best = link.default_route.map_or(metric, |best| best.min(metric));
                link.default_route = Some(best);
            }
        }
    }
    Ok(())
}

mod listed;
#[cfg(test)]
mod tests;
