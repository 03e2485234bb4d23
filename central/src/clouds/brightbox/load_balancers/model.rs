//! A load balancer as the cloud is told of it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::api::{Acme, Balancer, Domain, HealthCheck, Listener, each};

/// What is set of a load balancer, which may be yet to be made. What is `None` stays as it is, or is left to the
/// cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct BalancerChange {
    /// Its name, of a new one.
    pub(super) name: Option<String>,
    /// The servers that get traffic.
    #[serde(serialize_with = "nodes")]
    pub(super) nodes: Option<BTreeSet<String>>,
    /// How connections are distributed.
    pub(super) policy: Option<String>,
    /// Its listeners, all of them.
    pub(super) listeners: Option<Vec<Listener>>,
    /// How servers are asked whether they are healthy.
    pub(super) healthcheck: Option<HealthCheck>,
    /// The domains of its certificate; none: it has none.
    pub(super) domains: Option<BTreeSet<String>>,
    /// Whether clients of HTTP are sent to HTTPS.
    pub(super) https_redirect: Option<bool>,
}

fn nodes<S: serde::Serializer>(
    nodes: &Option<BTreeSet<String>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let nodes = nodes.as_ref();
    let all = nodes.map(|all| each("node", all));
    all.serialize(serializer)
}

impl BalancerChange {
    /// A new one, once it has got this identifier.
    pub(super) fn as_it_is(&self, id: String) -> Balancer {
        let mut balancer = Balancer {
            id,
            name: self.name.clone().unwrap_or_default(),
            status: Some("creating".to_owned()),
            ..Balancer::default()
        };
        self.take(&mut balancer);
        balancer
    }

    /// Whether nothing is set.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What a load balancer is then.
    pub(super) fn take(&self, balancer: &mut Balancer) {
        if let Some(nodes) = &self.nodes {
            balancer.nodes.clone_from(nodes);
        }
        if let Some(listeners) = &self.listeners {
            balancer.listeners.clone_from(listeners);
        }
        if let Some(check) = &self.healthcheck {
            balancer.healthcheck = check.clone();
        }
        if let Some(domains) = &self.domains {
            let known = |name: &String| {
                let there = balancer.domains().find(|there| there.identifier == *name);
                there.cloned().unwrap_or_else(|| Domain {
                    identifier: name.clone(),
                    ..Domain::default()
                })
            };
            let domains: Vec<Domain> = domains.iter().map(known).collect();
            balancer.acme = Some(Acme { domains });
        }
        balancer.policy = self.policy.clone().or(balancer.policy.take());
        balancer.https_redirect = self.https_redirect.or(balancer.https_redirect);
    }

    /// What is set, for people.
    pub(super) fn words(&self) -> String {
        let set = |what: &str, text: Option<String>| text.map(|text| format!("{what} {text}"));
        let listener = |one: &Listener| format!("{} {}->{}", one.protocol, one.port, one.target);
        let listeners = self.listeners.as_ref().map(|all| {
            let all: Vec<String> = all.iter().map(listener).collect();
            all.join(", ")
        });
        let check = self.healthcheck.as_ref();
        let domains = self.domains.as_ref().map(listed);
        let is_on = |is_on: bool| if is_on { "on" } else { "off" }.to_owned();
        let all = [
            set("servers to", self.nodes.as_ref().map(listed)),
            set("policy to", self.policy.clone()),
            set("listeners to", listeners),
            set(
                "health check to",
                check.map(|check| format!("{} at port {}", check.kind, check.port)),
            ),
            set("domains to", domains),
            set("redirection to HTTPS", self.https_redirect.map(is_on)),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        all.join("; ")
    }
}

/// For people: `srv-gdqms, srv-hxzma`.
pub(super) fn listed(all: &BTreeSet<String>) -> String {
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.iter().cloned().collect::<Vec<_>>().join(", "),
    }
}
