//! A second network: a segment of its own for service addresses, beside the one of the nodes.
//!
//! ```text
//!   br0 10.77.0.1 ── p-n1 ── eth0 ┐
//!                                 ├ n1
//!   br1 10.78.0.1 ── s-n1 ── eth1 ┘
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anyhow::Result;

use super::capture::Capture;
use super::filters;
use super::frame::Mac;
use super::host::Host;
use super::ip;
use super::port::{Port, forget_after};

/// The second bridge's name.
const BRIDGE: &str = "br1";

/// A bridge to which hosts have a second cable: `10.78.0.0/24` and `fd78::/64`.
#[derive(Debug)]
pub struct Segment(());

impl Segment {
    /// The bridge's own address, that of the segment's router.
    pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

    /// The same of IPv6.
    pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 1);

    /// The interface of the hosts that are on it.
    pub const INTERFACE: &str = "eth1";

    /// Makes the bridge, and a cable to each of these hosts, whose addresses there end as those of
    /// their eth0 do.
    pub fn new<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> Result<Self> {
        ip(&format!(
            "link add {BRIDGE} address 02:4d:6f:6f:73:01 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        ))?;
        ip(&format!("link set {BRIDGE} promisc on up"))?;
        ip(&format!("address add {}/24 dev {BRIDGE}", Self::GATEWAY_V4))?;
        ip(&format!(
            "address add {}/64 dev {BRIDGE} nodad",
            Self::GATEWAY_V6
        ))?;
        for host in hosts {
            connect(host)?;
        }
        Ok(Self(()))
    }

    /// The switch's end of a host's cable.
    pub fn port(&self, host: &Host) -> Port {
        Port(format!("s-{}", host.name()))
    }

    /// The hardware address of a host here.
    pub fn mac(&self, host: &Host) -> Mac {
        mac(host)
    }

    /// After how long the bridge forgets behind which port a host is. (By default 300 s.)
    pub fn forget_after(&self, age: Duration) -> Result<()> {
        forget_after(BRIDGE, age)
    }

    /// Starts to keep ARP, ICMPv6 and heartbeats from now on.
    pub fn capture_control(&self) -> Result<Capture> {
        Capture::start_filtered(None, BRIDGE, &filters::control())
    }
}

fn mac(host: &Host) -> Mac {
    let [a, b, c, d, _, number] = host.mac().0;
    Mac([a, b, c, d, 0x73, number])
}

fn connect(host: &Host) -> Result<()> {
    let (name, interface) = (host.name(), Segment::INTERFACE);
    ip(&format!(
        "link add s-{name} type veth peer name {interface} address {} netns {name}",
        mac(host)
    ))?;
    ip(&format!("link set s-{name} master {BRIDGE} up"))?;
    let settings = [
        ("net/ipv6/conf/eth1/accept_dad", "0"),
        ("net/ipv6/conf/eth1/accept_ra", "0"),
        // A reply may take another way than the request.
        ("net/ipv4/conf/eth1/rp_filter", "0"),
        // Each address is answered for on its own network only.
        ("net/ipv4/conf/all/arp_ignore", "1"),
        ("net/ipv4/conf/all/arp_announce", "2"),
    ];
    for (setting, value) in settings {
        host.set(setting, value)?;
    }
    host.ip(&format!("link set {interface} up"))?;
    let [.., number] = host.ipv4().octets();
    host.ip(&format!("address add 10.78.0.{number}/24 dev {interface}"))?;
    host.ip(&format!(
        "address add fd78::{number}/64 dev {interface} nodad"
    ))?;
    Ok(())
}
