//! The NodeBalancer that a Service is to have. All nodes are enabled as far as this file goes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_common::names::{linode_tags, reasons};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::certificates;
use super::model::{BalancerSpec, ConfigSpec, FirewallWish, NodeSpec};
use super::observed::Observed;
use super::options::{Options, PortOptions};
use crate::cloud_provider::load_balancers::{InvalidField, LoadBalancerRequest, Notice};
use crate::clouds::linode::annotations as keys;
use crate::engine::drains::Drains;
use crate::engine::members::Members;
use crate::engine::pool::Member as _;
use crate::engine::provider;
use crate::engine::service_spec::unmet_address;

/// What the label of a node has at least and at most.
const NODE_LABEL: (usize, usize) = (3, 32);
/// What of a longer Node's name is kept, before a fingerprint of the whole.
const KEPT: usize = 23;

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
    /// Whether all nodes are known. If not, some are missing here that may be right, and none is
    /// taken away.
    pub(super) members_are_complete: bool,
    /// What is wrong although it can be read: all of it.
    #[serde(skip)]
    pub(super) faults: Vec<InvalidField>,
    /// `spec.loadBalancerIP`, if a new NodeBalancer would get another one.
    #[serde(skip)]
    unmet_address: Option<String>,
    /// No other resource leads to a NodeBalancer.
    #[serde(skip)]
    exclusives: BTreeSet<String>,
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
}

impl provider::Desired for Desired {
    type Member = NodeSpec;
    type Observed = Observed;

    fn zone(&self) -> Option<&str> {
        None
    }

    fn pools(&mut self) -> impl Iterator<Item = &mut Vec<NodeSpec>> {
        self.configs.iter_mut().map(|config| &mut config.nodes)
    }

    fn exclusives(&self) -> &BTreeSet<String> {
        &self.exclusives
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
                let is_wanted = |wanted: &NodeSpec| wanted.target() == node.spec.target();
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
        let text = serde_json::to_vec(self).ok()?;
        Some(hex(&Sha256::digest(text), 16))
    }
}

/// The first so many hexadecimal digits.
pub(super) fn hex(digest: &[u8], digits: usize) -> String {
    let all: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    all.chars().take(digits).collect()
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
    let mut faults = Vec::new();
    let mut tls = Vec::new();
    let mut configs = Vec::new();
    for port in &options.ports {
        let mut spec = port.config.clone();
        if let Some(name) = &port.tls_secret {
            match request.secrets.usable(name) {
                Ok(secret) => {
                    tls.push(certificates::digest(secret));
                    spec.tls = Some(Arc::new(secret.clone()));
                }
                Err(remedy) => {
                    let place = format!("annotation {}{}, tls-secret-name", keys::PORT, spec.port);
                    faults.push(InvalidField::new(place, name, remedy));
                }
            }
        }
        configs.push(DesiredConfig {
            nodes: nodes(options, members, port),
            spec,
        });
    }
    let mut firewall = options.firewall.clone();
    if let FirewallWish::Own(firewall) = &mut firewall {
        firewall.tags.clone_from(&marks);
    }
    let asked = options.reserved_ipv4.iter();
    Desired {
        unmet_address: unmet_address(service, asked),
        balancer: BalancerSpec {
            label: options.label.clone(),
            region: options.region.clone(),
            kind: options.kind.to_owned(),
            throttle: options.throttle,
            tags: options.tags.clone(),
            ipv4: options.reserved_ipv4.clone(),
            backend: options.backend.clone(),
            frontend: options.frontend.clone(),
        },
        marks,
        configs,
        firewall,
        members_are_complete: members.are_complete,
        faults,
        exclusives: BTreeSet::new(),
        tls,
    }
}

fn nodes(options: &Options, members: &Members, port: &PortOptions) -> Vec<NodeSpec> {
    let mut nodes: Vec<NodeSpec> = Vec::new();
    for machine in &members.found {
        let Some(attachment) = machine.attachments.first() else {
            continue;
        };
        let ip: IpAddr = attachment.address;
        let mut node = NodeSpec::new(node_label(&machine.node), ip, port.port.node_port);
        node.subnet.clone_from(&options.subnet);
        if port.config.protocol == "udp" {
            node.mode = None;
        }
        if !nodes.iter().any(|other| other.target() == node.target()) {
            nodes.push(node);
        }
    }
    nodes
}

/// A Node's name as the label of a node: the shortest have a word before them, and of the longest a
/// fingerprint stands behind what is kept.
pub(super) fn node_label(name: &str) -> String {
    let (least, most) = NODE_LABEL;
    if name.len() < least {
        return format!("node-{name}");
    }
    if name.len() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(KEPT).collect();
    let kept = kept.trim_end_matches(['-', '.']);
    format!("{kept}-{}", hex(&Sha256::digest(name), 8))
}

/// What a person should know although it can be carried out.
pub(super) fn notices(options: &Options, observed: Option<&Observed>) -> Vec<Notice> {
    let Some(observed) = observed else {
        return Vec::new();
    };
    let balancer = &observed.balancer;
    let actual = balancer.ipv4.as_deref().unwrap_or_default();
    let changed = options
        .reserved_ipv4
        .as_deref()
        .filter(|wanted| *wanted != actual);
    let mut notices = Vec::new();
    notices.extend(changed.map(|wanted| Notice {
        reason: reasons::NODE_BALANCER_IP_CHANGE_IGNORED,
        note: format!(
            "IPv4 annotation changed to {wanted}, but NodeBalancer ({}) IP cannot be updated after creation. It \
             will remain {actual}",
            balancer.id
        ),
        by_provider: true,
    }));
    let kind = balancer
        .kind
        .as_deref()
        .filter(|kind| *kind != options.kind);
    notices.extend(kind.map(|kind| Notice {
        reason: reasons::UNSUPPORTED_FIELD,
        note: format!(
            "NodeBalancer {} is of type {kind}, and its type cannot be changed to {}. Create the Service anew for \
             that.",
            balancer.id, options.kind
        ),
        by_provider: false,
    }));
    let hides = options.hostname_only && balancer.hostname.is_none();
    notices.extend(hides.then(|| Notice {
        reason: reasons::UNSUPPORTED_FIELD,
        note: format!(
            "NodeBalancer {} has no host name, so that the status has its address in spite of {}.",
            balancer.id,
            keys::HOSTNAME_ONLY.key
        ),
        by_provider: false,
    }));
    notices
}
