//! A load balancer that takes steps, and holds every step against what the cloud permits.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::clouds::cloudscale::api::balancers::{Balancer, Vip};
use crate::clouds::cloudscale::load_balancers::desired::{Desired, DesiredPool};
use crate::clouds::cloudscale::load_balancers::model::MonitorSpec;
use crate::clouds::cloudscale::load_balancers::observed::{
    Listener, Member, Monitor, Observed, Pool,
};
use crate::clouds::cloudscale::load_balancers::step::Step;
use crate::engine::pool::Member as _;
use crate::engine::provider::Observed as _;
use crate::engine::step::{Action, Part, PoolRef};

/// The load balancer that is as wanted: pool `p-0` with members `m-0-0`, monitor `h-0`, listener
/// `l-0`.
pub(in super::super::super) fn built(desired: &Desired) -> Observed {
    let pools = desired.pools.iter().enumerate().map(|(index, pool)| {
        let members = pool.members.iter().enumerate().map(|(nth, spec)| Member {
            id: format!("m-{index}-{nth}"),
            spec: spec.clone(),
        });
        Pool {
            part: Part {
                id: format!("p-{index}"),
                spec: pool.spec.clone(),
            },
            members: members.collect(),
            monitors: vec![Monitor {
                id: format!("h-{index}"),
                spec: pool.monitor.clone(),
            }],
            listeners: vec![Listener {
                id: format!("l-{index}"),
                spec: pool.listener.clone(),
            }],
        }
    });
    Observed {
        balancer: Balancer {
            uuid: "lb".to_owned(),
            name: desired.balancer.name.clone(),
            status: None,
            zone: desired.balancer.zone.clone(),
            flavor: Some(desired.balancer.flavor.clone()),
            vip_addresses: Some(vec![Vip {
                address: "203.0.113.7".to_owned(),
                subnet: None,
            }]),
            tags: desired.balancer.tags.clone(),
            created_at: None,
        },
        pools: pools.collect(),
        loose_listeners: Vec::new(),
        floating_ips: desired.floating_ips.clone(),
    }
}

/// Whether all is as wanted, told by other means than the plan's.
pub(super) fn is_as_wanted(desired: &Desired, observed: &Observed) -> bool {
    let all = desired.pools.iter().all(|wanted| {
        let mut same = observed
            .pools
            .iter()
            .filter(|pool| pool.part.spec == wanted.spec);
        same.next()
            .is_some_and(|pool| is_pool_as_wanted(wanted, pool))
            && same.next().is_none()
    });
    all && observed.pools.len() == desired.pools.len()
        && observed.balancer.name == desired.balancer.name
        && desired.floating_ips.is_subset(&observed.floating_ips)
}

fn is_pool_as_wanted(wanted: &DesiredPool, pool: &Pool) -> bool {
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    // What the cloud does not say is not wrong.
    let said = |member: &Member| {
        let mut spec = member.spec.clone();
        let mut all = wanted.members.iter();
        let same = all.find(|wanted| wanted.target() == spec.target());
        spec.monitor_port = spec
            .monitor_port
            .or(same.and_then(|same| same.monitor_port));
        format!("{spec:?}")
    };
    let actual = pool.members.iter().map(said);
    let members = wanted.members.iter().map(|member| format!("{member:?}"));
    let [monitor] = pool.monitors.as_slice() else {
        return false;
    };
    let [listener] = pool.listeners.as_slice() else {
        return false;
    };
    let spec = &listener.spec;
    sorted(actual.collect()) == sorted(members.collect())
        && is_monitor_as_wanted(&wanted.monitor, &monitor.spec)
        && (&spec.name, spec.place()) == (&wanted.listener.name, wanted.listener.place())
        && spec.allowed_cidrs.len() == wanted.listener.allowed_cidrs.len()
        && spec
            .timeout_client_data_ms
            .is_none_or(|ms| Some(ms) == wanted.listener.timeout_client_data_ms)
}

fn is_monitor_as_wanted(wanted: &MonitorSpec, actual: &MonitorSpec) -> bool {
    let is_http_right = wanted.http.is_none() || wanted.http == actual.http;
    let numbers = |spec: &MonitorSpec| {
        [
            spec.delay_s,
            spec.timeout_s,
            spec.up_threshold,
            spec.down_threshold,
        ]
    };
    wanted.kind == actual.kind && is_http_right && numbers(wanted) == numbers(actual)
}

/// What the cloud has, and how far a plan has come.
pub(in super::super::super) struct Simulation {
    pub(in super::super::super) observed: Observed,
    planned: Vec<String>,
}

impl Simulation {
    pub(in super::super::super) fn of(observed: Observed) -> Self {
        Self {
            observed,
            planned: Vec::new(),
        }
    }

    /// Takes a step, which must be possible.
    pub(in super::super::super) fn take(&mut self, step: &Step) {
        assert!(self.permits(step), "{step} of {:#?}", self.observed);
        let created = Uuid::new_v4().to_string();
        self.observed.take(step, &created, &mut self.planned);
    }

    fn pool(&self, pool: &PoolRef) -> Option<&Pool> {
        let id = pool.id(&self.planned)?;
        self.observed.pools.iter().find(|pool| pool.part.id == id)
    }

    fn listeners(&self) -> impl Iterator<Item = &Listener> {
        let pools = self.observed.pools.iter().flat_map(|pool| &pool.listeners);
        pools.chain(&self.observed.loose_listeners)
    }

    fn permits(&self, step: &Step) -> bool {
        match step {
            Step::CreateBalancer(_) | Step::DeleteBalancer { .. } => false,
            Step::RenameBalancer { from, .. } => *from == self.observed.balancer.name,
            Step::TagBalancer { .. } | Step::AssignFloatingIp { .. } => true,
            Step::Pool(step) => match &step.action {
                Action::Create(_) => step.pool == PoolRef::None,
                Action::Change(part, _) => {
                    self.pool(&step.pool).is_some_and(|pool| pool.part == *part)
                }
                Action::Delete(part, _) => self
                    .pool(&step.pool)
                    .is_some_and(|pool| pool.part == *part && pool.listeners.is_empty()),
            },
            Step::Member(step) => self.pool(&step.pool).is_some_and(|pool| {
                let mut members = pool.members.iter();
                match &step.action {
                    Action::Create(spec) => members.all(|m| m.spec.target() != spec.target()),
                    Action::Change(part, _) | Action::Delete(part, _) => members.any(|m| m == part),
                }
            }),
            Step::Monitor(step) => self.pool(&step.pool).is_some_and(|pool| {
                let mut monitors = pool.monitors.iter();
                match &step.action {
                    Action::Create(_) => monitors.next().is_none(),
                    Action::Change(part, _) | Action::Delete(part, _) => {
                        monitors.any(|m| m.id == part.id)
                    }
                }
            }),
            Step::Listener(step) => match (&step.action, self.pool(&step.pool)) {
                (Action::Create(spec), Some(_)) => {
                    self.listeners().all(|l| l.spec.place() != spec.place())
                }
                (Action::Create(_), None) => false,
                (Action::Change(part, _) | Action::Delete(part, _), Some(pool)) => {
                    pool.listeners.iter().any(|l| l.id == part.id)
                }
                (Action::Change(part, _) | Action::Delete(part, _), None) => {
                    let mut loose = self.observed.loose_listeners.iter();
                    loose.any(|l| l.id == part.id)
                }
            },
        }
    }
}

/// Where the traffic of a port goes: the targets that are given traffic. `None`: there is no
/// listener.
pub(super) fn targets(observed: &Observed, place: (&str, u16)) -> Option<BTreeSet<String>> {
    let serves = |pool: &&Pool| pool.listeners.iter().any(|l| l.spec.place() == place);
    let pool = observed.pools.iter().find(serves)?;
    let enabled = pool.members.iter().filter(|member| member.spec.enabled);
    Some(enabled.map(|m| format!("{:?}", m.spec.target())).collect())
}
