//! Provider ID, labels and annotations: what one patch writes on a Node.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::names::{annotations, labels};
use crate::node_facts::NodeFacts;
use crate::node_view::NodeView;

/// The current and the older form of each label that says where a machine is and what it is.
const TOPOLOGY: [[&str; 2]; 3] = [
    [labels::INSTANCE_TYPE, labels::INSTANCE_TYPE_BETA],
    [labels::ZONE, labels::ZONE_BETA],
    [labels::REGION, labels::REGION_BETA],
];

/// What one patch writes on a Node besides its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Set only if the Node has none.
    pub provider_id: Option<String>,
    /// Labels to set, whatever value they have now.
    pub labels: BTreeMap<String, String>,
    /// Labels that are set or taken off (`None`) only if they still have the value that they were
    /// seen with (`None`: are absent). Of these, somebody else's are never touched.
    pub guarded_labels: BTreeMap<String, Guarded>,
    /// Annotations to set or to take off (`None`).
    pub annotations: BTreeMap<String, Option<String>>,
}

/// A change that is made only from what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The value as it was seen; `None`: absent.
    pub from: Option<String>,
    /// The value to set; `None`: to take off.
    pub to: Option<String>,
}

impl Description {
    /// All that the facts say and the Node does not yet.
    pub(super) fn new(node: &NodeView, facts: &NodeFacts) -> Self {
        let mut description = Self {
            provider_id: match node.provider_id {
                Some(_) => None,
                None => facts.provider_id.as_ref().map(ToString::to_string),
            },
            labels: changed_labels(node, facts),
            ..Self::default()
        };
        for (key, value) in &facts.provider_annotations {
            description.annotate(node, key, Some(value.clone()));
        }
        description.describe_additional(node, facts);
        description
    }

    /// The same for a Node that is initialised: where the cloud says nothing of a zone, region or
    /// type, the current form of the label follows the older one, as in the Go controllers.
    pub(super) fn refreshed(node: &NodeView, facts: &NodeFacts) -> Self {
        let mut description = Self::new(node, facts);
        for ([current, older], value) in TOPOLOGY.into_iter().zip(topology(facts)) {
            if let (None, Some(value)) = (value, node.label(older))
                && node.label(current) != Some(value)
            {
                description
                    .labels
                    .insert(current.to_owned(), value.to_owned());
            }
        }
        description
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Sets an annotation, or takes it off, unless it is so already.
    pub fn annotate(&mut self, node: &NodeView, key: &str, value: Option<String>) {
        if node.annotation(key) != value.as_deref() {
            self.annotations.insert(key.to_owned(), value);
        }
    }

    /// Additional labels are ours only as far as [`annotations::OWNED_LABELS`] says so, and only
    /// while they have the value that stands there.
    fn describe_additional(&mut self, node: &NodeView, facts: &NodeFacts) {
        let noted = owned_labels(node);
        let is_ours = |key: &str| {
            let now = node.label(key);
            now.is_none() || now == noted.get(key).map(String::as_str)
        };
        let mut owned = BTreeMap::new();
        for (key, value) in &facts.additional_labels {
            if is_reserved(key) || !is_ours(key) {
                continue;
            }
            let Some(value) = value.as_ref().or_else(|| noted.get(key)) else {
                continue;
            };
            owned.insert(key.clone(), value.clone());
            self.guard(node, key, Some(value));
        }
        for key in noted.keys() {
            if is_ours(key) && !owned.contains_key(key) {
                self.guard(node, key, None);
            }
        }
        let written = (!owned.is_empty()).then(|| {
            let pairs: Vec<_> = owned.iter().map(|(k, v)| format!("{k}={v}")).collect();
            pairs.join(",")
        });
        self.annotate(node, annotations::OWNED_LABELS, written);
    }

    fn guard(&mut self, node: &NodeView, key: &str, to: Option<&String>) {
        let change = Guarded {
            from: node.label(key).map(ToOwned::to_owned),
            to: to.cloned(),
        };
        if change.from != change.to {
            self.guarded_labels.insert(key.to_owned(), change);
        }
    }

    /// The operations of a JSON patch (RFC 6902) for a Node that is as given.
    pub(super) fn operations(&self, node: &NodeView) -> Vec<Value> {
        let mut operations = Vec::new();
        if let Some(id) = &self.provider_id {
            operations.push(json!({"op": "add", "path": "/spec/providerID", "value": id}));
        }
        if node.labels.is_none() && !(self.labels.is_empty() && self.guarded_labels.is_empty()) {
            operations.extend(new_map("/metadata/labels"));
        }
        for (key, value) in &self.labels {
            let path = place("labels", key);
            operations.push(json!({"op": "add", "path": path, "value": value}));
        }
        for (key, change) in &self.guarded_labels {
            let path = place("labels", key);
            operations.push(json!({"op": "test", "path": path, "value": change.from}));
            operations.push(set_or_remove(&path, change.to.as_ref()));
        }
        if node.annotations.is_none() && !self.annotations.is_empty() {
            operations.extend(new_map("/metadata/annotations"));
        }
        for (key, value) in &self.annotations {
            operations.push(set_or_remove(&place("annotations", key), value.as_ref()));
        }
        operations
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(
            self.provider_id
                .iter()
                .map(|id| format!("provider ID {id}")),
        );
        let mut part = |kind: &str, key: &String, value: Option<&String>| {
            parts.push(match value {
                Some(value) => format!("{kind} {key}={value}"),
                None => format!("{kind} {key} off"),
            });
        };
        for (key, value) in &self.labels {
            part("label", key, Some(value));
        }
        for (key, change) in &self.guarded_labels {
            part("label", key, change.to.as_ref());
        }
        for (key, value) in &self.annotations {
            part("annotation", key, value.as_ref());
        }
        f.write_str(&parts.join(", "))
    }
}

fn topology(facts: &NodeFacts) -> [Option<&String>; 3] {
    [&facts.instance_type, &facts.zone, &facts.region].map(Option::as_ref)
}

fn changed_labels(node: &NodeView, facts: &NodeFacts) -> BTreeMap<String, String> {
    let placed = TOPOLOGY
        .into_iter()
        .zip(topology(facts))
        .filter_map(|(keys, value)| Some((keys, value?)))
        .flat_map(|(keys, value)| keys.map(|key| (key.to_owned(), value)));
    let own = facts.provider_labels.iter().map(|(k, v)| (k.clone(), v));
    placed
        .chain(own)
        .filter(|(key, value)| node.label(key) != Some(value.as_str()))
        .map(|(key, value)| (key, value.clone()))
        .collect()
}

/// What stands in [`annotations::OWNED_LABELS`]. What cannot be read there names nothing of ours.
fn owned_labels(node: &NodeView) -> BTreeMap<String, String> {
    node.annotation(annotations::OWNED_LABELS)
        .unwrap_or_default()
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .filter(|(key, _)| !is_reserved(key))
        .collect()
}

/// Whether a label key belongs to Kubernetes: its domain is `kubernetes.io` or `k8s.io`, or below.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    ["kubernetes.io", "k8s.io"]
        .into_iter()
        .any(|reserved| domain == reserved || domain.ends_with(&format!(".{reserved}")))
}

/// A `test` for null holds where there is nothing (the API server's JSON patch), so that a map that
/// somebody has made meanwhile is not replaced.
fn new_map(path: &str) -> [Value; 2] {
    [
        json!({"op": "test", "path": path, "value": null}),
        json!({"op": "add", "path": path, "value": {}}),
    ]
}

fn set_or_remove(path: &str, value: Option<&String>) -> Value {
    match value {
        Some(value) => json!({"op": "add", "path": path, "value": value}),
        None => json!({"op": "remove", "path": path}),
    }
}

/// The place of a label or an annotation as a JSON pointer (RFC 6901, section 3).
fn place(map: &str, key: &str) -> String {
    let key = key.replace('~', "~0").replace('/', "~1");
    format!("/metadata/{map}/{key}")
}
