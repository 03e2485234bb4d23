//! Addresses that several Services have.
//!
//! To get an address that another Service has takes all rules: the same sharing key, one namespace unless
//! the L2Network permits others, no port in common, and nodes that can serve both. To keep one takes less,
//! since a Service loses nothing by a rule that it breaks later: that no port of it is another Service's
//! there. Two Services with one port of one address would get each other's traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;

use super::{Allocations, Held, Pool, Request, State, Unavailable};

/// What decides with whom a Service can share addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharingTerms {
    /// Its sharing key; `None`: it shares with nobody.
    pub key: Option<String>,
    /// Its ports.
    pub ports: BTreeSet<Port>,
    /// Where its traffic can be accepted.
    pub backends: Backends,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Its number.
    pub number: u16,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol, self.number)
    }
}

/// Which nodes can accept the traffic of a Service, by its `externalTrafficPolicy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backends {
    /// `Cluster`: all.
    #[default]
    AnyNode,
    /// `Local`: those with a Pod that this selects.
    NodesOf(BTreeMap<String, String>),
}

/// A rule of sharing that two Services break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Their keys differ, or one has none.
    #[error("the annotation mooring.dev/allow-shared-ip has not the same value on both")]
    Keys,
    /// They are in different namespaces.
    #[error(
        "they are in different namespaces, and spec.shareAcrossNamespaces of the L2Network does not \
         permit that"
    )]
    Namespaces,
    /// They have ports in common.
    #[error("both have {}", ports(.0))]
    Ports(Vec<Port>),
    /// One accepts traffic on every node, the other where its Pods are.
    #[error("externalTrafficPolicy is Cluster on one of them and Local on the other")]
    Policies,
    /// Both accept traffic where their Pods are, and these are others.
    #[error("externalTrafficPolicy is Local, and they do not have the same Pods")]
    Pods,
}

/// Why an address cannot be shared with one of the Services that have it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Service {with}: {}", rules(violations))]
pub struct Unshareable {
    /// The other Service.
    pub with: ObjectKey,
    /// The rules that are broken, all of them.
    pub violations: Vec<Violation>,
}

/// Two Services have one port of one address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} is the address of Service {with} as well, and both have {}",
    ports(common)
)]
pub struct Collision {
    /// The address.
    pub address: IpAddr,
    /// The Service that keeps it.
    pub with: ObjectKey,
    /// The ports that they have in common.
    pub common: Vec<Port>,
}

fn ports(all: &[Port]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    format!("the port {}", all.join(", "))
}

fn rules(broken: &[Violation]) -> String {
    let all: Vec<String> = broken.iter().map(ToString::to_string).collect();
    all.join(", and ")
}

impl SharingTerms {
    fn common_ports(&self, other: &Self) -> Vec<Port> {
        self.ports.intersection(&other.ports).cloned().collect()
    }
}

/// The rules that two Services break.
fn violations(
    (one, mine): (&ObjectKey, &SharingTerms),
    (other, theirs): (&ObjectKey, &SharingTerms),
    across_namespaces: bool,
) -> Vec<Violation> {
    let mut broken = Vec::new();
    if mine.key.is_none() || mine.key != theirs.key {
        broken.push(Violation::Keys);
    }
    let together = one.namespace == other.namespace;
    if !together && !across_namespaces {
        broken.push(Violation::Namespaces);
    }
    let common = mine.common_ports(theirs);
    if !common.is_empty() {
        broken.push(Violation::Ports(common));
    }
    match (&mine.backends, &theirs.backends) {
        (Backends::AnyNode, Backends::AnyNode) => {}
        // Without a selector nobody knows which Pods they are.
        (Backends::NodesOf(mine), Backends::NodesOf(theirs)) => {
            if !together || mine.is_empty() || mine != theirs {
                broken.push(Violation::Pods);
            }
        }
        _ => broken.push(Violation::Policies),
    }
    broken
}

impl State {
    /// The Services that hold an address beside this one, with their terms.
    fn other_holders(
        &self,
        key: &ObjectKey,
        address: IpAddr,
    ) -> impl Iterator<Item = (&ObjectKey, &SharingTerms)> {
        let occupants = self.by_address.get(&address).into_iter().flatten();
        let others = occupants.filter(move |other| *other != key);
        others.filter_map(move |other| Some((other, self.terms_of_holder(other, address)?)))
    }

    fn terms_of_holder(&self, key: &ObjectKey, address: IpAddr) -> Option<&SharingTerms> {
        let held = self.held.get(key)?;
        let terms = self.terms.get(key)?;
        held.addresses.contains(&address).then_some(terms)
    }

    fn shares_across_namespaces(&self, address: IpAddr) -> bool {
        let mut pools = self.pools.iter();
        let pool = pools.find(|pool| pool.contains(address));
        pool.is_some_and(|pool| pool.shares_across_namespaces)
    }

    /// Whether a Service may get an address, be it that others have it.
    pub(super) fn may_join(&self, key: &ObjectKey, address: IpAddr) -> Result<(), Unavailable> {
        let occupants = self.by_address.get(&address).into_iter().flatten();
        let mut unshareable = Vec::new();
        for other in occupants.filter(|other| *other != key) {
            let own = self.terms.get(key).filter(|terms| terms.key.is_some());
            // Who is about to give it up, or is served by another implementation, shares with nobody.
            let (Some(own), Some(theirs)) = (own, self.terms_of_holder(other, address)) else {
                let by = other.clone();
                return Err(Unavailable::Taken { address, by });
            };
            let across_namespaces = self.shares_across_namespaces(address);
            let violations = violations((key, own), (other, theirs), across_namespaces);
            if !violations.is_empty() {
                let with = other.clone();
                unshareable.push(Unshareable { with, violations });
            }
        }
        if unshareable.is_empty() {
            return Ok(());
        }
        Err(Unavailable::NotShared {
            address,
            unshareable,
        })
    }

    /// Whether a Service may have an address by its record: what it has already, or could get.
    pub(super) fn may_keep_or_join(&self, key: &ObjectKey, address: IpAddr) -> bool {
        let occupied = self.occupied.get(key);
        if occupied.is_some_and(|occupied| occupied.contains(&address)) {
            return self.may_keep(key, address);
        }
        self.may_join(key, address).is_ok()
    }

    /// Whether a Service may keep an address that its status proves to be its own. Whoever had it first
    /// comes before it.
    pub(super) fn may_keep(&self, key: &ObjectKey, address: IpAddr) -> bool {
        let occupants = self.by_address.get(&address).into_iter().flatten();
        let nothing = SharingTerms::default();
        let own = self.terms.get(key).unwrap_or(&nothing);
        let mut is_before = true;
        for other in occupants {
            if other == key {
                is_before = false;
                continue;
            }
            let is_compatible = |theirs: &SharingTerms| own.common_ports(theirs).is_empty();
            let counts = is_before || self.terms_of_holder(other, address).is_some();
            if counts && !self.terms.get(other).is_some_and(is_compatible) {
                return false;
            }
        }
        true
    }

    /// An address that a Service has, or else one that it still shows in its status, of which another one that
    /// holds it has the same port.
    pub(super) fn collision(&self, key: &ObjectKey) -> Option<Collision> {
        let own = self.terms.get(key)?;
        let held = self.held.get(key).map(|held| &held.addresses);
        let is_left = |address: &IpAddr| held.is_none_or(|held| !held.contains(address));
        let mut occupied: Vec<&IpAddr> = self.occupied.get(key)?.iter().collect();
        occupied.sort_unstable_by_key(|address| (is_left(address), **address));
        occupied.into_iter().find_map(|address| {
            let mut others = self.other_holders(key, *address);
            others.find_map(|(other, theirs)| {
                let common = own.common_ports(theirs);
                (!common.is_empty()).then(|| Collision {
                    address: *address,
                    with: other.clone(),
                    common,
                })
            })
        })
    }

    /// What a Service had best have of a pool by its sharing key: addresses of one other Service that has
    /// the same, and of which it keeps all rules. `fixed`: what it has or asks for, which the other one has to
    /// have as well.
    pub(super) fn shareable(
        &self,
        pool: &Pool,
        key: &ObjectKey,
        request: &Request,
        fixed: &[IpAddr],
    ) -> Vec<IpAddr> {
        let own = self.terms.get(key).and_then(|terms| terms.key.as_ref());
        let Some(own) = own else {
            return Vec::new();
        };
        let others = self.terms.iter();
        let others =
            others.filter(|(other, terms)| *other != key && terms.key.as_ref() == Some(own));
        let of_pool = |held: &&Held| held.network == pool.network && pool.has_all(&held.addresses);
        let has_fixed = |held: &&Held| fixed.iter().all(|one| held.addresses.contains(one));
        let held = others.filter_map(|(other, _)| self.held.get(other));
        let offers = held.filter(of_pool).filter(has_fixed).map(|held| {
            let wanted = |address: &&IpAddr| {
                request.families.contains(&super::Family::of(**address))
                    && !self.is_reserved(**address)
                    && self.may_join(key, **address).is_ok()
            };
            held.addresses.iter().filter(wanted).copied().collect()
        });
        let best = offers.min_by_key(|offer: &Vec<IpAddr>| {
            let lacking = request.families.len().saturating_sub(offer.len());
            (lacking, offer.clone())
        });
        best.unwrap_or_default()
    }
}

impl Allocations {
    /// Takes note of a Service's terms; `None`: it is another implementation's. True if it holds something,
    /// and they were others: somebody may be able to share with it now.
    pub fn set_terms(&self, key: &ObjectKey, terms: Option<SharingTerms>) -> bool {
        let mut state = self.lock();
        if state.terms.get(key) == terms.as_ref() {
            return false;
        }
        match terms {
            Some(terms) => state.terms.insert(key.clone(), terms),
            None => state.terms.remove(key),
        };
        state.held.contains_key(key)
    }

    /// Takes from a Service what it holds, if another one that holds the same has the same port. Nobody else
    /// gets it until [`Self::settle`].
    pub fn lose_collided(&self, key: &ObjectKey) -> Option<Collision> {
        let mut state = self.lock();
        let collision = state.collision(key)?;
        let held = state.held.get(key);
        if held.is_some_and(|held| held.addresses.contains(&collision.address)) {
            state.held.remove(key);
        }
        Some(collision)
    }

    /// An address of a Service on which another Service has the same port: it has lost it, or is about to.
    #[must_use]
    pub fn collision(&self, key: &ObjectKey) -> Option<Collision> {
        self.lock().collision(key)
    }

    /// With whom a Service shares what it holds against the rules.
    #[must_use]
    pub fn irregular_sharing(&self, key: &ObjectKey) -> Vec<(IpAddr, Unshareable)> {
        let state = self.lock();
        let Some((held, own)) = state.held.get(key).zip(state.terms.get(key)) else {
            return Vec::new();
        };
        let mut irregular = Vec::new();
        for address in &held.addresses {
            let across_namespaces = state.shares_across_namespaces(*address);
            for (other, theirs) in state.other_holders(key, *address) {
                let violations = violations((key, own), (other, theirs), across_namespaces);
                if !violations.is_empty() {
                    let with = other.clone();
                    irregular.push((*address, Unshareable { with, violations }));
                }
            }
        }
        irregular
    }
}

#[cfg(test)]
mod tests;
