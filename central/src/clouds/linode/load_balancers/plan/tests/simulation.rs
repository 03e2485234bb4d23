//! A NodeBalancer with the firewalls of its account: it takes steps, answers what the API would then show, and
//! holds every step against what the API permits and against whose a firewall is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::super::desired::Desired;
use super::super::super::firewalls::{Firewall, FirewallSpec};
use super::super::super::model::{ConfigSpec, FirewallWish, NodeSpec};
use super::super::super::observed::{Config, Observed};
use super::super::super::step::Step;
use crate::clouds::linode::api::node_balancers::MARKS;
use crate::engine::pool::Member as _;
use crate::engine::provider::{Listed as _, Observed as _};
use crate::engine::step::{Action, Part, PoolRef};

/// The number of the NodeBalancer.
pub(super) const BALANCER: &str = "1";
/// Firewalls that somebody has made by hand.
pub(super) const STRANGE: [u64; 3] = [7, 8, 9];
/// The firewall of the Service's own.
pub(super) const OWN: u64 = 50;

/// A firewall. It protects the NodeBalancer or nothing.
pub(super) fn firewall(id: u64, label: &str, rules: &Value, is_attached: bool) -> Firewall {
    let entities = match is_attached {
        true => json!([{"id": 1, "type": "nodebalancer"}]),
        false => json!([]),
    };
    let firewall =
        json!({"id": id, "label": label, "tags": [], "rules": rules, "entities": entities});
    serde_json::from_value(firewall).unwrap()
}

/// The same for a Service.
pub(super) fn own(id: u64, spec: &FirewallSpec, is_attached: bool) -> Firewall {
    Firewall {
        tags: spec.tags.clone(),
        ..firewall(id, &spec.label, &spec.told_rules(), is_attached)
    }
}

fn strange(id: u64, is_attached: bool) -> Firewall {
    let rules = json!({"inbound": [], "inbound_policy": "DROP"});
    firewall(id, &format!("office-{id}"), &rules, is_attached)
}

/// The NodeBalancer that is as wanted: configs `c0`, with nodes `n00`.
pub(super) fn built(desired: &Desired) -> Observed {
    let tags: Vec<_> = desired.balancer.tags.iter().chain(&desired.marks).collect();
    let balancer = json!({
        "id": 1, "label": desired.balancer.label, "hostname": "nb.example", "ipv4": "203.0.113.7",
        "client_conn_throttle": desired.balancer.throttle, "type": desired.balancer.kind, "tags": tags,
    });
    let configs = desired.configs.iter().enumerate();
    let configs = configs.map(|(index, config)| Config {
        part: Part {
            id: format!("c{index}"),
            spec: shown(&config.spec),
        },
        fingerprint: String::new(),
        nodes: parts(&format!("n{index}"), &config.nodes),
    });
    let attached = match &desired.firewall {
        FirewallWish::None => None,
        FirewallWish::Id(id) => Some(strange(*id, true)),
        FirewallWish::Own(spec) => Some(own(OWN, spec, true)),
    };
    Observed {
        balancer: serde_json::from_value(balancer).unwrap(),
        configs: configs.collect(),
        attached: attached.into_iter().collect(),
        loose: Vec::new(),
        may_list: true,
    }
}

fn parts(prefix: &str, nodes: &[NodeSpec]) -> Vec<Part<NodeSpec>> {
    let nodes = nodes.iter().enumerate();
    let part = |(index, spec): (usize, &NodeSpec)| Part {
        id: format!("{prefix}{index}"),
        spec: NodeSpec {
            subnet: None,
            ..spec.clone()
        },
    };
    nodes.map(part).collect()
}

/// What the API shows of a config that it was told: it has values of its own for what it was not told.
pub(super) fn shown(spec: &ConfigSpec) -> ConfigSpec {
    let text = |told: &Option<String>| Some(told.clone().unwrap_or_default());
    ConfigSpec {
        check_path: text(&spec.check_path),
        check_body: text(&spec.check_body),
        stickiness: spec.stickiness.clone().or_else(|| Some("none".to_owned())),
        udp_check_port: spec.udp_check_port.or(Some(80)),
        ..spec.clone()
    }
}

/// What the cloud has, and how far a plan has come.
pub(super) struct Simulation {
    pub(super) observed: Observed,
    /// All firewalls of the account.
    firewalls: BTreeMap<u64, Firewall>,
    /// Those that were made for the Service.
    ours: BTreeSet<u64>,
    planned: Vec<String>,
    made: u64,
}

impl Simulation {
    /// `ours`: the firewalls that were made for the Service.
    pub(super) fn of(observed: Observed, ours: impl IntoIterator<Item = u64>) -> Self {
        let there = observed.attached.iter().chain(&observed.loose).cloned();
        let all = STRANGE
            .map(|id| strange(id, false))
            .into_iter()
            .chain(there);
        Self {
            firewalls: all.map(|firewall| (firewall.id, firewall)).collect(),
            observed,
            ours: ours.into_iter().collect(),
            planned: Vec::new(),
            made: 100,
        }
    }

    /// Another plan begins.
    pub(super) fn begins(&mut self) {
        self.planned.clear();
    }

    /// Takes a step, which must be possible and permitted.
    pub(super) fn take(&mut self, step: &Step) {
        assert!(self.permits(step), "{step} of {:#?}", self.observed);
        self.made += 1;
        let made = self.made.to_string();
        match step {
            Step::CreateConfig(spec) => self.observed.configs.push(Config {
                part: Part {
                    id: made.clone(),
                    spec: shown(spec),
                },
                fingerprint: String::new(),
                nodes: Vec::new(),
            }),
            Step::FillConfig { pool, nodes, .. } => {
                let nodes = parts(&format!("{made}-"), nodes);
                self.config_mut(pool).unwrap().nodes = nodes;
            }
            Step::CreateFirewall(spec) => {
                self.firewalls
                    .insert(self.made, own(self.made, spec, false));
                self.ours.insert(self.made);
            }
            Step::ChangeRules { id, spec, .. } => self.firewalls.get_mut(id).unwrap().take(spec),
            Step::MarkFirewall { id, tags, .. } => {
                self.firewalls.get_mut(id).unwrap().tags.clone_from(tags);
            }
            Step::DeleteFirewall { id, .. } => drop(self.firewalls.remove(id)),
            Step::Attach { firewall, .. } => {
                for firewall in self.firewalls.values_mut() {
                    firewall.entities.clear();
                }
                if let Some(id) = firewall.as_ref().map(|firewall| self.number(firewall)) {
                    let there = &strange(id, true).entities;
                    self.firewalls
                        .get_mut(&id)
                        .unwrap()
                        .entities
                        .clone_from(there);
                }
            }
            _ => {}
        }
        self.observed.take(step, &made, &mut self.planned);
        self.look_at_firewalls();
    }

    /// How many firewalls are ours and do not protect it.
    pub(super) fn left_over(&self, balancer: &str) -> usize {
        let all = self.firewalls.values();
        let ours = all.filter(|firewall| self.ours.contains(&firewall.id));
        ours.filter(|firewall| !firewall.protects(balancer)).count()
    }

    /// What is observed of them.
    fn look_at_firewalls(&mut self) {
        let owner = self.observed.balancer.owner();
        let all = self.firewalls.values().cloned();
        let (attached, others): (Vec<_>, Vec<_>) = all.partition(|one| one.protects(BALANCER));
        let is_own = |one: &Firewall| {
            let mark = MARKS.owner(&one.tags);
            mark.is_some() && mark == owner
        };
        let loose: Vec<Firewall> = others.into_iter().filter(is_own).collect();
        (self.observed.attached, self.observed.loose) = (attached, loose);
    }

    fn number(&self, firewall: &PoolRef) -> u64 {
        firewall.id(&self.planned).unwrap().parse().unwrap()
    }

    fn config_mut(&mut self, pool: &PoolRef) -> Option<&mut Config> {
        let id = pool.id(&self.planned)?;
        self.observed
            .configs
            .iter_mut()
            .find(|config| config.part.id == id)
    }

    fn config(&self, pool: &PoolRef) -> Option<&Config> {
        let id = pool.id(&self.planned)?;
        self.observed
            .configs
            .iter()
            .find(|config| config.part.id == id)
    }

    fn permits(&self, step: &Step) -> bool {
        let config = |id: &str| self.config(&PoolRef::Known(id.to_owned()));
        match step {
            Step::CreateBalancer(_) | Step::DeleteBalancer { .. } | Step::Release { .. } => false,
            Step::ChangeBalancer { throttle, tags } => throttle.is_some() || tags.is_some(),
            Step::CreateConfig(spec) => {
                let mut configs = self.observed.configs.iter();
                configs.all(|config| config.part.spec.place() != spec.place())
            }
            Step::FillConfig { pool, spec, .. } => self
                .config(pool)
                .is_some_and(|config| config.part.spec == shown(spec)),
            Step::ChangeConfig { id, spec, .. } => {
                config(id).is_some_and(|config| config.part.spec.place() == spec.place())
            }
            Step::DeleteConfig { id, .. } => config(id).is_some(),
            Step::Node(step) => self.config(&step.pool).is_some_and(|config| {
                let mut nodes = config.nodes.iter();
                match &step.action {
                    Action::Create(spec) => nodes.all(|node| node.spec.target() != spec.target()),
                    Action::Change(part, _) | Action::Delete(part, _) => {
                        nodes.any(|node| node == part)
                    }
                }
            }),
            Step::CreateFirewall(spec) => {
                let mut all = self.firewalls.values();
                all.all(|firewall| firewall.label != spec.label)
            }
            Step::ChangeRules { id, .. } | Step::MarkFirewall { id, .. } => {
                self.firewalls.contains_key(id) && self.ours.contains(id)
            }
            Step::Attach { firewall, .. } => {
                let id = firewall.as_ref().map(|firewall| self.number(firewall));
                id.is_none_or(|id| self.firewalls.contains_key(&id))
            }
            Step::DeleteFirewall { id, .. } => {
                let there = self.firewalls.get(id);
                self.ours.contains(id) && there.is_some_and(|there| there.entities.is_empty())
            }
        }
    }
}
