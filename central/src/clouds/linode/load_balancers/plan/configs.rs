//! Configs and their nodes: what comes, what changes, what goes.

use std::sync::Arc;

use super::super::desired::{Desired, DesiredConfig};
use super::super::model::OF_CONFIGS;
use super::super::observed::{Config, Observed};
use super::super::step::{Step, shown};
use crate::cloud_provider::load_balancers::InvalidField;
use crate::cloud_provider::secrets::TlsSecret;
use crate::engine::change::{Change, changes};
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
        if wanted.fault.is_none() {
            steps.extend(changed(actual, wanted));
        }
        let pool = actual.part.reference();
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

/// Why configs cannot be served that have no certificate so far, if there are such.
pub(super) fn without_certificate(
    desired: &Desired,
    observed: Option<&Observed>,
) -> Vec<InvalidField> {
    let presents = |wanted: &DesiredConfig| {
        let actual = observed.and_then(|observed| find(observed, wanted));
        actual.is_some_and(|actual| actual.part.spec.protocol == wanted.spec.protocol)
    };
    let lacking = desired.configs.iter().filter(|config| !presents(config));
    lacking.filter_map(|config| config.fault.clone()).collect()
}

/// The config that serves the same port, of the same of the two families.
fn find<'a>(observed: &'a Observed, wanted: &DesiredConfig) -> Option<&'a Config> {
    let mut configs = observed.configs.iter();
    configs.find(|config| config.part.spec.place() == wanted.spec.place())
}

/// The change of a config, if it is not as it is wanted.
fn changed(actual: &Config, wanted: &DesiredConfig) -> Option<Step> {
    let spec = &actual.part.spec;
    let filled = wanted.spec.over(spec);
    let changes = changes(spec, &filled, OF_CONFIGS);
    let presents = |tls: &Arc<TlsSecret>| match &spec.tls {
        Some(known) => known == tls,
        None => tls.is_shown_as(&actual.fingerprint),
    };
    let is_renewed = filled.tls.as_ref().is_some_and(|tls| !presents(tls));
    let words = changes.iter().map(ToString::to_string);
    let words = words.chain(is_renewed.then(|| "the certificate".to_owned()));
    let what: Vec<String> = words.collect();
    (!what.is_empty()).then(|| Step::ChangeConfig {
        id: actual.part.id.clone(),
        spec: Box::new(wanted.spec.clone()),
        what: what.join(", "),
        impact: changes.iter().map(Change::impact).max().unwrap_or_default(),
    })
}
