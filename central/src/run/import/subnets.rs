//! The subnets of the segments. MetalLB and kube-vip know none: they are given on the command line, or guessed from
//! the addresses of Nodes.

use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;
use mooring_common::address_range::AddressRange;
use mooring_common::l2_network::Subnet;

use super::finding::Findings;
use super::ranges;

/// The longest and the shortest prefix of a guess that is to hold a Node, too.
const WITH_NODES_V4: std::ops::RangeInclusive<u8> = 22..=24;
const PREFIXES_V6: [u8; 5] = [64, 56, 48, 32, 0];

/// A subnet, with its router if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownSubnet {
    pub(super) cidr: IpNet,
    pub(super) gateway: Option<IpAddr>,
}

impl KnownSubnet {
    /// As an L2Network has it.
    pub(super) fn spec(&self) -> Subnet {
        Subnet {
            cidr: self.cidr.to_string(),
            gateway: self.gateway.map(|gateway| gateway.to_string()),
        }
    }

    /// Which of the ranges are in it.
    pub(super) fn part_of(&self, all: &[AddressRange]) -> Vec<AddressRange> {
        ranges::common(all, &ranges::of_subnet(self.cidr))
    }
}

/// Reads the parts of `--subnet`: a CIDR block, optionally followed by the address of its router.
///
/// # Errors
/// What is wrong with the first part that is, and what to write.
pub(super) fn read(parts: &[String]) -> Result<Vec<KnownSubnet>, String> {
    let mut subnets: Vec<KnownSubnet> = Vec::new();
    for part in parts {
        if part.contains('/') {
            let cidr = part.parse::<IpNet>().map_err(|_| {
                format!(
                    "{part:?} is no subnet; write CIDR or CIDR,GATEWAY, like 192.0.2.0/24,192.0.2.1"
                )
            })?;
            let overlapping = subnets.iter().find(|other| overlap(other.cidr, cidr));
            if let Some(other) = overlapping {
                return Err(format!(
                    "{part} overlaps {}; name each subnet once",
                    other.cidr
                ));
            }
            subnets.push(KnownSubnet {
                cidr: cidr.trunc(),
                gateway: None,
            });
            continue;
        }
        let gateway = part.parse::<IpAddr>().ok();
        match (subnets.last_mut(), gateway) {
            (Some(subnet), Some(gateway))
                if subnet.gateway.is_none() && subnet.cidr.contains(&gateway) =>
            {
                subnet.gateway = Some(gateway);
            }
            _ => {
                return Err(format!(
                    "{part:?} is no router of the subnet before it; write CIDR,GATEWAY, like \
                     192.0.2.0/24,192.0.2.1"
                ));
            }
        }
    }
    Ok(subnets)
}

fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

/// All subnets that hold the ranges: those given, and a guess for what none of them holds.
pub(super) fn complete(
    given: &[KnownSubnet],
    all: &[AddressRange],
    nodes: &[IpAddr],
    findings: &mut Findings,
) -> Vec<KnownSubnet> {
    let held: Vec<_> = given
        .iter()
        .flat_map(|subnet| ranges::of_subnet(subnet.cidr))
        .collect();
    let left = AddressRange::without(all, &held);
    let mut guesses: Vec<IpNet> = left
        .iter()
        .filter_map(|range| guess(range, nodes))
        .collect();
    guesses.sort_by_key(|guess| (guess.prefix_len(), *guess));
    let mut widest: Vec<IpNet> = Vec::new();
    for guess in guesses {
        if !widest.iter().any(|wider| wider.contains(&guess)) {
            widest.push(guess);
        }
    }
    for guess in &widest {
        let held: Vec<_> = nodes.iter().filter(|node| guess.contains(*node)).collect();
        let mut reason = match held.first() {
            Some(node) => format!("the usual prefix that holds the pool and Node address {node}"),
            None => "the usual prefix that holds the pool; no Node has an address in it".to_owned(),
        };
        let _ = write!(
            reason,
            ". Name it, with its router, by --subnet={guess},GATEWAY, or the right one"
        );
        findings.assume(format!("subnet {guess}"), reason);
    }
    let guessed = widest.into_iter().map(|cidr| KnownSubnet {
        cidr,
        gateway: None,
    });
    given.iter().cloned().chain(guessed).collect()
}

fn guess(range: &AddressRange, nodes: &[IpAddr]) -> Option<IpNet> {
    let subnet = |prefix: u8| {
        let subnet = IpNet::new(range.first(), prefix).ok()?.trunc();
        subnet.contains(&range.last()).then_some(subnet)
    };
    if !range.is_ipv4() {
        return PREFIXES_V6.into_iter().find_map(subnet);
    }
    let holds_node = |subnet: &IpNet| nodes.iter().any(|node| subnet.contains(node));
    let with_nodes = WITH_NODES_V4.rev().filter_map(subnet).find(holds_node);
    with_nodes.or_else(|| (0..=24).rev().find_map(subnet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> Result<Vec<KnownSubnet>, String> {
        let parts: Vec<_> = line.split(',').map(ToOwned::to_owned).collect();
        read(&parts)
    }

    #[test]
    fn reads_subnets_with_and_without_router() {
        let all =
            given("192.0.2.0/24,192.0.2.1,2001:db8::/64,198.51.100.0/25,198.51.100.1").unwrap();
        let shown: Vec<_> = all
            .iter()
            .map(|s| (s.cidr.to_string(), s.gateway.is_some()))
            .collect();
        let expected = [
            ("192.0.2.0/24", true),
            ("2001:db8::/64", false),
            ("198.51.100.0/25", true),
        ];
        assert_eq!(shown, expected.map(|(cidr, has)| (cidr.to_owned(), has)));
        for wrong in [
            "192.0.2.1",
            "192.0.2.0/33",
            "192.0.2.0/24,192.0.3.1",
            "192.0.2.0/24,192.0.2.1,192.0.2.2",
            "192.0.2.0/24,192.0.2.0/25",
        ] {
            assert!(given(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn guesses_hold_pool_and_node_where_they_are_near() {
        let guessed = |range: &str, nodes: &[&str]| {
            let nodes: Vec<IpAddr> = nodes.iter().map(|node| node.parse().unwrap()).collect();
            let all = ranges::parse(range).unwrap();
            let mut findings = Findings::default();
            let subnets = complete(&[], &all, &nodes, &mut findings);
            assert_eq!(findings.sorted().len(), subnets.len());
            assert!(findings.is_complete());
            subnets
                .iter()
                .map(|s| s.cidr.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(guessed("192.0.2.200/29", &["192.0.2.11"]), "192.0.2.0/24");
        assert_eq!(guessed("10.0.3.0/28", &["10.0.0.9"]), "10.0.0.0/22");
        assert_eq!(guessed("10.9.3.0/28", &["10.0.0.9"]), "10.9.3.0/24");
        assert_eq!(guessed("10.0.0.0/20", &[]), "10.0.0.0/20");
        assert_eq!(
            guessed("2001:db8::100/120", &["192.0.2.11"]),
            "2001:db8::/64"
        );
    }

    #[test]
    fn guesses_only_what_is_not_given() {
        let subnets = given("192.0.2.0/25").unwrap();
        let all = ranges::parse("192.0.2.120-192.0.2.130").unwrap();
        let mut findings = Findings::default();
        let all = complete(&subnets, &all, &[], &mut findings);
        assert_eq!(all.len(), 2);
        let none = complete(
            &subnets,
            &ranges::parse("192.0.2.4/30").unwrap(),
            &[],
            &mut findings,
        );
        assert_eq!(none, subnets);
    }
}
