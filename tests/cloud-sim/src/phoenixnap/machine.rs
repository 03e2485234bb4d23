//! A server, as the API shows it.

use serde_json::{Value, json};

/// A server about to be there.
#[derive(Clone, Debug)]
#[must_use]
pub struct Machine(Value);

impl Machine {
    /// A server that is powered on, without any address.
    pub fn named(hostname: &str) -> Self {
        Self(json!({
            "hostname": hostname, "publicIpAddresses": [], "privateIpAddresses": [],
        }))
    }

    /// One more public address.
    pub fn public(mut self, address: &str) -> Self {
        push(&mut self.0["publicIpAddresses"], address);
        self
    }

    /// One more private address.
    pub fn private(mut self, address: &str) -> Self {
        push(&mut self.0["privateIpAddresses"], address);
        self
    }

    /// For example `s2.c1.medium`.
    pub fn kind(self, kind: &str) -> Self {
        self.with("type", kind)
    }

    /// For example `PHX`.
    pub fn location(self, location: &str) -> Self {
        self.with("location", location)
    }

    /// For example `powered-off`.
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

fn push(list: &mut Value, text: &str) {
    if let Some(list) = list.as_array_mut() {
        list.push(json!(text));
    }
}

/// A server with all the fields that the API shows, but for those given.
pub(super) fn server(id: &str) -> Value {
    json!({
        "id": id,
        "status": "powered-on",
        "hostname": "server",
        "os": "ubuntu/jammy",
        "type": "s2.c1.medium",
        "location": "PHX",
        "cpu": "E-2276G",
        "cpuCount": 1,
        "coresPerCpu": 6,
        "cpuFrequency": 3.8,
        "ram": "64GB RAM",
        "storage": "1x 1TB NVMe",
        "privateIpAddresses": [],
        "publicIpAddresses": [],
        "pricingModel": "HOURLY",
        "networkType": "PUBLIC_AND_PRIVATE",
        "tags": [],
        "provisionedOn": "2026-01-02T03:04:05Z",
        "networkConfiguration": {
            "privateNetworkConfiguration": { "privateNetworks": [] },
            "ipBlocksConfiguration": { "ipBlocks": [] },
            "publicNetworkConfiguration": { "publicNetworks": [] },
        },
    })
}
