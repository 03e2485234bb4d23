//! What is known of the machine behind a Node before the file is asked.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Node;

use super::capacity::Capacity;
use super::hardware::{MacAddress, MachineId, SystemUuid};
use crate::names::annotations;
use crate::node_addresses::{AddressType, NodeAddress};

/// What is known of the machine behind a Node. Central knows what the Node object says; the node
/// daemon adds what it reads on the machine itself.
///
/// Whatever is `None` or empty is *not known*, which is not the same as known not to be: an entry
/// that asks for it can then neither be taken nor ruled out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The Node's name.
    pub name: String,
    /// `spec.providerID`, as it stands there. `None`: the Node has none.
    pub provider_id: Option<String>,
    /// `status.nodeInfo.systemUUID`, if it is no placeholder.
    pub system_uuid: Option<SystemUuid>,
    /// `status.nodeInfo.machineID`, if it is no placeholder.
    pub machine_id: Option<MachineId>,
    /// The addresses of the machine's network cards.
    pub macs: Vec<MacAddress>,
    /// The IP addresses it is known by.
    pub ips: Vec<IpAddr>,
    /// The tag on its chassis. Empty: known to have none.
    pub asset_tag: Option<String>,
    /// Its vendor. Empty: known to name none.
    pub vendor: Option<String>,
    /// The addresses that its Node has now.
    pub addresses: Vec<NodeAddress>,
    /// Its size.
    pub capacity: Option<Capacity>,
}

impl Identity {
    /// What the Node object says of its machine. Placeholders and what cannot be read are left
    /// out.
    #[must_use]
    pub fn of_node(node: &Node) -> Self {
        let status = node.status.as_ref();
        let info = status.and_then(|s| s.node_info.as_ref());
        let addresses: Vec<NodeAddress> = status
            .and_then(|s| s.addresses.as_ref())
            .into_iter()
            .flatten()
            .filter_map(|a| Some(NodeAddress::new(address_type(&a.type_)?, &a.address)))
            .collect();
        let capacity = status.and_then(|s| {
            let capacity = s.capacity.as_ref()?;
            Capacity::from_quantities(&capacity.get("cpu")?.0, &capacity.get("memory")?.0)
        });
        let provider_id = node.spec.as_ref().and_then(|s| s.provider_id.clone());
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            provider_id: provider_id.filter(|id| !id.is_empty()),
            system_uuid: info.and_then(|i| i.system_uuid.parse().ok()),
            machine_id: info.and_then(|i| i.machine_id.parse().ok()),
            ips: ips(node, &addresses),
            addresses,
            capacity,
            ..Self::default()
        }
    }

    /// Takes from `local` whatever is not known here, and nothing else: what a machine says of
    /// itself fills gaps, and never replaces what the Node object says.
    #[must_use]
    pub fn filled_from(mut self, local: &Self) -> Self {
        self.system_uuid = self.system_uuid.or_else(|| local.system_uuid.clone());
        self.machine_id = self.machine_id.or_else(|| local.machine_id.clone());
        self.asset_tag = self.asset_tag.or_else(|| local.asset_tag.clone());
        self.vendor = self.vendor.or_else(|| local.vendor.clone());
        self.capacity = self.capacity.or(local.capacity);
        if self.macs.is_empty() {
            self.macs.clone_from(&local.macs);
        }
        if self.ips.is_empty() {
            self.ips.clone_from(&local.ips);
        }
        if self.addresses.is_empty() {
            self.addresses.clone_from(&local.addresses);
        }
        self
    }
}

fn ips(node: &Node, addresses: &[NodeAddress]) -> Vec<IpAddr> {
    let provided = node
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(annotations::PROVIDED_NODE_IP));
    let texts = addresses.iter().map(|a| a.address.as_str());
    let mut ips: Vec<IpAddr> = Vec::new();
    for text in texts.chain(provided.into_iter().flat_map(|value| value.split(','))) {
        match text.trim().parse() {
            Ok(ip) if !ips.contains(&ip) => ips.push(ip),
            _ => {}
        }
    }
    ips
}

/// The type of address that Kubernetes calls so.
pub(super) fn address_type(text: &str) -> Option<AddressType> {
    Some(match text {
        "InternalIP" => AddressType::InternalIP,
        "ExternalIP" => AddressType::ExternalIP,
        "Hostname" => AddressType::Hostname,
        "InternalDNS" => AddressType::InternalDNS,
        "ExternalDNS" => AddressType::ExternalDNS,
        _ => return None,
    })
}
