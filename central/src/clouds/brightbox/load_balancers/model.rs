//! A load balancer as the cloud is told of it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::api::balancers::{Acme, Balancer, Domain, HealthCheck, Listener};

/// A load balancer that is to be made. What is `None` is left to the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NewBalancer {
    /// Its name.
    pub(super) name: String,
    /// All of it.
    #[serde(flatten)]
    pub(super) all: BalancerChange,
}

/// What is set of a load balancer. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct BalancerChange {
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
    let all = nodes.map(|all| super::super::api::firewall::each("node", all));
    all.serialize(serializer)
}

impl NewBalancer {
    /// As it is once it has got this identifier.
    pub(super) fn as_it_is(&self, id: String) -> Balancer {
        let mut balancer = Balancer {
            id,
            name: self.name.clone(),
            status: Some("creating".to_owned()),
            ..Balancer::default()
        };
        self.all.take(&mut balancer);
        balancer
    }
}

impl BalancerChange {
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
        let list = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
        let listener = |one: &Listener| {
            let Listener {
                protocol,
                port,
                target,
                ..
            } = one;
            format!("{protocol} {port}->{target}")
        };
        let check = |check: &HealthCheck| format!("{} at port {}", check.kind, check.port);
        let all = [
            self.nodes
                .as_ref()
                .map(|nodes| format!("servers to {}", list(nodes))),
            self.policy
                .as_ref()
                .map(|policy| format!("policy to {policy}")),
            self.listeners.as_ref().map(|all| {
                let all: Vec<String> = all.iter().map(listener).collect();
                format!("listeners to {}", all.join(", "))
            }),
            self.healthcheck
                .as_ref()
                .map(|all| format!("health check to {}", check(all))),
            self.domains.as_ref().map(|all| match all.is_empty() {
                true => "domains to none".to_owned(),
                false => format!("domains to {}", list(all)),
            }),
            self.https_redirect
                .map(|is_on| format!("redirection to HTTPS {}", if is_on { "on" } else { "off" })),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        all.join("; ")
    }
}
