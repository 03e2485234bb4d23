//! What a Service is to have.

use std::collections::BTreeSet;

use super::super::api::{CloudIp, HealthCheck, Listener, MOST_PORTS, RuleSpec};
use super::bundle::{Bundle, mark};
use super::options::{CloudIpWish, Options};
use crate::cloud_provider::load_balancers::{self, LoadBalancerRequest};
use crate::engine::members::Members;
use crate::engine::pool::NoMember;
use crate::engine::port_rules::packed;
use crate::engine::provider;

/// Where the connections of load balancers come from.
const BALANCERS: &str = "10.0.0.0/8";

/// A load balancer with all that goes with it, as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// The name of all of it.
    pub(super) name: String,
    /// The text that marks it.
    pub(super) mark: String,
    /// The servers that get traffic.
    pub(super) servers: BTreeSet<String>,
    /// Which others are not taken away.
    pub(super) kept: Members,
    /// What the servers' firewall lets through.
    pub(super) rules: Vec<RuleSpec>,
    /// How connections are distributed.
    pub(super) policy: Option<&'static str>,
    /// One for each port.
    pub(super) listeners: Vec<Listener>,
    /// How servers are asked whether they are healthy.
    pub(super) check: HealthCheck,
    /// The domains of its certificate: those that are asked for, and the names of the Cloud IP once that is
    /// looked up.
    pub(super) domains: BTreeSet<String>,
    /// Why other domains cannot be had yet, if that is so: they lead elsewhere.
    pub(super) astray: Option<String>,
    /// Which Cloud IP is to lead to it.
    pub(super) wish: CloudIpWish,
    /// That one as it is, once it is looked up. `None`: there is none yet.
    pub(super) chosen: Option<CloudIp>,
    /// Its identifier, if the Service names it.
    pub(super) exclusives: BTreeSet<String>,
}

impl Desired {
    /// Whether clients speak HTTPS at some port.
    pub(super) fn is_https(&self) -> bool {
        self.listeners.iter().any(Listener::is_https)
    }

    /// The Cloud IP that is wanted, if it is among the Service's own things or leads to them.
    pub(super) fn own_choice(&self, observed: Option<&Bundle>) -> Option<CloudIp> {
        let bundle = observed?;
        let found = match &self.wish {
            CloudIpWish::Own => bundle.own_ip(),
            wish => bundle.cloud_ips.iter().find(|ip| wish.is_met_by(ip)),
        };
        found.cloned()
    }

    /// The identifier of the Cloud IP, if the Service names it.
    pub(super) fn asked(&self) -> Option<String> {
        let chosen = self.chosen.as_ref();
        let named = chosen.filter(|_| self.wish != CloudIpWish::Own);
        named.map(|ip| ip.id.clone())
    }
}

impl provider::Desired for Desired {
    type Member = NoMember;
    type Observed = Bundle;

    fn exclusives(&self) -> &BTreeSet<String> {
        &self.exclusives
    }
}

/// What a Service is to have. `members`: the machines of its Nodes.
pub(super) fn desired(
    request: &LoadBalancerRequest,
    options: &Options,
    members: &Members,
) -> Desired {
    let service = &request.service;
    let is_said = !options.check.kind.is_empty() || options.check.request.is_some();
    let by_daemon = request.health.check(service).filter(|_| !is_said);
    let health_port = service.health_check_node_port;
    let ports = options.listeners.iter().map(|one| one.target);
    let ports = ports.chain(health_port);
    let ports = ports.chain(by_daemon.iter().map(|check| check.port));
    let known = members.found.iter().map(|machine| machine.id.clone());
    let exclusives = match &options.cloud_ip {
        CloudIpWish::Id(id) => [id.clone()].into(),
        _ => BTreeSet::new(),
    };
    Desired {
        name: options.name.clone(),
        mark: mark(&service.uid, request.cluster.as_deref()),
        servers: known.filter(|id| !id.is_empty()).collect(),
        kept: members.kept(),
        rules: rules(options, ports),
        policy: options.policy,
        listeners: options.listeners.clone(),
        check: match by_daemon {
            Some(load_balancers::HealthCheck { port, path }) => HealthCheck {
                kind: "http".to_owned(),
                port,
                request: Some(path),
                ..check(request, options)
            },
            None => check(request, options),
        },
        domains: options.domains.clone(),
        astray: None,
        wish: options.cloud_ip.clone(),
        chosen: None,
        exclusives,
    }
}

/// As few as hold all ports; those of the Service come first, in its order.
fn rules(options: &Options, ports: impl Iterator<Item = u16>) -> Vec<RuleSpec> {
    let packed = packed(ports, MOST_PORTS).into_iter();
    let rule = packed.map(|destination_port| RuleSpec {
        protocol: "tcp".to_owned(),
        source: BALANCERS.to_owned(),
        destination_port,
        description: options.name.clone(),
    });
    rule.collect()
}

fn check(request: &LoadBalancerRequest, options: &Options) -> HealthCheck {
    let service = &request.service;
    let local = service.health_check_node_port.filter(|_| service.is_local);
    let first = options.listeners.first();
    let is_tcp = first.is_some_and(|one| one.protocol == "tcp");
    let otherwise = if is_tcp && local.is_none() {
        "tcp"
    } else {
        "http"
    };
    let asked = &options.check;
    let kind = match asked.kind.as_str() {
        "" => otherwise,
        kind => kind,
    };
    let path = match (kind, &asked.request) {
        ("tcp", _) => Some("/"),
        (_, Some(path)) => Some(path.as_str()).filter(|path| !path.is_empty()),
        (_, None) => Some("/healthz"),
    };
    let port = local.or(first.map(|one| one.target));
    HealthCheck {
        kind: kind.to_owned(),
        port: port.unwrap_or(80),
        request: path.map(ToOwned::to_owned),
        ..asked.clone()
    }
}

#[cfg(test)]
pub(super) mod tests;
