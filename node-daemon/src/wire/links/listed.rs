//! The interface of a segment whose L2Network lists several.

use mooring_common::l2_network::{InterfaceEntry, Segment};

use super::{Link, NoLink, Vlan, narrowness, whole};

/// The most interfaces that a fault names.
const NAMED: usize = 8;

/// The first of the listed interfaces that is there. Of several that one entry matches: that with an address
/// in a whole one of the subnets; else the one that the segment was on, `home`; else the first.
///
/// Where `home` is listed and gone, no entry after its own counts unless such an address shows that the
/// interface is on the same network.
pub(super) fn choose<'a>(
    segment: &Segment,
    entries: &[InterfaceEntry],
    links: &'a [Link],
    home: Option<&str>,
) -> Result<&'a Link, NoLink> {
    if entries.is_empty() {
        return Err(NoLink::NoEntry);
    }
    let able = || links.iter().filter(|link| link.mac.is_some());
    let is_home = |link: &Link| Some(link.name.as_str()) == home;
    let is_in_subnet = |link: &Link| narrowness(segment, carrier(segment, link, links)) == Some(0);
    let of_entry = |entry: &InterfaceEntry| {
        able()
            .filter(|link| entry.pattern.matches(&link.name))
            .min_by_key(|link| (!is_in_subnet(link), !is_home(link), link.index))
    };
    let mut there = entries.iter().enumerate();
    let there = there.find_map(|(place, entry)| Some((place, of_entry(entry)?)));
    if let Some(home) = home
        && !able().any(is_home)
        && let Some(own) = entries.iter().position(|entry| entry.pattern.matches(home))
        && !there.is_some_and(|(place, link)| place < own || is_in_subnet(link))
    {
        return shown(entries, of_entry, is_in_subnet)
            .map(|link| whole(link, links))
            .ok_or_else(|| NoLink::Gone(home.to_owned()));
    }
    match there {
        Some((_, link)) => Ok(whole(link, links)),
        None => Err(not_listed(entries, able())),
    }
}

/// The first listed interface of which an address shows that it is on the network.
fn shown<'a>(
    entries: &[InterfaceEntry],
    of_entry: impl Fn(&InterfaceEntry) -> Option<&'a Link>,
    is_in_subnet: impl Fn(&Link) -> bool,
) -> Option<&'a Link> {
    let mut there = entries.iter().filter_map(of_entry);
    there.find(|link| is_in_subnet(link))
}

/// The interface that has the addresses of the segment, if this one is its own: of a VLAN the one above.
fn carrier<'a>(segment: &Segment, link: &'a Link, links: &'a [Link]) -> &'a Link {
    let vlan = segment.vlan.map(|id| Vlan {
        parent: link.index,
        id,
    });
    let above = vlan.and_then(|vlan| links.iter().find(|link| link.stack.vlan == Some(vlan)));
    above.unwrap_or(link)
}

fn not_listed<'a>(entries: &[InterfaceEntry], able: impl Iterator<Item = &'a Link>) -> NoLink {
    let names: Vec<_> = entries
        .iter()
        .map(|entry| entry.pattern.to_string())
        .collect();
    let mut there: Vec<&str> = able.map(|link| link.name.as_str()).collect();
    let more = there.len().saturating_sub(NAMED);
    there.truncate(NAMED);
    let mut there = there.join(", ");
    if there.is_empty() {
        "none".clone_into(&mut there);
    } else if more > 0 {
        there.push_str(&format!(" and {more} more"));
    }
    NoLink::NotListed {
        names: names.join(" or "),
        there,
    }
}
