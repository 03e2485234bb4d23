//! A server, as the API shows it.

use serde_json::{Value, json};

/// The identifier of an interface until it is that of a server.
pub(super) const DEFAULT_INTERFACE: &str = "int-00001";

/// A server about to be there.
#[derive(Clone, Debug)]
#[must_use]
pub struct Machine(Value);

impl Machine {
    /// A server that is active, without any address.
    pub fn named(hostname: &str) -> Self {
        Self(json!({ "name": hostname, "hostname": hostname, "interfaces": [] }))
    }

    /// Its interface, with these addresses.
    pub fn interface(mut self, ipv4: Option<&str>, ipv6: Option<&str>) -> Self {
        self.0["interfaces"] = json!([interface(ipv4, ipv6)]);
        self
    }

    /// For example `2gb.ssd`.
    pub fn kind(self, handle: &str) -> Self {
        self.with("server_type", server_type(handle))
    }

    /// For example `gb1-a`.
    pub fn zone(self, handle: &str) -> Self {
        self.with("zone", json!({ "id": "zon-00001", "handle": handle }))
    }

    /// For example `inactive`.
    pub fn status(self, status: &str) -> Self {
        self.with("status", status)
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

/// A network interface.
pub(crate) fn interface(ipv4: Option<&str>, ipv6: Option<&str>) -> Value {
    json!({
        "id": DEFAULT_INTERFACE, "resource_type": "interface", "mac_address": "02:24:19:01:45:a2",
        "ipv4_address": ipv4, "ipv6_address": ipv6,
    })
}

/// A server type.
pub(crate) fn server_type(handle: &str) -> Value {
    json!({
        "id": "typ-00001", "resource_type": "server_type", "name": handle, "status": "available",
        "cores": 2, "ram": 2048, "disk_size": 40960, "handle": handle, "storage_type": "local",
    })
}
