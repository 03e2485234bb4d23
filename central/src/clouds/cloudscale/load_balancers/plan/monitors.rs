//! The health monitors of the pools.

use super::members::Changes;
use super::pools::Pair;
use crate::clouds::cloudscale::load_balancers::change::{OF_MONITORS, changes};
use crate::clouds::cloudscale::load_balancers::observed::Monitor;
use crate::clouds::cloudscale::load_balancers::step::Step;

/// The changes of a pool's monitor, and in their midst those of its members.
///
/// Where a monitor is replaced and members are to be asked on another port, it goes first and comes
/// back last: without one all members count as healthy, and with the wrong one all that are asked on
/// the other port count as dead.
pub(super) fn around(pair: &Pair<'_>, members: &Changes<'_>) -> Vec<Step> {
    if members.must_wait {
        return Vec::new();
    }
    let all = pair.actual.map(|pool| pool.monitors.as_slice());
    let all = all.unwrap_or_default();
    let same = |monitor: &&Monitor| monitor.spec.can_become(&pair.wanted.monitor);
    let kept = all.iter().find(same);
    let is_kept = |monitor: &&Monitor| kept.is_some_and(|kept| kept.uuid == monitor.uuid);
    let unwanted = all.iter().filter(|monitor| !is_kept(monitor));
    let mut deletions: Vec<Step> = unwanted.map(|monitor| delete(pair, monitor)).collect();

    let mut steps = Vec::new();
    if members.move_monitor_port() {
        steps.append(&mut deletions);
    }
    steps.extend(members.joins_and_replacements());
    steps.append(&mut deletions);
    match kept {
        Some(kept) => steps.extend(patches(pair, kept)),
        None => steps.push(Step::CreateMonitor {
            pool: pair.pool.clone(),
            monitor: pair.wanted.monitor.clone(),
        }),
    }
    steps
}

fn delete(pair: &Pair<'_>, monitor: &Monitor) -> Step {
    Step::DeleteMonitor {
        pool: pair.pool.clone(),
        uuid: monitor.uuid.clone(),
        kind: monitor.spec.kind.clone(),
    }
}

fn patches(pair: &Pair<'_>, monitor: &Monitor) -> impl Iterator<Item = Step> {
    let all = changes(&monitor.spec, &pair.wanted.monitor, OF_MONITORS);
    all.into_iter().map(|change| Step::PatchMonitor {
        pool: pair.pool.clone(),
        uuid: monitor.uuid.clone(),
        change,
    })
}
