//! What there is in a simulated cloudscale.ch.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::behaviour::{Behaviour, Busy};
use super::kind::Kind;
use super::machine::link;
use super::objects::{complete, referred};
use crate::TOKEN;
use crate::rows::Rows;
use crate::traffic::History;

pub(super) struct State {
    pub(super) token: String,
    pub(super) url: String,
    pub(super) behaviour: Behaviour,
    /// The load balancers that are changing, and until when.
    pub(super) busy: HashMap<String, Busy>,
    /// What a load balancer is when it is not changing, unless it is running.
    pub(super) forced: HashMap<String, String>,
    /// The ports of listeners that are deleted but still there: load balancer, protocol, port.
    pub(super) lingering: Vec<((String, String, u64), Instant)>,
    /// How many load balancers there have ever been.
    pub(super) serial: usize,
    pub(super) history: History,
    rows: HashMap<Kind, Rows>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            token: TOKEN.to_owned(),
            url: String::new(),
            behaviour: Behaviour::default(),
            busy: HashMap::new(),
            forced: HashMap::new(),
            lingering: Vec::new(),
            serial: 0,
            history: History::default(),
            rows: Kind::ALL.map(|kind| (kind, Rows::default())).into(),
        }
    }

    pub(super) fn rows(&self, kind: Kind) -> &Rows {
        self.rows.get(&kind).expect("rows of every kind")
    }

    fn rows_mut(&mut self, kind: Kind) -> &mut Rows {
        self.rows.get_mut(&kind).expect("rows of every kind")
    }

    /// The objects of one kind whose field refers to this.
    pub(super) fn referring<'a>(
        &'a self,
        kind: Kind,
        field: &'a str,
        uuid: &'a str,
    ) -> impl Iterator<Item = &'a Value> {
        let values = self.rows(kind).iter().map(|row| row.value());
        values.filter(move |value| value[field]["uuid"] == uuid)
    }

    /// How an object is shown in those that refer to it.
    pub(super) fn stub(&self, kind: Kind, uuid: &str) -> Option<Value> {
        let value = self.rows(kind).get(uuid)?.value();
        let (href, uuid, name) = (&value["href"], &value["uuid"], &value["name"]);
        Some(json!({ "href": href, "uuid": uuid, "name": name }))
    }

    /// The load balancer that an object is, that it is part of, or that it leads to.
    pub(super) fn load_balancer_of(&self, kind: Kind, key: &str) -> Option<String> {
        match kind {
            Kind::LoadBalancer => self.rows(kind).get(key).map(|_| key.to_owned()),
            _ => referred(&self.rows(kind).value(key)["load_balancer"]),
        }
    }

    /// Something new; gives its key: the UUID, or the address of a floating IP.
    pub(super) fn add(&mut self, kind: Kind, given: &Value) -> Result<String> {
        let key = match (kind, given["uuid"].as_str(), given["network"].as_str()) {
            (Kind::FloatingIp, _, network) => {
                let network = network.context("a floating IP has a network")?;
                network.split('/').next().unwrap_or(network).to_owned()
            }
            (_, Some(uuid), _) => uuid.to_lowercase(),
            (_, None, _) => uuid::Uuid::new_v4().to_string(),
        };
        let value = complete(self, kind, given, &key)?;
        self.rows_mut(kind).add(key.clone(), value);
        if kind == Kind::LoadBalancer {
            self.serial += 1;
            self.keep_forced(&key);
        }
        self.settle_monitors(kind, &key);
        let concerned = self.load_balancer_of(kind, &key);
        self.record(kind, concerned.as_deref());
        Ok(key)
    }

    /// Changes an object; whether it is there.
    pub(super) fn change(
        &mut self,
        kind: Kind,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> bool {
        let url = self.url.clone();
        let there = self.rows_mut(kind).change(key, |object| {
            change(object);
            if kind == Kind::Server {
                link(object, &url);
            }
        });
        if there {
            self.rename(kind, key);
            let concerned = self.load_balancer_of(kind, key);
            self.record(kind, concerned.as_deref());
        }
        there
    }

    /// Changes what is shown of a load balancer's status, which is no write.
    pub(super) fn show_status(&mut self, uuid: &str, status: &str) {
        let rows = self.rows_mut(Kind::LoadBalancer);
        rows.change(uuid, |balancer| balancer["status"] = json!(status));
    }

    /// Changes what is shown of a member's health, which is no write.
    pub(super) fn show_health(&mut self, member: &str, status: &str) {
        let rows = self.rows_mut(Kind::Member);
        rows.change(member, |member| member["monitor_status"] = json!(status));
    }

    /// Takes an object away with all that is part of it; whether it was there.
    pub(super) fn remove(&mut self, kind: Kind, key: &str) -> bool {
        if self.rows(kind).get(key).is_none() {
            return false;
        }
        let concerned = self.load_balancer_of(kind, key);
        if kind == Kind::Listener {
            self.linger(key);
        }
        let pool = referred(&self.rows(kind).value(key)["pool"]);
        self.rows_mut(kind).remove(key);
        match kind {
            Kind::LoadBalancer => self.remove_parts_of(key),
            Kind::Pool => self.remove_parts_of_pool(key),
            Kind::HealthMonitor => self.set_monitor_status(pool.as_deref(), "no_monitor"),
            _ => {}
        }
        self.record(kind, concerned.as_deref());
        true
    }

    fn remove_parts_of(&mut self, uuid: &str) {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_part()) {
            let rows = self.rows_mut(kind);
            rows.remove_where(|part| part["load_balancer"]["uuid"] == uuid);
        }
        self.rows_mut(Kind::FloatingIp).change_where(
            |ip| ip["load_balancer"]["uuid"] == uuid,
            |ip| {
                ip["load_balancer"] = Value::Null;
                ip["next_hop"] = Value::Null;
            },
        );
        self.busy.remove(uuid);
        self.forced.remove(uuid);
        self.lingering.retain(|((of, _, _), _)| of != uuid);
    }

    fn remove_parts_of_pool(&mut self, uuid: &str) {
        let belongs = |part: &Value| part["pool"]["uuid"] == uuid;
        self.rows_mut(Kind::Member).remove_where(belongs);
        self.rows_mut(Kind::HealthMonitor).remove_where(belongs);
        if self.behaviour.pool_deletes_cascade_listeners {
            let listeners = self.referring(Kind::Listener, "pool", uuid);
            let listeners: Vec<String> = listeners.filter_map(referred).collect();
            for listener in listeners {
                self.linger(&listener);
            }
            self.rows_mut(Kind::Listener).remove_where(belongs);
        } else {
            let listeners = self.rows_mut(Kind::Listener);
            listeners.change_where(belongs, |listener| listener["pool"] = Value::Null);
        }
    }

    /// What refers to an object shows the name that it has now.
    fn rename(&mut self, kind: Kind, key: &str) {
        let field = match kind {
            Kind::LoadBalancer => "load_balancer",
            Kind::Pool => "pool",
            _ => return,
        };
        let name = self.rows(kind).value(key)["name"].clone();
        for of in Kind::ALL {
            self.rows_mut(of).change_where(
                |value| value[field]["uuid"] == key && value[field]["name"] != name,
                |value| value[field]["name"] = name.clone(),
            );
        }
    }

    /// Members are up as soon as something watches them.
    fn settle_monitors(&mut self, kind: Kind, key: &str) {
        let pool = referred(&self.rows(kind).value(key)["pool"]);
        let Some(pool) = pool else { return };
        if self
            .referring(Kind::HealthMonitor, "pool", &pool)
            .next()
            .is_some()
        {
            self.set_monitor_status(Some(&pool), "up");
        }
    }

    fn set_monitor_status(&mut self, pool: Option<&str>, status: &str) {
        let Some(pool) = pool else { return };
        let passing = if status == "up" { "no_monitor" } else { "up" };
        self.rows_mut(Kind::Member).change_where(
            |member| member["pool"]["uuid"] == pool && member["monitor_status"] == passing,
            |member| member["monitor_status"] = json!(status),
        );
    }

    /// Fills it from the content of a state file.
    pub(super) fn load(&mut self, content: &Value) -> Result<()> {
        let object = content.as_object().context("write an object")?;
        let known = Kind::ALL.map(Kind::key);
        if let Some(key) = object.keys().find(|key| !known.contains(&key.as_str())) {
            bail!("{key}: only these can be given: {}", known.join(", "));
        }
        for kind in Kind::ALL {
            let Some(given) = object.get(kind.key()) else {
                continue;
            };
            let given = given.as_array();
            let given = given.with_context(|| format!("{}: write a list", kind.key()))?;
            for (index, given) in given.iter().enumerate() {
                let added = self.add(kind, given);
                added.with_context(|| format!("{}[{index}]", kind.key()))?;
            }
        }
        Ok(())
    }
}
