//! Cloud IPs: made, changed, mapped, unmapped, deleted.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};

use super::answers::Refusal;
use super::balancers::alive;
use super::kind::Kind;
use super::state::{Event, State};
use super::strict::{self, Field, Is};

const FIELDS: &[Field] = &[
    ("name", Is::Text),
    ("reverse_dns", Is::Text),
    ("mode", Is::OneOf(&["nat", "route"])),
    ("port_translators", Is::Other),
];

impl State {
    pub(super) fn create_cloud_ip(
        &mut self,
        given: &Map<String, Value>,
    ) -> Result<String, Refusal> {
        strict::fields(given, FIELDS)?;
        if self.rows(Kind::CloudIp).len() >= self.behaviour.cloud_ips_limit {
            return Err(Refusal::limit("Cloud IPs"));
        }
        let id = self.add(Kind::CloudIp, &Value::Object(given.clone()));
        let id = id.map_err(|error| Refusal::invalid(error.to_string()))?;
        if self.behaviour.numeric_names {
            let rows = self.rows_mut(Kind::CloudIp);
            rows.change(&id, |ip| {
                ip["fqdn"] = numeric_name(&ip["public_ipv4"]);
                ip["reverse_dns"] = Value::Null;
            });
        }
        Ok(id)
    }

    pub(super) fn change_cloud_ip(
        &mut self,
        id: &str,
        given: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        strict::fields(given, FIELDS)?;
        self.existing(Kind::CloudIp, id)?;
        self.rows_mut(Kind::CloudIp).change(id, |ip| {
            for (name, value) in given {
                ip[name] = value.clone();
            }
        });
        Ok(())
    }

    /// It leads there later; until then it is shown as before.
    pub(super) fn map_cloud_ip(
        &mut self,
        id: &str,
        given: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        strict::fields(given, &[("destination", Is::Text)])?;
        let ip = self.existing(Kind::CloudIp, id)?;
        if ip["status"] == "mapped" {
            return Err(Refusal::conflict("The Cloud IP is mapped"));
        }
        let target = given.get("destination").and_then(Value::as_str);
        let target = target.ok_or_else(|| Refusal::invalid("destination is missing"))?;
        // A load balancer is there before anything leads to it.
        let mut after = self.behaviour.mapping;
        match target.split('-').next() {
            Some("lba") => {
                alive(self.existing(Kind::LoadBalancer, target)?)?;
                after = after.max(self.active_in(target));
            }
            Some("srv") => {
                self.existing(Kind::Server, target)?;
            }
            Some("grp") => {
                self.existing(Kind::ServerGroup, target)?;
            }
            Some("int") if self.server_of(target).is_some() => {}
            _ => return Err(Refusal::missing(target)),
        }
        let mapped = Event::Mapped(id.to_owned(), target.to_owned());
        self.later(after, mapped);
        Ok(())
    }

    pub(super) fn unmap_cloud_ip(&mut self, id: &str) -> Result<(), Refusal> {
        let ip = self.existing(Kind::CloudIp, id)?;
        if ip["status"] != "mapped" {
            return Err(Refusal::conflict("The Cloud IP is not mapped"));
        }
        self.later(self.behaviour.mapping, Event::Unmapped(id.to_owned()));
        Ok(())
    }

    pub(super) fn delete_cloud_ip(&mut self, id: &str) -> Result<(), Refusal> {
        let ip = self.existing(Kind::CloudIp, id)?;
        if ip["status"] == "mapped" {
            return Err(Refusal::conflict("The Cloud IP is mapped"));
        }
        self.rows_mut(Kind::CloudIp).remove(id);
        Ok(())
    }

    /// The first of two that were asked for at once is as good as the second: it leads there already.
    pub(super) fn is_mapped(&mut self, id: &str, target: &str) {
        let field = match target.split('-').next() {
            Some("lba") => {
                let balancer = self.rows(Kind::LoadBalancer).value(target);
                if alive(balancer).is_err() {
                    return;
                }
                "load_balancer"
            }
            Some("grp") => "server_group",
            Some("int") => "interface",
            _ => "server",
        };
        let server = self.server_of(target);
        self.rows_mut(Kind::CloudIp).change(id, |ip| {
            if ip["status"] != "mapped" {
                ip["status"] = json!("mapped");
                ip[field] = json!(target);
                if let Some(server) = server {
                    ip["server"] = json!(server);
                }
            }
        });
        self.validate(target);
    }

    pub(super) fn is_unmapped(&mut self, id: &str) {
        self.rows_mut(Kind::CloudIp).change(id, |ip| {
            ip["status"] = json!("unmapped");
            for field in ["load_balancer", "server", "server_group", "interface"] {
                ip[field] = Value::Null;
            }
        });
    }

    /// The server that has this interface.
    fn server_of(&self, interface: &str) -> Option<String> {
        let mut servers = self.rows(Kind::Server).iter();
        let has_it = |server: &Value| {
            let all = server["interfaces"].as_array().into_iter().flatten();
            all.into_iter().any(|one| one["id"] == interface)
        };
        let server = servers.find(|server| has_it(server.value()))?;
        Some(server.key().to_owned())
    }
}

/// A name that every resolver knows without asking anybody, and that is no address to the API server: `inet_aton`
/// takes `192.0.515` for 192.0.2.3.
fn numeric_name(address: &Value) -> Value {
    let address = address.as_str().and_then(|text| text.parse().ok());
    address.map_or(Value::Null, |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        json!(format!("{a}.{b}.{}", u16::from_be_bytes([c, d])))
    })
}
