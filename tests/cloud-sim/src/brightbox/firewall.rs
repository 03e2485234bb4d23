//! Firewall policies and their rules.

use serde_json::{Map, Value, json};

use super::answers::Refusal;
use super::kind::Kind;
use super::state::State;
use super::strict::{self, Field, Is, place, ports};

const POLICY: &[Field] = &[
    ("name", Is::Text),
    ("description", Is::Text),
    ("server_group", Is::Text),
];
const RULE: &[Field] = &[
    ("firewall_policy", Is::Text),
    ("protocol", Is::Text),
    ("source", Is::Text),
    ("source_port", Is::Text),
    ("destination", Is::Text),
    ("destination_port", Is::Text),
    ("icmp_type_name", Is::Text),
    ("description", Is::Text),
];

impl State {
    pub(super) fn create_policy(&mut self, given: &Map<String, Value>) -> Result<String, Refusal> {
        strict::fields(given, POLICY)?;
        if let Some(group) = given.get("server_group").and_then(Value::as_str) {
            self.without_policy(group)?;
        }
        let id = self.add(Kind::FirewallPolicy, &Value::Object(given.clone()));
        id.map_err(|error| Refusal::invalid(error.to_string()))
    }

    /// A group that has no policy: it can have one.
    fn without_policy(&self, group: &str) -> Result<(), Refusal> {
        self.existing(Kind::ServerGroup, group)?;
        let mut policies = self.rows(Kind::FirewallPolicy).iter();
        if policies.any(|policy| policy.value()["server_group"] == group) {
            return Err(Refusal::conflict("The server group has a firewall policy"));
        }
        Ok(())
    }

    /// `apply_to` and `remove`.
    pub(super) fn apply_policy(
        &mut self,
        id: &str,
        action: &str,
        given: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        strict::fields(given, &[("server_group", Is::Text)])?;
        let policy = self.existing(Kind::FirewallPolicy, id)?.clone();
        let group = given.get("server_group").and_then(Value::as_str);
        let group = group.ok_or_else(|| Refusal::invalid("server_group is missing"))?;
        let applied = match action {
            "apply_to" if policy["server_group"].is_null() => {
                self.without_policy(group)?;
                json!(group)
            }
            "remove" if policy["server_group"] == group => Value::Null,
            _ => {
                return Err(Refusal::conflict(
                    "The firewall policy has another server group",
                ));
            }
        };
        let rows = self.rows_mut(Kind::FirewallPolicy);
        rows.change(id, |policy| policy["server_group"] = applied);
        Ok(())
    }

    pub(super) fn delete_policy(&mut self, id: &str) -> Result<(), Refusal> {
        if self.existing(Kind::FirewallPolicy, id)?["default"] == true {
            return Err(Refusal::conflict("The default policy cannot be deleted"));
        }
        self.rows_mut(Kind::FirewallPolicy).remove(id);
        let rules = self.rows_mut(Kind::FirewallRule);
        rules.remove_where(|rule| rule["firewall_policy"] == id);
        Ok(())
    }

    pub(super) fn create_rule(&mut self, given: &Map<String, Value>) -> Result<String, Refusal> {
        let policy = given.get("firewall_policy").and_then(Value::as_str);
        let policy = policy.ok_or_else(|| Refusal::invalid("firewall_policy is missing"))?;
        self.existing(Kind::FirewallPolicy, policy)?;
        let rule = Value::Object(given.clone());
        check_rule(&rule, given)?;
        let id = self.add(Kind::FirewallRule, &rule);
        id.map_err(|error| Refusal::invalid(error.to_string()))
    }

    pub(super) fn change_rule(
        &mut self,
        id: &str,
        given: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let mut rule = self.existing(Kind::FirewallRule, id)?.clone();
        let policy = &rule["firewall_policy"];
        if given
            .get("firewall_policy")
            .is_some_and(|given| given != policy)
        {
            return Err(Refusal::invalid("firewall_policy cannot be changed"));
        }
        for (name, value) in given {
            rule[name] = value.clone();
        }
        check_rule(&rule, given)?;
        self.rows_mut(Kind::FirewallRule)
            .change(id, |one| *one = rule);
        Ok(())
    }

    pub(super) fn delete_rule(&mut self, id: &str) -> Result<(), Refusal> {
        self.existing(Kind::FirewallRule, id)?;
        self.rows_mut(Kind::FirewallRule).remove(id);
        Ok(())
    }
}

fn check_rule(rule: &Value, given: &Map<String, Value>) -> Result<(), Refusal> {
    strict::fields(given, RULE)?;
    if rule["source"].as_str().is_none() && rule["destination"].as_str().is_none() {
        return Err(Refusal::invalid("source or destination is needed"));
    }
    for (fields, is_right) in [
        (["source", "destination"], place as fn(&str) -> bool),
        (["source_port", "destination_port"], ports),
    ] {
        for field in fields {
            if let Some(text) = rule[field].as_str().filter(|text| !is_right(text)) {
                return Err(Refusal::invalid(format!("{field} is invalid: {text}")));
            }
        }
    }
    Ok(())
}
