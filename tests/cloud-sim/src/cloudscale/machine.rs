//! A server, as the API shows it.

use serde_json::{Value, json};

/// The subnet of private addresses, unless another is given.
pub const SUBNET: &str = "11111111-2222-4333-8444-555555555555";

/// A server about to be made.
#[derive(Clone, Debug)]
#[must_use]
pub struct Machine(Value);

/// A network interface of a server.
#[derive(Clone, Debug)]
#[must_use]
pub struct Interface {
    kind: &'static str,
    subnet: String,
    addresses: Vec<String>,
}

impl Machine {
    /// A running server without any interface.
    pub fn named(name: &str) -> Self {
        Self(json!({ "name": name, "interfaces": [] }))
    }

    /// One more interface.
    pub fn interface(mut self, interface: Interface) -> Self {
        if let Some(interfaces) = self.0["interfaces"].as_array_mut() {
            interfaces.push(interface.into_value());
        }
        self
    }

    /// For example `flex-4-2`.
    pub fn flavor(mut self, slug: &str) -> Self {
        self.0["flavor"] = flavor(slug);
        self
    }

    /// For example `rma1`.
    pub fn zone(self, slug: &str) -> Self {
        self.with("zone", json!({ "slug": slug }))
    }

    /// `running`, `stopped` or `changing`.
    pub fn status(self, status: &str) -> Self {
        self.with("status", status)
    }

    /// One more tag.
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        if !self.0["tags"].is_object() {
            self.0["tags"] = json!({});
        }
        self.0["tags"][key] = json!(value);
        self
    }

    /// Any field.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.0[field] = value.into();
        self
    }

    pub(super) fn into_value(self) -> Value {
        self.0
    }
}

impl Interface {
    /// An interface to the public network, without an address.
    pub fn public() -> Self {
        Self::of("public")
    }

    /// An interface to a private network, without an address.
    pub fn private() -> Self {
        Self::of("private")
    }

    fn of(kind: &'static str) -> Self {
        Self {
            kind,
            subnet: SUBNET.to_owned(),
            addresses: Vec::new(),
        }
    }

    /// The subnet of its addresses, as far as they are private. Unless this is said, all private
    /// addresses are in one and the same.
    pub fn subnet(mut self, uuid: &str) -> Self {
        uuid.clone_into(&mut self.subnet);
        self
    }

    /// One more address.
    pub fn address(mut self, address: &str) -> Self {
        self.addresses.push(address.to_owned());
        self
    }

    /// The interface as the API shows it.
    pub fn into_value(self) -> Value {
        let subnet = if self.kind == "private" {
            subnet(&self.subnet)
        } else {
            Value::Null
        };
        let addresses = self.addresses.iter().map(|address| {
            let (version, length) = if address.contains(':') {
                (6, 128)
            } else {
                (4, 24)
            };
            json!({
                "version": version, "address": address, "prefix_length": length,
                "gateway": null, "reverse_ptr": null, "subnet": subnet,
            })
        });
        let addresses: Value = addresses.collect();
        json!({
            "type": self.kind,
            "network": {
                "uuid": "22222222-3333-4444-8555-666666666666",
                "name": self.kind,
            },
            "addresses": addresses,
        })
    }
}

/// A subnet as the API shows it, but for where it is to be found.
pub(super) fn subnet(uuid: &str) -> Value {
    json!({ "uuid": uuid, "cidr": "10.0.0.0/8" })
}

/// Networks and subnets of a server say where they are to be found.
pub(super) fn link(server: &mut Value, url: &str) {
    for interface in list(server, "interfaces") {
        if let Some(network) = interface.get_mut("network") {
            locate(network, url, "networks");
        }
        for address in list(interface, "addresses") {
            if let Some(subnet) = address.get_mut("subnet") {
                locate(subnet, url, "subnets");
            }
        }
    }
}

fn list<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    let list = value.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// Says where a network or a subnet is to be found.
pub(super) fn locate(network: &mut Value, url: &str, path: &str) {
    if let Some(uuid) = network["uuid"].as_str() {
        network["href"] = json!(format!("{url}/v1/{path}/{uuid}"));
    }
}

/// A flavor as the API shows it.
pub(super) fn flavor(slug: &str) -> Value {
    json!({ "slug": slug, "name": slug, "vcpu_count": 2, "memory_gb": 4 })
}

/// A server with all the fields that the API shows; those given win.
pub(super) fn complete(given: &Value, uuid: &str, url: &str) -> Value {
    let mut value = json!({
        "href": format!("{url}/v1/servers/{uuid}"),
        "uuid": uuid,
        "name": "server",
        "status": "running",
        "created_at": "2026-01-02T03:04:05.000000Z",
        "zone": { "slug": "rma1" },
        "flavor": flavor("flex-4-2"),
        "image": {
            "slug": "debian-12", "name": "Debian 12", "operating_system": "Debian",
            "default_username": "debian",
        },
        "volumes": [
            { "type": "ssd", "device_path": "", "size_gb": 50, "uuid": uuid },
        ],
        "interfaces": [],
        "server_groups": [],
        "anti_affinity_with": [],
        "ssh_fingerprints": [],
        "ssh_host_keys": [],
        "tags": {},
    });
    for (field, given) in given.as_object().into_iter().flatten() {
        value[field] = given.clone();
    }
    link(&mut value, url);
    value
}
