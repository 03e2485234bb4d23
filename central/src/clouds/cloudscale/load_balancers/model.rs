//! The parts of a load balancer, as they are wanted, as they are, and as the cloud is told of them.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::cloud_api::{Kind, lenient, or_default};
use crate::clouds::cloudscale::api::parts;
use crate::clouds::cloudscale::api::{address, subnet};
use crate::engine::change::{Change, Field};
use crate::engine::pool::Member;

/// What a part is, and what the cloud is told of it; what is `None` is not said.
pub(super) trait Spec: Clone + Serialize + DeserializeOwned {
    /// Its kind.
    const KIND: &'static Kind;
    /// What that is called.
    const NAME: &'static str;
    /// The field that says what a new one belongs to, unless the path does.
    const OWNER: Option<&'static str>;
}

/// Tags of a load balancer.
pub(super) type Tags = BTreeMap<String, String>;

/// A load balancer. Nothing of it can be changed in place but its name and its tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BalancerSpec {
    /// Its name.
    pub(super) name: String,
    /// Its flavor.
    pub(super) flavor: String,
    /// Its zone, if the Service names one.
    pub(super) zone: Option<String>,
    /// Its virtual addresses; none: any public ones.
    #[serde(rename = "vip_addresses")]
    pub(super) vips: Vec<VipRequest>,
    /// The marks of cluster and Service.
    pub(super) tags: Tags,
}

/// A virtual address that is asked for. Both absent: any public ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct VipRequest {
    /// The subnet's UUID.
    pub(super) subnet: Option<String>,
    /// The address.
    pub(super) address: Option<String>,
}

/// What of a pool cannot be changed but for its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub(super) struct PoolSpec {
    /// `tcp`, `udp/dns`: the protocol of the Service's port, and its name if it has one.
    pub(super) name: String,
    /// `round_robin`, `least_connections` or `source_ip`.
    pub(super) algorithm: String,
    /// `tcp`, `udp`, `proxy` or `proxyv2`.
    pub(super) protocol: String,
}

/// A member of a pool. Nothing of it can be changed in place but whether it is enabled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub(super) struct MemberSpec {
    /// `10.0.0.1:30080`, `[fd00::1]:30080`.
    pub(super) name: String,
    /// Whether it is given new connections. Those that it has go on.
    #[serde(
        deserialize_with = "or_yes",
        skip_serializing_if = "is_yes",
        default = "yes"
    )]
    pub(super) enabled: bool,
    /// Its address, in canonical form.
    #[serde(deserialize_with = "address")]
    pub(super) address: String,
    /// The UUID of the address' subnet.
    #[serde(default, deserialize_with = "or_no_subnet")]
    pub(super) subnet: String,
    /// The port that traffic goes to.
    pub(super) protocol_port: u16,
    /// The port that the health monitor asks. `None`: the cloud does not say.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) monitor_port: Option<u16>,
}

/// What is not said is true.
const fn yes() -> bool {
    true
}

fn or_yes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(lenient(deserializer)?.unwrap_or(true))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_yes(flag: &bool) -> bool {
    *flag
}

/// The Go controller compares a missing one like an empty one too.
fn or_no_subnet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(subnet(deserializer)?.unwrap_or_default())
}

impl Member for MemberSpec {
    fn target(&self) -> (&str, u16) {
        (&self.address, self.protocol_port)
    }

    fn subnet(&self) -> Option<&str> {
        Some(&self.subnet)
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_enabled(&self) -> bool {
        self.enabled
    }

    fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    fn switch(enabled: bool) -> Change {
        Change::new(&ENABLED, enabled)
    }

    fn is_as(&self, wanted: &Self) -> bool {
        let said = Self {
            enabled: wanted.enabled,
            monitor_port: self.monitor_port.or(wanted.monitor_port),
            ..self.clone()
        };
        said == *wanted
    }
}

/// How a health monitor speaks HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct HttpSpec {
    /// `GET`.
    pub(super) method: String,
    /// `/livez`.
    pub(super) url_path: String,
    /// `1.0` or `1.1`; cannot be changed in place.
    pub(super) version: String,
    /// The `Host` header; `None`: none.
    pub(super) host: Option<String>,
    /// `200`, `200-204`.
    pub(super) expected_codes: Vec<String>,
}

/// What the cloud does where nothing is said.
impl Default for HttpSpec {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            url_path: "/".to_owned(),
            version: "1.1".to_owned(),
            host: None,
            expected_codes: vec!["200".to_owned()],
        }
    }
}

/// A pool's health monitor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct MonitorSpec {
    /// `tcp`, `http`, `udp-connect`; cannot be changed in place.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Seconds between two questions. `None`, here and below: the cloud does not say.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) delay_s: Option<u32>,
    /// Seconds that an answer may take.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) timeout_s: Option<u32>,
    /// Good answers in a row that make a member healthy.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) up_threshold: Option<u32>,
    /// Bad ones that make it unhealthy.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) down_threshold: Option<u32>,
    /// How it speaks HTTP, if it does.
    #[serde(default, with = "or_empty")]
    pub(super) http: Option<HttpSpec>,
}

/// `{}` for what is not there.
mod or_empty {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::{Value, json};

    use super::HttpSpec;

    pub(super) fn serialize<S: Serializer>(
        http: &Option<HttpSpec>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        http.as_ref()
            .map_or_else(|| json!({}), |http| json!(http))
            .serialize(serializer)
    }

    /// What the cloud leaves out is its own default; all left out: it does not speak HTTP.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<HttpSpec>, D::Error> {
        let mut given = Value::deserialize(deserializer)?;
        let Some(fields) = given.as_object_mut() else {
            return Ok(None);
        };
        fields.retain(|_, value| !value.is_null());
        let says_something = !fields.is_empty();
        Ok(serde_json::from_value(given)
            .ok()
            .filter(|_| says_something))
    }
}

impl MonitorSpec {
    /// Whether one can be made the other in place.
    pub(super) fn can_become(&self, wanted: &Self) -> bool {
        let is_version_same = match (&self.http, &wanted.http) {
            (Some(actual), Some(wanted)) => actual.version == wanted.version,
            _ => true,
        };
        self.kind == wanted.kind && is_version_same
    }
}

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ListenerSpec {
    /// `tcp/80`.
    pub(super) name: String,
    /// `tcp` or `udp`; cannot be changed in place, nor can the port.
    pub(super) protocol: String,
    /// The port that clients use.
    #[serde(rename = "protocol_port")]
    pub(super) port: u16,
    /// Who may connect; empty: everybody. The order says nothing.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) allowed_cidrs: Vec<String>,
    /// Milliseconds that a client may be silent. `None`, here and below: the cloud does not say.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) timeout_client_data_ms: Option<u32>,
    /// Milliseconds that connecting to a member may take.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) timeout_member_connect_ms: Option<u32>,
    /// Milliseconds that a member may be silent.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) timeout_member_data_ms: Option<u32>,
}

impl ListenerSpec {
    /// What no two listeners of one load balancer share.
    pub(super) fn place(&self) -> (&str, u16) {
        (&self.protocol, self.port)
    }
}

impl Spec for PoolSpec {
    const KIND: &'static Kind = &parts::POOL;
    const NAME: &'static str = "pool";
    const OWNER: Option<&'static str> = Some("load_balancer");
}

impl Spec for MemberSpec {
    const KIND: &'static Kind = &parts::MEMBER;
    const NAME: &'static str = "member";
    const OWNER: Option<&'static str> = None;
}

impl Spec for MonitorSpec {
    const KIND: &'static Kind = &parts::MONITOR;
    const NAME: &'static str = "health monitor";
    const OWNER: Option<&'static str> = Some("pool");
}

impl Spec for ListenerSpec {
    const KIND: &'static Kind = &parts::LISTENER;
    const NAME: &'static str = "listener";
    const OWNER: Option<&'static str> = Some("pool");
}

/// The name of a pool, which can be changed in place.
pub(super) const POOL_NAME: Field = Field::new(&["name"], "name", "");
/// Whether a member is given new connections, which can be changed in place.
const ENABLED: Field = Field::new(&["enabled"], "enabled", "");
/// What of a health monitor can be changed in place.
pub(super) const OF_MONITORS: &[Field] = &[
    Field::new(&["http", "host"], "HTTP host", "").or("none"),
    Field::new(&["http", "url_path"], "HTTP path", ""),
    Field::new(&["http", "method"], "HTTP method", ""),
    Field::new(&["http", "expected_codes"], "expected HTTP codes", ""),
    Field::new(&["delay_s"], "delay", " s"),
    Field::new(&["timeout_s"], "timeout", " s"),
    Field::new(&["up_threshold"], "up threshold", ""),
    Field::new(&["down_threshold"], "down threshold", ""),
];
/// What of a listener can be changed in place.
pub(super) const OF_LISTENERS: &[Field] = &[
    Field::new(&["name"], "name", ""),
    Field::new(&["allowed_cidrs"], "allowed clients", "")
        .or("everybody")
        .set(),
    Field::new(&["timeout_client_data_ms"], "client data timeout", " ms"),
    Field::new(
        &["timeout_member_connect_ms"],
        "member connect timeout",
        " ms",
    ),
    Field::new(&["timeout_member_data_ms"], "member data timeout", " ms"),
];
