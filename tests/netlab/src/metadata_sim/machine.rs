//! What a cloud tells a machine of itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One machine's metadata. The documents may be changed at will: fields may be missing, unknown or
/// wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Machine {
    /// A Linode.
    Linode {
        /// `/v1/instance`
        instance: Value,
        /// `/v1/network`
        network: Value,
    },
    /// A server of cloudscale.ch: its `meta_data.json`.
    Cloudscale(Value),
    /// A server of Brightbox: its values by their paths.
    Brightbox(BTreeMap<String, String>),
    /// A machine of a cloud that serves nothing that Mooring asks for.
    Stranger,
}

impl Machine {
    /// A Linode with public, private, shared and IPv6 addresses, which follow from its number.
    pub fn linode(id: u32, label: &str) -> Self {
        let [high, low] = [id / 200 % 200, id % 200].map(|part| part + 1);
        let suffix = match (id >> 16, id & 0xffff) {
            (0, id) => format!("f03c:{id:x}"),
            (above, below) => format!("f03c:{above:x}:{below:x}"),
        };
        Self::Linode {
            instance: json!({
                "id": id, "label": label, "region": "us-east", "type": "g6-standard-2",
                "host_uuid": format!("a631b16d14534d84e2830da16d{id:014x}"), "tags": [],
                "specs": {"vcpus": 2, "memory": 4096, "gpus": 0, "transfer": 4000, "disk": 81920},
                "backups": {"enabled": false, "status": null},
                "image": {"id": "linode/debian12", "label": "Debian 12"},
                "account_euuid": "11111111-2222-3333-4444-555555555555",
            }),
            network: json!({
                "interfaces": [],
                "ipv4": {
                    "public": [format!("203.0.{high}.{low}/32")],
                    "private": [format!("192.168.{}.{low}/32", 128 + high % 100)],
                    "shared": ["198.51.100.200/32"],
                },
                "ipv6": {
                    "slaac": format!("2001:db8::{suffix}/128"),
                    "link_local": format!("fe80::{suffix}/128"),
                    "ranges": [], "shared_ranges": [],
                },
            }),
        }
    }

    /// A server of cloudscale.ch in the zone rma1.
    pub fn cloudscale(uuid: &str, name: &str) -> Self {
        Self::Cloudscale(json!({
            "uuid": uuid, "name": name, "hostname": name, "availability_zone": "rma1",
            "meta": {"cloudscale_uuid": uuid}, "launch_index": 0, "project_id": "p",
            "public_keys": {}, "random_seed": "c2VlZA==", "devices": [],
        }))
    }

    /// A server of Brightbox in the zone gb1-a.
    pub fn brightbox(id: &str) -> Self {
        let values = [
            ("instance-id", id),
            ("instance-type", "1gb.ssd"),
            ("placement/availability-zone", "gb1-a"),
            ("hostname", id),
            ("local-hostname", id),
            ("local-ipv4", "10.1.69.162"),
        ];
        Self::Brightbox(values.map(|(k, v)| (k.to_owned(), v.to_owned())).into())
    }

    /// Puts a value into a JSON document, at this JSON pointer; null takes it away. A Linode's
    /// pointers begin with `/instance` or `/network`.
    pub fn put(&mut self, pointer: &str, value: Value) {
        let (document, pointer) = match self {
            Self::Linode { instance, network } => match pointer.strip_prefix("/instance") {
                Some(rest) => (instance, rest),
                None => (network, pointer.strip_prefix("/network").unwrap_or(pointer)),
            },
            Self::Cloudscale(document) => (document, pointer),
            Self::Brightbox(_) | Self::Stranger => panic!("there is no JSON document"),
        };
        let (parent, key) = pointer.rsplit_once('/').expect("a JSON pointer");
        let parent = document.pointer_mut(parent).and_then(Value::as_object_mut);
        let parent = parent.unwrap_or_else(|| panic!("nothing to put {pointer} into"));
        if value.is_null() {
            parent.remove(key);
        } else {
            parent.insert(key.to_owned(), value);
        }
    }

    /// [`Self::put`] before the machine is served.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: Value) -> Self {
        self.put(pointer, value);
        self
    }
}
