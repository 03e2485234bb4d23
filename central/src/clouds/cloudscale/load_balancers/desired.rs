//! The load balancer that a Service is to have. All members are enabled as far as this file goes.

mod notices;

pub(super) use notices::notices;

use std::collections::BTreeSet;
use std::sync::Arc;

use mooring_common::names::cloudscale_tags;
use mooring_common::node_view::NodeView;

use super::model::{HttpSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, Tags, VipRequest};
use super::options::{Options, Port};
use crate::cloud_provider::Attachment;
use crate::cloud_provider::load_balancers::{HealthCheck, LoadBalancerRequest};
use crate::engine::canonical::{canonical_network, canonical_uuid};
use crate::engine::members::{MachineOf, Members};
use crate::views::service_view::ServiceView;

/// A load balancer as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desired {
    /// Its name.
    pub(super) name: String,
    /// Its flavor; cannot be changed.
    pub(super) flavor: String,
    /// Its zone, if the Service names one; cannot be changed.
    pub(super) zone: Option<String>,
    /// The zone of all its Nodes, for a new one where the Service names none. `None`: there is no
    /// Node, or they stand in several.
    pub(super) zone_of_nodes: Option<String>,
    /// The virtual addresses that are asked for; none: any public ones. Cannot be changed.
    pub(super) vips: Vec<VipRequest>,
    /// The marks of cluster and Service.
    pub(super) tags: Tags,
    /// One for each port, in order.
    pub(super) pools: Vec<DesiredPool>,
    /// Whether all members are known. If not, some are missing here that may be right, and none is
    /// taken away.
    pub(super) members_are_complete: bool,
    /// Networks of floating IPs that are to lead to it, in canonical form.
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

/// The Nodes that are to carry the Service's traffic.
pub(super) fn selected(nodes: &[Arc<NodeView>], options: &Options) -> Vec<Arc<NodeView>> {
    let selector = &options.node_selector;
    let chosen = nodes.iter().filter(|node| selector.matches(node));
    chosen.cloned().collect()
}

/// The load balancer that a Service is to have. `machines`: those of the selected Nodes.
pub(super) fn desired(
    request: &LoadBalancerRequest,
    options: &Options,
    machines: &Members,
) -> Desired {
    let service = &request.service;
    let check = request.health.check(service);
    let check = check.filter(|_| is_asked_by_http(service, options));
    let pool = |port| pool(service, options, machines, (port, check.as_ref()));
    // A cloud that knows none of them is more likely to be wrong about that than right.
    let none_is_known = machines.found.is_empty() && !selected(&request.nodes, options).is_empty();
    Desired {
        name: options.name.clone(),
        flavor: options.flavor.clone(),
        zone: options.zone.clone(),
        zone_of_nodes: common_zone(&machines.found),
        vips: options.vips.clone(),
        tags: tags(request),
        pools: options.ports.iter().map(pool).collect(),
        members_are_complete: machines.are_complete && !none_is_known,
        floating_ips: options.floating_ips.clone(),
        unmet_address: unmet_address(service, options),
    }
}

fn tags(request: &LoadBalancerRequest) -> Tags {
    let uid = (cloudscale_tags::SERVICE_UID, Some(&request.service.uid));
    let cluster = (cloudscale_tags::CLUSTER, request.cluster.as_ref());
    let known = |(key, value): (&str, Option<&String>)| Some((key.to_owned(), value?.clone()));
    [uid, cluster].into_iter().filter_map(known).collect()
}

fn common_zone(machines: &[MachineOf]) -> Option<String> {
    let mut zones = machines.iter().filter_map(|machine| machine.zone.as_ref());
    let first = zones.next()?;
    zones.all(|zone| zone == first).then(|| first.clone())
}

fn unmet_address(service: &ServiceView, options: &Options) -> Option<String> {
    let text = service.load_balancer_ip.as_ref()?;
    let wanted = canonical_network(text);
    let vips = options.vips.iter().filter_map(|vip| vip.address.as_ref());
    let of_vips: BTreeSet<_> = vips.filter_map(|vip| canonical_network(vip)).collect();
    let is_met = wanted
        .is_some_and(|wanted| of_vips.contains(&wanted) || options.floating_ips.contains(&wanted));
    (!is_met).then(|| text.clone())
}

/// Who asks for a type of health monitor gets it, as far as the Go controller would give it.
fn is_asked_by_http(service: &ServiceView, options: &Options) -> bool {
    service.is_local || options.monitor.kind == "tcp"
}

/// `check`: what a node daemon is asked; `None`: the service proxy is.
fn pool(
    service: &ServiceView,
    options: &Options,
    machines: &Members,
    (port, check): (&Port, Option<&HealthCheck>),
) -> DesiredPool {
    DesiredPool {
        spec: PoolSpec {
            name: pool_name(port),
            algorithm: options.pool_algorithm.clone(),
            protocol: protocol(port, &options.pool_protocol),
        },
        members: members(service, options, machines, (port, check)),
        monitor: match check {
            Some(check) => monitor_of_daemon(options, check),
            None => monitor(service, options),
        },
        listener: listener(options, port),
    }
}

fn protocol(port: &Port, of_tcp: &str) -> String {
    if port.is_udp { "udp" } else { of_tcp }.to_owned()
}

fn pool_name(port: &Port) -> String {
    let protocol = if port.is_udp { "udp" } else { "tcp" };
    match &port.name {
        Some(name) => format!("{protocol}/{name}"),
        None => protocol.to_owned(),
    }
}

fn members(
    service: &ServiceView,
    options: &Options,
    machines: &Members,
    (port, check): (&Port, Option<&HealthCheck>),
) -> Vec<MemberSpec> {
    let health_port = service.health_check_node_port.filter(|_| service.is_local);
    let health_port = check.map(|check| check.port).or(health_port);
    let monitor_port = Some(health_port.unwrap_or(port.node_port));
    let mut members = Vec::new();
    for attachment in machines.found.iter().flat_map(|m| reachable(m, options)) {
        let member = MemberSpec {
            name: std::net::SocketAddr::new(attachment.address, port.node_port).to_string(),
            enabled: true,
            address: attachment.address.to_string(),
            subnet: canonical_uuid(&attachment.subnet),
            protocol_port: port.node_port,
            monitor_port,
        };
        if !members.contains(&member) {
            members.push(member);
        }
    }
    members
}

/// The addresses of a machine that may become members.
fn reachable<'a>(
    machine: &'a MachineOf,
    options: &'a Options,
) -> impl Iterator<Item = &'a Attachment> {
    let subnets = &options.allowed_subnets;
    let is_allowed =
        |a: &&Attachment| subnets.is_empty() || subnets.contains(&canonical_uuid(&a.subnet));
    machine.attachments.iter().filter(is_allowed)
}

fn monitor(service: &ServiceView, options: &Options) -> MonitorSpec {
    let asked = &options.monitor;
    let kind = if service.is_local {
        "http"
    } else {
        &asked.kind
    };
    let speaks_http = matches!(kind, "http" | "https");
    let unsaid = || match (service.is_local, speaks_http) {
        (true, _) => Some(of_kube_proxy()),
        (false, true) => Some(HttpSpec::default()),
        (false, false) => None,
    };
    monitor_with(asked, kind, asked.http.clone().or_else(unsaid))
}

fn monitor_of_daemon(options: &Options, check: &HealthCheck) -> MonitorSpec {
    monitor_with(&options.monitor, "http", Some(plain_http(&check.path)))
}

fn monitor_with(asked: &MonitorSpec, kind: &str, http: Option<HttpSpec>) -> MonitorSpec {
    MonitorSpec {
        kind: kind.to_owned(),
        http,
        ..asked.clone()
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
    let asked = &options.listener;
    let protocol = protocol(port, &asked.protocol);
    ListenerSpec {
        name: format!("{protocol}/{}", port.port),
        protocol,
        port: port.port,
        allowed_cidrs: asked.allowed_cidrs.clone(),
        timeout_client_data_ms: asked.timeout_client_data_ms,
        timeout_member_connect_ms: asked.timeout_member_connect_ms,
        timeout_member_data_ms: asked.timeout_member_data_ms,
    }
}

#[cfg(test)]
mod tests;
