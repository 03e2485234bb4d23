//! The parts of load balancers: pools, their members, health monitors, listeners.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::cloud_api::{lenient, referred};
use crate::resource_kinds;

resource_kinds! {
    /// Pools.
    pub(crate) POOL: "pool", "pools", "load-balancers/pools", PATCH "rename_pool";
    /// Members of a pool.
    pub(crate) MEMBER: "member", "members", "load-balancers/pools/{}/members", PATCH "switch_member";
    /// Health monitors.
    pub(crate) MONITOR: "health_monitor", "health_monitors", "load-balancers/health-monitors", PATCH "change_health_monitor";
    /// Listeners.
    pub(crate) LISTENER: "listener", "listeners", "load-balancers/listeners", PATCH "change_listener";
}

/// A part as it is listed: what tells it from others and what it belongs to. The rest is read where the part
/// matters ([`ListedPart::read`]), so that a strange one of another load balancer hides nothing.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ListedPart {
    /// Its UUID.
    pub(crate) uuid: String,
    /// The UUID of the pool that it belongs to.
    #[serde(default, deserialize_with = "referred")]
    pub(crate) pool: Option<String>,
    /// The UUID of the load balancer that it belongs to.
    #[serde(default, deserialize_with = "referred")]
    pub(crate) load_balancer: Option<String>,
    /// Of a member, what the health monitor says: `up`, `down`, `changing`, `no_monitor`, `unknown`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) monitor_status: Option<String>,
    /// All else.
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl ListedPart {
    /// What it is.
    ///
    /// # Errors
    /// The field that is missing, or that is nothing of its kind.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(Value::Object(self.fields.clone()))
    }
}
