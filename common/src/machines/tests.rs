//! Tests of the machines file, by topic.

mod identifiers;
mod loading;
mod properties;
mod resolving;
mod validating;

use super::{Identity, Machines, parse};
use crate::node_addresses::{AddressType, NodeAddress};

/// A valid file, given without its first line.
fn file(rest: &str) -> Machines {
    parse(&format!("version: 1\n{rest}")).unwrap()
}

/// What is known of a machine: its name at first.
fn machine(name: &str) -> Identity {
    Identity {
        name: name.to_owned(),
        ..Identity::default()
    }
}

impl Identity {
    fn id(mut self, provider_id: &str) -> Self {
        self.provider_id = Some(provider_id.to_owned());
        self
    }

    fn uuid(mut self, uuid: &str) -> Self {
        self.system_uuid = Some(uuid.parse().unwrap());
        self
    }

    fn machine_id(mut self, id: &str) -> Self {
        self.machine_id = Some(id.parse().unwrap());
        self
    }

    fn mac(mut self, mac: &str) -> Self {
        self.macs.push(mac.parse().unwrap());
        self
    }

    fn ip(mut self, ip: &str) -> Self {
        self.ips.push(ip.parse().unwrap());
        self.addresses
            .push(NodeAddress::new(AddressType::InternalIP, ip));
        self
    }

    fn size(mut self, cpu: &str, memory: &str) -> Self {
        self.capacity = super::Capacity::from_quantities(cpu, memory);
        self
    }
}

const UUID: &str = "4c4c4544-0042-4810-8052-b4c04f4a3132";
const OTHER_UUID: &str = "9f3c1a52-7d1e-4b0a-9d55-0a6f4f2d11aa";
const MACHINE_ID: &str = "b08dfa6083e7567a1921a715000001fb";
