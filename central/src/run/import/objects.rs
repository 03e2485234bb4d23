//! Objects as they were read, from the cluster or from a file.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::finding::Findings;

/// One object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object(pub(super) Value);

impl Object {
    /// A text at this JSON pointer; empty counts as absent.
    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        let text = self.0.pointer(pointer).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    }

    pub(super) fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.text("/metadata/namespace").unwrap_or("default")
    }

    /// The texts of a map at this JSON pointer.
    pub(super) fn map(&self, pointer: &str) -> BTreeMap<String, String> {
        let map = self.0.pointer(pointer).and_then(Value::as_object);
        let texts = map.into_iter().flatten();
        let texts =
            texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        texts.collect()
    }

    /// What is at this JSON pointer, as a list.
    pub(super) fn list(&self, pointer: &str) -> &[Value] {
        let list = self.0.pointer(pointer).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.map("/metadata/labels")
    }

    pub(super) fn annotations(&self) -> BTreeMap<String, String> {
        self.map("/metadata/annotations")
    }

    /// Its `spec`, absent counting as empty. One that cannot be read is told.
    pub(super) fn spec<T: DeserializeOwned>(
        &self,
        object: &str,
        findings: &mut Findings,
    ) -> Option<T> {
        let spec = self.0.get("spec").cloned();
        let spec = spec.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        match serde_json::from_value(spec) {
            Ok(spec) => Some(spec),
            Err(error) => {
                findings.cannot_say(
                    format!("{object}: spec"),
                    format!("it cannot be read ({error}); this version knows another form. It is left out"),
                );
                None
            }
        }
    }
}

/// All objects that were read, by their kinds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Objects(BTreeMap<String, Vec<Object>>);

impl Objects {
    /// These, but for what has no kind.
    pub(super) fn of_all(objects: Vec<Value>) -> Self {
        let mut all = Self::default();
        for object in objects {
            let kind = object.get("kind").and_then(Value::as_str);
            if let Some(kind) = kind.map(ToOwned::to_owned) {
                all.add(&kind, object);
            }
        }
        all
    }

    /// Adds one.
    pub(super) fn add(&mut self, kind: &str, object: Value) {
        self.0
            .entry(kind.to_owned())
            .or_default()
            .push(Object(object));
    }

    /// Those of a kind, by their names.
    pub(super) fn of(&self, kind: &str) -> Vec<&Object> {
        let mut all: Vec<_> = self.0.get(kind).into_iter().flatten().collect();
        all.sort_by_key(|object| (object.namespace().to_owned(), object.name().to_owned()));
        all
    }

    /// The InternalIPs of Nodes.
    pub(super) fn node_addresses(&self) -> Vec<std::net::IpAddr> {
        let nodes = self.of("Node");
        let addresses = nodes.iter().flat_map(|node| node.list("/status/addresses"));
        let internal =
            addresses.filter(|one| one.get("type").and_then(Value::as_str) == Some("InternalIP"));
        let texts = internal.filter_map(|one| one.get("address").and_then(Value::as_str));
        texts.filter_map(|text| text.parse().ok()).collect()
    }
}
