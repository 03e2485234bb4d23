//! Objects with all the fields that the API shows.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::kind::Kind;
use super::machine::server;
use super::state::State;

const CREATED_ON: &str = "2026-01-02T03:04:05Z";

/// An object with what is absent filled in; those fields that are given win.
pub(super) fn complete(state: &mut State, kind: Kind, given: &Value, id: &str) -> Result<Value> {
    let mut value = match kind {
        Kind::Server => server(id),
        Kind::Tag => json!({
            "id": id, "name": "tag", "isBillingTag": false, "createdBy": "USER",
        }),
        Kind::Network => json!({
            "id": id, "name": "network", "location": "PHX", "vlanId": 10, "status": "READY",
            "createdOn": CREATED_ON, "ipBlocks": [], "memberships": [],
        }),
        Kind::Block => json!({
            "id": id, "location": "PHX", "cidrBlockSize": "/29", "ipVersion": "V4",
            "status": "unassigned", "tags": [], "isSystemManaged": false,
            "isBringYourOwn": false, "createdOn": CREATED_ON,
        }),
        Kind::PeerGroup => peer_group(id),
    };
    for (field, given) in given.as_object().context("write an object")? {
        value[field] = given.clone();
    }
    value["id"] = json!(id);
    match kind {
        Kind::Block => {
            if value["cidr"].is_null() {
                let size = value["cidrBlockSize"].as_str().unwrap_or_default();
                value["cidr"] = json!(state.next_cidr(size, value["ipVersion"] == "V6"));
            } else if given["cidrBlockSize"].is_null() {
                let cidr = value["cidr"].as_str().context("cidr: write a text")?;
                let (_, length) = cidr.split_once('/').context("cidr: write a network")?;
                value["cidrBlockSize"] = json!(format!("/{length}"));
            }
            if value["assignedResourceId"].is_string() && given["status"].is_null() {
                value["status"] = json!("assigned");
            }
            if value["assignedResourceId"].is_string() && value["assignedResourceType"].is_null() {
                value["assignedResourceType"] = json!("public network");
            }
            value["tags"] = state.tagging(&value["tags"])?;
        }
        Kind::Server => value["tags"] = state.tagging(&value["tags"])?,
        Kind::Tag | Kind::Network | Kind::PeerGroup => {}
    }
    Ok(value)
}

fn peer_group(id: &str) -> Value {
    let asn = json!({ "asn": 65401, "isBringYourOwn": false, "verificationStatus": "VERIFIED" });
    json!({
        "id": id,
        "status": "READY",
        "location": "PHX",
        "ipv4Prefixes": [],
        "ipPrefixes": [],
        "targetAsnDetails": asn,
        "activeAsnDetails": asn,
        "password": "",
        "advertisedRoutes": "NONE",
        "rpkiRoaOriginAsn": 19437,
        "eBgpMultiHop": 7,
        "peeringLoopbacksV4": ["169.254.247.0", "169.254.247.1"],
        "peeringLoopbacksV6": ["fe80::1", "fe80::2"],
        "keepAliveTimerSeconds": 10,
        "holdTimerSeconds": 30,
        "createdOn": CREATED_ON,
        "lastUpdatedOn": CREATED_ON,
    })
}

impl State {
    /// Tags as they are shown, from a list of `{"name", "value"}` or from `{"name": "value"}`.
    /// Names that are not there yet, come to be there.
    fn tagging(&mut self, given: &Value) -> Result<Value> {
        let pairs: Vec<(String, Option<String>)> = match given {
            Value::Object(given) => {
                let pairs = given.iter();
                pairs
                    .map(|(name, value)| (name.clone(), value.as_str().map(ToOwned::to_owned)))
                    .collect()
            }
            Value::Array(given) => {
                let pairs = given.iter().map(|tag| {
                    let name = tag["name"].as_str().context("tags: each has a name")?;
                    let value = tag["value"].as_str().map(ToOwned::to_owned);
                    Ok((name.to_owned(), value))
                });
                pairs.collect::<Result<_>>()?
            }
            _ => Vec::new(),
        };
        for (name, _) in &pairs {
            if self.tag_named(name).is_none() {
                self.add(Kind::Tag, &json!({ "name": name }))?;
            }
        }
        Ok(self.assigned(&pairs))
    }

    /// The id of the tag of this name.
    pub(super) fn tag_named(&self, name: &str) -> Option<&str> {
        let mut tags = self.rows(Kind::Tag).iter();
        let found = tags.find(|tag| tag.value()["name"] == name);
        found.map(|tag| tag.key())
    }

    /// Tags of these names, which are there, as a tagged object shows them.
    pub(super) fn assigned(&self, pairs: &[(String, Option<String>)]) -> Value {
        let shown = pairs.iter().filter_map(|(name, value)| {
            let id = self.tag_named(name)?;
            let tag = self.rows(Kind::Tag).value(id);
            let mut shown = json!({
                "id": id, "name": name, "isBillingTag": tag["isBillingTag"],
                "createdBy": tag["createdBy"],
            });
            if let Some(value) = value {
                shown["value"] = json!(value);
            }
            Some(shown)
        });
        shown.collect()
    }

    /// A network of this size that no block has ever been.
    pub(super) fn next_cidr(&mut self, size: &str, is_v6: bool) -> String {
        if is_v6 {
            self.next_v6 += 1;
            return format!("2001:db8:{:x}::/64", self.next_v6 - 1);
        }
        let length: u32 = size.trim_start_matches('/').parse().unwrap_or(29);
        let count = 1_u32 << (32 - length.clamp(16, 32));
        let mut start = self.next_v4.next_multiple_of(count);
        // After the range for documentation comes the one for measurements, which is larger.
        if (0xcb00_7200..0xcb01_0000).contains(&(start + count - 1)) {
            start = 0xc612_0000;
        }
        self.next_v4 = start + count;
        format!("{}/{length}", std::net::Ipv4Addr::from(start))
    }
}
