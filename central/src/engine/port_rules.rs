//! Rules of a firewall that permit some ports each: whatever stays permitted is so at every moment.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use mooring_common::engine::Impact;
use serde::Serialize;

use super::resource_step::ResourceStep;
use super::step::{Part, PoolRef};
use crate::cloud_api::{Resource, body};

/// A rule as a cloud has it.
pub trait PortRule: Clone + Serialize {
    /// The ports and ranges of them: `80,443`.
    fn ports(&self) -> &str;
    /// The same for other ports.
    fn with_ports(&self, ports: String) -> Self;
    /// Whether both are the same but for the ports.
    fn is_alike(&self, other: &Self) -> bool;
}

/// What is done about one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit<R> {
    /// It is made.
    Create(R),
    /// The rule of this identifier is like this one then. The impact is what users notice until the next step is
    /// done.
    Change(String, R, Impact),
    /// It is taken away.
    Delete(Part<R>),
}

impl<R: PortRule + Display> Edit<R>
where
    Part<R>: Resource,
{
    /// The step. A new rule says in this field what it belongs to.
    pub fn step(&self, field: &'static str, of: &PoolRef) -> ResourceStep {
        let words = self.to_string();
        match self {
            Self::Create(rule) => {
                ResourceStep::create::<Part<R>>(words, body(rule)).naming(field, of)
            }
            Self::Change(id, rule, impact) => {
                ResourceStep::change::<Part<R>>(id, words, body(rule)).with_impact(*impact)
            }
            Self::Delete(rule) => ResourceStep::delete(rule, words),
        }
    }
}

/// Where rules say what they permit.
impl<R: Display> Display for Edit<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(rule) => write!(f, "permit {rule}"),
            Self::Change(id, rule, _) => write!(f, "let firewall rule {id} permit {rule}"),
            Self::Delete(Part { id, spec }) => write!(f, "delete firewall rule {id} ({spec})"),
        }
    }
}

/// As few lists as hold these ports, each once and in this order, of which a rule can have `most`.
pub fn packed(ports: impl Iterator<Item = u16>, most: usize) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for port in ports.map(|port| port.to_string()) {
        if !all.contains(&port) {
            all.push(port);
        }
    }
    all.chunks(most).map(|ports| ports.join(",")).collect()
}

/// What leads from the rules that are there to those that are wanted: what is done before the ports are used, and
/// what is done once the others are used no more. A rule can have `most` ports.
pub fn edits<R: PortRule>(
    there: impl Iterator<Item = Part<R>>,
    wanted: &[R],
    most: usize,
) -> [Vec<Edit<R>>; 2] {
    let mut there: Vec<Part<R>> = there.collect();
    let mut wanted: Vec<&R> = wanted.iter().collect();
    wanted.retain(|rule| {
        let is_same = |one: &R| one.is_alike(rule) && set(one) == set(*rule);
        taken(&mut there, is_same).is_none()
    });
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for rule in wanted {
        let Some(changed) = taken(&mut there, |one| one.is_alike(rule)) else {
            first.push(Edit::Create(rule.clone()));
            continue;
        };
        let (before, after) = (set(&changed.spec), set(rule));
        let both: Vec<&str> = before.union(&after).copied().collect();
        let are_too_many = both.len() > most;
        let impact = if are_too_many {
            Impact::Brief
        } else {
            Impact::None
        };
        let exact = Edit::Change(changed.id.clone(), rule.clone(), impact);
        if before.is_subset(&after) || are_too_many {
            first.push(exact);
            continue;
        }
        if !after.is_subset(&before) {
            let wide = rule.with_ports(both.join(","));
            first.push(Edit::Change(changed.id.clone(), wide, impact));
        }
        last.push(exact);
    }
    last.extend(there.into_iter().map(Edit::Delete));
    [first, last]
}

/// The first of these that is like this is taken out.
fn taken<R>(rules: &mut Vec<Part<R>>, is_it: impl Fn(&R) -> bool) -> Option<Part<R>> {
    let place = rules.iter().position(|rule| is_it(&rule.spec))?;
    Some(rules.remove(place))
}

fn set(rule: &impl PortRule) -> BTreeSet<&str> {
    rule.ports().split(',').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PortRule for (&'static str, String) {
        fn ports(&self) -> &str {
            &self.1
        }

        fn with_ports(&self, ports: String) -> Self {
            (self.0, ports)
        }

        fn is_alike(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    /// Rules from `a:80,443 b:22`, and the edits in words.
    fn edited(there: &str, wanted: &str) -> [Vec<String>; 2] {
        let rules = |text: &'static str| {
            let rules = text.split_whitespace().map(|rule| {
                let (from, ports) = rule.split_once(':').unwrap();
                (from, ports.to_owned())
            });
            rules.collect::<Vec<_>>()
        };
        let (there, wanted) = (
            rules(there.to_owned().leak()),
            rules(wanted.to_owned().leak()),
        );
        let there = there.into_iter().enumerate().map(|(place, spec)| Part {
            id: place.to_string(),
            spec,
        });
        edits(there, &wanted, 3).map(|edits| {
            let words = edits.iter().map(|edit| match edit {
                Edit::Create((from, ports)) => format!("+{from}:{ports}"),
                Edit::Change(id, (from, ports), Impact::None) => format!("{id}={from}:{ports}"),
                Edit::Change(id, (from, ports), _) => format!("{id}!{from}:{ports}"),
                Edit::Delete(rule) => format!("-{}", rule.id),
            });
            words.collect()
        })
    }

    #[test]
    fn what_stays_permitted_is_so_at_every_moment() {
        for (there, wanted, first, last) in [
            ("a:1,2", "a:2,1", &[][..], &[][..]),
            ("", "a:1", &["+a:1"], &[]),
            ("a:1", "", &[], &["-0"]),
            ("a:1", "b:1", &["+b:1"], &["-0"]),
            ("a:1", "a:1,2", &["0=a:1,2"], &[]),
            ("a:1,2", "a:1", &[], &["0=a:1"]),
            ("a:1,2", "a:2,3", &["0=a:1,2,3"], &["0=a:2,3"]),
            // Both together have no place.
            ("a:1,2", "a:3,4", &["0!a:3,4"], &[]),
            ("a:1 a:2", "a:2", &[], &["-0"]),
        ] {
            assert_eq!(edited(there, wanted), [first, last], "{there} to {wanted}");
        }
    }

    #[test]
    fn each_port_is_packed_once() {
        assert_eq!(packed([3, 1, 3, 2, 4].into_iter(), 3), ["3,1,2", "4"]);
    }
}
