//! Linode's own flags.

use std::time::Duration;

use ipnet::Ipv4Net;
use mooring_common::flags::Reader;

use super::api::node_balancers::MARKS;
use crate::engine::annotations::either;
use crate::engine::forgiving_annotations::in_any_case;

/// The flags that set the lengths of pod CIDRs.
pub(super) const IPV4_MASK_FLAG: &str = "node-cidr-mask-size-ipv4";
pub(super) const IPV6_MASK_FLAG: &str = "node-cidr-mask-size-ipv6";
/// The lengths if the flags do not say.
const IPV4_MASK: u8 = 24;
pub(super) const IPV6_MASK: u8 = 112;
/// Linode's names have 32 characters at most, and 13 of them come after the prefix.
const LONGEST_PREFIX: usize = 19;
/// What to write in place of a tag that begins like a mark.
pub(super) const NO_MARK: &str =
    "whatever begins so marks whose a NodeBalancer is; write other tags";
/// The types of NodeBalancers. The Go controller's own help writes `premium_40GB`.
pub(super) const TYPES: [&str; 3] = ["common", "premium", "premium_40gb"];

/// What the command line says of Linode. What an annotation of a Service says of its NodeBalancer wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--linode-tag-filter`.
    pub tag_filter: Option<String>,
    /// `--vpc-names`, `--subnet-names`, `--vpc-ids` and `--subnet-ids`.
    pub vpcs: VpcChoice,
    /// `--enable-token-health-checker`.
    pub checks_token: bool,
    /// `--linodego-debug`.
    pub logs_exchanges: bool,
    /// What is worth a line in the log.
    pub notices: Vec<String>,
    /// `--enable-route-controller`.
    pub has_routes: bool,
    /// `--node-cidr-mask-size-ipv4`.
    pub ipv4_mask: u8,
    /// `--node-cidr-mask-size-ipv6`; `None` with `--disable-ipv6-node-cidr-allocation`.
    pub ipv6_mask: Option<u8>,
    /// `--default-nodebalancer-type`.
    pub kind: &'static str,
    /// `--nodebalancer-prefix`: how names of NodeBalancers begin.
    pub prefix: String,
    /// `--cluster-name`: the first of their tags.
    pub cluster_name: Option<String>,
    /// `--nodebalancer-tags`: what comes after it.
    pub tags: Vec<String>,
    /// `--nodebalancer-backend-ipv4-subnet-id`, `--nodebalancer-backend-ipv4-subnet-name` and
    /// `--disable-nodebalancer-vpc-backends`.
    pub subnet: BackendSubnet,
    /// `--nodebalancer-backend-ipv4-subnet`: where their addresses towards the Nodes lie.
    pub range: Option<Ipv4Net>,
    /// `--enable-ipv6-for-loadbalancers`: whether the status tells the IPv6 address too.
    pub ipv6_ingress: bool,
    /// `--enable-ipv6-for-nodebalancer-backends`: whether Nodes are reached by IPv6.
    pub ipv6_backends: bool,
    /// `--nodebalancer-drain-period`: how long a Node that leaves keeps its connections.
    pub drain_period: Duration,
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

/// The subnet of a VPC that NodeBalancers take addresses towards the Nodes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackendSubnet {
    /// The first one of the first VPC that the flags name, if they name any.
    #[default]
    First,
    /// This number.
    Number(u64),
    /// This name, in the first VPC.
    Name(String),
    /// None, although the flags may name VPCs.
    Disabled,
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
        let ipv6_mask = reader.prefix_length(IPV6_MASK_FLAG, 128, IPV6_MASK);
        Self {
            tag_filter: reader.text("linode-tag-filter"),
            checks_token: reader.bool("enable-token-health-checker"),
            logs_exchanges: reader.bool("linodego-debug"),
            kind: read_kind(reader),
            prefix: read_prefix(reader),
            cluster_name: reader.text("cluster-name"),
            tags: read_tags(reader),
            subnet: read_subnet(reader, &vpcs),
            range: reader.optional(
                "nodebalancer-backend-ipv4-subnet",
                "write a block of IPv4 addresses like 10.100.0.0/24",
            ),
            ipv6_ingress: reader.bool("enable-ipv6-for-loadbalancers"),
            ipv6_backends: reader.bool("enable-ipv6-for-nodebalancer-backends"),
            drain_period: reader.duration("nodebalancer-drain-period"),
            vpcs,
            has_routes,
            ipv4_mask: reader.prefix_length(IPV4_MASK_FLAG, 32, IPV4_MASK),
            ipv6_mask: (!without_ipv6).then_some(ipv6_mask),
            notices,
        }
    }
}

fn read_kind(reader: &mut Reader<'_>) -> &'static str {
    let text = reader.text("default-nodebalancer-type");
    let text = text.as_deref().unwrap_or(TYPES[0]);
    in_any_case(text, &TYPES).unwrap_or_else(|| {
        let remedy = format!("write {}", either(&TYPES));
        reader.fault("default-nodebalancer-type", text, &remedy);
        TYPES[0]
    })
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

fn read_vpcs(reader: &mut Reader<'_>) -> VpcChoice {
    let names = reader.list("vpc-names");
    let remedy = "write numbers, separated by commas";
    let vpcs: Vec<u64> = reader.parsed_list("vpc-ids", remedy);
    let subnets: Vec<u64> = reader.parsed_list("subnet-ids", remedy);
    let fault = match (names.is_empty(), vpcs.is_empty(), subnets.is_empty()) {
        (true, true, true) => return VpcChoice::None,
        (false, true, true) => {
            let (vpcs, subnets) = (names, reader.list("subnet-names"));
            return VpcChoice::Names { vpcs, subnets };
        }
        (true, false, false) => return VpcChoice::Numbers { vpcs, subnets },
        (false, false, _) => "cannot have both vpc-ids and vpc-names set",
        (true, false, true) => "vpc-ids cannot be set without subnet-ids",
        (_, true, false) => "subnet-ids cannot be set without vpc-ids",
    };
    reader.other_fault(format!(
        "{fault}; name VPCs either by --vpc-names and --subnet-names, or by --vpc-ids and \
         --subnet-ids"
    ));
    VpcChoice::None
}

fn read_prefix(reader: &mut Reader<'_>) -> String {
    let prefix = reader.text("nodebalancer-prefix").unwrap_or_default();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if prefix.len() > LONGEST_PREFIX || !prefix.chars().all(is_allowed) {
        let remedy =
            format!("write up to {LONGEST_PREFIX} letters, digits, hyphens and underscores");
        reader.fault("nodebalancer-prefix", &prefix, &remedy);
    }
    prefix
}

fn read_tags(reader: &mut Reader<'_>) -> Vec<String> {
    let tags = reader.list("nodebalancer-tags");
    for tag in tags.iter().filter(|tag| MARKS.looks_like_mark(tag)) {
        reader.fault("nodebalancer-tags", tag, NO_MARK);
    }
    tags
}

fn read_subnet(reader: &mut Reader<'_>, vpcs: &VpcChoice) -> BackendSubnet {
    let remedy = "write the number of a subnet";
    let number: u64 = reader.parsed("nodebalancer-backend-ipv4-subnet-id", remedy);
    let name = reader.text("nodebalancer-backend-ipv4-subnet-name");
    if number != 0 && name.is_some() {
        reader.other_fault(
            "cannot have both --nodebalancer-backend-ipv4-subnet-id and \
             --nodebalancer-backend-ipv4-subnet-name set; leave one of them out",
        );
    }
    if reader.bool("disable-nodebalancer-vpc-backends") {
        return BackendSubnet::Disabled;
    }
    match name {
        Some(name) if *vpcs == VpcChoice::None => {
            let remedy = "a subnet is known by its name only in a VPC; name that by --vpc-names, or the \
                          subnet by --nodebalancer-backend-ipv4-subnet-id";
            reader.fault("nodebalancer-backend-ipv4-subnet-name", name, remedy);
            BackendSubnet::First
        }
        Some(name) => BackendSubnet::Name(name),
        None if number == 0 => BackendSubnet::First,
        None => BackendSubnet::Number(number),
    }
}

#[cfg(test)]
mod tests;
