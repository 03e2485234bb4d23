//! On which interface of a Node a segment is: a list of names and patterns.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::KubeSchema;
use kube::core::{Selector, SelectorExt};
use serde::{Deserialize, Serialize};

use super::{L2NetworkSpec, Segment, pools, rules};

/// An interface that the segment may be on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SegmentInterface {
    /// Its name, such as `eth0`, or a pattern: `*` stands for any characters, `?` for one. Of several
    /// interfaces that it matches, the one with an address in a subnet of the network is taken.
    #[schemars(length(min = 1, max = 15))]
    #[x_kube(validation = rules::interface_can_be_read())]
    pub name: String,
    /// On which Nodes this entry counts, by their labels. Absent: on all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
}

/// An entry of `spec.interfaces` that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfaceEntry {
    /// Which interfaces it means.
    pub pattern: InterfacePattern,
    /// On which Nodes it counts.
    nodes: Selector,
}

/// The name of an interface, or a pattern of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfacePattern(String);

impl InterfacePattern {
    /// Reads one; `None` if no interface can have such a name.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let is_bad = |letter: char| letter.is_whitespace() || matches!(letter, '/' | ':');
        let fits = (1..=15).contains(&text.len());
        (fits && !text.contains(is_bad)).then(|| Self(text.to_owned()))
    }

    /// Whether it means the interface of this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Both are of 15 bytes at most, so that trying every length that `*` may stand for costs nothing.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), None) => matches(rest, name),
        (Some((b'*', rest)), Some((_, shorter))) => {
            matches(rest, name) || matches(pattern, shorter)
        }
        (Some((letter, rest)), Some((other, shorter))) => {
            (*letter == b'?' || letter == other) && matches(rest, shorter)
        }
        _ => false,
    }
}

impl Segment {
    /// The segment as it is on a Node with these labels: with the entries for its interface that count there.
    #[must_use]
    pub fn on_node(&self, labels: &BTreeMap<String, String>) -> Cow<'_, Self> {
        let Some(entries) = &self.interfaces else {
            return Cow::Borrowed(self);
        };
        let counts = |entry: &&InterfaceEntry| entry.nodes.matches(labels);
        let entries = entries.iter().filter(counts).cloned();
        Cow::Owned(Self {
            interfaces: Some(entries.collect()),
            ..self.clone()
        })
    }
}

/// The entries of `spec.interfaces`; `None`: there is no such list.
pub(super) fn read(spec: &L2NetworkSpec, faults: &mut Vec<String>) -> Option<Vec<InterfaceEntry>> {
    if let Some(parent) = &spec.parent
        && !spec.interfaces.is_empty()
    {
        faults.push(format!(
            "spec.parent: {parent:?} is named beside spec.interfaces; write it as the first of these, and \
             leave spec.parent out"
        ));
    }
    let mut entries = Vec::new();
    for (index, entry) in spec.interfaces.iter().enumerate() {
        let field = format!("spec.interfaces[{index}]");
        let nodes = entry.node_selector.as_ref();
        let nodes = pools::read_selector(&format!("{field}.nodeSelector"), nodes, faults);
        let Some(pattern) = InterfacePattern::read(&entry.name) else {
            faults.push(format!(
                "{field}.name: {:?} is no name of an interface; write one of 1 to 15 characters without \
                 spaces, slashes and colons, or a pattern such as bond*",
                entry.name
            ));
            continue;
        };
        let nodes = nodes.unwrap_or_default();
        entries.push(InterfaceEntry { pattern, nodes });
    }
    (!spec.interfaces.is_empty()).then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_names_and_patterns() {
        let matches =
            |pattern: &str, name: &str| InterfacePattern::read(pattern).unwrap().matches(name);
        for (pattern, name) in [
            ("eth0", "eth0"),
            ("eth*", "eth0"),
            ("eth*", "eth"),
            ("*", "anything"),
            ("en??s*", "enp0s3"),
            ("en*f?np*", "enp1s0f1np1"),
            ("*.100", "bond0.100"),
            ("a*a*a*a*", "aaaaaaaaaaaaaaa"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("eth0", "eth01"),
            ("eth0", "eth"),
            ("eth?", "eth"),
            ("eth?", "eth10"),
            ("*0", "eth1"),
            ("a*a*a*a*b", "aaaaaaaaaaaaaaa"),
            ("ETH*", "eth0"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        for text in ["", "a b", "eth0:1", "a/b", "sixteen-letters-"] {
            assert_eq!(InterfacePattern::read(text), None, "{text:?}");
        }
    }
}
