//! The NodeBalancer that a Service is to have. All nodes are enabled as far as this file goes.

use std::net::SocketAddr;
use std::sync::Arc;

use mooring_common::names::{labels, linode_tags, reasons};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::model::{BalancerSpec, ConfigSpec, FirewallWish, NodeSpec};
use super::observed::Observed;
use super::options::{Options, PortOptions, with_firewall};
use super::step::shown;
use crate::cloud_provider::digest::{hex, shortened};
use crate::cloud_provider::load_balancers::{InvalidField, LoadBalancerRequest, Notice};
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::vpcs::Subnet;
use crate::engine::drains::Drains;
use crate::engine::members::Members;
use crate::engine::pool::Member as _;
use crate::engine::provider;
use crate::engine::service_spec::unmet_address;
use crate::views::service_view::ServiceView;

/// What the label of a node has at least and at most.
const NODE_LABEL: (usize, usize) = (3, 32);

/// A NodeBalancer as it is wanted.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Desired {
    /// The NodeBalancer itself.
    pub(super) balancer: BalancerSpec,
    /// The tags that mark it as this Service's.
    pub(super) marks: Vec<String>,
    /// One for each port, in order.
    pub(super) configs: Vec<DesiredConfig>,
    /// The firewall that it is to have.
    pub(super) firewall: FirewallWish,
    /// The firewall that the Service named before. It is detached when no other is asked for.
    #[serde(skip)]
    pub(super) former_firewall: Option<u64>,
    /// Whether all nodes are known. If not, some are missing here that may be right, and none is
    /// taken away.
    pub(super) members_are_complete: bool,
    /// `spec.loadBalancerIP`, if a new NodeBalancer would get another one.
    #[serde(skip)]
    unmet_address: Option<String>,
    /// A digest of the certificates and keys, which are never written down.
    tls: Vec<String>,
}

/// A config as it is wanted, with its nodes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct DesiredConfig {
    /// The config itself.
    pub(super) spec: ConfigSpec,
    /// Its nodes, without repetition.
    pub(super) nodes: Vec<NodeSpec>,
    /// Why there is no certificate for it.
    #[serde(skip)]
    pub(super) fault: Option<InvalidField>,
}

impl provider::Desired for Desired {
    type Member = NodeSpec;
    type Observed = Observed;

    fn pools(&mut self) -> impl Iterator<Item = &mut Vec<NodeSpec>> {
        self.configs.iter_mut().map(|config| &mut config.nodes)
    }

    fn unmet_address(&self) -> Option<&str> {
        self.unmet_address.as_deref()
    }

    fn drain(&mut self, observed: &Observed, drains: &mut Drains) {
        if !self.members_are_complete {
            return;
        }
        // Where nobody is to be left, nobody takes over.
        let served = self.configs.iter_mut();
        for config in served.filter(|config| !config.nodes.is_empty()) {
            let place = config.spec.place();
            let actual = observed.configs.iter();
            let actual = actual.filter(|actual| actual.part.spec.place() == place);
            for node in actual.flat_map(|actual| &actual.nodes) {
                let is_wanted = |wanted: &NodeSpec| wanted.is_as(&node.spec);
                let can_drain = node.spec.mode.is_some();
                if config.nodes.iter().any(is_wanted) || !can_drain || !drains.keeps(node) {
                    continue;
                }
                let mut leaving = node.spec.clone();
                leaving.enable(false);
                config.nodes.push(leaving);
            }
        }
    }

    fn fingerprint(&self) -> Option<String> {
        if self.configs.iter().any(|config| config.fault.is_some()) {
            return None;
        }
        let digest = Sha256::digest(serde_json::to_vec(self).ok()?);
        Some(with_firewall(hex(&digest, 16), &self.firewall))
    }
}

/// The tags that mark what is made for a Service.
pub(super) fn marks(service_uid: &str, cluster: Option<&str>) -> Vec<String> {
    let service = format!("{}{service_uid}", linode_tags::SERVICE);
    let cluster = cluster.map(|uid| format!("{}{uid}", linode_tags::CLUSTER));
    std::iter::once(service).chain(cluster).collect()
}

/// The NodeBalancer that a Service is to have. `members`: the Linodes of the Nodes.
pub(super) fn desired(
    request: &LoadBalancerRequest,
    options: &Options,
    members: &Members,
) -> Desired {
    let service = &request.service;
    let marks = marks(&service.uid, request.cluster.as_deref());
    let mut tls = Vec::new();
    let mut configs = Vec::new();
    for port in &options.ports {
        let mut spec = port.config.clone();
        let mut fault = None;
        if let Some(name) = &port.tls_secret {
            match request.secrets.usable(name) {
                Ok(secret) => {
                    tls.push(secret.digest());
                    spec.tls = Some(Arc::new(secret.clone()));
                }
                Err(remedy) => {
                    let place = format!("annotation {}{}, tls-secret-name", keys::PORT, spec.port);
                    fault = Some(InvalidField::new(place, name, remedy));
                }
            }
        }
        configs.push(DesiredConfig {
            nodes: nodes(options, members, port),
            spec,
            fault,
        });
    }
    let mut firewall = options.firewall.clone();
    if let FirewallWish::Own(firewall) = &mut firewall {
        firewall.tags.clone_from(&marks);
    }
    Desired {
        unmet_address: unmet_address(service, options.balancer.ipv4.iter()),
        balancer: options.balancer.clone(),
        marks,
        configs,
        firewall,
        former_firewall: options.former_firewall,
        members_are_complete: members.are_complete,
        tls,
    }
}

fn nodes(options: &Options, members: &Members, port: &PortOptions) -> Vec<NodeSpec> {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    for machine in &members.found {
        let Some(attachment) = machine.attachments.first() else {
            continue;
        };
        let address = SocketAddr::new(attachment.address, port.port.node_port);
        let mut node = NodeSpec::new(node_label(&machine.node), address);
        node.subnet.clone_from(&options.subnet);
        if port.config.protocol == "udp" {
            node.mode = None;
        }
        if !nodes.iter().any(|other| other.is_as(&node)) {
            nodes.push(node);
        }
    }
    nodes
}

/// A Node's name as the label of a node: the shortest have a word before them.
pub(super) fn node_label(name: &str) -> String {
    let (least, most) = NODE_LABEL;
    match name.len() < least {
        true => format!("node-{name}"),
        false => shortened(name, most),
    }
}

/// What a person should know although it can be carried out.
pub(super) fn notices(
    service: &ServiceView,
    options: &Options,
    desired: &Desired,
    observed: Option<&Observed>,
) -> Vec<Notice> {
    let notice = |reason, note| Notice {
        reason,
        note,
        by_provider: reason == reasons::NODE_BALANCER_IP_CHANGE_IGNORED,
    };
    // Of UDP another port is asked than the one that gets traffic.
    let configs = options.ports.iter().map(|port| &port.config);
    let blind = configs.filter(|config| config.check == "none" || config.place().1);
    let blind: Vec<String> = blind.filter(|_| service.is_local).map(shown).collect();
    let blind = (!blind.is_empty()).then(|| {
        let note = format!(
            "externalTrafficPolicy is Local, and no check finds out which Nodes have an endpoint of {}: those \
             without drop what they get. Run a Pod on each Node, or exclude the others by the label {}.",
            blind.join(", "),
            labels::EXCLUDE_FROM_LOAD_BALANCERS,
        );
        notice(reasons::HEALTH_MONITOR_UNFIT, note)
    });
    let Some(Observed { balancer, .. }) = observed else {
        return blind.into_iter().collect();
    };
    let (id, wanted) = (&balancer.id, &options.balancer);
    let actual = balancer.ipv4.as_deref().unwrap_or_default();
    let address = wanted.ipv4.as_deref().filter(|wanted| *wanted != actual);
    let address = address.map(|wanted| {
        let note = format!(
            "IPv4 annotation changed to {wanted}, but NodeBalancer ({id}) IP cannot be updated after creation. It \
             will remain {actual}"
        );
        notice(reasons::NODE_BALANCER_IP_CHANGE_IGNORED, note)
    });
    let kind = balancer.kind.as_ref().filter(|kind| **kind != wanted.kind);
    let kind = kind.map(|kind| {
        let note = format!(
            "NodeBalancer {id} is of type {kind}, and its type cannot be changed to {}. Create the Service anew \
             for that.",
            wanted.kind
        );
        notice(reasons::UNSUPPORTED_FIELD, note)
    });
    let there = balancer.frontend_vpc_subnet_id.filter(|id| *id > 0);
    let asked = wanted.frontend.as_ref().map(|frontend| &frontend.subnet);
    let is_elsewhere = match asked {
        Some(Subnet::Id(asked)) => there != Some(*asked),
        Some(Subnet::Named { .. }) => there.is_none(),
        None => false,
    };
    let elsewhere = is_elsewhere.then(|| {
        let note = format!(
            "NodeBalancer {id} has its address elsewhere than in the subnet that {} or the names ask for, and \
             that cannot be changed. Create the Service anew for that.",
            keys::FRONTEND_SUBNET_ID.key
        );
        notice(reasons::UNSUPPORTED_FIELD, note)
    });
    let hides = options.hostname_only && balancer.hostname.is_none();
    let hides = hides.then(|| {
        let note = format!(
            "NodeBalancer {id} has no host name, so that the status has its address in spite of {}.",
            keys::HOSTNAME_ONLY.key
        );
        notice(reasons::UNSUPPORTED_FIELD, note)
    });
    let configs = desired.configs.iter();
    let unusable = configs.filter_map(|config| config.fault.as_ref());
    let unusable = unusable.map(|fault| {
        let note =
            format!("{fault}. NodeBalancer {id} presents the former certificate until then.");
        notice(reasons::TLS_SECRET_UNUSABLE, note)
    });
    let of_balancer = address.into_iter().chain(kind).chain(elsewhere);
    let others = of_balancer.chain(hides).chain(blind);
    others.chain(unusable).collect()
}
