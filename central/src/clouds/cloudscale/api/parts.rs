//! The parts of load balancers: pools, their members, health monitors, listeners.

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{referred, said};
use crate::cloud_api::{Request, lenient};

/// A kind of part: where it is, and what metrics call the requests about it.
#[derive(Debug)]
pub(crate) struct Kind {
    /// Its name, for people.
    pub(crate) name: &'static str,
    /// Where they are; [`OF_POOL`] stands for the pool's UUID.
    path: &'static str,
    /// The field that says what a new one belongs to, unless the path does.
    owner: &'static str,
    list: &'static str,
    create: &'static str,
    change: &'static str,
    delete: &'static str,
}

const OF_POOL: &str = "<pool>";
const BALANCER: &str = "load_balancer";

/// Pools.
pub(crate) const POOL: Kind = Kind {
    name: "pool",
    path: "load-balancers/pools",
    owner: BALANCER,
    list: "list_pools",
    create: "create_pool",
    change: "rename_pool",
    delete: "delete_pool",
};
/// Members of a pool.
pub(crate) const MEMBER: Kind = Kind {
    name: "member",
    path: "load-balancers/pools/<pool>/members",
    owner: "",
    list: "list_members",
    create: "create_member",
    change: "switch_member",
    delete: "delete_member",
};
/// Health monitors.
pub(crate) const MONITOR: Kind = Kind {
    name: "health monitor",
    path: "load-balancers/health-monitors",
    owner: "pool",
    list: "list_health_monitors",
    create: "create_health_monitor",
    change: "change_health_monitor",
    delete: "delete_health_monitor",
};
/// Listeners.
pub(crate) const LISTENER: Kind = Kind {
    name: "listener",
    path: "load-balancers/listeners",
    owner: "pool",
    list: "list_listeners",
    create: "create_listener",
    change: "change_listener",
    delete: "delete_listener",
};

/// The requests about a kind; where it makes no difference, the pool may be anything.
impl Kind {
    fn path(&self, pool: &str) -> String {
        self.path.replace(OF_POOL, pool)
    }

    /// All of them, or of members those of a pool.
    pub(crate) fn list(&self, pool: &str) -> Request {
        Request::get(self.list, self.path(pool))
    }

    /// A new one of this load balancer and pool.
    pub(crate) fn create(&self, balancer: &str, pool: &str, spec: &impl Serialize) -> Request {
        let owner = if self.owner == BALANCER {
            balancer
        } else {
            pool
        };
        let mut body = said(json!(spec));
        if let Some(fields) = body.as_object_mut().filter(|_| !self.owner.is_empty()) {
            fields.insert(self.owner.to_owned(), json!(owner));
        }
        Request::new(self.create, Method::POST, self.path(pool)).json(body)
    }

    /// Something about one.
    pub(crate) fn change(&self, pool: &str, uuid: &str, body: Value) -> Request {
        let path = format!("{}/{uuid}", self.path(pool));
        Request::new(self.change, Method::PATCH, path).json(body)
    }

    /// The end of one.
    pub(crate) fn delete(&self, pool: &str, uuid: &str) -> Request {
        let path = format!("{}/{uuid}", self.path(pool));
        Request::new(self.delete, Method::DELETE, path)
    }
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
