//! Load balancers, without their parts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mooring_common::names::cloudscale_tags as tags;
use serde::Deserialize;

use super::{Reference, Slug};
use crate::cloud_api::{Request, lenient};
use crate::engine::provider::Listed;

/// One load balancer. Only its UUID is needed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Balancer {
    /// Its UUID.
    pub(crate) uuid: String,
    /// Its name; several may have the same.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) name: Option<String>,
    /// `running`, `changing`, `degraded`, `error`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) status: Option<String>,
    /// Where it stands.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) zone: Option<Slug>,
    /// Its size.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) flavor: Option<Slug>,
    /// Its virtual addresses.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) vip_addresses: Option<Vec<VipAddress>>,
    /// Its tags.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) tags: Option<BTreeMap<String, String>>,
    /// When it was made, in a form that sorts.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) created_at: Option<String>,
}

/// One virtual address.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct VipAddress {
    /// The address.
    pub(crate) address: String,
    /// The subnet that it is in; absent for a public one.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) subnet: Option<Reference>,
}

impl Balancer {
    fn tag(&self, key: &str) -> Option<&str> {
        self.tags.as_ref()?.get(key).map(String::as_str)
    }
}

impl Listed for Balancer {
    fn id(&self) -> &str {
        &self.uuid
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    fn owner(&self) -> Option<&str> {
        self.tag(tags::SERVICE_UID)
    }

    fn cluster(&self) -> Option<&str> {
        self.tag(tags::CLUSTER)
    }

    fn created(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let vips = self.vip_addresses.iter().flatten();
        vips.filter_map(|vip| vip.address.parse().ok()).collect()
    }

    fn is_changing(&self) -> bool {
        self.status.as_deref() == Some("changing")
    }
}

/// The path of one.
pub(crate) fn path(uuid: &str) -> String {
    format!("load-balancers/{uuid}")
}

/// All load balancers.
pub(crate) fn all() -> Request {
    Request::get("list_load_balancers", "load-balancers")
}

/// One load balancer.
pub(crate) fn one(uuid: &str) -> Request {
    Request::get("get_load_balancer", path(uuid))
}
