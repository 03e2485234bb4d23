//! Server groups, and the firewall policies that are applied to them.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api_objects;
use crate::cloud_api::{Reference, ids};
use crate::engine::port_rules::PortRule;
use crate::engine::step::Part;

/// How many ports and ranges of them a rule can have.
pub(crate) const MOST_PORTS: usize = 15;

api_objects! {
    /// A server group. Only its identifier is needed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default)]
    pub(crate) struct Group {
        /// `grp-gdqms`.
        pub(crate) id: String,
        /// Its name; several may have the same.
        pub(crate) name?: String,
        /// A text for people.
        pub(crate) description?: String,
        /// Its servers.
        #[serde(deserialize_with = "ids")]
        pub(crate) servers: BTreeSet<String>,
        /// Whether the cloud was asked to take all of them out, and has not done so yet.
        pub(crate) is_emptied: bool,
    }

    /// A firewall policy: what may reach the servers of a group.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default)]
    pub(crate) struct Policy {
        /// `fwp-gdqms`.
        pub(crate) id: String,
        /// Its name; several may have the same.
        pub(crate) name?: String,
        /// The group that it is applied to.
        pub(crate) server_group?: Option<Reference>,
        /// Its rules.
        pub(crate) rules?: Vec<Rule>,
    }

    /// What a rule permits.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default)]
    pub(crate) struct RuleSpec {
        /// `tcp`, `udp`, `icmp`.
        pub(crate) protocol?: String,
        /// A network, an address, or what has an identifier.
        pub(crate) source?: String,
        /// Ports and ranges of them: `80,443`.
        pub(crate) destination_port?: String,
        /// A text for people.
        pub(crate) description?: String,
    }
}

/// A rule with its identifier: `fwr-gdqms`.
pub(crate) type Rule = Part<RuleSpec>;

impl PortRule for RuleSpec {
    fn ports(&self) -> &str {
        &self.destination_port
    }

    fn with_ports(&self, destination_port: String) -> Self {
        Self {
            destination_port,
            ..self.clone()
        }
    }

    fn is_alike(&self, other: &Self) -> bool {
        self.protocol == other.protocol && self.source == other.source
    }
}

impl fmt::Display for RuleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to ports {}", self.source, self.destination_port)
    }
}

/// A list of objects that have only this: `[{"server": "srv-gdqms"}]`.
pub(crate) fn each(name: &str, ids: &BTreeSet<String>) -> Value {
    ids.iter().map(|id| json!({ name: id })).collect()
}
