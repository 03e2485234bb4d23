//! The address of the control plane, as an L2Network knows it: kept from Services, and what its nodes say of it.
//!
//! Who announces it goes by the control plane file of each node ([`crate::control_plane`]), and never by this.

use std::net::IpAddr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{L2NetworkSpec, Pool, Segment, SpokenFor, rules};
use crate::control_plane::DEFAULT_PORT;
use crate::node_addresses::is_of_one_host;

/// The address of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneEntry {
    /// The addresses, of each family at most one.
    #[schemars(schema_with = "addresses")]
    pub addresses: Vec<String>,
    /// The port of the API servers. Absent: 6443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535), extend("format" = "int32"))]
    pub port: Option<u16>,
}

/// An entry that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlaneEndpoint {
    /// The addresses, in the user's order.
    pub addresses: Vec<IpAddr>,
    /// The port of the API servers.
    pub port: u16,
}

/// What the process that announces the control plane's address says on one Node. Written by that Node's daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneNode {
    /// `Announcing`: it has the address. `Standby`: it can take it. `NotReady`: its API server is not ready.
    /// `Witness`: it only votes. `NotMember`: its control plane file does not name it. `NotRunning`: the process
    /// does not run.
    #[schemars(length(min = 1, max = 64))]
    pub state: String,
    /// The revision of the control plane file whose voters it serves. Absent: it serves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub revision: Option<i64>,
    /// The revision that it has accepted as the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub accepted_revision: Option<i64>,
    /// The addresses that it announces, since when and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 2))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Vec<SpokenFor>,
    /// What is wrong there, and what to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 512))]
    pub message: String,
}

impl Segment {
    /// The control plane's addresses that the pools would give to Services otherwise.
    #[must_use]
    pub fn control_plane_in_pools(&self) -> Vec<IpAddr> {
        let entry = self.control_plane.iter();
        let addresses = entry.flat_map(|entry| entry.addresses.iter().copied());
        let gives = |pool: &Pool, address| pool.ranges.iter().any(|range| range.contains(address));
        addresses
            .filter(|address| self.pools.iter().any(|pool| gives(pool, *address)))
            .collect()
    }
}

/// The schema of the addresses, with the rules that each must keep, and both together.
fn addresses(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": 2,
        "x-kubernetes-validations": [rules::one_of_each_family()],
        "items": {
            "type": "string",
            "minLength": 2,
            "maxLength": 39,
            "x-kubernetes-validations": [rules::address_of_one_host()],
        },
    })
}

/// `spec.controlPlane`; `None`: there is none, or it cannot be read.
pub(super) fn read(spec: &L2NetworkSpec, faults: &mut Vec<String>) -> Option<ControlPlaneEndpoint> {
    let entry = spec.control_plane.as_ref()?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    if entry.addresses.is_empty() {
        faults.push(
            "spec.controlPlane.addresses: lists no address; list that of the control plane, like [192.0.2.100], or \
             leave spec.controlPlane out"
                .to_owned(),
        );
    }
    for (index, text) in entry.addresses.iter().enumerate() {
        let field = format!("spec.controlPlane.addresses[{index}]");
        let address = match text.parse::<IpAddr>() {
            Ok(address) if is_of_one_host(address) => address,
            _ => {
                faults.push(format!(
                    "{field}: {text:?} is no address of one host; write one such as 192.0.2.100"
                ));
                continue;
            }
        };
        let is_alike = |known: &IpAddr| known.is_ipv4() == address.is_ipv4();
        if addresses.iter().any(is_alike) {
            faults.push(format!(
                "{field}: {text:?} is a second address of its family; list at most one of each"
            ));
        }
        addresses.push(address);
    }
    let port = entry.port.unwrap_or(DEFAULT_PORT);
    if port == 0 {
        faults.push(
            "spec.controlPlane.port: 0 is no port; write that of the API servers, from 1 to 65535"
                .to_owned(),
        );
    }
    Some(ControlPlaneEndpoint { addresses, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::l2_network::{AddressPool, InvalidL2Network, L2Network, Reserved, Subnet};

    fn segment(addresses: &[&str], port: Option<u16>) -> Result<Segment, InvalidL2Network> {
        let addresses = addresses.iter().map(ToString::to_string).collect();
        let pool = AddressPool {
            name: "gold".to_owned(),
            ranges: vec!["192.0.2.64/28".to_owned()],
            excluded_ranges: vec!["192.0.2.70/32".to_owned()],
            ..AddressPool::default()
        };
        let spec = L2NetworkSpec {
            subnets: vec![Subnet {
                cidr: "192.0.2.0/24".to_owned(),
                gateway: None,
            }],
            ranges: vec!["192.0.2.16/28".to_owned()],
            pools: vec![pool],
            control_plane: Some(ControlPlaneEntry { addresses, port }),
            ..L2NetworkSpec::default()
        };
        Segment::try_from(&L2Network::new("lan", spec))
    }

    #[test]
    fn reads_addresses_and_default_port() {
        let read = segment(&["192.0.2.100", "2001:db8::100"], None).unwrap();
        let entry = read.control_plane.clone().unwrap();
        assert_eq!((entry.addresses.len(), entry.port), (2, 6443));
        let own: Vec<IpAddr> = read
            .reserved()
            .filter(|(_, why)| *why == Reserved::ControlPlane)
            .map(|(address, _)| address)
            .collect();
        assert_eq!(own, entry.addresses, "no Service can have them");
        let other = segment(&["192.0.2.100"], Some(8443)).unwrap();
        assert_eq!(other.control_plane.unwrap().port, 8443);
    }

    #[test]
    fn names_key_value_and_remedy_of_all_faults() {
        let faults = |addresses: &[&str], port| segment(addresses, port).unwrap_err().faults;
        let told = faults(&["here", "127.0.0.1", "192.0.2.1", "192.0.2.2"], Some(0));
        let words = [
            ["addresses[0]", "\"here\"", "write one such as"],
            ["addresses[1]", "\"127.0.0.1\"", "write one such as"],
            ["addresses[3]", "\"192.0.2.2\"", "at most one of each"],
            ["port", "0 is no port", "write that of the API servers"],
        ];
        assert_eq!(told.len(), words.len(), "{told:?}");
        for (fault, words) in told.iter().zip(words) {
            assert!(fault.starts_with("spec.controlPlane."), "{fault}");
            for word in words {
                assert!(fault.contains(word), "{word} in {fault}");
            }
        }
        assert!(faults(&[], None)[0].contains("leave spec.controlPlane out"));
    }

    #[test]
    fn finds_addresses_that_a_pool_would_give() {
        let found = |address: &str| segment(&[address], None).unwrap().control_plane_in_pools();
        for inside in ["192.0.2.20", "192.0.2.65"] {
            assert_eq!(found(inside), [inside.parse::<IpAddr>().unwrap()]);
        }
        for outside in ["192.0.2.100", "192.0.2.70", "198.51.100.1"] {
            assert_eq!(found(outside), Vec::<IpAddr>::new(), "{outside}");
        }
    }
}
