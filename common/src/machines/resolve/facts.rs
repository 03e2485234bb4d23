//! Puts together what is known of a machine, each fact from the first source that has it.

use std::collections::BTreeMap;

use super::verdict::applies;
use crate::machines::identity::Identity;
use crate::machines::schema::{Machines, NodeEntry, Settings};
use crate::node_facts::NodeFacts;
use crate::provider_id::ProviderId;

/// The facts of a machine with this entry, or with none.
///
/// * Provider ID: the one the Node has, the file's, one from the system UUID, one from the name.
/// * Region, zone: the entry's, the rule's, the default; else none, since a wrong one cannot be
///   taken back.
/// * Type: likewise, and at last one named after the machine's size.
/// * Addresses: the entry's, else those that the Node has.
pub(super) fn facts(
    machines: &Machines,
    identity: &Identity,
    own: Option<ProviderId>,
    entry: Option<&NodeEntry>,
) -> NodeFacts {
    let layers = layers(machines, identity, entry);
    let pick = |field: fn(&Settings) -> &Option<String>| {
        layers.settings.iter().find_map(|set| field(set).clone())
    };
    let sized = || {
        identity
            .capacity
            .map(|c| c.instance_type(machines.scheme()))
    };
    let addresses = match entry {
        Some(entry) if !entry.addresses.is_empty() => entry.addresses.clone(),
        _ => {
            let mut current = identity.addresses.clone();
            current.sort_by_key(|a| a.kind);
            current
        }
    };
    NodeFacts {
        provider_id: provider_id(machines.scheme(), identity, own, entry),
        instance_type: pick(|set| &set.instance_type)
            .or_else(|| layers.complete.then(sized).flatten()),
        zone: pick(|set| &set.zone),
        region: pick(|set| &set.region),
        addresses,
        additional_labels: layers.labels,
        ..NodeFacts::default()
    }
}

fn provider_id(
    scheme: &str,
    identity: &Identity,
    own: Option<ProviderId>,
    entry: Option<&NodeEntry>,
) -> Option<ProviderId> {
    let uuid = identity.system_uuid.as_ref();
    own.or_else(|| entry.and_then(|e| e.provider_id().cloned()))
        .or_else(|| uuid.and_then(|uuid| ProviderId::new(scheme, uuid.as_str()).ok()))
        .or_else(|| ProviderId::new(scheme, &identity.name).ok())
}

/// What applies to a machine, the most particular first.
struct Layers<'a> {
    settings: Vec<&'a Settings>,
    labels: BTreeMap<String, Option<String>>,
    /// Whether all of it is known.
    complete: bool,
}

/// A rule of which nobody can tell yet whether it applies (central does not know asset tags) hides
/// all that comes after it: a later rule or a default might be wrong. Its labels, and those of later
/// rules, the machine may have.
fn layers<'a>(
    machines: &'a Machines,
    identity: &Identity,
    entry: Option<&'a NodeEntry>,
) -> Layers<'a> {
    let own = entry.into_iter().flat_map(|entry| &entry.labels);
    let mut layers = Layers {
        settings: entry.map(|entry| &entry.set).into_iter().collect(),
        labels: own.map(|(k, v)| (k.clone(), Some(v.clone()))).collect(),
        complete: true,
    };
    for rule in machines.rules() {
        let applies = applies(&rule.matching, identity);
        if applies == Some(false) {
            continue;
        }
        layers.complete &= applies.is_some();
        if layers.complete {
            layers.settings.push(&rule.set);
        }
        for (key, value) in &rule.labels {
            let value = layers.complete.then(|| value.clone());
            layers.labels.entry(key.clone()).or_insert(value);
        }
        if applies == Some(true) {
            break;
        }
    }
    if layers.complete {
        layers.settings.push(machines.defaults());
    }
    layers
}
