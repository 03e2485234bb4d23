//! Server groups, and the firewall policies that are applied to them.

use std::collections::BTreeSet;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Reference, ids};
use crate::cloud_api::{Request, lenient, or_default};
use crate::resource_kinds;

resource_kinds! {
    /// Server groups.
    pub(crate) GROUPS: "server_group", "server_groups", "server_groups";
    /// Firewall policies.
    pub(crate) POLICIES: "firewall_policy", "firewall_policies", "firewall_policies";
    /// Firewall rules.
    pub(crate) RULES: "firewall_rule", "firewall_rules", "firewall_rules";
}

/// How many ports and ranges of them a rule can have.
pub(crate) const MOST_PORTS: usize = 15;

/// A server group. Only its identifier is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Group {
    /// `grp-gdqms`.
    pub(crate) id: String,
    /// Its name; several may have the same.
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    /// A text for people.
    #[serde(deserialize_with = "or_default")]
    pub(crate) description: String,
    /// Its servers.
    #[serde(deserialize_with = "ids")]
    pub(crate) servers: BTreeSet<String>,
}

/// A firewall policy: what may reach the servers of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Policy {
    /// `fwp-gdqms`.
    pub(crate) id: String,
    /// Its name; several may have the same.
    #[serde(deserialize_with = "or_default")]
    pub(crate) name: String,
    /// The group that it is applied to.
    #[serde(deserialize_with = "lenient")]
    pub(crate) server_group: Option<Reference>,
    /// Its rules.
    #[serde(deserialize_with = "or_default")]
    pub(crate) rules: Vec<Rule>,
}

/// A rule with its identifier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Rule {
    /// `fwr-gdqms`.
    pub(crate) id: String,
    /// What it permits.
    #[serde(flatten)]
    pub(crate) spec: RuleSpec,
}

/// What a rule permits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct RuleSpec {
    /// `tcp`, `udp`, `icmp`.
    #[serde(deserialize_with = "or_default")]
    pub(crate) protocol: String,
    /// A network, an address, or what has an identifier.
    #[serde(deserialize_with = "or_default")]
    pub(crate) source: String,
    /// Ports and ranges of them: `80,443`.
    #[serde(deserialize_with = "or_default")]
    pub(crate) destination_port: String,
    /// A text for people.
    #[serde(deserialize_with = "or_default")]
    pub(crate) description: String,
}

fn action(kind: &str, id: &str, operation: &'static str, verb: &str, body: Value) -> Request {
    Request::new(operation, Method::POST, format!("{kind}/{id}/{verb}")).json(body)
}

/// A list of objects that have only this: `[{"server": "srv-gdqms"}]`.
pub(crate) fn each(name: &str, ids: &BTreeSet<String>) -> Value {
    ids.iter().map(|id| json!({ name: id })).collect()
}

/// Puts these servers into a group.
pub(crate) fn add_servers(group: &str, servers: &BTreeSet<String>) -> Request {
    let body = json!({"servers": each("server", servers)});
    action("server_groups", group, "add_servers", "add_servers", body)
}

/// Takes these servers out of a group.
pub(crate) fn remove_servers(group: &str, servers: &BTreeSet<String>) -> Request {
    let body = json!({"servers": each("server", servers)});
    let verb = "remove_servers";
    action("server_groups", group, "remove_servers", verb, body)
}

/// Applies a policy to a group.
pub(crate) fn apply_policy(policy: &str, group: &str) -> Request {
    let body = json!({"server_group": group});
    action(
        "firewall_policies",
        policy,
        "apply_firewall_policy",
        "apply_to",
        body,
    )
}

/// Takes these servers from a load balancer.
pub(crate) fn remove_nodes(balancer: &str, nodes: &BTreeSet<String>) -> Request {
    let body = each("node", nodes);
    action(
        "load_balancers",
        balancer,
        "remove_nodes",
        "remove_nodes",
        body,
    )
}
