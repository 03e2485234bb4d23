//! Reads a machines file whole, and tells everything that is wrong with it at once.

mod nodes;

use std::collections::BTreeMap;
use std::fmt;

use globset::Glob;
use ipnet::IpNet;
use serde_norway::Value;

use super::hardware::is_placeholder;
use super::schema::{
    DEFAULT_MAX_REMOVED_PERCENT, DEFAULT_SCHEME, LoadBalancer, Machines, Policy, Rule, RuleMatch,
    Settings, UnknownNode, VERSION,
};
use crate::address_range::AddressRange;
use crate::label;
use crate::provider_id::ProviderId;
use crate::yaml::{self, Fault, Faults, Item, Object, Refusal, refuse};

/// A machines file that cannot be used, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidMachines {
    /// The faults, in the file's order; never empty.
    pub faults: Vec<Fault>,
}

impl fmt::Display for InvalidMachines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        yaml::tell(f, "machines file", &self.faults)
    }
}

const TOP: &[&str] = &[
    "version",
    "scheme",
    "defaults",
    "policy",
    "rules",
    "nodes",
    "loadBalancer",
];
const DEFAULTS: &[&str] = &["region", "zone", "instanceType"];
const POLICY: &[&str] = &["unknownNode", "maxRemovedPercent"];
const RULE: &[&str] = &["match", "set"];
const RULE_MATCH: &[&str] = &["cidr", "nameGlob", "assetTag", "vendor"];
const RULE_SET: &[&str] = &["region", "zone", "instanceType", "labels"];
const LOAD_BALANCER: &[&str] = &["mode", "pools"];

/// Reads a machines file: YAML, of which JSON is a part.
///
/// # Errors
/// [`InvalidMachines`] with every fault of the file. Only where the text is no YAML at all is there
/// a single one, since nothing can be said of what follows.
pub fn parse(text: &str) -> Result<Machines, InvalidMachines> {
    yaml::read(text, document_of).map_err(|faults| InvalidMachines { faults })
}

fn document_of(document: &Value, faults: &mut Faults) -> Option<Machines> {
    let top = Item::root(document).object(TOP, faults)?;
    version(&top, faults);
    let scheme = scheme(&top, faults);
    let defaults = top
        .get("defaults")
        .and_then(|item| item.object(DEFAULTS, faults))
        .map_or_else(Settings::default, |object| settings(&object, faults));
    let policy = policy(&top, faults);
    let rules = top
        .list("rules", faults)
        .iter()
        .filter_map(|item| rule(item, faults))
        .collect();
    let nodes = nodes::nodes(&top.list("nodes", faults), &scheme, faults);
    let listed = top.get("nodes").is_some_and(|n| {
        n.value()
            .as_sequence()
            .is_none_or(|elements| !elements.is_empty())
    });
    if !listed && policy.unknown_node != UnknownNode::Derive {
        faults.add(
            "nodes",
            "lists no machine",
            "list every machine, or set policy.unknownNode to derive",
        );
    }
    let load_balancer = load_balancer(&top, faults);
    Some(Machines {
        scheme,
        defaults,
        policy,
        rules,
        nodes,
        load_balancer,
    })
}

fn version(top: &Object<'_>, faults: &mut Faults) {
    let remedy = format!("write version: {VERSION}");
    if let Some(item) = top.require("version", &remedy, faults)
        && item.value().as_u64() != Some(VERSION)
    {
        item.wrong("a version that this program knows", &remedy, faults);
    }
}

fn scheme(top: &Object<'_>, faults: &mut Faults) -> String {
    let read = |text: &str| match ProviderId::new(text, "x") {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => refuse(
            "cannot begin a provider ID",
            "write letters, digits, dots and dashes, without ://",
        ),
    };
    top.parse("scheme", faults, read)
        .unwrap_or_else(|| DEFAULT_SCHEME.to_owned())
}

fn policy(top: &Object<'_>, faults: &mut Faults) -> Policy {
    let object = top
        .get("policy")
        .and_then(|item| item.object(POLICY, faults));
    let unknown_node = object
        .as_ref()
        .and_then(|o| o.parse("unknownNode", faults, unknown_node));
    let percent = object
        .as_ref()
        .and_then(|o| o.get("maxRemovedPercent"))
        .and_then(|item| item.number(&(0..=100), faults))
        .and_then(|n| u8::try_from(n).ok());
    Policy {
        unknown_node: unknown_node.unwrap_or_default(),
        max_removed_percent: percent.unwrap_or(DEFAULT_MAX_REMOVED_PERCENT),
    }
}

fn unknown_node(text: &str) -> Result<UnknownNode, Refusal> {
    match text {
        "error" => Ok(UnknownNode::Error),
        "derive" => Ok(UnknownNode::Derive),
        "missing" => Ok(UnknownNode::Missing),
        _ => refuse("is no policy", "write error, derive or missing"),
    }
}

fn rule(item: &Item<'_>, faults: &mut Faults) -> Option<Rule> {
    let object = item.object(RULE, faults)?;
    let matching = object
        .require("match", "say which machines the rule is for", faults)
        .and_then(|item| item.object(RULE_MATCH, faults));
    let set = object
        .require("set", "say what the rule sets", faults)
        .and_then(|item| item.object(RULE_SET, faults));
    let matching = matching.map(|keys| rule_match(&keys, faults));
    let set = set.map(|set| {
        if set.is_empty() {
            let remedy = "give at least one of region, zone, instanceType and labels";
            faults.add(set.place(), "sets nothing", remedy);
        }
        (settings(&set, faults), labels(&set, faults))
    });
    let (set, labels) = set?;
    Some(Rule {
        matching: matching?,
        set,
        labels,
    })
}

fn rule_match(keys: &Object<'_>, faults: &mut Faults) -> RuleMatch {
    if keys.is_empty() {
        let remedy = "give at least one of cidr, nameGlob, assetTag and vendor; what holds for \
                      every machine belongs in defaults";
        faults.add(keys.place(), "matches every machine", remedy);
    }
    RuleMatch {
        cidr: keys.parse("cidr", faults, cidr),
        name_glob: keys.parse("nameGlob", faults, name_glob),
        asset_tag: keys.parse("assetTag", faults, firmware_text),
        vendor: keys.parse("vendor", faults, firmware_text),
    }
}

fn cidr(text: &str) -> Result<IpNet, Refusal> {
    match text.parse::<IpNet>() {
        Ok(block) => Ok(block.trunc()),
        Err(_) => refuse("is no block of addresses", "write one such as 192.0.2.0/24"),
    }
}

fn name_glob(text: &str) -> Result<globset::GlobMatcher, Refusal> {
    match Glob::new(text) {
        Ok(glob) if !text.is_empty() => Ok(glob.compile_matcher()),
        _ => refuse("is no pattern for names", "write one such as worker-*"),
    }
}

fn firmware_text(text: &str) -> Result<String, Refusal> {
    if is_placeholder(text) {
        return refuse(
            "is a placeholder that many machines share",
            "match by something that tells machines apart",
        );
    }
    Ok(text.trim().to_owned())
}

/// Region, zone and type, which stand under the same keys wherever they stand.
fn settings(object: &Object<'_>, faults: &mut Faults) -> Settings {
    Settings {
        region: object.parse("region", faults, label_text),
        zone: object.parse("zone", faults, label_text),
        instance_type: object.parse("instanceType", faults, label_text),
    }
}

fn label_text(text: &str) -> Result<String, Refusal> {
    if !text.is_empty() && label::is_value(text) {
        return Ok(text.to_owned());
    }
    let remedy = "write at most 63 letters, digits, dashes, underscores and dots, with a letter or \
                  digit at both ends";
    match label::sanitize(text) {
        Some(near) => refuse("is no label value", format!("{remedy}, such as {near}")),
        None => refuse("is no label value", remedy),
    }
}

fn labels(object: &Object<'_>, faults: &mut Faults) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let Some(item) = object.get("labels") else {
        return labels;
    };
    for (key, value) in item.entries(faults) {
        if !label::is_key(key) {
            faults.add(
                &value.place,
                "its key is no label key",
                "write a name of at most 63 letters, digits, dashes, underscores and dots, after a \
                 domain and a slash if you like",
            );
        }
        let read = |text: &str| match text {
            "" => Ok(String::new()),
            _ => label_text(text),
        };
        if let Some(text) = value.parse(faults, read) {
            labels.insert(key.to_owned(), text);
        }
    }
    labels
}

fn load_balancer(top: &Object<'_>, faults: &mut Faults) -> LoadBalancer {
    let Some(object) = top
        .get("loadBalancer")
        .and_then(|item| item.object(LOAD_BALANCER, faults))
    else {
        return LoadBalancer::None;
    };
    let mode = object.parse("mode", faults, |text| match text {
        "none" => Ok(false),
        "pool" => Ok(true),
        _ => refuse("is no mode", "write none or pool"),
    });
    let items = object.list("pools", faults);
    let pools = pools(&items, faults);
    match mode {
        Some(true) if items.is_empty() => {
            let remedy = "give at least one range, or set loadBalancer.mode to none";
            faults.add("loadBalancer.pools", "has no range", remedy);
        }
        Some(false) | None
            if !items.is_empty() && object.get("mode").is_none_or(|_| mode.is_some()) =>
        {
            let remedy = "set loadBalancer.mode to pool, or take the ranges out";
            faults.add("loadBalancer.pools", "would not be used", remedy);
        }
        _ => {}
    }
    if mode == Some(true) {
        LoadBalancer::Pool(pools)
    } else {
        LoadBalancer::None
    }
}

fn pools(items: &[Item<'_>], faults: &mut Faults) -> Vec<AddressRange> {
    let mut pools: Vec<(AddressRange, &str)> = Vec::new();
    for item in items {
        let read = |text: &str| {
            text.parse::<AddressRange>()
                .or_else(|e| refuse("is no address range", e.remedy))
        };
        let Some(range) = item.parse(faults, read) else {
            continue;
        };
        if let Some((other, place)) = pools.iter().find(|(other, _)| other.overlaps(&range)) {
            let problem = format!("{range} overlaps {place} ({other})");
            faults.add(
                &item.place,
                problem,
                "take the common addresses out of one of them",
            );
        }
        pools.push((range, &item.place));
    }
    pools.into_iter().map(|(range, _)| range).collect()
}
