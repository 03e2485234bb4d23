//! The health monitors of the pools.

use super::members::Changes;
use super::pools::Pair;
use crate::clouds::cloudscale::load_balancers::model::HttpSpec;
use crate::clouds::cloudscale::load_balancers::observed::Monitor;
use crate::clouds::cloudscale::load_balancers::step::{MonitorChange, Step};

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
        Some(kept) => steps.extend(changes(pair, kept)),
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

fn changes(pair: &Pair<'_>, monitor: &Monitor) -> Vec<Step> {
    let (actual, wanted) = (&monitor.spec, &pair.wanted.monitor);
    let number = |actual: Option<u32>, wanted: Option<u32>| {
        wanted.filter(|wanted| actual.is_some_and(|actual| actual != *wanted))
    };
    let numbers = [
        number(actual.delay_s, wanted.delay_s).map(MonitorChange::DelayS),
        number(actual.timeout_s, wanted.timeout_s).map(MonitorChange::TimeoutS),
        number(actual.up_threshold, wanted.up_threshold).map(MonitorChange::UpThreshold),
        number(actual.down_threshold, wanted.down_threshold).map(MonitorChange::DownThreshold),
    ];
    let http = match (&actual.http, &wanted.http) {
        (Some(actual), Some(wanted)) => http_changes(actual, wanted),
        _ => Vec::new(),
    };
    let all = http.into_iter().chain(numbers.into_iter().flatten());
    let patch = |change| Step::PatchMonitor {
        pool: pair.pool.clone(),
        uuid: monitor.uuid.clone(),
        change,
    };
    all.map(patch).collect()
}

fn http_changes(actual: &HttpSpec, wanted: &HttpSpec) -> Vec<MonitorChange> {
    let host = (actual.host != wanted.host).then(|| MonitorChange::HttpHost(wanted.host.clone()));
    let path = (actual.url_path != wanted.url_path)
        .then(|| MonitorChange::HttpPath(wanted.url_path.clone()));
    let method =
        (actual.method != wanted.method).then(|| MonitorChange::HttpMethod(wanted.method.clone()));
    let codes = (actual.expected_codes != wanted.expected_codes)
        .then(|| MonitorChange::HttpExpectedCodes(wanted.expected_codes.clone()));
    [host, path, method, codes].into_iter().flatten().collect()
}
