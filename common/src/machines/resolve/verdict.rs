//! Whether an entry or a rule is about this machine. What is not known decides nothing.

use std::fmt::Display;
use std::net::IpAddr;

use super::Resolution;
use crate::machines::identity::Identity;
use crate::machines::schema::{NodeEntry, RuleMatch};
use crate::provider_id::ProviderId;

/// What an entry is to a machine.
pub(super) enum Verdict {
    /// It describes it.
    Match,
    /// It might describe it; these keys cannot be compared.
    Undecided(Vec<&'static str>),
    /// It gives the very provider ID that the Node has, yet other hardware.
    Contradicted(Box<Resolution>),
    /// It describes another machine.
    Other,
}

/// How one key of an entry compares with what is known.
enum Comparison {
    Same,
    NotKnown,
    Differs { node: String, file: String },
}

fn compare<T: PartialEq + Display>(file: &T, known: &[T]) -> Comparison {
    if known.contains(file) {
        Comparison::Same
    } else if known.is_empty() {
        Comparison::NotKnown
    } else {
        let all: Vec<String> = known.iter().map(ToString::to_string).collect();
        Comparison::Differs {
            node: all.join(", "),
            file: file.to_string(),
        }
    }
}

pub(super) fn verdict(entry: &NodeEntry, identity: &Identity, own: Option<&ProviderId>) -> Verdict {
    let keys = &entry.matching;
    let bound = own.is_some() && own == entry.provider_id();
    let comparisons = [
        // The provider ID is the machine's own and never changes; a Node may be given another name.
        (
            "name",
            keys.name
                .as_ref()
                .filter(|_| !bound)
                .map(|k| compare(k, std::slice::from_ref(&identity.name))),
        ),
        (
            "systemUUID",
            keys.system_uuid
                .as_ref()
                .map(|k| compare(k, identity.system_uuid.as_slice())),
        ),
        (
            "machineID",
            keys.machine_id
                .as_ref()
                .map(|k| compare(k, identity.machine_id.as_slice())),
        ),
        ("mac", keys.mac.as_ref().map(|k| compare(k, &identity.macs))),
        // Addresses come and go, so they never speak against a provider ID.
        (
            "ip",
            keys.ip
                .as_ref()
                .filter(|_| !bound)
                .map(|k| compare(k, &identity.ips)),
        ),
    ];
    if !bound && keys.provider_id.is_some() {
        return Verdict::Other;
    }
    let mut needs = Vec::new();
    for (key, comparison) in comparisons {
        match comparison {
            None | Some(Comparison::Same) => {}
            Some(Comparison::NotKnown) => needs.push(key),
            Some(Comparison::Differs { node, file }) if bound => {
                return Verdict::Contradicted(Box::new(Resolution::Conflict {
                    entry: entry.to_string(),
                    key,
                    node,
                    file,
                }));
            }
            Some(Comparison::Differs { .. }) => return Verdict::Other,
        }
    }
    if bound || needs.is_empty() {
        Verdict::Match
    } else {
        Verdict::Undecided(needs)
    }
}

/// Whether a rule applies to a machine. `None`: it cannot be told yet.
pub(super) fn applies(rule: &RuleMatch, identity: &Identity) -> Option<bool> {
    let name = rule
        .name_glob
        .as_ref()
        .map(|glob| Some(glob.is_match(&identity.name)));
    let cidr = rule.cidr.map(|block| {
        let inside = |ip: &IpAddr| block.contains(ip);
        (!identity.ips.is_empty()).then(|| identity.ips.iter().any(inside))
    });
    let tag = rule
        .asset_tag
        .as_deref()
        .map(|tag| same_text(tag, identity.asset_tag.as_deref()));
    let vendor = rule
        .vendor
        .as_deref()
        .map(|vendor| same_text(vendor, identity.vendor.as_deref()));
    let mut answer = Some(true);
    for condition in [name, cidr, tag, vendor].into_iter().flatten() {
        match condition {
            Some(true) => {}
            Some(false) => return Some(false),
            None => answer = None,
        }
    }
    answer
}

fn same_text(wanted: &str, known: Option<&str>) -> Option<bool> {
    known.map(|known| known.trim().eq_ignore_ascii_case(wanted))
}
