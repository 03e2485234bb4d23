//! The parts of load balancers: pools, their members, listeners, health monitors.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Reference;
use crate::cloud_api::{Request, lenient};

/// A part as it is listed: what tells it from others and what it belongs to. The rest is read where the part
/// matters ([`Part::read`]), so that a strange one of another load balancer hides nothing.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Part {
    /// Its UUID.
    pub(crate) uuid: String,
    /// The pool that it belongs to.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) pool: Option<Reference>,
    /// The load balancer that it belongs to.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) load_balancer: Option<Reference>,
    /// Of a member, what the health monitor says: `up`, `down`, `changing`, `no_monitor`, `unknown`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) monitor_status: Option<String>,
    /// All else.
    #[serde(flatten)]
    fields: Map<String, Value>,
}

impl Part {
    /// What it is.
    ///
    /// # Errors
    /// The field that is missing, or that is nothing of its kind.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(Value::Object(self.fields.clone()))
    }

    /// Whether it belongs to this pool.
    pub(crate) fn is_of_pool(&self, uuid: &str) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.uuid == uuid)
    }

    /// Whether it belongs to this load balancer.
    pub(crate) fn is_of(&self, uuid: &str) -> bool {
        let balancer = self.load_balancer.as_ref();
        balancer.is_some_and(|balancer| balancer.uuid == uuid)
    }
}

/// Where pools are.
pub(crate) const POOLS: &str = "load-balancers/pools";
/// Where listeners are.
pub(crate) const LISTENERS: &str = "load-balancers/listeners";
/// Where health monitors are.
pub(crate) const MONITORS: &str = "load-balancers/health-monitors";

/// Where the members of a pool are.
pub(crate) fn members_path(pool: &str) -> String {
    format!("{POOLS}/{pool}/members")
}

/// All pools.
pub(crate) fn pools() -> Request {
    Request::get("list_pools", POOLS)
}

/// All members of a pool.
pub(crate) fn members(pool: &str) -> Request {
    Request::get("list_members", members_path(pool))
}

/// All listeners.
pub(crate) fn listeners() -> Request {
    Request::get("list_listeners", LISTENERS)
}

/// All health monitors.
pub(crate) fn monitors() -> Request {
    Request::get("list_health_monitors", MONITORS)
}
