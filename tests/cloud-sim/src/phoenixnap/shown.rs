//! How objects are shown: with what follows from others, and in the spelling of the day.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::kind::Kind;
use super::state::State;
use crate::rows::Row;

impl State {
    /// An object as the API shows it.
    pub(super) fn shown(&self, kind: Kind, row: &Row) -> Value {
        let mut value = row.value().clone();
        match kind {
            Kind::Block => self.show_spelling(&mut value),
            Kind::Network => self.show_network(row.key(), &mut value),
            Kind::Tag => self.show_assignments(&mut value),
            Kind::Server | Kind::PeerGroup => {}
        }
        value
    }

    fn show_spelling(&self, block: &mut Value) {
        if let Some(status) = block["status"].as_str() {
            block["status"] = json!(self.behaviour.status.of(status));
        }
        let spelled = block.get("assignedResourceType").and_then(Value::as_str);
        if let Some(kind) = spelled.map(|kind| self.behaviour.resource_type.of(kind)) {
            block["assignedResourceType"] = json!(kind);
        }
    }

    fn show_network(&self, id: &str, network: &mut Value) {
        if self.is_busy(id) {
            network["status"] = json!("BUSY");
        }
        let used = self.used_addresses(network);
        for block in network["ipBlocks"].as_array_mut().into_iter().flatten() {
            let cidr = block["cidr"].as_str().unwrap_or_default();
            let count = used.iter().filter(|used| contains(cidr, used)).count();
            block["usedIpsCount"] = json!(count.to_string());
        }
    }

    /// Whether a network refuses changes for now.
    pub(super) fn is_busy(&self, network: &str) -> bool {
        self.behaviour.busy_networks && self.is_under_way(Kind::Network, network)
    }

    /// The addresses that members of a network have on it.
    pub(super) fn used_addresses(&self, network: &Value) -> Vec<String> {
        let members = network["memberships"].as_array().into_iter().flatten();
        let ips = members.flat_map(|member| member["ips"].as_array().into_iter().flatten());
        ips.filter_map(|ip| ip.as_str().map(ToOwned::to_owned))
            .collect()
    }

    fn show_assignments(&self, tag: &mut Value) {
        let (mut values, mut assignments) = (Vec::new(), Vec::new());
        for kind in [Kind::Server, Kind::Block] {
            for row in self.rows(kind).iter() {
                let tags = row.value()["tags"].as_array().into_iter().flatten();
                for assigned in tags.filter(|assigned| assigned["id"] == tag["id"]) {
                    let value = assigned["value"].as_str().unwrap_or_default();
                    let resource = format!("{}/{}", kind.path(), row.key());
                    assignments.push(json!({ "resourceName": resource, "value": value }));
                    if !value.is_empty() && !values.contains(&value) {
                        values.push(value);
                    }
                }
            }
        }
        tag["values"] = json!(values);
        tag["resourceAssignments"] = json!(assignments);
    }
}

/// Whether an IPv4 network has an address in it.
pub(super) fn contains(cidr: &str, address: &str) -> bool {
    let Some((base, length)) = cidr.split_once('/') else {
        return false;
    };
    let (base, address): (Result<Ipv4Addr, _>, Result<Ipv4Addr, _>) =
        (base.parse(), address.parse());
    match (base, address, length.parse::<u32>()) {
        (Ok(base), Ok(address), Ok(length)) if length <= 32 => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            u32::from(base) & mask == u32::from(address) & mask
        }
        _ => false,
    }
}

/// Whether something has the tags that a query asks for: `name.value`, or `name` for any value.
pub(super) fn has_tags(value: &Value, query: &[(String, String)], any: bool) -> bool {
    let mut wanted = query.iter().filter(|(key, _)| key == "tag").peekable();
    if wanted.peek().is_none() {
        return true;
    }
    let tags: Vec<&Value> = value["tags"].as_array().into_iter().flatten().collect();
    let has = |wanted: &str| match wanted.split_once('.') {
        None => tags.iter().any(|tag| tag["name"] == wanted),
        Some((name, value)) => {
            let mut tags = tags.iter();
            tags.any(|tag| tag["name"] == name && tag["value"] == value)
        }
    };
    if any {
        wanted.any(|(_, wanted)| has(wanted))
    } else {
        wanted.all(|(_, wanted)| has(wanted))
    }
}
