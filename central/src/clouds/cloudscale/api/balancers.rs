//! Load balancers, without their parts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_common::names::{cloudscale_annotations as keys, cloudscale_tags as tags};
use serde::Deserialize;
use serde_json::Value;

use super::{address, subnet};
use crate::cloud_api::{Kind, Request, lenient, or_default, short_name};
use crate::engine::provider::Listed;
use crate::resource_kinds;
use crate::views::service_view::ServiceView;

/// The status of one that the cloud is at work on, and of which it takes no other change.
const CHANGING: &str = "changing";

/// One load balancer. Only its UUID is needed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Balancer {
    /// Its UUID.
    pub(crate) uuid: String,
    /// Its name; several may have the same.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) name: String,
    /// `running`, `changing`, `degraded`, `error`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) status: Option<String>,
    /// Where it stands, if the cloud says it.
    #[serde(default, deserialize_with = "short_name")]
    pub(crate) zone: Option<String>,
    /// Its size, if the cloud says it.
    #[serde(default, deserialize_with = "short_name")]
    pub(crate) flavor: Option<String>,
    /// Its virtual addresses, in the API's order, if the cloud says them.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) vip_addresses: Option<Vec<Vip>>,
    /// Its tags.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: BTreeMap<String, String>,
    /// When it was made, in a form that sorts.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) created_at: Option<String>,
}

/// One virtual address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Vip {
    /// The address, in canonical form.
    #[serde(deserialize_with = "address")]
    pub(crate) address: String,
    /// The UUID of the subnet that it is in; absent for a public one.
    #[serde(default, deserialize_with = "subnet")]
    pub(crate) subnet: Option<String>,
}

/// What a Service asks of one.
#[derive(Deserialize)]
struct Asked {
    #[serde(default, deserialize_with = "subnet")]
    subnet: Option<String>,
}

impl Listed for Balancer {
    fn id(&self) -> &str {
        &self.uuid
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> Option<&str> {
        self.tags.get(tags::SERVICE_UID).map(String::as_str)
    }

    fn cluster(&self) -> Option<&str> {
        self.tags.get(tags::CLUSTER).map(String::as_str)
    }

    fn created(&self) -> Option<&str> {
        self.created_at.as_deref()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let vips = self.vip_addresses.iter().flatten();
        vips.filter_map(|vip| vip.address.parse().ok()).collect()
    }

    fn lacks_addresses(&self) -> bool {
        self.addresses().is_empty()
    }

    fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    fn is_changing(&self) -> bool {
        self.status.as_deref() == Some(CHANGING)
    }

    fn changes(&mut self) {
        self.status = Some(CHANGING.to_owned());
    }

    /// By an address, which is another's in another subnet than those that the Service names.
    fn is_shown_by(&self, service: &ServiceView) -> bool {
        let text = service.annotation(keys::VIP_ADDRESSES).unwrap_or_default();
        let asked: Vec<Asked> = serde_json::from_str(text).unwrap_or_default();
        let named: BTreeSet<_> = asked.into_iter().filter_map(|one| one.subnet).collect();
        let may_be = |subnet: &String| named.is_empty() || named.contains(subnet);
        let vips = self.vip_addresses.iter().flatten();
        let vips = vips.filter(|vip| vip.subnet.as_ref().is_none_or(may_be));
        let mut addresses = vips.filter_map(|vip| vip.address.parse().ok());
        addresses.any(|address: IpAddr| service.status.contains(&address))
    }
}

resource_kinds! {
    /// Load balancers.
    pub(crate) BALANCERS: "load_balancer", "load_balancers", "load-balancers", PATCH "rename_load_balancer";
}

/// Gives one these tags.
pub(crate) fn tag(uuid: &str, body: Value) -> Request {
    let kind = Kind {
        change: "tag_load_balancer",
        ..BALANCERS
    };
    kind.change(&[], uuid, body)
}
