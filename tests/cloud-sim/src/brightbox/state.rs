//! What there is in a simulated Brightbox. Objects refer to others by their identifiers; how they are shown
//! is in `shown.rs`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::answers::Refusal;
use super::behaviour::Behaviour;
use super::kind::Kind;
use super::machine::server_type;
use super::tokens::{ACCOUNT, Tokens};
use crate::rows::Rows;
use crate::traffic::History;

pub(super) const CREATED_AT: &str = "2026-01-02T03:04:05Z";
pub(super) const REGION: &str = "gb1";

/// What comes to pass later.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// An object has another status.
    Status(Kind, String, &'static str),
    /// An object is not shown any more.
    Gone(Kind, String),
    /// A Cloud IP leads to this load balancer or server.
    Mapped(String, String),
    /// A Cloud IP leads nowhere.
    Unmapped(String),
    /// No Cloud IP leads any more to this load balancer.
    LeftAlone(String),
    /// A domain of a load balancer was looked at.
    Validated(String, String),
    /// These servers have left a group.
    Left(String, Vec<String>),
}

pub(super) struct State {
    pub(super) url: String,
    pub(super) tokens: Tokens,
    pub(super) behaviour: Behaviour,
    pub(super) history: History,
    rows: HashMap<Kind, Rows>,
    pending: Vec<(Instant, Event)>,
    advanced: Duration,
    serial: u32,
}

impl State {
    pub(super) fn new() -> Self {
        let mut state = Self {
            url: String::new(),
            tokens: Tokens::new(),
            behaviour: Behaviour::default(),
            history: History::default(),
            rows: Kind::ALL.map(|kind| (kind, Rows::default())).into(),
            pending: Vec::new(),
            advanced: Duration::ZERO,
            serial: 0,
        };
        let account = json!({ "id": ACCOUNT, "name": "The simulation", "status": "active" });
        let rows = state.rows.get_mut(&Kind::Account);
        rows.expect("rows of every kind").add(ACCOUNT, account);
        state
    }

    pub(super) fn rows(&self, kind: Kind) -> &Rows {
        self.rows.get(&kind).expect("rows of every kind")
    }

    pub(super) fn rows_mut(&mut self, kind: Kind) -> &mut Rows {
        self.rows.get_mut(&kind).expect("rows of every kind")
    }

    /// An object, or that it is missing.
    pub(super) fn existing(&self, kind: Kind, id: &str) -> Result<&Value, Refusal> {
        let row = self.rows(kind).get(id);
        row.map(|row| row.value())
            .ok_or_else(|| Refusal::missing(id))
    }

    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.advanced
    }

    pub(super) fn advance(&mut self, time: Duration) {
        self.advanced += time;
        self.settle();
    }

    /// This comes to pass after a while.
    pub(super) fn later(&mut self, after: Duration, event: Event) {
        let at = self.now() + after;
        self.pending.push((at, event));
        self.settle();
    }

    /// Does what is due.
    pub(super) fn settle(&mut self) {
        let now = self.now();
        let mut is_other = false;
        while let Some(next) = self
            .pending
            .iter()
            .enumerate()
            .filter(|(_, (at, _))| *at <= now)
            .min_by_key(|(_, (at, _))| *at)
            .map(|(index, _)| index)
        {
            let (_, event) = self.pending.remove(next);
            self.happen(event);
            is_other = true;
        }
        if is_other {
            self.record_all("");
        }
    }

    /// When a load balancer that is being made is there.
    pub(super) fn active_in(&self, balancer: &str) -> Duration {
        let pending = self.pending.iter().filter(|(_, event)| {
            matches!(event, Event::Status(Kind::LoadBalancer, id, "active") if id == balancer)
        });
        let at = pending.map(|(at, _)| *at).max();
        at.map_or(Duration::ZERO, |at| {
            at.saturating_duration_since(self.now())
        })
    }

    /// Whether a load balancer is going to be deleted.
    pub(super) fn is_leaving(&self, balancer: &str) -> bool {
        self.pending.iter().any(|(_, event)| {
            matches!(event, Event::Status(Kind::LoadBalancer, id, "deleted") if id == balancer)
        })
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Status(Kind::LoadBalancer, id, "deleted") => self.balancer_is_deleted(&id),
            Event::Status(kind, id, status) => {
                self.rows_mut(kind)
                    .change(&id, |object| object["status"] = json!(status));
            }
            Event::Gone(kind, id) => {
                self.rows_mut(kind).remove(&id);
            }
            Event::Mapped(ip, target) => self.is_mapped(&ip, &target),
            Event::Unmapped(ip) => self.is_unmapped(&ip),
            Event::LeftAlone(balancer) => self.unmap_all("load_balancer", &balancer),
            Event::Validated(balancer, domain) => self.is_validated(&balancer, &domain),
            Event::Left(group, servers) => {
                self.rows_mut(Kind::ServerGroup).change(&group, |group| {
                    if let Some(all) = group["servers"].as_array_mut() {
                        all.retain(|one| !servers.iter().any(|server| one == server));
                    }
                });
            }
        }
    }

    /// A new identifier.
    pub(super) fn new_id(&mut self, kind: Kind) -> String {
        self.serial += 1;
        let prefix = kind.prefix();
        let mut number = 0x00a0_0000_u32 + self.serial.wrapping_mul(7919);
        let mut letters = Vec::new();
        while letters.len() < 5 {
            let digit = u8::try_from(number % 36).unwrap_or_default();
            letters.push(if digit < 10 {
                b'0' + digit
            } else {
                b'a' + digit - 10
            });
            number /= 36;
        }
        format!("{prefix}-{}", String::from_utf8_lossy(&letters))
    }

    /// Something new, as it is or as the API shows it; gives its identifier.
    pub(super) fn add(&mut self, kind: Kind, given: &Value) -> Result<String> {
        let id = given["id"].as_str().map(ToOwned::to_owned);
        let id = id.unwrap_or_else(|| self.new_id(kind));
        let mut value = defaults(kind, &id, self.serial);
        for (field, given) in given.as_object().context("write an object")? {
            value[field] = flat(given);
        }
        value["id"] = json!(id);
        self.rows_mut(kind).add(id.clone(), value);
        Ok(id)
    }

    pub(super) fn load(&mut self, content: &Value) -> Result<()> {
        let content = content.as_object().context("write an object")?;
        for (key, list) in content {
            let kind = Kind::ALL.into_iter().find(|kind| kind.key() == key);
            let kind = kind.with_context(|| format!("{key}: what is that?"))?;
            for given in list
                .as_array()
                .with_context(|| format!("{key}: write a list"))?
            {
                self.add(kind, given).context(kind.key())?;
            }
        }
        Ok(())
    }

    /// A server is gone: nothing refers to it.
    pub(super) fn forget_server(&mut self, id: &str) {
        for (kind, field) in [
            (Kind::ServerGroup, "servers"),
            (Kind::LoadBalancer, "nodes"),
        ] {
            self.rows_mut(kind).change_where(
                |object| has(&object[field], id),
                |object| {
                    if let Some(all) = object[field].as_array_mut() {
                        all.retain(|one| one != id);
                    }
                },
            );
        }
        self.unmap_all("server", id);
    }

    /// No Cloud IP leads any more to what this field names.
    pub(super) fn unmap_all(&mut self, field: &str, id: &str) {
        let ips = self.rows(Kind::CloudIp).iter();
        let ips = ips.filter(|ip| ip.value()[field] == id);
        let ips: Vec<String> = ips.map(|ip| ip.key().to_owned()).collect();
        for ip in ips {
            self.is_unmapped(&ip);
        }
    }
}

/// Whether a list has this identifier.
pub(super) fn has(list: &Value, id: &str) -> bool {
    list.as_array()
        .is_some_and(|all| all.iter().any(|one| one == id))
}

/// References as identifiers: what is shown may be put back. Only objects of other kinds have such a type.
fn flat(given: &Value) -> Value {
    let is_reference = |value: &Value| {
        let kind = value["resource_type"].as_str().unwrap_or_default();
        Kind::ALL.iter().any(|of| of.resource_type() == kind) && value["id"].is_string()
    };
    match given {
        value if is_reference(value) => value["id"].clone(),
        Value::Array(all) => all.iter().map(flat).collect(),
        other => other.clone(),
    }
}

fn defaults(kind: Kind, id: &str, serial: u32) -> Value {
    let mut value = match kind {
        Kind::Account => json!({}),
        Kind::Server => json!({
            "name": id, "status": "active", "locked": false, "hostname": id,
            "fqdn": format!("{id}.{REGION}.brightbox.com"), "started_at": CREATED_AT,
            "deleted_at": null, "user_data": null, "compatibility_mode": false,
            "console_url": null, "console_token": null, "console_token_expires": null,
            "disk_encrypted": false, "server_type": server_type("1gb.ssd"),
            "zone": { "id": "zon-00001", "resource_type": "zone", "handle": "gb1-a" },
            "interfaces": [], "snapshots": [], "volumes": [],
        }),
        Kind::ServerGroup => json!({
            "name": null, "description": null, "default": false,
            "fqdn": format!("{id}.{REGION}.brightbox.com"), "servers": [],
        }),
        Kind::FirewallPolicy => json!({
            "name": null, "description": null, "default": false, "server_group": null,
        }),
        Kind::FirewallRule => json!({
            "firewall_policy": null, "protocol": null, "source": null, "source_port": null,
            "destination": null, "destination_port": null, "icmp_type_name": null,
            "description": null,
        }),
        Kind::LoadBalancer => json!({
            "name": null, "status": "active", "locked": false, "deleted_at": null,
            "policy": "least-connections", "buffer_size": 4096, "https_redirect": false,
            "listeners": [], "acme": null, "ssl_minimum_version": "TLSv1.2", "certificate": null,
            "healthcheck": {
                "type": "http", "port": 80, "request": "/", "interval": 5000, "timeout": 5000,
                "threshold_up": 3, "threshold_down": 3,
            },
            "nodes": [],
        }),
        Kind::CloudIp => {
            let (high, low) = (serial / 250, serial % 250 + 1);
            json!({
                "name": null, "status": "unmapped", "mode": "nat", "port_translators": [],
                "public_ip": format!("109.107.{}.{low}", 32 + high),
                "public_ipv4": format!("109.107.{}.{low}", 32 + high),
                "public_ipv6": format!("2a02:1348:ffff:ffff::6d6b:{high:x}{low:02x}"),
                "fqdn": format!("{id}.{REGION}.brightbox.com"),
                "reverse_dns": format!("cip-109-107-{}-{low}.{REGION}.brightbox.com", 32 + high),
                "interface": null, "server": null, "load_balancer": null, "server_group": null,
                "database_server": null,
            })
        }
    };
    value["created_at"] = json!(CREATED_AT);
    value
}
