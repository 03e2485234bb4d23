//! Load balancers: made, changed, deleted, and what comes to pass with them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::answers::Refusal;
use super::kind::Kind;
use super::state::{Event, State};
use super::strict::{self, Field, Is};
use crate::rows::Row;

const POLICIES: Is = Is::OneOf(&["least-connections", "round-robin", "source-address"]);
const VERSIONS: Is = Is::OneOf(&["SSLv3", "TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"]);
const MOST: u64 = u32::MAX as u64;

const FIELDS: &[Field] = &[
    ("name", Is::Text),
    ("nodes", Is::Other),
    ("policy", POLICIES),
    ("listeners", Is::Other),
    ("healthcheck", Is::Other),
    ("domains", Is::Texts),
    ("certificate_pem", Is::Text),
    ("certificate_private_key", Is::Text),
    ("ssl_minimum_version", VERSIONS),
    ("https_redirect", Is::Flag),
];
const LISTENER: &[Field] = &[
    ("protocol", Is::OneOf(&["tcp", "http", "https"])),
    ("in", Is::Number(1, 65_535)),
    ("out", Is::Number(1, 65_535)),
    ("timeout", Is::Number(5_000, 86_400_000)),
    ("proxy_protocol", Is::Other),
];
const PROXY_PROTOCOLS: [&str; 4] = ["v1", "v2", "v2-ssl", "v2-ssl-cn"];
const HEALTHCHECK: &[Field] = &[
    ("type", Is::OneOf(&["tcp", "http"])),
    ("port", Is::Number(1, 65_535)),
    ("request", Is::Text),
    ("interval", Is::Number(1, MOST)),
    ("timeout", Is::Number(1, MOST)),
    ("threshold_up", Is::Number(1, MOST)),
    ("threshold_down", Is::Number(1, MOST)),
];

/// Whether it can be changed.
pub(super) fn is_alive(balancer: &Value) -> bool {
    balancer["status"] == "active" || balancer["status"] == "creating"
}

impl State {
    pub(super) fn create_balancer(
        &mut self,
        given: &Map<String, Value>,
    ) -> Result<String, Refusal> {
        if self.living_balancers() >= self.behaviour.load_balancers_limit {
            return Err(Refusal::limit("load balancers"));
        }
        for needed in ["listeners", "healthcheck"] {
            if !given.contains_key(needed) {
                return Err(Refusal::invalid(format!("{needed} is missing")));
            }
        }
        self.has_nodes(given)?;
        let mut value = json!({ "status": "creating" });
        self.put_into(&mut value, given)?;
        let id = self.add(Kind::LoadBalancer, &value);
        let id = id.map_err(|error| Refusal::invalid(error.to_string()))?;
        let active = Event::Status(Kind::LoadBalancer, id.clone(), "active");
        self.later(self.behaviour.creating, active);
        Ok(id)
    }

    pub(super) fn change_balancer(
        &mut self,
        id: &str,
        given: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        self.has_nodes(given)?;
        self.change_to(id, given)
    }

    /// Nodes are not taken away by a list of none.
    fn has_nodes(&self, given: &Map<String, Value>) -> Result<(), Refusal> {
        let is_empty = given.get("nodes") == Some(&json!([]));
        if is_empty && !self.behaviour.takes_no_nodes {
            return Err(Refusal::invalid("nodes is empty"));
        }
        Ok(())
    }

    fn change_to(&mut self, id: &str, given: &Map<String, Value>) -> Result<(), Refusal> {
        let mut value = self.existing(Kind::LoadBalancer, id)?.clone();
        alive(&value)?;
        self.put_into(&mut value, given)?;
        let rows = self.rows_mut(Kind::LoadBalancer);
        rows.change(id, |balancer| *balancer = value);
        self.validate(id);
        Ok(())
    }

    pub(super) fn delete_balancer(&mut self, id: &str) -> Result<(), Refusal> {
        let value = self.existing(Kind::LoadBalancer, id)?;
        if value["locked"] == true {
            return Err(Refusal::conflict("The load balancer is locked"));
        }
        if value["status"] == "deleted" || value["status"] == "deleting" || self.is_leaving(id) {
            return Err(Refusal::conflict("The load balancer is deleted already"));
        }
        let status = |status| Event::Status(Kind::LoadBalancer, id.to_owned(), status);
        let shown_after = self.behaviour.deletion_shown;
        self.later(shown_after, status("deleting"));
        self.later(shown_after + self.behaviour.deleting, status("deleted"));
        Ok(())
    }

    /// Its Cloud IPs lead nowhere then, or a while later.
    pub(super) fn balancer_is_deleted(&mut self, id: &str) {
        self.rows_mut(Kind::LoadBalancer).change(id, |balancer| {
            balancer["status"] = json!("deleted");
            balancer["deleted_at"] = json!(super::objects::CREATED_AT);
        });
        let alone = Event::LeftAlone(id.to_owned());
        self.later(self.behaviour.unmapping, alone);
        let gone = Event::Gone(Kind::LoadBalancer, id.to_owned());
        self.later(self.behaviour.deleted_shown, gone);
    }

    /// `add_nodes` and `remove_nodes`, `add_listeners` and `remove_listeners`: a bare list.
    pub(super) fn change_list(
        &mut self,
        id: &str,
        action: &str,
        list: &Value,
    ) -> Result<(), Refusal> {
        let value = self.existing(Kind::LoadBalancer, id)?.clone();
        alive(&value)?;
        let (field, given) = match action {
            "add_nodes" | "remove_nodes" => {
                let ids = strict::listed(list, "node")?;
                ("nodes", ids.into_iter().map(Value::String).collect())
            }
            _ => {
                let all = list.as_array().cloned();
                let all = all.ok_or_else(|| Refusal::invalid("write a list"))?;
                ("listeners", all)
            }
        };
        let mut all = value[field].as_array().cloned().unwrap_or_default();
        let is_same = |one: &Value, other: &Value| match field {
            "nodes" => one == other,
            _ => one["in"] == other["in"],
        };
        all.retain(|one| !given.iter().any(|other| is_same(one, other)));
        if action.starts_with("add") {
            all.extend(given);
        }
        if field == "nodes" && all.is_empty() && self.behaviour.keeps_last_node {
            return Err(Refusal::conflict("The last node cannot be removed"));
        }
        let all: Vec<Value> = match field {
            "nodes" => all.iter().map(|node| json!({ "node": node })).collect(),
            _ => all,
        };
        let mut changes = Map::new();
        changes.insert(field.to_owned(), json!(all));
        self.change_to(id, &changes)
    }

    fn put_into(&self, value: &mut Value, given: &Map<String, Value>) -> Result<(), Refusal> {
        strict::fields(given, FIELDS)?;
        for (name, given) in given {
            match name.as_str() {
                "nodes" => {
                    let ids: BTreeSet<String> =
                        strict::listed(given, "node")?.into_iter().collect();
                    for id in &ids {
                        self.existing(Kind::Server, id)?;
                    }
                    value["nodes"] = json!(ids);
                }
                "listeners" => value["listeners"] = listeners(given)?,
                "healthcheck" => {
                    value["healthcheck"] = healthcheck(&value["healthcheck"], given)?;
                }
                "domains" => value["acme"] = acme(&value["acme"], given),
                "certificate_pem" => {
                    value["certificate"] = json!({ "expires_at": "2030-01-01T00:00:00Z" });
                }
                "certificate_private_key" => {}
                other => value[other] = given.clone(),
            }
        }
        let all = value["listeners"].as_array().into_iter().flatten();
        let is_https = all.into_iter().any(|one| one["protocol"] == "https");
        if is_https && !value["acme"].is_object() && !value["certificate"].is_object() {
            let error = "listeners with https need domains or a certificate";
            return Err(Refusal::invalid(error));
        }
        Ok(())
    }

    /// Looks at the domains once a Cloud IP leads there.
    pub(super) fn validate(&mut self, id: &str) {
        let leads_here = |ip: &Row| ip.value()["load_balancer"] == id;
        if !self.rows(Kind::CloudIp).iter().any(leads_here) {
            return;
        }
        let value = self.rows(Kind::LoadBalancer).value(id);
        let domains = value["acme"]["domains"].as_array().cloned();
        for domain in domains.into_iter().flatten() {
            if domain["status"] == "validating" {
                let name = domain["identifier"].as_str().unwrap_or_default();
                let event = Event::Validated(id.to_owned(), name.to_owned());
                self.later(self.behaviour.validating, event);
            }
        }
    }

    pub(super) fn is_validated(&mut self, id: &str, name: &str) {
        let is_invalid = self.behaviour.invalid_domains.contains(name);
        self.rows_mut(Kind::LoadBalancer).change(id, |balancer| {
            let domains = balancer["acme"]["domains"].as_array_mut();
            for domain in domains.into_iter().flatten() {
                if domain["identifier"] == name && is_invalid {
                    domain["status"] = json!("invalid");
                    domain["last_message"] = json!("The challenge was not answered");
                } else if domain["identifier"] == name {
                    domain["status"] = json!("valid");
                }
            }
        });
    }
}

/// A load balancer that can be changed.
pub(super) fn alive(balancer: &Value) -> Result<(), Refusal> {
    let status = &balancer["status"];
    is_alive(balancer)
        .then_some(())
        .ok_or_else(|| Refusal::conflict(format!("The load balancer is {status}")))
}

fn listeners(given: &Value) -> Result<Value, Refusal> {
    let all = given.as_array();
    let all = all.ok_or_else(|| Refusal::invalid("listeners is no list"))?;
    let mut ports = BTreeSet::new();
    let mut listeners = Vec::new();
    for given in all {
        let fields = strict::object(given)?;
        strict::fields(fields, LISTENER)?;
        for needed in ["protocol", "in", "out"] {
            if !fields.contains_key(needed) {
                return Err(Refusal::invalid(format!("listeners: {needed} is missing")));
            }
        }
        let proxy = given["proxy_protocol"].as_str();
        let is_known = proxy.is_none_or(|proxy| PROXY_PROTOCOLS.contains(&proxy));
        if !is_known || !ports.insert(given["in"].as_u64()) {
            return Err(Refusal::invalid(format!("listeners: {given} is invalid")));
        }
        listeners.push(json!({
            "protocol": given["protocol"], "in": given["in"], "out": given["out"],
            "timeout": given["timeout"].as_u64().unwrap_or(50_000), "proxy_protocol": proxy,
        }));
    }
    Ok(Value::Array(listeners))
}

/// What is not given stays as it is.
fn healthcheck(actual: &Value, given: &Value) -> Result<Value, Refusal> {
    let fields = strict::object(given)?;
    strict::fields(fields, HEALTHCHECK)?;
    let mut check = json!({
        "request": "/", "interval": 5000, "timeout": 5000, "threshold_up": 3, "threshold_down": 3,
    });
    for (name, value) in actual.as_object().into_iter().flatten() {
        check[name] = value.clone();
    }
    for needed in ["type", "port"] {
        if !fields.contains_key(needed) {
            return Err(Refusal::invalid(format!(
                "healthcheck: {needed} is missing"
            )));
        }
    }
    for (name, value) in fields {
        check[name] = value.clone();
    }
    Ok(check)
}

/// Domains that were there keep their status.
fn acme(actual: &Value, given: &Value) -> Value {
    let names = given.as_array().cloned().unwrap_or_default();
    if names.is_empty() {
        return Value::Null;
    }
    let before = actual["domains"].as_array().cloned().unwrap_or_default();
    let domains = names.iter().map(|name| {
        let known = before.iter().find(|domain| domain["identifier"] == *name);
        let new = json!({ "identifier": name, "status": "validating", "last_message": null });
        known.cloned().unwrap_or(new)
    });
    json!({ "certificate": null, "domains": domains.collect::<Value>() })
}
