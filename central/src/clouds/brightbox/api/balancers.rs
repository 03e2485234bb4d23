//! Load balancers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize, Serializer};

use super::{CloudIp, each};
use crate::api_objects;
use crate::cloud_api::{ids, said};

api_objects! {
    /// A load balancer. Only its identifier is needed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default)]
    pub(crate) struct Balancer {
        /// `lba-gdqms`.
        pub(crate) id: String,
        /// Its name; several may have the same.
        pub(crate) name?: String,
        /// `creating`, `active`, `deleting`, `deleted`, `failing`, `failed`.
        pub(crate) status?: Option<String>,
        /// What is set of it.
        #[serde(flatten)]
        pub(crate) spec: BalancerSpec,
        /// Its certificate and the domains of that. `None`: listings may leave it out, where it is there.
        pub(crate) acme?: Option<Acme>,
        /// The Cloud IPs that lead to it, in the API's order.
        pub(crate) cloud_ips?: Vec<CloudIp>,
    }

    /// What is set of a load balancer, as the cloud says it and as it is told. What is `None` is left to the cloud.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default)]
    pub(crate) struct BalancerSpec {
        /// The servers that get traffic.
        #[serde(
            deserialize_with = "ids",
            serialize_with = "nodes",
            skip_serializing_if = "BTreeSet::is_empty"
        )]
        pub(crate) nodes: BTreeSet<String>,
        /// How connections are distributed.
        pub(crate) policy?: Option<String>,
        /// Its listeners.
        pub(crate) listeners?: Vec<Listener>,
        /// How servers are asked whether they are healthy.
        pub(crate) healthcheck?: HealthCheck,
        /// Whether clients of HTTP are sent to HTTPS.
        pub(crate) https_redirect?: Option<bool>,
    }

    /// What it does with one port.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct Listener {
        /// `tcp`, `http`, `https`.
        pub(crate) protocol: String,
        /// The port that clients use.
        #[serde(rename = "in")]
        pub(crate) port: u16,
        /// The servers' port.
        #[serde(rename = "out")]
        pub(crate) target: u16,
        /// After so many milliseconds without traffic a connection ends.
        pub(crate) timeout?: Option<u32>,
        /// `v1`, `v2`, `v2-ssl`, `v2-ssl-cn`.
        #[serde(default, deserialize_with = "said")]
        pub(crate) proxy_protocol: Option<String>,
    }

    /// How servers are asked whether they are healthy.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct HealthCheck {
        /// `tcp` or `http`.
        #[serde(rename = "type", default)]
        pub(crate) kind: String,
        /// The servers' port.
        #[serde(default)]
        pub(crate) port: u16,
        /// The path.
        #[serde(default, deserialize_with = "said")]
        pub(crate) request: Option<String>,
        /// Milliseconds between two questions.
        pub(crate) interval?: Option<u32>,
        /// Milliseconds that an answer may take.
        pub(crate) timeout?: Option<u32>,
        /// Good answers in a row that make a server healthy.
        pub(crate) threshold_up?: Option<u32>,
        /// Bad answers in a row that make it unhealthy.
        pub(crate) threshold_down?: Option<u32>,
    }

    /// What it asks a certificate authority for by itself.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct Acme {
        /// Each with the state of its validation.
        pub(crate) domains?: Vec<Domain>,
    }

    /// A domain of a certificate.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    pub(crate) struct Domain {
        /// Its name.
        pub(crate) identifier: String,
        /// `valid`, or anything else.
        pub(crate) status?: String,
        /// What the authority said last.
        #[serde(default, deserialize_with = "said")]
        pub(crate) last_message: Option<String>,
    }
}

fn nodes<S: Serializer>(nodes: &BTreeSet<String>, serializer: S) -> Result<S::Ok, S::Error> {
    each("node", nodes).serialize(serializer)
}

/// The name of a load balancer without what the vendor's tools append to it.
pub(crate) fn plain_name(name: &str) -> &str {
    let name = name.trim();
    name.strip_suffix("#type:container").unwrap_or(name).trim()
}

impl Balancer {
    /// Whether it serves, or will. What is not known counts as such: no second one is made beside it.
    pub(crate) fn is_alive(&self) -> bool {
        let status = self.status.as_deref().unwrap_or_default();
        !["deleting", "deleted", "failing", "failed"].contains(&status)
    }

    /// Whether the cloud says so.
    pub(crate) fn is(&self, status: &str) -> bool {
        self.status.as_deref() == Some(status)
    }

    /// Whether this Cloud IP leads to it.
    pub(crate) fn is_at(&self, ip: &CloudIp) -> bool {
        self.cloud_ips.iter().any(|here| here.id == ip.id)
    }

    /// The domains of its certificate.
    pub(crate) fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.acme.iter().flat_map(|acme| &acme.domains)
    }

    /// Their names.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let names = self.domains().map(|domain| domain.identifier.clone());
        names.collect()
    }

    /// Its certificate once it is to have these domains. Those that were there keep the state of their validation.
    pub(crate) fn certificate(&self, domains: &BTreeSet<String>) -> Acme {
        let domains = domains.iter().map(|identifier| {
            let there = self.domains().find(|one| one.identifier == *identifier);
            there.cloned().unwrap_or_else(|| Domain {
                identifier: identifier.clone(),
                ..Domain::default()
            })
        });
        Acme {
            domains: domains.collect(),
        }
    }

    /// Whether it has a listener with HTTPS.
    pub(crate) fn has_https(&self) -> bool {
        self.spec.listeners.iter().any(Listener::is_https)
    }
}

impl Listener {
    /// Whether clients speak HTTPS.
    pub(crate) fn is_https(&self) -> bool {
        self.protocol == "https"
    }
}
