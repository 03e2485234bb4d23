//! What there is in a simulated Brightbox. Objects refer to others by their identifiers; how they are shown
//! is in `shown.rs`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::answers::Refusal;
use super::behaviour::Behaviour;
use super::kind::Kind;
use super::objects::complete;
use super::tokens::{ACCOUNT, Tokens};
use crate::rows::Rows;
use crate::traffic::History;

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
                self.rows_mut(kind).change(&id, |object| {
                    if follows(&object["status"], status) {
                        object["status"] = json!(status);
                    }
                });
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
        // What brings its identifier along has its own addresses all the same.
        let id = match id {
            Some(id) => {
                self.serial += 1;
                id
            }
            None => self.new_id(kind),
        };
        let value = complete(kind, given, &id, self.serial)?;
        let now = self.now();
        self.rows_mut(kind).add_at(now, id.clone(), value);
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

    /// Takes an object away; whether it was there. Nothing leads to it any more.
    pub(super) fn take(&mut self, kind: Kind, id: &str) -> bool {
        let there = self.rows_mut(kind).remove(id);
        match kind {
            Kind::Server => self.forget_server(id),
            Kind::LoadBalancer => self.unmap_all("load_balancer", id),
            Kind::ServerGroup => self.unmap_all("server_group", id),
            _ => {}
        }
        self.record_all("");
        there
    }

    /// A server is gone: nothing refers to it.
    fn forget_server(&mut self, id: &str) {
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

/// Whether a load balancer with this status can come to have the other by itself: none that is deleted meanwhile
/// comes to be active, nor to be on its way.
fn follows(before: &Value, status: &str) -> bool {
    match status {
        "active" => before == "creating",
        "deleting" => before != "deleted",
        _ => true,
    }
}

/// Whether a list has this identifier.
pub(super) fn has(list: &Value, id: &str) -> bool {
    list.as_array()
        .is_some_and(|all| all.iter().any(|one| one == id))
}
