//! How a load balancer behaves while it is made and changed.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::answers::Refusal;
use super::kind::Kind;
use super::state::State;
use crate::control;

/// How long things take, and what is refused meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// For how long a new load balancer is `changing`. No part of it can be written meanwhile.
    pub provisioning: Duration,
    /// For how long a load balancer is `changing` after every write on it or a part of it.
    pub change_time: Duration,
    /// Whether a write is refused meanwhile. Otherwise it waits its turn.
    pub refuse_while_changing: bool,
    /// Whether a write is refused by 503 while another one on the same load balancer is not answered. The real API
    /// does so under load. Otherwise it is done when that is.
    pub refuse_concurrent_writes: bool,
    /// Whether a load balancer that is still being made cannot be deleted.
    pub strict_deletes: bool,
    /// For how long the port of a deleted listener cannot be used again.
    pub late_deletes: Duration,
    /// Whether a pool takes its listeners with it. Otherwise they stay, without a pool.
    pub pool_deletes_cascade_listeners: bool,
    /// How long a new load balancer is in no listing. Asked for by its UUID, it is there.
    pub listed_after: Duration,
}

impl Default for Behaviour {
    /// Made within a fifth of a second, changed at once.
    fn default() -> Self {
        Self {
            provisioning: Duration::from_millis(200),
            change_time: Duration::ZERO,
            refuse_while_changing: false,
            refuse_concurrent_writes: true,
            strict_deletes: true,
            late_deletes: Duration::ZERO,
            pool_deletes_cascade_listeners: true,
            listed_after: Duration::ZERO,
        }
    }
}

impl Behaviour {
    /// This behaviour with the fields of a JSON object changed: durations in seconds.
    pub(super) fn with(mut self, wish: &Value) -> Result<Self, String> {
        for (name, value) in wish.as_object().ok_or("give an object")? {
            let seconds = || control::length(name, value);
            let flag = || control::flag(name, value);
            match name.as_str() {
                "provisioning" => self.provisioning = seconds()?,
                "change_time" => self.change_time = seconds()?,
                "refuse_while_changing" => self.refuse_while_changing = flag()?,
                "refuse_concurrent_writes" => self.refuse_concurrent_writes = flag()?,
                "strict_deletes" => self.strict_deletes = flag()?,
                "late_deletes" => self.late_deletes = seconds()?,
                "pool_deletes_cascade_listeners" => {
                    self.pool_deletes_cascade_listeners = flag()?;
                }
                "listed_after" => self.listed_after = seconds()?,
                _ => return Err(format!("{name}: no such behaviour")),
            }
        }
        Ok(self)
    }
}

/// Why and until when a load balancer is changing.
#[derive(Clone, Copy)]
pub(super) struct Busy {
    pub(super) until: Instant,
    pub(super) provisioning: bool,
}

/// Whether a write can be done.
pub(super) enum Turn {
    Now,
    After(Duration),
}

impl State {
    /// Ends what has ended by now.
    pub(super) fn settle(&mut self) {
        let now = Instant::now();
        let over = self.busy.iter().filter(|(_, busy)| busy.until <= now);
        let over: Vec<String> = over.map(|(uuid, _)| uuid.clone()).collect();
        for uuid in over {
            self.busy.remove(&uuid);
            self.refresh_status(&uuid);
        }
        self.lingering.retain(|(_, until)| *until > now);
    }

    /// A load balancer is changing from now on.
    pub(super) fn occupy(&mut self, uuid: &str, length: Duration, provisioning: bool) {
        if length.is_zero() || self.rows(Kind::LoadBalancer).get(uuid).is_none() {
            return;
        }
        let until = Instant::now() + length;
        let busy = Busy {
            until,
            provisioning,
        };
        self.busy.insert(uuid.to_owned(), busy);
        self.refresh_status(uuid);
    }

    /// What a load balancer is whenever it is not changing.
    pub(super) fn force(&mut self, uuid: &str, status: &str) {
        self.forced.insert(uuid.to_owned(), status.to_owned());
        self.refresh_status(uuid);
    }

    /// A load balancer that is put there with another status keeps that.
    pub(super) fn keep_forced(&mut self, uuid: &str) {
        let status = self.rows(Kind::LoadBalancer).value(uuid)["status"].as_str();
        if let Some(status) = status.filter(|status| *status != "running") {
            let status = status.to_owned();
            self.forced.insert(uuid.to_owned(), status);
        }
    }

    fn refresh_status(&mut self, uuid: &str) {
        let status = if self.busy.contains_key(uuid) {
            "changing".to_owned()
        } else {
            let forced = self.forced.get(uuid).cloned();
            forced.unwrap_or_else(|| "running".to_owned())
        };
        self.show_status(uuid, &status);
    }

    /// Whether it is the turn of a write on this load balancer.
    pub(super) fn turn(&mut self, uuid: &str, is_deletion: bool) -> Result<Turn, Refusal> {
        self.settle();
        let behaviour = self.behaviour;
        match self.busy.get(uuid) {
            None => Ok(Turn::Now),
            Some(busy) if busy.provisioning && is_deletion && !behaviour.strict_deletes => {
                Ok(Turn::Now)
            }
            Some(busy) if busy.provisioning => {
                Err(Refusal::detail("The load balancer is still being created."))
            }
            Some(_) if behaviour.refuse_while_changing => {
                Err(Refusal::detail("Load balancer is currently changing."))
            }
            Some(busy) => Ok(Turn::After(
                busy.until.saturating_duration_since(Instant::now()),
            )),
        }
    }

    /// The port of a listener about to be deleted stays taken for a while.
    pub(super) fn linger(&mut self, listener: &str) {
        let length = self.behaviour.late_deletes;
        let value = self.rows(Kind::Listener).value(listener);
        if let (false, Some(port)) = (length.is_zero(), port(value)) {
            self.lingering.push((port, Instant::now() + length));
        }
    }
}

/// What a listener occupies: load balancer, protocol, port.
pub(super) fn port(listener: &Value) -> Option<(String, String, u64)> {
    Some((
        listener["load_balancer"]["uuid"].as_str()?.to_owned(),
        listener["protocol"].as_str()?.to_owned(),
        listener["protocol_port"].as_u64()?,
    ))
}
