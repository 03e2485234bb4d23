//! Cloud Firewalls: what a Service's own one is to let through, and whether one that is there does.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::api_objects;
use crate::cloud_api::{nullable, said};
use crate::clouds::linode::api::node_balancers::MARKS;
use crate::engine::acl::{self, Acl, RuleLimits, Verb};

/// What a rule has at most, rules that a firewall has, and the longest label and description.
const LIMITS: RuleLimits = RuleLimits {
    ports: 15,
    networks: 255,
};
pub(super) const MOST_RULES: usize = 25;
const LABEL: usize = 32;
const DESCRIPTION: usize = 100;
/// How the Go controller describes each of its rules.
const MADE_BY_GO: &str = "Created by linode-ccm";

/// A firewall as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FirewallSpec {
    /// Its name.
    pub(super) label: String,
    /// The marks of cluster and Service.
    pub(super) tags: Vec<String>,
    /// What it lets in.
    #[serde(flatten)]
    pub(super) rules: Rules,
}

api_objects! {
    /// A rule.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub(super) struct Rule {
        /// `ACCEPT` or `DROP`.
        pub(super) action: String,
        /// Its name.
        pub(super) label?: String,
        /// What it is for.
        pub(super) description?: String,
        /// `80, 443, 8000-8010`.
        pub(super) ports?: String,
        /// `TCP` or `UDP`.
        pub(super) protocol: String,
        /// From where.
        pub(super) addresses?: Addresses,
    }

    /// Networks, by family.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub(super) struct Addresses {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        ipv4?: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        ipv6?: Vec<String>,
    }

    /// A firewall as it is listed.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    pub(in super::super) struct Firewall {
        /// Its number.
        pub(super) id: u64,
        /// Its name.
        pub(super) label?: String,
        /// Its tags.
        pub(super) tags?: Vec<String>,
        /// Somebody has switched it off: it protects nothing.
        #[serde(default, rename = "status", deserialize_with = "is_disabled")]
        pub(super) is_disabled: bool,
        /// What it lets through.
        #[serde(default, deserialize_with = "rules")]
        pub(super) rules: Option<Rules>,
        /// What it protects. What cannot be read protects something all the same.
        #[serde(default, deserialize_with = "nullable")]
        pub(super) entities: Vec<Entity>,
    }
}

fn is_disabled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(said(deserializer)?.is_some_and(|status| status == "disabled"))
}

/// What a firewall lets in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Rules {
    /// What goes in.
    pub(super) inbound: Vec<Rule>,
    /// What becomes of the rest: `ACCEPT` or `DROP`.
    pub(super) inbound_policy: String,
}

/// Rules of another kind (rule sets) are nobody's that we make.
fn rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rules>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

api_objects! {
    /// What a firewall protects.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    pub(super) struct Entity {
        id?: u64,
        #[serde(rename = "type")]
        kind?: String,
    }
}

impl Firewall {
    /// What it protects: NodeBalancers by their IDs.
    pub(super) fn users(&self) -> Vec<String> {
        let users = self.entities.iter().map(|one| match one.kind.as_str() {
            "nodebalancer" => one.id.to_string(),
            kind => format!("{kind} {}", one.id),
        });
        users.collect()
    }

    /// Whether it protects this NodeBalancer.
    pub(super) fn protects(&self, balancer: &str) -> bool {
        let mut entities = self.entities.iter();
        entities.any(|one| one.kind == "nodebalancer" && one.id.to_string() == balancer)
    }

    /// Whether the Go controller has made it for a NodeBalancer of this name, which it protects: it is called so
    /// too, or protects nothing else. Ours are called and described so too, and bear marks.
    pub(super) fn is_made_by_go(&self, balancer: &str) -> bool {
        let is_described = |rules: &Rules| {
            let mut inbound = rules.inbound.iter();
            !rules.inbound.is_empty() && inbound.all(|rule| rule.description.contains(MADE_BY_GO))
        };
        let hex = self.label.rsplit_once('-').map(|(_, hex)| hex);
        let is_named = hex
            .is_some_and(|hex| hex.len() == 12 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_marked = self.tags.iter().any(|tag| MARKS.is_mark(tag));
        (self.entities.len() == 1 || self.label == balancer)
            && is_named
            && !is_marked
            && self.rules.as_ref().is_some_and(is_described)
    }

    /// Has these rules from now on.
    pub(super) fn take(&mut self, spec: &FirewallSpec) {
        self.is_disabled = false;
        self.rules = Some(spec.rules.clone());
    }

    /// Whether it does as wanted, whatever its rules are called.
    pub(super) fn is_as(&self, wanted: &FirewallSpec) -> bool {
        let Some(rules) = &self.rules else {
            return false;
        };
        !self.is_disabled
            && rules.inbound_policy == wanted.rules.inbound_policy
            && meaning(&rules.inbound) == meaning(&wanted.rules.inbound)
    }
}

fn meaning(rules: &[Rule]) -> BTreeSet<(Verb<'_>, &str, String)> {
    acl::meaning(rules.iter().map(|rule| {
        let networks = rule.addresses.ipv4.iter().chain(&rule.addresses.ipv6);
        ([&*rule.action, &*rule.protocol], &*rule.ports, networks)
    }))
}

impl FirewallSpec {
    /// What lets through what `acl` says, without marks. `ports`: number, and whether it is UDP.
    pub(super) fn of(acl: &Acl, ports: &[(u16, bool)], service: &str, label: String) -> Self {
        let (action, policy) = match acl.allows {
            true => ("ACCEPT", "DROP"),
            false => ("DROP", "ACCEPT"),
        };
        let inbound = acl.rules(ports, LIMITS).into_iter().map(|rule| Rule {
            action: action.to_owned(),
            label: cut(&format!("{action}-{service}"), LABEL),
            description: String::new(),
            ports: rule.ports,
            protocol: if rule.is_udp { "UDP" } else { "TCP" }.to_owned(),
            addresses: Addresses {
                ipv4: rule.ipv4,
                ipv6: rule.ipv6,
            },
        });
        let mut inbound: Vec<Rule> = inbound.collect();
        let are_several = inbound.len() > 1;
        for (index, rule) in inbound.iter_mut().enumerate() {
            let number = are_several.then(|| format!("Rule {index}, "));
            let number = number.unwrap_or_default();
            let text = format!("{number}{MADE_BY_GO}: {}, for {service}", rule.label);
            rule.description = match text.len() > DESCRIPTION {
                true => format!("{}...", cut(&text, DESCRIPTION - 3)),
                false => text,
            };
        }
        Self {
            label,
            tags: Vec::new(),
            rules: Rules {
                inbound,
                inbound_policy: policy.to_owned(),
            },
        }
    }

    /// What the cloud is told of its rules.
    pub(super) fn told_rules(&self) -> Value {
        json!({
            "inbound": self.rules.inbound,
            "inbound_policy": self.rules.inbound_policy,
            "outbound": [],
            "outbound_policy": "ACCEPT",
        })
    }
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests;
