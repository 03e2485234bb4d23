//! The health monitors of the pools.

use mooring_common::engine::Impact;

use super::super::model::{MemberSpec, OF_MONITORS};
use super::super::observed::Monitor;
use super::super::step::Step;
use super::pools::Pair;
use crate::engine::change::changes;
use crate::engine::pool::MemberChanges;
use crate::engine::step::PartStep;

/// The changes of a pool's monitor, and in their midst those of its members.
///
/// Where a monitor is replaced and members are to be asked on another port, it goes first and comes
/// back last: without one all members count as healthy, and with the wrong one all that are asked on
/// the other port count as dead.
pub(super) fn around(pair: &Pair<'_>, members: &MemberChanges<'_, MemberSpec>) -> Vec<Step> {
    if must_wait(pair, members) {
        return Vec::new();
    }
    let all = pair.actual.map(|pool| pool.monitors.as_slice());
    let all = all.unwrap_or_default();
    let same = |monitor: &&Monitor| monitor.spec.can_become(&pair.wanted.monitor);
    let kept = all.iter().find(same);
    let unwanted = all.iter().filter(|monitor| Some(*monitor) != kept);
    let deletions = unwanted.map(|part| PartStep::delete(&pair.pool, part, Impact::None));
    let mut deletions: Vec<Step> = deletions.map(Step::Monitor).collect();

    let mut steps = Vec::new();
    if move_monitor_port(members) {
        steps.append(&mut deletions);
    }
    let joins = members.joins_and_replacements();
    steps.extend(joins.into_iter().map(Step::Member));
    steps.append(&mut deletions);
    match kept {
        Some(kept) => {
            let all = changes(&kept.spec, &pair.wanted.monitor, OF_MONITORS).into_iter();
            let patches = all.map(|change| PartStep::change(&pair.pool, kept, change));
            steps.extend(patches.map(Step::Monitor));
        }
        None => steps.push(Step::Monitor(PartStep::create(
            &pair.pool,
            &pair.wanted.monitor,
        ))),
    }
    steps
}

/// Whether members change the port on which they are asked for their health.
fn move_monitor_port(members: &MemberChanges<'_, MemberSpec>) -> bool {
    let mut replaced = members.replaced.iter();
    replaced.any(|(old, new)| old.spec.monitor_port != new.monitor_port)
}

/// Whether members that are kept, since they may be right, would be asked for their health where
/// nothing answers the new monitor, so that nothing is done yet.
pub(super) fn must_wait(pair: &Pair<'_>, members: &MemberChanges<'_, MemberSpec>) -> bool {
    let Some(monitor) = pair.actual.and_then(|pool| pool.monitors.first()) else {
        return false;
    };
    let is_asked_there = |port| {
        let mut wanted = pair.wanted.members.iter();
        wanted.any(|wanted| wanted.monitor_port == port)
    };
    let mut kept = members.kept.iter().filter(|member| member.spec.enabled);
    !monitor.spec.can_become(&pair.wanted.monitor)
        && !kept.all(|member| is_asked_there(member.spec.monitor_port))
}
