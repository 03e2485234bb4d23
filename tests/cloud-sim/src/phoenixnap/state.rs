//! What there is in a simulated PhoenixNAP.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::kind::Kind;
use super::ledger::Ledger;
use super::objects::complete;
use super::pending::Pending;
use super::tokens::Tokens;
use crate::rows::Rows;

pub(super) struct State {
    pub(super) behaviour: Behaviour,
    pub(super) tokens: Tokens,
    pub(super) pending: Vec<Pending>,
    pub(super) ledger: Ledger,
    /// By how much its clock is ahead.
    ahead: Duration,
    rows: HashMap<Kind, Rows>,
    /// How many objects there have ever been.
    serial: u64,
    /// The next address that has never been in a block, of IPv4 and of IPv6.
    pub(super) next_v4: u32,
    pub(super) next_v6: u32,
}

/// 203.0.113.8: so that the first block of eight is the one in the vendor's own examples.
const FIRST_ADDRESS: u32 = 0xcb00_7108;

impl State {
    pub(super) fn new() -> Self {
        Self {
            behaviour: Behaviour::default(),
            tokens: Tokens::new(),
            pending: Vec::new(),
            ledger: Ledger::default(),
            ahead: Duration::ZERO,
            rows: Kind::ALL.map(|kind| (kind, Rows::default())).into(),
            serial: 0,
            next_v4: FIRST_ADDRESS,
            next_v6: 1,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }

    /// The same for people, to the second: `2026-01-02T03:04:05Z`.
    pub(super) fn today(&self) -> String {
        let ahead = SignedDuration::try_from(self.ahead).unwrap_or_default();
        let now = Timestamp::now().saturating_add(ahead).unwrap_or_default();
        now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub(super) fn advance(&mut self, time: Duration) {
        self.ahead += time;
        self.settle();
    }

    pub(super) fn rows(&self, kind: Kind) -> &Rows {
        self.rows.get(&kind).expect("rows of every kind")
    }

    fn rows_mut(&mut self, kind: Kind) -> &mut Rows {
        self.rows.get_mut(&kind).expect("rows of every kind")
    }

    pub(super) fn has(&self, kind: Kind, key: &str) -> bool {
        self.rows(kind).get(key).is_some()
    }

    /// An id as the vendor's are: 24 hexadecimal digits.
    pub(super) fn id(&mut self) -> String {
        self.serial += 1;
        format!("60473c25{:016x}", self.serial)
    }

    /// Something new, as the API would show it; gives its id.
    pub(super) fn add(&mut self, kind: Kind, given: &Value) -> Result<String> {
        let id = given["id"].as_str().map(ToOwned::to_owned);
        let id = id.unwrap_or_else(|| self.id());
        if self.has(kind, &id) {
            bail!("{id}: there is one already");
        }
        let value = complete(self, kind, given, &id)?;
        let network = value["assignedResourceId"].as_str().map(ToOwned::to_owned);
        let now = self.now();
        self.rows_mut(kind).add_at(now, id.clone(), value);
        if let (Kind::Block, Some(network)) = (kind, network) {
            self.enlist(&network, &id);
        }
        Ok(id)
    }

    /// A block is on the list of a network.
    pub(super) fn enlist(&mut self, network: &str, block: &str) {
        let cidr = self.rows(Kind::Block).value(block)["cidr"].clone();
        self.change(Kind::Network, network, |network| {
            let listed = &mut network["ipBlocks"];
            if let Some(listed) = listed.as_array_mut()
                && !listed.iter().any(|listed| listed["id"] == block)
            {
                listed.push(json!({ "id": block, "cidr": cidr }));
            }
        });
    }

    /// Changes an object; whether it is there.
    pub(super) fn change(
        &mut self,
        kind: Kind,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> bool {
        self.rows_mut(kind).change(key, change)
    }

    /// Changes all objects of a kind.
    pub(super) fn change_all(&mut self, kind: Kind, change: impl Fn(&mut Value)) {
        self.rows_mut(kind).change_where(|_| true, change);
    }

    /// Takes an object away, and what was under way with it; whether it was there.
    pub(super) fn remove(&mut self, kind: Kind, key: &str) -> bool {
        if !self.rows_mut(kind).remove(key) {
            return false;
        }
        self.forget(kind, key);
        match kind {
            Kind::Block => self.change_all(Kind::Network, |network| {
                drop_where(&mut network["ipBlocks"], "id", key);
            }),
            Kind::Server => self.change_all(Kind::Network, |network| {
                drop_where(&mut network["memberships"], "resourceId", key);
            }),
            Kind::Tag => {
                for kind in [Kind::Block, Kind::Server] {
                    self.change_all(kind, |tagged| drop_where(&mut tagged["tags"], "id", key));
                }
            }
            Kind::Network | Kind::PeerGroup => {}
        }
        true
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

fn drop_where(list: &mut Value, field: &str, key: &str) {
    if let Some(list) = list.as_array_mut() {
        list.retain(|item| item[field] != key);
    }
}
