//! Service addresses for which this node's kernel answers by itself, whichever node speaks for them: pure.
//!
//! Somebody has put them on an interface: kube-proxy in IPVS mode puts all of them on `kube-ipvs0`, on every
//! node, and other implementations leave theirs behind. The kernel answers ARP on any interface for an
//! address of any other, unless `arp_ignore` says otherwise; for neighbour discovery only on the one that
//! has it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::plan::Assignment;
use super::segments::{Role, Roles};
use crate::wire::links::Link;

/// Where kube-proxy in IPVS mode puts the addresses of Services.
const IPVS_INTERFACE: &str = "kube-ipvs0";
/// `arp_ignore`: answer for no address.
const ANSWER_FOR_NOTHING: i32 = 8;
/// How many addresses an Event names.
const MOST_NAMED: usize = 3;

/// For which addresses of one segment the kernel answers, by the interface that has them.
pub type KernelAnswers = BTreeMap<String, BTreeSet<IpAddr>>;

/// What the kernel answers for on each segment that this node is on. It goes by the greater `arp_ignore` of that for all
/// interfaces and that of the segment's.
#[must_use]
pub fn kernel_answers(
    roles: &Roles<'_>,
    links: &[Link],
    assignment: &Assignment,
    arp_ignore_of_all: i32,
) -> BTreeMap<String, KernelAnswers> {
    let mut answers = BTreeMap::new();
    for (segment, role) in roles {
        let Role::Speaker(link) = role else {
            continue;
        };
        let assigned: BTreeSet<IpAddr> = assignment
            .of(segment)
            .map(|(_, assigned)| assigned.address)
            .collect();
        let of_segment = of_segment(link, links, &assigned, arp_ignore_of_all);
        if !of_segment.is_empty() {
            answers.insert(segment.clone(), of_segment);
        }
    }
    answers
}

fn of_segment(
    own: &Link,
    links: &[Link],
    assigned: &BTreeSet<IpAddr>,
    arp_ignore_of_all: i32,
) -> KernelAnswers {
    let settings = own.stack.ipv4.unwrap_or_default();
    let arp_ignore = settings.arp_ignore.max(arp_ignore_of_all);
    let mut answers = KernelAnswers::new();
    for link in links {
        let is_own = link.index == own.index;
        let answers_for = |address: &IpAddr| match address {
            IpAddr::V4(_) if is_own => arp_ignore < ANSWER_FOR_NOTHING,
            IpAddr::V4(_) => arp_ignore == 0,
            IpAddr::V6(_) => is_own,
        };
        let addresses = link.addresses.iter().map(ipnet::IpNet::addr);
        let here: BTreeSet<IpAddr> = addresses
            .filter(|address| assigned.contains(address) && answers_for(address))
            .collect();
        if !here.is_empty() {
            answers.insert(link.name.clone(), here);
        }
    }
    answers
}

/// What an Event says of it.
#[must_use]
pub fn note(node: &str, segment: &str, interface: &str, addresses: &BTreeSet<IpAddr>) -> String {
    let first = addresses.iter().take(MOST_NAMED).map(ToString::to_string);
    let first: Vec<String> = first.collect();
    let others = addresses.len().saturating_sub(MOST_NAMED);
    let others = if others > 0 {
        format!(" and {others} more")
    } else {
        String::new()
    };
    let remedy = if interface == IPVS_INTERFACE {
        "kube-proxy in IPVS mode has put them there: set ipvs.strictARP: true in its configuration and restart \
         it, or net.ipv4.conf.all.arp_ignore=1 and net.ipv4.conf.all.arp_announce=2 on every node"
    } else {
        "Take them off that interface, and find out who has put them there, such as another implementation of \
         load balancers"
    };
    format!(
        "The kernel of Node {node} answers on L2Network {segment} for {}{others}, whichever node announces \
         them: interface {interface} has them. {remedy}.",
        first.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::links::{Ipv4Settings, Stack};

    fn link(index: u32, name: &str, addresses: &[&str], arp_ignore: i32) -> Link {
        Link {
            name: name.to_owned(),
            index,
            mac: None,
            up: true,
            addresses: addresses.iter().map(|net| net.parse().unwrap()).collect(),
            default_route: None,
            stack: Stack {
                ipv4: Some(Ipv4Settings {
                    arp_ignore,
                    ..Ipv4Settings::default()
                }),
                ..Stack::default()
            },
        }
    }

    fn found(own: &Link, others: &[Link], of_all: i32) -> Vec<(String, usize)> {
        let addresses = ["192.0.2.10", "192.0.2.11", "2001:db8::10"];
        let assigned = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let links: Vec<Link> = others.iter().chain([own]).cloned().collect();
        let answers = of_segment(own, &links, &assigned, of_all).into_iter();
        answers
            .map(|(name, addresses)| (name, addresses.len()))
            .collect()
    }

    #[test]
    fn addresses_of_other_interfaces_are_answered_for_unless_arp_ignore_is_set() {
        let ipvs = link(
            9,
            IPVS_INTERFACE,
            &["192.0.2.10/32", "2001:db8::10/128", "10.96.0.1/32"],
            0,
        );
        let own = |arp_ignore| link(2, "eth0", &["192.0.2.1/24"], arp_ignore);
        let ipvs = [ipvs];
        assert_eq!(found(&own(0), &ipvs, 0), [(IPVS_INTERFACE.to_owned(), 1)]);
        for (of_own, of_all) in [(1, 0), (0, 1), (2, 0)] {
            assert_eq!(found(&own(of_own), &ipvs, of_all), [], "{of_own} {of_all}");
        }
        assert_eq!(found(&own(0), &[], 0), []);
    }

    #[test]
    fn addresses_of_the_own_interface_are_answered_for() {
        let own = |arp_ignore| {
            link(
                2,
                "eth0",
                &["192.0.2.11/32", "2001:db8::10/128"],
                arp_ignore,
            )
        };
        for (arp_ignore, count) in [(0, 2), (1, 2), (8, 1)] {
            assert_eq!(
                found(&own(arp_ignore), &[], 0),
                [("eth0".to_owned(), count)]
            );
        }
    }

    #[test]
    fn the_remedy_is_that_of_the_interface() {
        let many: BTreeSet<IpAddr> = (1..6u8).map(|last| [192, 0, 2, last].into()).collect();
        let told = note("n1", "lan", IPVS_INTERFACE, &many);
        assert!(
            told.contains("192.0.2.3 and 2 more") && told.contains("strictARP: true"),
            "{told}"
        );
        let told = note("n1", "lan", "eth0", &many);
        assert!(!told.contains("strictARP") && told.len() < 1024, "{told}");
    }
}
