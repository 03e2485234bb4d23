//! Linode's own flags.

mod node_balancers;

use mooring_common::flags::Reader;

pub use node_balancers::{BackendSubnet, NodeBalancerFlags, NodeBalancerType};

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
        let vpcs = read_vpcs(reader);
        Self {
            tag: reader.text("linode-tag-filter"),
            checks_token: reader.bool("enable-token-health-checker"),
            logs_exchanges: reader.bool("linodego-debug"),
            node_balancers: NodeBalancerFlags::read(reader, &vpcs),
            vpcs,
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
