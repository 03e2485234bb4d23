//! Whom a firewall lets in or keeps out, as rules where each has networks, ports and one protocol.

use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv4Net};
use serde::Serialize;

use super::annotations::Reader;
use super::canonical::{canonical_network, network};
use super::port_rules::packed;

/// Whom a firewall lets in, or keeps out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Acl {
    /// Whether these are let in; else they are kept out.
    pub allows: bool,
    /// These.
    pub networks: BTreeSet<IpNet>,
}

/// How much one rule holds.
#[derive(Clone, Copy, Debug)]
pub struct RuleLimits {
    /// Ports.
    pub ports: usize,
    /// Networks of both families together.
    pub networks: usize,
}

/// What one rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    /// Whether it is about UDP; else about TCP.
    pub is_udp: bool,
    /// `80,443`
    pub ports: String,
    /// Networks of IPv4.
    pub ipv4: Vec<String>,
    /// Networks of IPv6.
    pub ipv6: Vec<String>,
}

impl Acl {
    /// Whom `spec.loadBalancerSourceRanges` lets in. `None`: everybody, which Kubernetes writes as `0.0.0.0/0`
    /// whatever the family.
    pub fn of_source_ranges(reader: &mut Reader<'_>) -> Option<Self> {
        let ranges = reader.source_ranges();
        let networks: BTreeSet<_> = ranges.iter().filter_map(|text| network(text)).collect();
        let is_open = networks.contains(&IpNet::V4(Ipv4Net::default()));
        (!networks.is_empty() && !is_open).then_some(Self {
            allows: true,
            networks,
        })
    }

    /// As few rules as say this of these ports: number, and whether it is UDP.
    #[must_use]
    pub fn rules(&self, ports: &[(u16, bool)], limits: RuleLimits) -> Vec<AclRule> {
        let networks = self.packed(limits.networks);
        let mut rules = Vec::new();
        for is_udp in [false, true] {
            let ports = ports.iter().filter(|(_, udp)| *udp == is_udp);
            for ports in packed(ports.map(|(port, _)| *port), limits.ports) {
                rules.extend(networks.iter().map(|[ipv4, ipv6]| AclRule {
                    is_udp,
                    ports: ports.clone(),
                    ipv4: ipv4.clone(),
                    ipv6: ipv6.clone(),
                }));
            }
        }
        rules
    }

    /// As few rules' worth of networks as hold them all: families together if they fit into one.
    fn packed(&self, most: usize) -> Vec<[Vec<String>; 2]> {
        let texts = |is_v4: bool| -> Vec<String> {
            let is_of_family = |net: &&IpNet| net.addr().is_ipv4() == is_v4;
            let of_family = self.networks.iter().filter(is_of_family);
            of_family.map(ToString::to_string).collect()
        };
        let (ipv4, ipv6) = (texts(true), texts(false));
        if ipv4.len() + ipv6.len() <= most {
            return vec![[ipv4, ipv6]];
        }
        let v4 = ipv4.chunks(most).map(|ipv4| [ipv4.to_vec(), Vec::new()]);
        let v6 = ipv6.chunks(most).map(|ipv6| [Vec::new(), ipv6.to_vec()]);
        v4.chain(v6).collect()
    }
}

/// What a rule does, and to which protocol.
pub type Verb<'a> = [&'a str; 2];

/// What rules do to each port and network, whichever rule says it. Each of `rules`: what it does, its ports and its
/// networks.
pub fn meaning<'a, N: Iterator<Item = &'a String>>(
    rules: impl Iterator<Item = (Verb<'a>, &'a str, N)>,
) -> BTreeSet<(Verb<'a>, &'a str, String)> {
    let mut all = BTreeSet::new();
    for (verb, ports, networks) in rules {
        for text in networks {
            let network = canonical_network(text).unwrap_or_else(|| text.clone());
            let ports = ports.split(',').map(str::trim);
            all.extend(ports.map(|port| (verb, port, network.clone())));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each rule, whether it is about UDP, its ports, and how many networks it has.
    fn rules(networks: &[&str], ports: &[(u16, bool)]) -> Vec<(bool, String, usize, usize)> {
        let acl = Acl {
            allows: true,
            networks: networks.iter().filter_map(|text| network(text)).collect(),
        };
        let limits = RuleLimits {
            ports: 2,
            networks: 2,
        };
        let rules = acl.rules(ports, limits).into_iter();
        rules
            .map(|rule| (rule.is_udp, rule.ports, rule.ipv4.len(), rule.ipv6.len()))
            .collect()
    }

    #[test]
    fn rules_are_as_few_as_hold_all() {
        let (one, both) = (&["10.0.0.1"][..], &["2001:db8::/32", "10.0.0.0/8"][..]);
        let three = [both, &["10.1.0.0/16"]].concat();
        let text = ToOwned::to_owned;
        assert_eq!(rules(one, &[(80, false)]), [(false, text("80"), 1, 0)]);
        assert_eq!(
            rules(both, &[(3, false), (1, false), (2, false), (1, true)]),
            [
                (false, text("3,1"), 1, 1),
                (false, text("2"), 1, 1),
                (true, text("1"), 1, 1)
            ]
        );
        assert_eq!(
            rules(&three, &[(53, true)]),
            [(true, text("53"), 2, 0), (true, text("53"), 0, 1)]
        );
    }

    #[test]
    fn meaning_is_the_same_whichever_rule_says_it() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (both, first, second) = (
            texts(&["10.0.0.9/8", "2001:DB8::/32"]),
            texts(&["2001:db8::/32"]),
            texts(&["10.0.0.0/8"]),
        );
        let verb = ["allow", "tcp"];
        let one = [(verb, "443, 80", both.iter())];
        let several = [
            (verb, "80,443", first.iter()),
            (verb, "443", second.iter()),
            (verb, "80", second.iter()),
        ];
        assert_eq!(
            meaning(one.clone().into_iter()),
            meaning(several.into_iter())
        );
        let denied = [(["deny", "tcp"], "443, 80", both.iter())];
        assert_ne!(meaning(one.into_iter()), meaning(denied.into_iter()));
    }
}
