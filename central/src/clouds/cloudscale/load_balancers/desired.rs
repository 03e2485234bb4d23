//! The load balancer that a Service is to have. All members are enabled as far as this file goes.

mod notices;

pub(super) use notices::notices;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use mooring_common::names::cloudscale_tags;

use super::model::{BalancerSpec, HttpSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Tags};
use super::observed::Observed;
use super::options::Options;
use crate::cloud_provider::load_balancers::{HealthCheck, LoadBalancerRequest};
use crate::engine::canonical::canonical_uuid;
use crate::engine::members::Members;
use crate::engine::provider;
use crate::engine::service_spec::{Port, unmet_address};
use crate::views::service_view::ServiceView;

/// A load balancer as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// The load balancer itself; its zone only if the Service names one.
    pub(super) balancer: BalancerSpec,
    /// The zone of all its Nodes, for a new one where the Service names none. `None`: there is no
    /// Node, or they stand in several.
    pub(super) zone_of_nodes: Option<String>,
    /// One for each port, in order.
    pub(super) pools: Vec<DesiredPool>,
    /// Whether all members are known. If not, some are missing here that may be right, and none is
    /// taken away.
    pub(super) members_are_complete: bool,
    /// Addresses of the floating IPs that are to lead to it, in canonical form.
    pub(super) floating_ips: BTreeSet<String>,
    /// `spec.loadBalancerIP`, if neither a virtual address nor a floating IP that is asked for is
    /// the same: a new load balancer would get another one.
    pub(super) unmet_address: Option<String>,
}

/// A pool as it is wanted, with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DesiredPool {
    /// The pool itself.
    pub(super) spec: PoolSpec,
    /// Its members, without repetition.
    pub(super) members: Vec<MemberSpec>,
    /// Its health monitor.
    pub(super) monitor: MonitorSpec,
    /// Its listener.
    pub(super) listener: ListenerSpec,
}

impl provider::Desired for Desired {
    type Member = MemberSpec;
    type Observed = Observed;

    fn zone(&self) -> Option<&str> {
        self.balancer.zone.as_deref()
    }

    fn pools(&mut self) -> impl Iterator<Item = &mut Vec<MemberSpec>> {
        self.pools.iter_mut().map(|pool| &mut pool.members)
    }

    fn exclusives(&self) -> &BTreeSet<String> {
        &self.floating_ips
    }

    fn deny(&mut self, addresses: &BTreeSet<String>) -> bool {
        self.floating_ips.retain(|ip| !addresses.contains(ip));
        true
    }

    fn unmet_address(&self) -> Option<&str> {
        self.unmet_address.as_deref()
    }
}

/// The load balancer that a Service is to have. `members`: the machines of the selected Nodes.
pub(super) fn desired(
    request: &LoadBalancerRequest,
    options: &Options,
    members: &Members,
) -> Desired {
    let service = &request.service;
    let check = request.health.check(service);
    let check = check.filter(|_| is_asked_by_http(service, options));
    let vips = options.balancer.vips.iter();
    let vips = vips.filter_map(|vip| vip.address.as_ref());
    let pool = |port: &Port| DesiredPool {
        spec: PoolSpec {
            name: pool_name(port),
            protocol: protocol(port, &options.pool.protocol),
            ..options.pool.clone()
        },
        members: members_of(service, members, port, check.as_ref()),
        monitor: match &check {
            Some(check) => monitor_with(options, "http", Some(plain_http(&check.path))),
            None => monitor(service, options),
        },
        listener: listener(options, port),
    };
    Desired {
        balancer: BalancerSpec {
            tags: tags(request),
            ..options.balancer.clone()
        },
        zone_of_nodes: members.zone(),
        pools: options.ports.iter().map(pool).collect(),
        members_are_complete: members.are_complete,
        floating_ips: options.floating_ips.clone(),
        unmet_address: unmet_address(service, vips.chain(&options.floating_ips)),
    }
}

fn tags(request: &LoadBalancerRequest) -> Tags {
    let uid = (cloudscale_tags::SERVICE_UID, Some(&request.service.uid));
    let cluster = (cloudscale_tags::CLUSTER, request.cluster.as_ref());
    let known = |(key, value): (&str, Option<&String>)| Some((key.to_owned(), value?.clone()));
    [uid, cluster].into_iter().filter_map(known).collect()
}

/// Who asks for a type of health monitor gets it, as far as the Go controller would give it.
fn is_asked_by_http(service: &ServiceView, options: &Options) -> bool {
    service.is_local || options.monitor.kind == "tcp"
}

fn protocol(port: &Port, of_tcp: &str) -> String {
    let is_tcp = port.protocol == "tcp";
    if is_tcp { of_tcp } else { &port.protocol }.to_owned()
}

fn pool_name(port: &Port) -> String {
    match &port.name {
        Some(name) => format!("{}/{name}", port.protocol),
        None => port.protocol.clone(),
    }
}

/// `check`: what a node daemon is asked; `None`: the service proxy is.
fn members_of(
    service: &ServiceView,
    members: &Members,
    port: &Port,
    check: Option<&HealthCheck>,
) -> Vec<MemberSpec> {
    let monitor_port = check.map_or_else(|| port.health_port(service), |check| check.port);
    let mut specs = Vec::new();
    for attachment in members
        .found
        .iter()
        .flat_map(|machine| &machine.attachments)
    {
        let spec = MemberSpec {
            name: SocketAddr::new(attachment.address, port.node_port).to_string(),
            enabled: true,
            address: attachment.address.to_string(),
            subnet: canonical_uuid(&attachment.subnet),
            protocol_port: port.node_port,
            monitor_port: Some(monitor_port),
        };
        if !specs.contains(&spec) {
            specs.push(spec);
        }
    }
    specs
}

fn monitor(service: &ServiceView, options: &Options) -> MonitorSpec {
    let asked = &options.monitor;
    let kind = if service.is_local {
        "http"
    } else {
        &asked.kind
    };
    let unsaid = || match kind {
        _ if service.is_local => Some(of_kube_proxy()),
        "http" | "https" => Some(HttpSpec::default()),
        _ => None,
    };
    monitor_with(options, kind, asked.http.clone().or_else(unsaid))
}

fn monitor_with(options: &Options, kind: &str, http: Option<HttpSpec>) -> MonitorSpec {
    MonitorSpec {
        kind: kind.to_owned(),
        http,
        ..options.monitor.clone()
    }
}

/// How kube-proxy is asked whether a Node has endpoints of the Service.
fn of_kube_proxy() -> HttpSpec {
    plain_http("/livez")
}

/// Without a `Host`.
fn plain_http(path: &str) -> HttpSpec {
    HttpSpec {
        url_path: path.to_owned(),
        version: "1.0".to_owned(),
        ..HttpSpec::default()
    }
}

fn listener(options: &Options, port: &Port) -> ListenerSpec {
    let protocol = protocol(port, &options.listener.protocol);
    ListenerSpec {
        name: format!("{protocol}/{}", port.port),
        protocol,
        port: port.port,
        ..options.listener.clone()
    }
}

#[cfg(test)]
mod tests;
