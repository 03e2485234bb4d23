//! Configs and their nodes: what comes, what changes, what goes.

use std::sync::Arc;

use mooring_common::engine::Impact;

use super::super::certificates;
use super::super::desired::{Desired, DesiredConfig};
use super::super::model::ConfigSpec;
use super::super::observed::{Config, Observed};
use super::super::step::{Step, shown};
use crate::cloud_provider::secrets::TlsSecret;
use crate::engine::pool::MemberChanges;
use crate::engine::step::PoolRef;

/// What is to be done about them. `planned`: how many parts the steps before make.
pub(super) fn steps(desired: &Desired, observed: &Observed, planned: usize) -> Vec<Step> {
    let mut planned = planned..;
    let mut steps = Vec::new();
    let mut going = Vec::new();
    for wanted in &desired.configs {
        let Some(actual) = find(observed, wanted) else {
            steps.push(Step::CreateConfig(Box::new(wanted.spec.clone())));
            steps.push(Step::FillConfig {
                pool: planned.next().map_or(PoolRef::None, PoolRef::Planned),
                spec: Box::new(wanted.spec.clone()),
                nodes: wanted.nodes.clone(),
            });
            continue;
        };
        steps.extend(changed(actual, wanted));
        let pool = actual.reference();
        let nodes = actual.nodes.iter();
        let nodes = MemberChanges::of(&pool, nodes, &wanted.nodes, desired.members_are_complete);
        steps.extend(nodes.joins_and_replacements().into_iter().map(Step::Node));
        going.extend(nodes.disabled().map(Step::Node));
        going.extend(nodes.leaves().into_iter().map(Step::Node));
    }
    steps.extend(going);
    let is_wanted = |config: &&Config| {
        let mut wanted = desired.configs.iter();
        wanted.any(|wanted| {
            find(observed, wanted).map(|found| &found.part.id) == Some(&config.part.id)
        })
    };
    let unwanted = observed.configs.iter().filter(|config| !is_wanted(config));
    steps.extend(unwanted.map(|config| Step::DeleteConfig {
        id: config.part.id.clone(),
        place: shown(&config.part.spec),
    }));
    steps
}

/// The config that serves the same port, of the same of the two families.
fn find<'a>(observed: &'a Observed, wanted: &DesiredConfig) -> Option<&'a Config> {
    let mut configs = observed.configs.iter();
    configs.find(|config| config.part.spec.place() == wanted.spec.place())
}

/// The change of a config, if it is not as it is wanted.
fn changed(actual: &Config, wanted: &DesiredConfig) -> Option<Step> {
    let what = differences(actual, &wanted.spec);
    if what.is_empty() {
        return None;
    }
    let breaks = what.iter().any(|(_, breaks)| *breaks);
    let words: Vec<&str> = what.iter().map(|(word, _)| word.as_str()).collect();
    Some(Step::ChangeConfig {
        id: actual.part.id.clone(),
        spec: Box::new(wanted.spec.clone()),
        what: words.join(", "),
        impact: if breaks {
            Impact::Considerable
        } else {
            Impact::None
        },
    })
}

/// What differs, in words, and whether connections end by it.
fn differences(config: &Config, wanted: &ConfigSpec) -> Vec<(String, bool)> {
    let actual = &config.part.spec;
    let mut all = Vec::new();
    let mut compare = |name: &str, actual: String, wanted: String, breaks: bool| {
        if actual != wanted {
            all.push((format!("{name} to {wanted}"), breaks));
        }
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    compare(
        "protocol",
        actual.protocol.clone(),
        wanted.protocol.clone(),
        true,
    );
    compare(
        "proxy protocol",
        actual.proxy_protocol.clone(),
        wanted.proxy_protocol.clone(),
        true,
    );
    compare(
        "algorithm",
        actual.algorithm.clone(),
        wanted.algorithm.clone(),
        false,
    );
    if wanted.stickiness.is_some() {
        compare(
            "stickiness",
            text(&actual.stickiness),
            text(&wanted.stickiness),
            false,
        );
    }
    compare("check", actual.check.clone(), wanted.check.clone(), false);
    if wanted.check != "none" {
        for (name, actual, wanted) in [
            (
                "check interval",
                actual.check_interval,
                wanted.check_interval,
            ),
            ("check timeout", actual.check_timeout, wanted.check_timeout),
            (
                "check attempts",
                actual.check_attempts,
                wanted.check_attempts,
            ),
        ] {
            compare(name, actual.to_string(), wanted.to_string(), false);
        }
    }
    if wanted.check_path.is_some() {
        compare(
            "check path",
            text(&actual.check_path),
            text(&wanted.check_path),
            false,
        );
    }
    if wanted.check_body.is_some() {
        compare(
            "check body",
            text(&actual.check_body),
            text(&wanted.check_body),
            false,
        );
    }
    compare(
        "passive check",
        actual.check_passive.to_string(),
        wanted.check_passive.to_string(),
        false,
    );
    if let (Some(wanted), actual) = (wanted.udp_check_port, actual.udp_check_port) {
        let actual = actual.unwrap_or_default();
        compare(
            "UDP check port",
            actual.to_string(),
            wanted.to_string(),
            false,
        );
    }
    let presents = |tls: &Arc<TlsSecret>| match &actual.tls {
        Some(known) => known == tls,
        None => certificates::is_shown(tls, &config.fingerprint),
    };
    if wanted.tls.as_ref().is_some_and(|tls| !presents(tls)) {
        all.push(("the certificate".to_owned(), false));
    }
    all
}
