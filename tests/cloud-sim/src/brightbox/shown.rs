//! How objects are shown: with what they refer to, and with what refers to them.

use serde_json::{Value, json};

use super::kind::Kind;
use super::state::{State, has};
use super::tokens::ACCOUNT;

impl State {
    /// An object as the API shows it alone, or `null`.
    pub(super) fn shown(&self, kind: Kind, id: &str) -> Value {
        let Some(row) = self.rows(kind).get(id) else {
            return Value::Null;
        };
        let mut value = row.value().clone();
        value["resource_type"] = json!(kind.resource_type());
        value["url"] = json!(format!("{}/1.0/{}/{id}", self.url, kind.key()));
        if kind != Kind::Account && kind != Kind::FirewallRule {
            value["account"] = self.summary(Kind::Account, ACCOUNT, &["name", "status"]);
        }
        match kind {
            Kind::Account => {
                value["cloud_ips_limit"] = json!(self.behaviour.cloud_ips_limit);
                value["cloud_ips_used"] = json!(self.rows(Kind::CloudIp).len());
                value["load_balancers_limit"] = json!(self.behaviour.load_balancers_limit);
                value["load_balancers_used"] = json!(self.living_balancers());
            }
            Kind::Server => {
                value["cloud_ips"] = self.cloud_ips_of("server", id);
                let groups = self.rows(Kind::ServerGroup).iter();
                let groups = groups.filter(|group| has(&group.value()["servers"], id));
                let groups = groups.map(|group| self.group_summary(group.key()));
                value["server_groups"] = groups.collect();
            }
            Kind::ServerGroup => {
                value["servers"] = self.servers(&value["servers"]);
                let policies = self.rows(Kind::FirewallPolicy).iter();
                let mut policies = policies.filter(|one| one.value()["server_group"] == id);
                let policy = policies.next();
                value["firewall_policy"] = policy.map_or(Value::Null, |policy| {
                    self.summary(Kind::FirewallPolicy, policy.key(), &["name", "description"])
                });
            }
            Kind::FirewallPolicy => {
                let group = value["server_group"].as_str();
                value["server_group"] =
                    group.map_or(Value::Null, |group| self.group_summary(group));
                let rules = self.rows(Kind::FirewallRule).iter();
                let rules = rules.filter(|rule| rule.value()["firewall_policy"] == id);
                let rules = rules.map(|rule| {
                    let mut rule = self.shown(Kind::FirewallRule, rule.key());
                    if let Some(rule) = rule.as_object_mut() {
                        rule.remove("firewall_policy");
                    }
                    rule
                });
                value["rules"] = rules.collect();
            }
            Kind::FirewallRule => {
                let policy = value["firewall_policy"].as_str().unwrap_or_default();
                value["firewall_policy"] = self.summary(Kind::FirewallPolicy, policy, &["name"]);
            }
            Kind::LoadBalancer => {
                value["nodes"] = self.servers(&value["nodes"]);
                value["cloud_ips"] = self.cloud_ips_of("load_balancer", id);
            }
            Kind::CloudIp => {
                let of = |kind, field: &str| match value[field].as_str() {
                    Some(id) => self.summary(kind, id, &["name", "status", "created_at"]),
                    None => Value::Null,
                };
                let (server, balancer) = (
                    of(Kind::Server, "server"),
                    of(Kind::LoadBalancer, "load_balancer"),
                );
                value["server"] = server;
                value["load_balancer"] = balancer;
                if let Some(group) = value["server_group"].as_str() {
                    value["server_group"] = self.group_summary(group);
                }
                if let Some(interface) = value["interface"].as_str() {
                    value["interface"] = json!({
                        "id": interface, "resource_type": "interface",
                        "url": format!("{}/1.0/interfaces/{interface}", self.url),
                    });
                }
            }
        }
        value
    }

    /// An object as listings show it.
    pub(super) fn listed(&self, kind: Kind, id: &str) -> Value {
        let mut value = self.shown(kind, id);
        if kind == Kind::LoadBalancer
            && !self.behaviour.acme_in_listings
            && let Some(fields) = value.as_object_mut()
        {
            fields.remove("acme");
        }
        value
    }

    /// How many load balancers are not deleted.
    pub(super) fn living_balancers(&self) -> usize {
        let all = self.rows(Kind::LoadBalancer).iter();
        all.filter(|one| one.value()["status"] != "deleted").count()
    }

    fn group_summary(&self, id: &str) -> Value {
        self.summary(Kind::ServerGroup, id, &["name", "description", "default"])
    }

    fn servers(&self, list: &Value) -> Value {
        let all = list.as_array().into_iter().flatten();
        let ids = all.filter_map(Value::as_str);
        ids.map(|id| {
            self.summary(
                Kind::Server,
                id,
                &["name", "status", "hostname", "fqdn", "created_at"],
            )
        })
        .collect()
    }

    fn cloud_ips_of(&self, field: &str, id: &str) -> Value {
        let all = self.rows(Kind::CloudIp).iter();
        let all = all.filter(|ip| ip.value()[field] == id);
        let fields = [
            "name",
            "status",
            "public_ip",
            "public_ipv4",
            "public_ipv6",
            "fqdn",
            "reverse_dns",
        ];
        all.map(|ip| self.summary(Kind::CloudIp, ip.key(), &fields))
            .collect()
    }

    fn summary(&self, kind: Kind, id: &str, fields: &[&str]) -> Value {
        let value = self.rows(kind).value(id);
        if value.is_null() {
            return Value::Null;
        }
        let mut summary = json!({
            "id": id, "resource_type": kind.resource_type(),
            "url": format!("{}/1.0/{}/{id}", self.url, kind.key()),
        });
        for field in fields {
            summary[*field] = value[*field].clone();
        }
        summary
    }
}
