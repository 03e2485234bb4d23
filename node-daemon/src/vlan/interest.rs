//! Which of the kernel's messages are about what this daemon cares for: a node with many Pods has
//! changes of interfaces and routes all the time.

use std::collections::BTreeSet;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::LinkMessage;

use super::observe::{Observed, route, rule};
use super::reconcile_state::ReconcileState;
use super::wanted::Wanted;
use crate::wire::netlink;

/// What to look out for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Interfaces, by number.
    links: BTreeSet<u32>,
    /// Whether every interface may matter: one that is named, or chosen by a route, is missing.
    all_links: bool,
}

impl Interest {
    /// In what was wanted and is there.
    #[must_use]
    pub fn new(wanted: &Wanted, observed: &Observed, reconcile_state: &ReconcileState) -> Self {
        let of_vlans = observed.links.iter().filter(|link| {
            let vlan = link.stack.vlan;
            vlan.is_some_and(|vlan| wanted.vlans.contains_key(&vlan))
        });
        let parents = wanted.vlans.keys().map(|vlan| vlan.parent);
        let of_vlans = of_vlans.map(|link| link.index);
        let links: BTreeSet<u32> = of_vlans.chain(parents).collect();
        Self {
            links: links.union(&reconcile_state.ours).copied().collect(),
            all_links: !wanted.faults.is_empty(),
        }
    }

    /// Whether a message is worth a look.
    #[must_use]
    pub fn concerns(&self, message: &RouteNetlinkMessage) -> bool {
        use RouteNetlinkMessage as Message;
        match message {
            // They come and go with the right to them, and are renewed twice a second.
            message if netlink::is_told_of(message) => false,
            Message::NewLink(link) | Message::DelLink(link) => self.link(link),
            Message::NewAddress(address) | Message::DelAddress(address) => {
                self.all_links || self.links.contains(&address.header.index)
            }
            Message::NewRoute(message) | Message::DelRoute(message) => {
                self.all_links || route(message).is_some()
            }
            Message::NewRule(message) | Message::DelRule(message) => rule(message).is_some(),
            _ => false,
        }
    }

    fn link(&self, link: &LinkMessage) -> bool {
        self.all_links || self.links.contains(&link.header.index)
    }
}
