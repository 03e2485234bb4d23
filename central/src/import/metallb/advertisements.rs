//! Where the addresses of a pool are announced: what all L2Advertisements that choose it say together.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::program::Program;
use super::schema::AdvertisementSpec;
use super::told_of_unknown;
use crate::import::assemble::Place;
use crate::import::finding::Findings;
use crate::import::objects::Object;
use crate::import::selectors::{self, Joined};

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
    let first = *chosen.first()?;
    let is_everywhere = |one: &&Advertisement| is_anywhere(&one.spec);
    if let Some(everywhere) = chosen.iter().copied().find(|one| is_everywhere(&one)) {
        chosen = vec![everywhere];
    } else if chosen
        .iter()
        .any(|one| one.spec.interfaces != first.spec.interfaces)
    {
        let others = chosen.iter().skip(1).map(|one| one.named());
        findings.cannot_say(
            format!("IPAddressPool {}: {}", pool.name(), others.collect::<Vec<_>>().join(", ")),
            format!(
                "it announces the pool on other interfaces than {}, which is taken. Make an L2Network for each, \
                 with a part of the pool",
                first.named()
            ),
        );
        chosen.truncate(1);
    }
    let nodes = nodes(pool, &chosen, findings);
    Some(Place {
        name: first.name.clone(),
        parent: interface(first, findings),
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

/// The one interface that it names.
fn interface(advertisement: &Advertisement, findings: &mut Findings) -> Option<String> {
    let interfaces = &advertisement.spec.interfaces;
    if interfaces.len() > 1 {
        findings.cannot_say(
            format!("{}: spec.interfaces: {}", advertisement.named(), interfaces.join(", ")),
            "an L2Network is on one interface of a Node: it is left to the daemon to find the one with an \
             address in the subnet",
        );
        return None;
    }
    interfaces.first().cloned()
}
