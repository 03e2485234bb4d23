//! Routes to Pods, and pod CIDRs.

use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use mooring_common::flags::Reader;

use super::SHORTEST_PERIOD;
use crate::cloud_api::Fault;

const CLUSTER_CIDR: &str = "cluster-cidr";

/// Routes to Pods, and pod CIDRs.
#[derive(Clone, Debug)]
pub struct PodNetworkFlags {
    /// `--configure-cloud-routes`.
    pub routes: bool,
    /// `--allocate-node-cidrs`.
    pub allocates: bool,
    /// `--cluster-cidr`: at most one of each family.
    pub cluster_cidrs: Vec<IpNet>,
    /// `--route-reconciliation-period`.
    pub period: Duration,
}

impl PodNetworkFlags {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            routes: reader.bool("configure-cloud-routes"),
            allocates: reader.bool("allocate-node-cidrs"),
            cluster_cidrs: read_cluster_cidrs(reader),
            period: reader.duration_of_at_least("route-reconciliation-period", SHORTEST_PERIOD),
        }
    }

    /// The ranges of `--cluster-cidr`, for routes.
    ///
    /// # Errors
    /// A [`Fault`] if there is none.
    pub fn for_routes(&self) -> Result<Vec<IpNet>, Fault> {
        if self.cluster_cidrs.is_empty() {
            return Err(fault(
                "routes need it; write the range of the Nodes' pod CIDRs, such as 10.0.0.0/8",
            ));
        }
        Ok(self.cluster_cidrs.clone())
    }

    /// The one range of `--cluster-cidr` that pod CIDRs of this length are allocated from.
    ///
    /// # Errors
    /// A [`Fault`] if there is none, or more, or if no such pod CIDR fits.
    pub fn for_allocation(&self, mask: u8, mask_flag: &'static str) -> Result<Ipv4Net, Fault> {
        match self.cluster_cidrs.as_slice() {
            [IpNet::V4(cluster)] if cluster.prefix_len() <= mask => Ok(*cluster),
            [IpNet::V4(cluster)] => Err(Fault {
                variable: format!("--{mask_flag}").into(),
                value: Some(mask.to_string()),
                remedy: format!(
                    "no pod CIDR of this length fits into --{CLUSTER_CIDR}={cluster}; write a number from {} \
                     to 32",
                    cluster.prefix_len()
                ),
            }),
            _ => Err(fault(
                "--allocate-node-cidrs needs exactly one IPv4 range, such as 10.0.0.0/8",
            )),
        }
    }
}

fn fault(remedy: &str) -> Fault {
    Fault {
        variable: "--cluster-cidr".into(),
        value: None,
        remedy: remedy.to_owned(),
    }
}

fn read_cluster_cidrs(reader: &mut Reader<'_>) -> Vec<IpNet> {
    let mut cidrs: Vec<IpNet> = Vec::new();
    for text in reader.list(CLUSTER_CIDR) {
        let cidr = text.parse().ok().map(|cidr: IpNet| cidr.trunc());
        let is_second = |cidr: &IpNet| {
            let mut before = cidrs.iter();
            before.any(|other| other.addr().is_ipv4() == cidr.addr().is_ipv4())
        };
        match cidr.filter(|cidr| !is_second(cidr)) {
            Some(cidr) => cidrs.push(cidr),
            None => reader.fault(
                CLUSTER_CIDR,
                text,
                "write one range, or one of each family, such as 10.0.0.0/8,fd00:10::/48",
            ),
        }
    }
    cidrs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(cidrs: &[&str]) -> PodNetworkFlags {
        PodNetworkFlags {
            routes: true,
            allocates: true,
            cluster_cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
            period: SHORTEST_PERIOD,
        }
    }

    #[test]
    fn allocation_needs_one_ipv4_range_that_is_large_enough() {
        let allocation = |cidrs: &[&str], mask| {
            let ranges = flags(cidrs).for_allocation(mask, "mask");
            ranges.map_err(|fault| fault.to_string())
        };
        assert_eq!(
            allocation(&["10.0.0.0/16"], 16).unwrap().to_string(),
            "10.0.0.0/16"
        );
        let told = allocation(&["10.0.0.0/16"], 15).unwrap_err();
        assert!(
            told.contains("--mask=15: ") && told.contains("from 16 to 32"),
            "{told}"
        );
        for cidrs in [&[][..], &["fd00::/48"], &["10.0.0.0/16", "fd00::/48"]] {
            let told = allocation(cidrs, 24).unwrap_err();
            assert!(told.contains("exactly one IPv4 range"), "{told}");
        }
    }

    #[test]
    fn routes_need_a_range() {
        let told = flags(&[]).for_routes().unwrap_err().to_string();
        assert!(told.starts_with("--cluster-cidr: "), "{told}");
        assert_eq!(
            flags(&["10.0.0.0/8", "fd00::/48"])
                .for_routes()
                .unwrap()
                .len(),
            2
        );
    }
}
