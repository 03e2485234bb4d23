//! Where the addresses of a pool are announced: what all L2Advertisements that choose it say together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use mooring_common::l2_network::SegmentInterface;

use super::program::Program;
use super::schema::AdvertisementSpec;
use super::told_of_unknown;
use crate::run::import::assemble::Place;
use crate::run::import::finding::Findings;
use crate::run::import::objects::Object;
use crate::run::import::selectors::{self, Joined};

/// A pattern that matches each interface.
const ANY_INTERFACE: &str = "*";

/// An L2Advertisement that was read.
#[derive(Clone, Debug)]
pub(super) struct Advertisement {
    name: String,
    spec: AdvertisementSpec,
}

impl Advertisement {
    /// Reads one. What it says that no L2Network does is told.
    pub(super) fn read(object: &Object, findings: &mut Findings) -> Option<Self> {
        let name = object.name().to_owned();
        let named = format!("L2Advertisement {name}");
        let mut spec: AdvertisementSpec = object.spec(&named, findings)?;
        told_of_unknown(&named, "spec", &spec.unknown, findings);
        if !spec.service_selectors.is_empty() {
            findings.cannot_say(
                format!("{named}: spec.serviceSelectors"),
                "an L2Network announces all addresses that Services have of it. Limit who gets one: by \
                 allowedServices of the pool",
            );
        }
        spec.interfaces.sort();
        spec.interfaces.dedup();
        Some(Self { name, spec })
    }

    fn named(&self) -> String {
        format!("L2Advertisement {}", self.name)
    }

    /// Whether it announces the addresses of this IPAddressPool.
    fn chooses(&self, pool: &Object) -> bool {
        let (names, by_label) = (
            &self.spec.ip_address_pools,
            &self.spec.ip_address_pool_selectors,
        );
        let labels = pool.labels();
        (names.is_empty() && by_label.is_empty())
            || names.iter().any(|name| name == pool.name())
            || by_label
                .iter()
                .any(|selector| selectors::matches(selector, &labels))
    }
}

/// Where the pool is announced; `None`: nowhere.
pub(super) fn place(
    pool: &Object,
    all: &[Advertisement],
    program: &Program,
    findings: &mut Findings,
) -> Option<Place> {
    let mut chosen: Vec<&Advertisement> = all.iter().filter(|one| one.chooses(pool)).collect();
    if let Some(everywhere) = chosen.iter().copied().find(|one| is_anywhere(&one.spec)) {
        chosen = vec![everywhere];
    }
    let first = *chosen.first()?;
    let nodes = nodes(pool, &chosen, findings);
    Some(Place {
        name: first.name.clone(),
        interfaces: interfaces(&chosen, findings),
        node_selector: selectors::both(nodes, program.nodes.clone()),
        includes_excluded: program.includes_excluded,
    })
}

fn is_anywhere(spec: &AdvertisementSpec) -> bool {
    let nodes = selectors::any_of(&spec.node_selectors);
    spec.interfaces.is_empty() && nodes == Joined::Everything
}

/// The Nodes that any of them names.
fn nodes(
    pool: &Object,
    chosen: &[&Advertisement],
    findings: &mut Findings,
) -> Option<LabelSelector> {
    let mut all = Vec::new();
    for one in chosen {
        if selectors::any_of(&one.spec.node_selectors) == Joined::Everything {
            return None;
        }
        all.extend(one.spec.node_selectors.iter().cloned());
    }
    match selectors::any_of(&all) {
        Joined::Everything => None,
        Joined::Exact(selector) => Some(selector),
        Joined::First(selector) => {
            let names: Vec<_> = chosen.iter().map(|one| one.named()).collect();
            findings.cannot_say(
                format!("{}: spec.nodeSelectors, for IPAddressPool {}", names.join(", "), pool.name()),
                "any of several selectors about different labels may match, and an L2Network has one: the first \
                 is taken. Give the Nodes a label of their own, and select by it",
            );
            Some(selector)
        }
    }
}

/// The interfaces that they name: each for the Nodes of its L2Advertisement, if these differ.
fn interfaces(chosen: &[&Advertisement], findings: &mut Findings) -> Vec<SegmentInterface> {
    let mut found: Vec<SegmentInterface> = Vec::new();
    let mut sets = chosen.iter().map(|one| &one.spec.interfaces);
    let first = sets.next().cloned().unwrap_or_default();
    if sets.all(|set| *set == first) {
        found.extend(first.iter().flat_map(|name| Place::on(name)));
    } else {
        for one in chosen {
            let nodes = match selectors::any_of(&one.spec.node_selectors) {
                Joined::Everything => None,
                Joined::Exact(selector) | Joined::First(selector) => Some(selector),
            };
            let any = [ANY_INTERFACE.to_owned()];
            let names = match one.spec.interfaces.as_slice() {
                [] => any.as_slice(),
                names => names,
            };
            found.extend(names.iter().map(|name| SegmentInterface {
                name: name.clone(),
                node_selector: nodes.clone(),
            }));
        }
    }
    if found.len() > 1 {
        let named: Vec<_> = chosen.iter().map(|one| one.named()).collect();
        let names: Vec<_> = found.iter().map(|one| one.name.clone()).collect();
        findings.assume(
            format!("{}: spec.interfaces: {}", named.join(", "), names.join(", ")),
            "MetalLB announces on all of them. A Node announces on the first that it has: they are taken for the \
             names of one segment's interface on different Nodes",
        );
    }
    found
}
