//! The NodeBalancer that a Service is to have. All nodes are enabled as far as this file goes.

mod notices;

use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::model::{BalancerSpec, ConfigSpec, FirewallWish, NodeSpec};
use super::observed::Observed;
use super::options::{Options, PortOptions, with_firewall};
use super::places::Misplaced;
use crate::cloud_provider::digest::{hex, shortened};
use crate::cloud_provider::load_balancers::{InvalidField, LoadBalancerRequest};
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::api::node_balancers::MARKS;
use crate::engine::drains::Drains;
use crate::engine::members::Members;
use crate::engine::pool::Member as _;
use crate::engine::provider;
use crate::engine::service_spec::unmet_address;
pub(super) use notices::notices;

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
    /// Where it is elsewhere than it is wanted.
    #[serde(skip)]
    pub(super) misplaced: Vec<Misplaced>,
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
        for config in &mut self.configs {
            let place = config.spec.place();
            let actual = observed.configs.iter();
            let actual = actual.filter(|actual| actual.part.spec.place() == place);
            drains.keep(&mut config.nodes, actual.flat_map(|actual| &actual.nodes));
        }
    }

    fn fingerprint(&self) -> Option<String> {
        if self.configs.iter().any(|config| config.fault.is_some()) {
            return None;
        }
        let places = [&self.balancer.backend, &self.balancer.frontend];
        let places = places.map(|place| place.as_ref().map(|place| &place.subnet));
        let digest = Sha256::digest(serde_json::to_vec(&(self, places)).ok()?);
        Some(with_firewall(hex(&digest, 16), &self.firewall))
    }
}

/// The NodeBalancer that a Service is to have. `members`: the Linodes of the Nodes.
pub(super) fn desired(
    request: &LoadBalancerRequest,
    options: &Options,
    members: &Members,
) -> Desired {
    let service = &request.service;
    let marks = MARKS.of(&service.uid, request.cluster.as_deref());
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
        misplaced: Vec::new(),
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
