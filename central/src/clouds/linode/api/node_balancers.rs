//! NodeBalancers, configs, nodes and Cloud Firewalls.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mooring_common::names::linode_tags;
use reqwest::Method;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{Row, collection};
use crate::cloud_api::{Request, lenient, or_default};
use crate::clouds::linode::annotations as keys;
use crate::engine::provider::Listed;
use crate::views::service_view::ServiceView;

/// A NodeBalancer, without its configs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(in super::super) struct NodeBalancer {
    /// Its number.
    #[serde(deserialize_with = "number")]
    pub(in super::super) id: String,
    /// Its name.
    #[serde(default, deserialize_with = "or_default")]
    pub(in super::super) label: String,
    /// Its host name; empty: none.
    #[serde(default, deserialize_with = "said")]
    pub(in super::super) hostname: Option<String>,
    /// Its address; of a front end in a VPC, the one there.
    #[serde(default, deserialize_with = "said")]
    pub(in super::super) ipv4: Option<String>,
    /// Its IPv6 address.
    #[serde(default, deserialize_with = "said")]
    pub(in super::super) ipv6: Option<String>,
    /// New connections of one client in a second; 0: any number.
    #[serde(default, rename = "client_conn_throttle", deserialize_with = "lenient")]
    pub(in super::super) throttle: Option<u32>,
    /// `common`, `premium` or `premium_40gb`.
    #[serde(default, rename = "type", deserialize_with = "said")]
    pub(in super::super) kind: Option<String>,
    /// Its tags; the order says nothing.
    #[serde(default, deserialize_with = "or_default")]
    pub(in super::super) tags: Vec<String>,
    /// When it was made.
    #[serde(default, deserialize_with = "lenient")]
    created: Option<String>,
    /// The subnet in which it has its address, if that is in a VPC.
    #[serde(default, deserialize_with = "lenient")]
    frontend_vpc_subnet_id: Option<u64>,
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(u64::deserialize(deserializer)?.to_string())
}

/// Nothing, where a text is empty.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: Option<String> = lenient(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()))
}

impl NodeBalancer {
    /// Whether it has these tags and no others, marks aside.
    pub(in super::super) fn has_tags(&self, wanted: &[String]) -> bool {
        let unmarked = self.unmarked();
        let actual: BTreeSet<&String> = unmarked.iter().collect();
        let wanted: BTreeSet<&String> = wanted.iter().collect();
        actual == wanted
    }

    /// Its tags without marks.
    pub(in super::super) fn unmarked(&self) -> Vec<String> {
        let unmarked = self.tags.iter().filter(|tag| !is_mark(tag));
        unmarked.cloned().collect()
    }
}

/// Whether a tag marks whose something is.
pub(in super::super) fn is_mark(tag: &str) -> bool {
    tag.starts_with(linode_tags::SERVICE) || tag.starts_with(linode_tags::CLUSTER)
}

/// What a mark says.
pub(in super::super) fn marked<'a>(tags: &'a [String], mark: &str) -> Option<&'a str> {
    tags.iter().find_map(|tag| tag.strip_prefix(mark))
}

impl Listed for NodeBalancer {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.label
    }

    fn owner(&self) -> Option<&str> {
        marked(&self.tags, linode_tags::SERVICE)
    }

    fn cluster(&self) -> Option<&str> {
        marked(&self.tags, linode_tags::CLUSTER)
    }

    fn created(&self) -> Option<&str> {
        self.created.as_deref()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let texts = [&self.ipv4, &self.ipv6].into_iter().flatten();
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    fn zone(&self) -> Option<&str> {
        None
    }

    fn is_changing(&self) -> bool {
        false
    }

    fn changes(&mut self) {}

    /// By the host name too, where the status has nothing else. The same address may be another's in another
    /// VPC.
    fn is_shown_by(&self, service: &ServiceView) -> bool {
        let asked = service.annotation(keys::FRONTEND_SUBNET_ID.key);
        let asked = asked.and_then(|text| text.parse().ok());
        if asked.is_some() && asked != self.frontend_vpc_subnet_id {
            return false;
        }
        let by_name = |name: &String| {
            let mut ingress = service.ingress.iter();
            ingress.any(|one| one.ip.is_none() && one.hostname.as_ref() == Some(name))
        };
        let mut addresses = self.addresses().into_iter();
        addresses.any(|address| service.status.contains(&address))
            || self.hostname.as_ref().is_some_and(by_name)
    }
}

impl Row for NodeBalancer {
    fn number(&self) -> Option<u64> {
        self.id.parse().ok()
    }
}

/// A config as it is listed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(in super::super) struct ListedConfig {
    pub(in super::super) id: u64,
    pub(in super::super) port: u16,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) protocol: String,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) proxy_protocol: String,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) algorithm: String,
    #[serde(deserialize_with = "said")]
    pub(in super::super) stickiness: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) check: String,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) check_interval: u32,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) check_timeout: u32,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) check_attempts: u32,
    #[serde(deserialize_with = "said")]
    pub(in super::super) check_path: Option<String>,
    #[serde(deserialize_with = "said")]
    pub(in super::super) check_body: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) check_passive: bool,
    #[serde(deserialize_with = "lenient")]
    pub(in super::super) udp_check_port: Option<u16>,
    #[serde(deserialize_with = "or_default")]
    pub(in super::super) ssl_fingerprint: String,
}

impl Row for ListedConfig {
    fn number(&self) -> Option<u64> {
        Some(self.id)
    }
}

/// A node as it is listed.
#[derive(Clone, Debug, Deserialize)]
pub(in super::super) struct ListedNode {
    pub(in super::super) id: u64,
    pub(in super::super) address: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(in super::super) label: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(in super::super) weight: u32,
    #[serde(default, deserialize_with = "said")]
    pub(in super::super) mode: Option<String>,
}

impl Row for ListedNode {
    fn number(&self) -> Option<u64> {
        Some(self.id)
    }
}

/// What was made.
#[derive(Debug, Deserialize)]
pub(in super::super) struct Made {
    #[serde(deserialize_with = "number")]
    pub(in super::super) id: String,
}

/// Several requests of one kind share an operation, for metrics.
fn write(operation: &'static str, method: Method, path: String, body: Value) -> Request {
    Request::new(operation, method, path).json(body)
}

/// All NodeBalancers.
pub(in super::super) fn all() -> Request {
    collection("list_nodebalancers", "nodebalancers".to_owned(), &json!({}))
}

/// One.
pub(in super::super) fn one(id: u64) -> Request {
    Request::get("get_nodebalancer", format!("nodebalancers/{id}"))
}

/// Makes one.
pub(in super::super) fn create(body: Value) -> Request {
    write(
        "create_nodebalancer",
        Method::POST,
        "nodebalancers".to_owned(),
        body,
    )
}

/// Changes one.
pub(in super::super) fn change(id: &str, body: Value) -> Request {
    write(
        "update_nodebalancer",
        Method::PUT,
        format!("nodebalancers/{id}"),
        body,
    )
}

/// Deletes one with all its configs.
pub(in super::super) fn delete(id: &str) -> Request {
    Request::new(
        "delete_nodebalancer",
        Method::DELETE,
        format!("nodebalancers/{id}"),
    )
}

/// All configs of one.
pub(in super::super) fn configs(balancer: &str) -> Request {
    let path = format!("nodebalancers/{balancer}/configs");
    collection("list_nodebalancer_configs", path, &json!({}))
}

/// Makes a config. Nodes are not taken with it.
pub(in super::super) fn create_config(balancer: &str, body: Value) -> Request {
    let path = format!("nodebalancers/{balancer}/configs");
    write("create_nodebalancer_config", Method::POST, path, body)
}

/// Changes a config, and leaves its nodes.
pub(in super::super) fn change_config(balancer: &str, config: &str, body: Value) -> Request {
    let path = format!("nodebalancers/{balancer}/configs/{config}");
    write("update_nodebalancer_config", Method::PUT, path, body)
}

/// Gives a config all its nodes.
pub(in super::super) fn rebuild_config(balancer: &str, config: &str, body: Value) -> Request {
    let path = format!("nodebalancers/{balancer}/configs/{config}/rebuild");
    write("rebuild_nodebalancer_config", Method::POST, path, body)
}

/// Deletes a config with its nodes.
pub(in super::super) fn delete_config(balancer: &str, config: &str) -> Request {
    let path = format!("nodebalancers/{balancer}/configs/{config}");
    Request::new("delete_nodebalancer_config", Method::DELETE, path)
}

/// All nodes of a config.
pub(in super::super) fn nodes(balancer: &str, config: &str) -> Request {
    let path = format!("nodebalancers/{balancer}/configs/{config}/nodes");
    collection("list_nodebalancer_nodes", path, &json!({}))
}

/// Adds a node.
pub(in super::super) fn create_node(balancer: &str, config: &str, body: Value) -> Request {
    let path = format!("nodebalancers/{balancer}/configs/{config}/nodes");
    write("create_nodebalancer_node", Method::POST, path, body)
}

/// Changes a node.
pub(in super::super) fn change_node(
    balancer: &str,
    config: &str,
    node: &str,
    body: Value,
) -> Request {
    let path = format!("nodebalancers/{balancer}/configs/{config}/nodes/{node}");
    write("update_nodebalancer_node", Method::PUT, path, body)
}

/// Takes a node out.
pub(in super::super) fn delete_node(balancer: &str, config: &str, node: &str) -> Request {
    let path = format!("nodebalancers/{balancer}/configs/{config}/nodes/{node}");
    Request::new("delete_nodebalancer_node", Method::DELETE, path)
}

/// All firewalls.
pub(in super::super) fn firewalls() -> Request {
    collection(
        "list_firewalls",
        "networking/firewalls".to_owned(),
        &json!({}),
    )
}

/// One.
pub(in super::super) fn firewall(id: u64) -> Request {
    Request::get("get_firewall", format!("networking/firewalls/{id}"))
}

/// Makes one.
pub(in super::super) fn create_firewall(body: Value) -> Request {
    write(
        "create_firewall",
        Method::POST,
        "networking/firewalls".to_owned(),
        body,
    )
}

/// Changes what one lets through.
pub(in super::super) fn change_rules(id: u64, body: Value) -> Request {
    let path = format!("networking/firewalls/{id}/rules");
    write("update_firewall_rules", Method::PUT, path, body)
}

/// Deletes one.
pub(in super::super) fn delete_firewall(id: u64) -> Request {
    let path = format!("networking/firewalls/{id}");
    Request::new("delete_firewall", Method::DELETE, path)
}

/// Lets a NodeBalancer have these firewalls and no others.
pub(in super::super) fn attach(balancer: &str, firewalls: &[u64]) -> Request {
    let path = format!("nodebalancers/{balancer}/firewalls");
    let body = json!({"firewall_ids": firewalls});
    write("update_nodebalancer_firewalls", Method::PUT, path, body)
}

/// Gives up a reserved address.
pub(in super::super) fn release(address: &str) -> Request {
    let path = format!("networking/reserved/ips/{address}");
    Request::new("delete_reserved_ip_address", Method::DELETE, path)
}

#[cfg(test)]
mod tests;
