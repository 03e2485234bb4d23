//! The flags that NodeBalancers are made by.

use std::str::FromStr;
use std::time::Duration;

use ipnet::Ipv4Net;
use mooring_common::flags::Reader;

use super::VpcChoice;

/// Linode's names have 32 characters at most, and 13 of them come after the prefix.
const LONGEST_PREFIX: usize = 19;

/// What the command line says of NodeBalancers. What an annotation of a Service says instead wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBalancerFlags {
    /// `--default-nodebalancer-type`.
    pub kind: NodeBalancerType,
    /// `--nodebalancer-prefix`: how their names begin.
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

/// The type of a NodeBalancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeBalancerType {
    /// `common`.
    #[default]
    Common,
    /// `premium`.
    Premium,
    /// `premium_40gb`.
    Premium40Gb,
}

impl NodeBalancerType {
    /// As Linode writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Premium => "premium",
            Self::Premium40Gb => "premium_40gb",
        }
    }
}

impl FromStr for NodeBalancerType {
    type Err = ();

    /// In upper or lower case: the Go controller's own help writes `premium_40GB`.
    fn from_str(text: &str) -> Result<Self, ()> {
        let all = [Self::Common, Self::Premium, Self::Premium40Gb];
        let mut all = all.into_iter();
        all.find(|kind| kind.as_str().eq_ignore_ascii_case(text))
            .ok_or(())
    }
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

impl NodeBalancerFlags {
    /// Reads them; faults stay with the reader.
    pub(super) fn read(reader: &mut Reader<'_>, vpcs: &VpcChoice) -> Self {
        Self {
            kind: reader.parsed(
                "default-nodebalancer-type",
                "write common, premium or premium_40gb",
            ),
            prefix: read_prefix(reader),
            cluster_name: reader.text("cluster-name"),
            tags: reader.list("nodebalancer-tags"),
            subnet: read_subnet(reader, vpcs),
            range: reader.optional(
                "nodebalancer-backend-ipv4-subnet",
                "write a block of IPv4 addresses like 10.100.0.0/24",
            ),
            ipv6_ingress: reader.bool("enable-ipv6-for-loadbalancers"),
            ipv6_backends: reader.bool("enable-ipv6-for-nodebalancer-backends"),
            drain_period: reader.duration("nodebalancer-drain-period"),
        }
    }
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
