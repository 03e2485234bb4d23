//! Linode's own flags.

mod node_balancers;

use mooring_common::flags::Reader;

pub use node_balancers::{BackendSubnet, NodeBalancerFlags, NodeBalancerType};

/// The flag that sets the length of IPv4 pod CIDRs.
pub(super) const IPV4_MASK_FLAG: &str = "node-cidr-mask-size-ipv4";
/// The lengths of pod CIDRs if the flags do not say.
const IPV4_MASK: u8 = 24;
const IPV6_MASK: u8 = 112;

/// What the command line says of Linode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--linode-tag-filter`.
    pub tag: Option<String>,
    /// `--vpc-names`, `--subnet-names`, `--vpc-ids` and `--subnet-ids`.
    pub vpcs: VpcChoice,
    /// `--enable-token-health-checker`.
    pub checks_token: bool,
    /// `--linodego-debug`.
    pub logs_exchanges: bool,
    /// How NodeBalancers are made.
    pub node_balancers: NodeBalancerFlags,
    /// What is worth a line in the log.
    pub notices: Vec<String>,
    /// `--enable-route-controller`.
    pub has_routes: bool,
    /// `--node-cidr-mask-size-ipv4`.
    pub ipv4_mask: u8,
    /// `--node-cidr-mask-size-ipv6`; `None` with `--disable-ipv6-node-cidr-allocation`.
    pub ipv6_mask: Option<u8>,
}

/// The VPCs whose addresses are the Nodes' internal ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VpcChoice {
    /// None.
    #[default]
    None,
    /// By name; each of the subnets is looked for in each of the VPCs.
    Names {
        /// The VPCs.
        vpcs: Vec<String>,
        /// The subnets.
        subnets: Vec<String>,
    },
    /// By number.
    Numbers {
        /// The VPCs.
        vpcs: Vec<u64>,
        /// The subnets.
        subnets: Vec<u64>,
    },
}

impl Flags {
    /// Reads them; faults stay with the reader.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let mut notices = Vec::new();
        read_load_balancer_type(reader, &mut notices);
        let (vpcs, has_routes) = (read_vpcs(reader), reader.bool("enable-route-controller"));
        if has_routes && vpcs == VpcChoice::None {
            reader.other_fault(
                "cannot enable route controller as vpc-names is empty; name the VPC of the Nodes by \
                 --vpc-names and --subnet-names, or by --vpc-ids and --subnet-ids",
            );
        }
        let without_ipv6 = reader.bool("disable-ipv6-node-cidr-allocation");
        let ipv6_mask = read_mask(reader, "node-cidr-mask-size-ipv6", 128, IPV6_MASK);
        Self {
            tag: reader.text("linode-tag-filter"),
            checks_token: reader.bool("enable-token-health-checker"),
            logs_exchanges: reader.bool("linodego-debug"),
            node_balancers: NodeBalancerFlags::read(reader, &vpcs),
            vpcs,
            has_routes,
            ipv4_mask: read_mask(reader, IPV4_MASK_FLAG, 32, IPV4_MASK),
            ipv6_mask: (!without_ipv6).then_some(ipv6_mask),
            notices,
        }
    }
}

/// The Go controller once shared addresses by BGP instead of making NodeBalancers. It still takes the
/// flags for that.
fn read_load_balancer_type(reader: &mut Reader<'_>, notices: &mut Vec<String>) {
    let mut removed = Vec::new();
    match reader.text("load-balancer-type").as_deref() {
        None | Some("nodebalancer") => {}
        Some("cilium-bgp") => removed.push("--load-balancer-type=cilium-bgp"),
        Some(other) => reader.fault(
            "load-balancer-type",
            other,
            "write nodebalancer, or leave the flag out",
        ),
    }
    for (name, flag) in [
        ("bgp-node-selector", "--bgp-node-selector"),
        ("ip-holder-suffix", "--ip-holder-suffix"),
    ] {
        removed.extend(reader.text(name).map(|_| flag));
    }
    if !removed.is_empty() {
        notices.push(format!(
            "without effect: {}. No addresses are shared by BGP, as in the Go controller since v0.9.8: \
             Services get NodeBalancers. Take the flags away",
            removed.join(", ")
        ));
    }
}

/// 0 stands for the default.
fn read_mask(reader: &mut Reader<'_>, name: &str, longest: u8, default: u8) -> u8 {
    let remedy = format!("write a number from 1 to {longest}, or 0 for {default}");
    match reader.parsed(name, &remedy) {
        0 => default,
        mask if mask > longest => {
            reader.fault(name, mask, &remedy);
            default
        }
        mask => mask,
    }
}

fn read_vpcs(reader: &mut Reader<'_>) -> VpcChoice {
    let names = reader.list("vpc-names");
    let vpcs = numbers(reader, "vpc-ids");
    let subnets = numbers(reader, "subnet-ids");
    match (names.is_empty(), vpcs.is_empty(), subnets.is_empty()) {
        (false, true, true) => VpcChoice::Names {
            vpcs: names,
            subnets: reader.list("subnet-names"),
        },
        (true, false, false) => VpcChoice::Numbers { vpcs, subnets },
        (true, true, true) => VpcChoice::None,
        (false, false, _) => refuse(reader, "cannot have both vpc-ids and vpc-names set"),
        (true, false, true) => refuse(reader, "vpc-ids cannot be set without subnet-ids"),
        (_, true, false) => refuse(reader, "subnet-ids cannot be set without vpc-ids"),
    }
}

fn refuse(reader: &mut Reader<'_>, fault: &str) -> VpcChoice {
    reader.other_fault(format!(
        "{fault}; name VPCs either by --vpc-names and --subnet-names, or by --vpc-ids and \
         --subnet-ids"
    ));
    VpcChoice::None
}

fn numbers(reader: &mut Reader<'_>, name: &str) -> Vec<u64> {
    let texts = reader.list(name);
    let mut numbers = Vec::with_capacity(texts.len());
    for text in texts {
        match text.parse() {
            Ok(number) => numbers.push(number),
            Err(_) => reader.fault(name, text, "write numbers, separated by commas"),
        }
    }
    numbers
}

#[cfg(test)]
mod tests;
