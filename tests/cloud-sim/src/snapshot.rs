//! What there is in a cloud, without what differs from run to run: so that two ends can be compared.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// All load balancers with their parts as a tree, sorted, without the cloud's own names for them, addresses
/// on the internet, times and statuses; and what no load balancer has.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudState(Value);

impl CloudState {
    /// Of a tree whose `load_balancers` have a `name`.
    pub(super) const fn of(tree: Value) -> Self {
        Self(tree)
    }

    /// As JSON.
    pub const fn value(&self) -> &Value {
        &self.0
    }

    /// The load balancer of this name, as JSON, or `null`.
    pub fn load_balancer(&self, name: &str) -> &Value {
        let balancers = self.0["load_balancers"].as_array();
        let mut balancers = balancers.into_iter().flatten();
        let found = balancers.find(|balancer| balancer["name"] == name);
        found.unwrap_or(&Value::Null)
    }

    /// The same without any tags: for controllers that set different ones.
    #[must_use]
    pub fn without_tags(mut self) -> Self {
        strip(&mut self.0);
        self
    }

    /// The same without the load balancer of this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        if let Some(balancers) = self.0["load_balancers"].as_array_mut() {
            balancers.retain(|balancer| balancer["name"] != name);
        }
        self
    }

    /// The same without the idle firewalls of this name.
    #[must_use]
    pub fn without_idle_firewall(mut self, name: &str) -> Self {
        if let Some(firewalls) = self.0["idle_firewalls"].as_array_mut() {
            firewalls.retain(|firewall| firewall["name"] != name);
        }
        self
    }

    /// The same with other words, inside of texts and for whole numbers, long ones first: for what
    /// differs from run to run although a test has not chosen it, such as node ports.
    #[must_use]
    pub fn renamed(mut self, words: &BTreeMap<String, String>) -> Self {
        let mut in_order: Vec<_> = words.iter().collect();
        in_order.sort_by_key(|(found, _)| std::cmp::Reverse(found.len()));
        rename(&mut self.0, &in_order);
        if let Some(balancers) = self.0["load_balancers"].as_array_mut() {
            let all = std::mem::take(balancers);
            self.0["load_balancers"] = sorted(all.into_iter());
        }
        self
    }

    /// One line for each place where the other is different; none if they are equal.
    pub fn diff(&self, other: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        differences("", &self.0, &other.0, &mut lines);
        lines
    }
}

impl fmt::Debug for CloudState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// These fields of an object.
pub(super) fn fields(value: &Value, names: &[&str]) -> Value {
    let fields = names
        .iter()
        .map(|name| ((*name).to_owned(), value[*name].clone()));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Objects in an order that does not depend on when they were made.
pub(super) fn sorted(values: impl Iterator<Item = Value>) -> Value {
    let mut values: Vec<Value> = values.collect();
    values.sort_by_cached_key(|value| (value["name"].to_string(), value.to_string()));
    Value::Array(values)
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("tags");
            object.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        _ => {}
    }
}

fn rename(value: &mut Value, words: &[(&String, &String)]) {
    match value {
        Value::Object(object) => object.values_mut().for_each(|value| rename(value, words)),
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, words)),
        Value::String(text) => {
            for (found, word) in words {
                *text = text.replace(found.as_str(), word);
            }
        }
        Value::Number(number) => {
            let number = number.to_string();
            if let Some((_, word)) = words.iter().find(|(found, _)| **found == number) {
                *value = Value::String((*word).clone());
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn differences(path: &str, one: &Value, other: &Value, lines: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let counterpart = b.get(key).unwrap_or(&Value::Null);
                differences(&format!("{path}/{key}"), value, counterpart, lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}/{index}"), a, b, lines);
            }
        }
        _ if one == other => {}
        _ => lines.push(format!("{path}: {one} and {other}")),
    }
}
