//! Selectors joined. MetalLB takes what any of several selectors matches; an L2Network has one selector, of which
//! all parts must match.

use std::collections::BTreeMap;

pub(super) use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::core::{Selector, SelectorExt};

/// The label that every namespace has with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// What several selectors come to as one.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Joined {
    /// It selects everything.
    Everything,
    /// It selects what any of them selects.
    Exact(LabelSelector),
    /// No one selector does; this is the first of them, which selects less.
    First(LabelSelector),
}

/// Namespaces by their names; `In` or `NotIn`.
pub(super) fn namespaces(operator: &str, names: &[String]) -> LabelSelector {
    one_of(NAMESPACE_NAME, operator, names.to_vec())
}

fn one_of(key: &str, operator: &str, values: Vec<String>) -> LabelSelector {
    LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values),
        }]),
        match_labels: None,
    }
}

/// What any of the selectors matches. None at all: everything.
pub(super) fn any_of(selectors: &[LabelSelector]) -> Joined {
    let mut distinct: Vec<&LabelSelector> = Vec::new();
    for selector in selectors {
        if is_empty(selector) {
            return Joined::Everything;
        }
        if !distinct.contains(&selector) {
            distinct.push(selector);
        }
    }
    let Some(first) = distinct.first() else {
        return Joined::Everything;
    };
    if distinct.len() == 1 {
        return Joined::Exact((*first).clone());
    }
    let parts: Option<Vec<_>> = distinct.iter().map(|one| values_of(one)).collect();
    let Some(parts) = parts else {
        return Joined::First((*first).clone());
    };
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, more) in parts {
        values.entry(key).or_default().extend(more);
    }
    match values.pop_first() {
        Some((key, mut all)) if values.is_empty() => {
            all.sort();
            all.dedup();
            Joined::Exact(one_of(&key, "In", all))
        }
        _ => Joined::First((*first).clone()),
    }
}

/// The values that a selector permits to the one label that it is about.
fn values_of(selector: &LabelSelector) -> Option<(String, Vec<String>)> {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| (key.clone(), vec![value.clone()]));
    let mut all: Vec<_> = labels.collect();
    for one in selector.match_expressions.iter().flatten() {
        if one.operator != "In" {
            return None;
        }
        all.push((one.key.clone(), one.values.clone()?));
    }
    match <[_; 1]>::try_from(all) {
        Ok([one]) => Some(one),
        Err(_) => None,
    }
}

/// What both selectors match.
pub(super) fn both(
    one: Option<LabelSelector>,
    other: Option<LabelSelector>,
) -> Option<LabelSelector> {
    let (Some(mut one), Some(other)) = (one.clone(), other.clone()) else {
        return one.or(other);
    };
    let mut expressions = one.match_expressions.take().unwrap_or_default();
    expressions.extend(other.match_expressions.unwrap_or_default());
    let mut labels = one.match_labels.take().unwrap_or_default();
    for (key, value) in other.match_labels.unwrap_or_default() {
        match labels.get(&key) {
            Some(there) if *there != value => expressions.push(LabelSelectorRequirement {
                key,
                operator: "In".to_owned(),
                values: Some(vec![value]),
            }),
            _ => {
                labels.insert(key, value);
            }
        }
    }
    Some(LabelSelector {
        match_expressions: Some(expressions).filter(|all| !all.is_empty()),
        match_labels: Some(labels).filter(|all| !all.is_empty()),
    })
}

fn is_empty(selector: &LabelSelector) -> bool {
    let expressions = selector.match_expressions.iter().flatten().count();
    expressions + selector.match_labels.iter().flatten().count() == 0
}

/// Whether a selector matches these labels. One that cannot be read matches nothing.
pub(super) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn selector(value: Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn one_label_with_several_values_is_one_selector() {
        let host = |name: &str| selector(json!({"matchLabels": {"kubernetes.io/hostname": name}}));
        let racks = selector(json!({"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n3", "n1"]}]}));
        let Joined::Exact(all) = any_of(&[host("n2"), host("n1"), host("n2"), racks]) else {
            panic!()
        };
        let expected = one_of(
            "kubernetes.io/hostname",
            "In",
            ["n1", "n2", "n3"].map(Into::into).into(),
        );
        assert_eq!(all, expected);
        assert_eq!(any_of(&[]), Joined::Everything);
        assert_eq!(
            any_of(&[host("n1"), LabelSelector::default()]),
            Joined::Everything
        );
    }

    #[test]
    fn selectors_about_several_labels_are_not_one() {
        let (a, b) = (
            json!({"matchLabels": {"a": "1"}}),
            json!({"matchLabels": {"b": "1"}}),
        );
        let exists = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        for other in [b, exists] {
            let joined = any_of(&[selector(a.clone()), selector(other)]);
            assert_eq!(joined, Joined::First(selector(a.clone())));
        }
    }

    #[test]
    fn both_keeps_what_contradicts() {
        let joined = both(
            Some(selector(json!({"matchLabels": {"a": "1"}}))),
            Some(selector(json!({"matchLabels": {"a": "2", "b": "3"}}))),
        );
        let joined = joined.unwrap();
        let labels = |a: &str| {
            [("a", a), ("b", "3")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into()
        };
        assert!(!matches(&joined, &labels("1")) && !matches(&joined, &labels("2")));
        assert_eq!(both(None, None), None);
    }
}
