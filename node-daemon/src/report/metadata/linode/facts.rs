//! What Linode's metadata say of a machine. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use mooring_common::label;
use mooring_common::names::{annotations, labels};
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::NodeFacts;
use serde_json::Value;

use crate::report::metadata::errors::MetadataError;
use crate::report::metadata::values::{Document, provider_id};
use crate::report::metadata::{SourceAnswer, absent, missing};

/// What Linode's controller labels a Node with. It knows no zones.
const NEEDED: [&str; 3] = [
    missing::PROVIDER_ID,
    missing::INSTANCE_TYPE,
    missing::REGION,
];

/// What interfaces may be for without having addresses that these metadata do not tell. An address
/// on a VLAN is none that Linode's controller reported.
const PURPOSES_KNOWN: [&str; 2] = ["public", "vlan"];

/// That two reads of `/v1/instance` were answered for one machine, so that what was read between
/// them is this machine's too.
pub(super) fn same_instance(before: &Document, after: &Document) -> Result<(), MetadataError> {
    let (first, second) = (before.number("id")?, after.number("id")?);
    if first == second {
        return Ok(());
    }
    let written = |id: Option<u64>| id.map_or_else(|| "absent".to_owned(), |id| id.to_string());
    let other = format!("was {} a moment before", written(first));
    Err(after.contradictory("id", &written(second), other))
}

/// The facts, and what is lacking to what Linode's controller gave.
pub(super) fn describe(
    instance: &Document,
    network: &Document,
    external: Option<IpNet>,
    node_name: &str,
) -> Result<SourceAnswer, MetadataError> {
    let id = instance.number("id")?.map(|id| id.to_string());
    let id = id.map(|id| provider_id("linode", instance.from(), "id", &id));
    let label = host_name(instance)?;
    let addresses = Addresses::read(network)?;
    let mut facts = NodeFacts {
        provider_id: id.transpose()?,
        instance_type: instance.label("type")?,
        region: instance.label("region")?,
        keeps_reported_internal_ips: true,
        provider_labels: provider_labels(instance)?,
        provider_annotations: addresses.annotations(external),
        ..NodeFacts::default()
    };
    let mut lacking = absent(&facts, &NEEDED);
    match label {
        None => lacking.push(missing::HOST_NAME),
        // The fence lets a daemon report no other name.
        Some(label) if label != node_name => lacking.push(missing::OTHER_NAME),
        // A list that is not whole would take away what central has written.
        Some(label) if addresses.unknown.is_empty() => {
            facts.addresses = addresses.in_order(label, external);
        }
        Some(_) => {}
    }
    lacking.extend(addresses.unknown);
    Ok(SourceAnswer::lacking(facts, lacking))
}

fn host_name(instance: &Document) -> Result<Option<String>, MetadataError> {
    match instance.text("label")? {
        Some(label) if label.len() > 253 || !label.chars().all(|c| c.is_ascii_graphic()) => {
            Err(instance.malformed("label", label, "no label of a Linode"))
        }
        label => Ok(label.map(ToOwned::to_owned)),
    }
}

fn provider_labels(instance: &Document) -> Result<BTreeMap<String, String>, MetadataError> {
    let uuid = instance.text("host_uuid")?.and_then(label::sanitize);
    let label = uuid.map(|uuid| (labels::LINODE_HOST_UUID.to_owned(), uuid));
    Ok(label.into_iter().collect())
}

/// The machine's own addresses. Shared ones are not among them: Linode lists them apart, since
/// they move between machines, and two Nodes with one address would be taken for each other.
struct Addresses {
    v4: Vec<IpAddr>,
    v6: Option<IpAddr>,
    unknown: Vec<&'static str>,
}

impl Addresses {
    fn read(network: &Document) -> Result<Self, MetadataError> {
        let mut unknown = Vec::new();
        let public = network.addresses("ipv4.public")?;
        let private = network.addresses("ipv4.private")?;
        if public.is_none() || private.is_none() {
            unknown.push(missing::IPV4);
        }
        let (mut v4, private) = (public.unwrap_or_default(), private.unwrap_or_default());
        if let Some(both) = v4.iter().find(|address| private.contains(address)) {
            let other = "it is in ipv4.public too".to_owned();
            return Err(network.contradictory("ipv4.private", &both.to_string(), other));
        }
        v4.extend(private);
        if let Some(wrong) = v4.iter().find(|address| address.is_ipv6()) {
            return Err(network.malformed("ipv4", &wrong.to_string(), "no IPv4 address"));
        }
        if !network.has("ipv6.slaac") {
            unknown.push(missing::IPV6);
        }
        let v6 = network.address("ipv6.slaac")?;
        if let Some(wrong) = v6.filter(IpAddr::is_ipv4) {
            return Err(network.malformed("ipv6.slaac", &wrong.to_string(), "no IPv6 address"));
        }
        unknown.extend(beyond(network)?);
        if unknown.is_empty() && v4.is_empty() && v6.is_none() {
            unknown.push(missing::ADDRESSES);
        }
        Ok(Self { v4, v6, unknown })
    }

    /// As Linode's controller orders them.
    fn in_order(&self, label: String, external: Option<IpNet>) -> Vec<NodeAddress> {
        let name = NodeAddress::new(AddressType::Hostname, label);
        let v4 = self.v4.iter().map(|address| {
            let kind = if is_private(*address, external) {
                AddressType::InternalIP
            } else {
                AddressType::ExternalIP
            };
            NodeAddress::new(kind, address.to_string())
        });
        let public = |v6: IpAddr| NodeAddress::new(AddressType::ExternalIP, v6.to_string());
        std::iter::once(name)
            .chain(v4)
            .chain(self.v6.map(public))
            .collect()
    }

    fn annotations(&self, external: Option<IpNet>) -> BTreeMap<String, String> {
        let private = self.v4.iter().find(|v4| is_private(**v4, external));
        let private = private.map(|v4| (annotations::LINODE_PRIVATE_IP, v4.to_string()));
        let public = |v6: IpAddr| (annotations::LINODE_PUBLIC_IPV6, format!("{v6}/128"));
        private
            .into_iter()
            .chain(self.v6.map(public))
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }
}

/// Which addresses the machine may have that these metadata do not tell.
fn beyond(network: &Document) -> Result<Option<&'static str>, MetadataError> {
    let Some(interfaces) = network.list("interfaces")? else {
        return Ok(Some(missing::VPC));
    };
    let is_known = |interface: &Value| {
        let purpose = interface.get("purpose").and_then(Value::as_str);
        purpose.is_some_and(|purpose| PURPOSES_KNOWN.contains(&purpose))
    };
    let all_known = interfaces.iter().all(is_known);
    Ok((!all_known).then_some(missing::VPC))
}

/// RFC 1918, less what the user calls external.
fn is_private(address: IpAddr, external: Option<IpNet>) -> bool {
    let is_rfc1918 = matches!(address, IpAddr::V4(v4) if v4.is_private());
    is_rfc1918 && !external.is_some_and(|net| net.contains(&address))
}
