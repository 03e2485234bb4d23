//! MetalLB's objects, as they are read. What is not known here is kept, and told.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

/// Fields that this version does not know.
pub(super) type Unknown = BTreeMap<String, Value>;

/// `spec` of an IPAddressPool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolSpec {
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    pub(super) auto_assign: Option<bool>,
    #[serde(default, rename = "avoidBuggyIPs")]
    pub(super) avoid_buggy_ips: bool,
    pub(super) service_allocation: Option<ServiceAllocation>,
    #[serde(flatten)]
    pub(super) unknown: Unknown,
}

/// Who may have addresses of an IPAddressPool.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceAllocation {
    #[serde(default)]
    pub(super) priority: i64,
    #[serde(default)]
    pub(super) namespaces: Vec<String>,
    #[serde(default)]
    pub(super) namespace_selectors: Vec<LabelSelector>,
    #[serde(default)]
    pub(super) service_selectors: Vec<LabelSelector>,
    #[serde(flatten)]
    pub(super) unknown: Unknown,
}

/// `spec` of an L2Advertisement.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdvertisementSpec {
    #[serde(default)]
    pub(super) ip_address_pools: Vec<String>,
    #[serde(default)]
    pub(super) ip_address_pool_selectors: Vec<LabelSelector>,
    #[serde(default)]
    pub(super) node_selectors: Vec<LabelSelector>,
    #[serde(default)]
    pub(super) interfaces: Vec<String>,
    #[serde(default)]
    pub(super) service_selectors: Vec<LabelSelector>,
    #[serde(flatten)]
    pub(super) unknown: Unknown,
}
