//! An instance, as the API shows it.

use serde_json::{Value, json};

/// An instance about to be made.
#[derive(Clone, Debug)]
#[must_use]
pub struct Instance(Value);

impl Instance {
    /// A running instance without any address.
    pub fn labelled(label: &str) -> Self {
        Self(json!({ "label": label }))
    }

    /// One more IPv4 address, public or private.
    pub fn ipv4(mut self, address: &str) -> Self {
        if !self.0["ipv4"].is_array() {
            self.0["ipv4"] = json!([]);
        }
        if let Some(addresses) = self.0["ipv4"].as_array_mut() {
            addresses.push(json!(address));
        }
        self
    }

    /// The IPv6 address; the API adds `/128`.
    pub fn ipv6(self, address: &str) -> Self {
        self.with("ipv6", format!("{address}/128"))
    }

    /// For example `g6-standard-2`.
    pub fn kind(self, kind: &str) -> Self {
        self.with("type", kind)
    }

    /// For example `offline`.
    pub fn status(self, status: &str) -> Self {
        self.with("status", status)
    }

    /// One more tag.
    pub fn tag(mut self, tag: &str) -> Self {
        if !self.0["tags"].is_array() {
            self.0["tags"] = json!([]);
        }
        if let Some(tags) = self.0["tags"].as_array_mut() {
            tags.push(json!(tag));
        }
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

/// An instance with all the fields that the API shows; those given win.
pub(super) fn complete(given: &Value, id: u64) -> Value {
    let uuid = format!(
        "{:032x}",
        u128::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    );
    let mut value = json!({
        "id": id,
        "label": format!("linode{id}"),
        "group": "",
        "region": "eu-central",
        "type": "g6-standard-2",
        "status": "running",
        "ipv4": [],
        "ipv6": null,
        "host_uuid": uuid,
        "tags": [],
        "interface_generation": "legacy_config",
        "image": "linode/debian12",
        "hypervisor": "kvm",
        "specs": {
            "disk": 81920, "memory": 4096, "vcpus": 2, "transfer": 4000, "gpus": 0,
            "accelerated_devices": 0,
        },
        "alerts": {
            "cpu": 180, "io": 10000, "network_in": 10, "network_out": 10, "transfer_quota": 80,
        },
        "backups": {
            "enabled": false, "available": false, "schedule": { "day": null, "window": null },
            "last_successful": null,
        },
        "lke_cluster_id": null,
        "capabilities": ["Block Storage Encryption"],
        "placement_group": null,
        "disk_encryption": "enabled",
        "watchdog_enabled": true,
        "has_user_data": false,
        "maintenance_policy": "linode/migrate",
        "locks": [],
        "created": "2026-01-02T03:04:05",
        "updated": "2026-01-02T03:04:05",
    });
    merge(&mut value, given);
    value
}

/// The fields of one object over those of another.
pub(super) fn merge(value: &mut Value, given: &Value) {
    for (field, given) in given.as_object().into_iter().flatten() {
        value[field] = given.clone();
    }
}
