//! An L2Network that has been read whole.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    AddressMode, Allocation, ControlPlaneEndpoint, InterfaceEntry, L2Network, Preference,
    QuorumLoss, Subnet, control_plane, interfaces, pools, preferred_nodes,
};
use crate::address_range::AddressRange;
use crate::go_duration;

/// What is wrong with an L2Network that the API server let pass (an old object, or an API server
/// without CEL): every fault at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("L2Network {name}: {}", faults.join("; "))]
pub struct InvalidL2Network {
    /// The object's name.
    pub name: String,
    /// One sentence per fault, with field, value and remedy.
    pub faults: Vec<String>,
}

/// An L2Network that has been read whole: what the rest of Mooring works with.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The L2Network's name.
    pub name: String,
    /// The 802.1Q VLAN id, or untagged.
    pub vlan: Option<u16>,
    /// The interface named by the user.
    pub parent: Option<String>,
    /// Or which it may be, in order: see [`Self::on_node`]. `None`: nothing is said of that.
    pub interfaces: Option<Vec<InterfaceEntry>>,
    /// The MTU named by the user, in bytes.
    pub mtu: Option<u16>,
    /// The subnets with their routers.
    pub subnets: Vec<(IpNet, Option<IpAddr>)>,
    /// All addresses that are allocated from it, by whatever pool.
    pub ranges: Vec<AddressRange>,
    /// The pools, that of `spec.ranges` first, which has no name.
    pub pools: Vec<Pool>,
    /// Which Nodes are on the segment.
    pub node_selector: kube::core::Selector,
    /// Whether Nodes speak too that are excluded from load balancers by their label.
    pub includes_excluded: bool,
    /// Which Nodes are to speak before others: see [`Self::preference_for`].
    pub preferred: Vec<Preference>,
    /// What becomes of the addresses when a majority of the voters is lost.
    pub on_quorum_loss: QuorumLoss,
    /// How a Node has the addresses that it speaks for.
    pub address_mode: AddressMode,
    /// Whether an address is asked for before its first use.
    pub probes_addresses: bool,
    /// For how long connections stay with the Node that they began at; zero: they do not.
    pub keep_connections: Duration,
    /// Which namespaces may have addresses of it; `None`: all.
    pub allowed_namespaces: Option<kube::core::Selector>,
    /// How many of its addresses one namespace may have.
    pub max_addresses_per_namespace: Option<u32>,
    /// Whether Services of different namespaces may share an address.
    pub shares_across_namespaces: bool,
    /// The address of the control plane, which no Service can have.
    pub control_plane: Option<ControlPlaneEndpoint>,
}

/// A part of a segment's addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// Its name; empty: it is `spec.ranges`.
    pub name: String,
    /// What is allocated from it, in the user's order, without what is excluded.
    pub ranges: Vec<AddressRange>,
    /// Which comes first: the lowest.
    pub priority: Option<u16>,
    /// To whom it is given.
    pub allocation: Allocation,
    /// Which namespaces may have addresses of it; `None`: all that may have some of the segment.
    pub allowed_namespaces: Option<kube::core::Selector>,
    /// Which Services; `None`: all.
    pub allowed_services: Option<kube::core::Selector>,
    /// Whether IPv4 addresses that end with .0 or .255 are left out.
    pub avoids_buggy: bool,
}

/// Why no Service can have an address of a segment, although it is in one of its subnets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is the router of a subnet.
    Router,
    /// It is the first address of a subnet: of an IPv4 subnet the network itself, of an IPv6 subnet
    /// the anycast address of all its routers (RFC 4291, section 2.6.1).
    FirstOfSubnet,
    /// It is the broadcast address of an IPv4 subnet.
    Broadcast,
    /// It is that of the control plane.
    ControlPlane,
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Router => "the router",
            Self::FirstOfSubnet => "the first address of a subnet",
            Self::Broadcast => "the broadcast address",
            Self::ControlPlane => "the address of the control plane",
        })
    }
}

impl Segment {
    /// The addresses that no Service can have, and why.
    pub fn reserved(&self) -> impl Iterator<Item = (IpAddr, Reserved)> + '_ {
        let control_plane = self.control_plane.iter().flat_map(|entry| &entry.addresses);
        let control_plane = control_plane.map(|address| (*address, Reserved::ControlPlane));
        let of_subnets = self.subnets.iter().flat_map(|(subnet, gateway)| {
            let first = (subnet.network(), Reserved::FirstOfSubnet);
            let edges = match subnet {
                IpNet::V4(v4) if v4.prefix_len() < 31 => {
                    let broadcast = (IpAddr::V4(v4.broadcast()), Reserved::Broadcast);
                    [Some(first), Some(broadcast)]
                }
                IpNet::V4(_) => [None, None],
                IpNet::V6(_) => [Some(first), None],
            };
            let router = gateway.map(|gateway| (gateway, Reserved::Router));
            edges.into_iter().chain([router]).flatten()
        });
        of_subnets.chain(control_plane)
    }

    /// Whether the Node with these labels is on the segment.
    #[must_use]
    pub fn includes(&self, labels: &BTreeMap<String, String>) -> bool {
        use kube::core::SelectorExt;
        self.node_selector.matches(labels)
    }

    /// Whether one of its ranges holds this address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// The router for this address' subnet, if the user named one.
    #[must_use]
    pub fn gateway_of(&self, address: IpAddr) -> Option<IpAddr> {
        self.subnets
            .iter()
            .find(|(subnet, _)| subnet.contains(&address))
            .and_then(|(_, gw)| *gw)
    }
}

impl TryFrom<&L2Network> for Segment {
    type Error = InvalidL2Network;

    /// Reads an L2Network whole.
    ///
    /// # Errors
    /// [`InvalidL2Network`] with every fault found: a subnet, gateway, range, interface, weight or
    /// selector that cannot be read, a gateway or range outside of all subnets, two ranges that overlap.
    fn try_from(network: &L2Network) -> Result<Self, Self::Error> {
        let name = network.metadata.name.clone().unwrap_or_default();
        let spec = &network.spec;
        let mut faults = Vec::new();
        let subnets = read_subnets(&spec.subnets, &mut faults);
        let (ranges, pools) = pools::read(spec, &subnets, &mut faults);
        let interfaces = interfaces::read(spec, &mut faults);
        let preferred = preferred_nodes::read(spec, &mut faults);
        let control_plane = control_plane::read(spec, &mut faults);
        let mut selector = |field: &str, selector: Option<&LabelSelector>| {
            pools::read_selector(field, selector, &mut faults)
        };
        let node_selector = selector("spec.nodeSelector", spec.node_selector.as_ref());
        let node_selector = node_selector.unwrap_or_default();
        let allowed = spec.allowed_namespaces.as_ref();
        let allowed_namespaces = selector("spec.allowedNamespaces", allowed);
        let keep_connections = read_time(spec.keep_connections.as_deref(), &mut faults);
        if faults.is_empty() {
            Ok(Self {
                name,
                vlan: spec.vlan,
                parent: spec.parent.clone(),
                interfaces,
                mtu: spec.mtu,
                subnets,
                ranges,
                pools,
                node_selector,
                includes_excluded: spec.include_excluded_nodes,
                preferred,
                on_quorum_loss: spec.on_quorum_loss.unwrap_or_default(),
                address_mode: spec.address_mode.unwrap_or_default(),
                probes_addresses: spec.probe_addresses.unwrap_or(true),
                keep_connections,
                allowed_namespaces,
                max_addresses_per_namespace: spec.max_addresses_per_namespace,
                shares_across_namespaces: spec.share_across_namespaces,
                control_plane,
            })
        } else {
            Err(InvalidL2Network { name, faults })
        }
    }
}

/// The longest time that `spec.keepConnections` takes.
const KEEP_AT_MOST: Duration = Duration::from_secs(24 * 60 * 60);

fn read_time(text: Option<&str>, faults: &mut Vec<String>) -> Duration {
    let Some(text) = text else {
        return Duration::ZERO;
    };
    match go_duration::parse(text) {
        Ok(time) if time <= KEEP_AT_MOST => time,
        _ => {
            faults.push(format!(
                "spec.keepConnections: {text:?} is no time up to 24h; write it like 15m, or 0s to keep none"
            ));
            Duration::ZERO
        }
    }
}

fn read_subnets(subnets: &[Subnet], faults: &mut Vec<String>) -> Vec<(IpNet, Option<IpAddr>)> {
    let mut read = Vec::new();
    for (index, subnet) in subnets.iter().enumerate() {
        let Ok(cidr) = subnet.cidr.parse::<IpNet>() else {
            faults.push(format!(
                "spec.subnets[{index}].cidr: {:?} is no subnet; write it like 192.0.2.0/24",
                subnet.cidr
            ));
            continue;
        };
        let gateway = match subnet
            .gateway
            .as_deref()
            .map(|text| (text, text.parse::<IpAddr>()))
        {
            None => None,
            Some((_, Ok(gateway))) if cidr.contains(&gateway) => Some(gateway),
            Some((text, _)) => {
                faults.push(format!(
                    "spec.subnets[{index}].gateway: {text:?} is no address within {cidr}; name \
                     the router's address there, or leave it out"
                ));
                None
            }
        };
        read.push((cidr, gateway));
    }
    read
}
