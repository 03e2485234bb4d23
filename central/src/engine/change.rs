//! What is changed in place about a part of a load balancer: one field a request. A cloud writes the table of
//! such fields.

use std::fmt;

use mooring_common::engine::Impact;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::canonical::canonical_set;

/// A field with the value that it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    field: &'static Field,
    value: Value,
    /// The value for people, where it is not told as it is.
    text: Option<String>,
}

/// A field that can be changed in place.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Where it is: `http`, `host`.
    path: &'static [&'static str],
    /// What it is called, and what follows its value.
    words: [&'static str; 2],
    /// What its value is called where there is none.
    none: &'static str,
    /// It is a set of networks: neither their order nor their form counts.
    is_set: bool,
    /// What users notice when it changes.
    impact: Impact,
}

impl Field {
    /// One that always has a value; `unit` follows it.
    #[must_use]
    pub const fn new(
        path: &'static [&'static str],
        name: &'static str,
        unit: &'static str,
    ) -> Self {
        Self {
            path,
            words: [name, unit],
            none: "",
            is_set: false,
            impact: Impact::None,
        }
    }

    /// Users notice this when it changes.
    #[must_use]
    pub const fn with_impact(self, impact: Impact) -> Self {
        Self { impact, ..self }
    }

    /// It can be without a value, which is called so.
    #[must_use]
    pub const fn or(self, none: &'static str) -> Self {
        Self { none, ..self }
    }

    /// It is a set of networks: neither their order nor their form counts.
    #[must_use]
    pub const fn set(self) -> Self {
        Self {
            is_set: true,
            ..self
        }
    }
}

/// What leads from one to the other. What one of them does not say is no change, unless it can be taken
/// away: the cloud has a value of its own then.
#[must_use]
pub fn changes<T: Serialize>(actual: &T, wanted: &T, fields: &'static [Field]) -> Vec<Change> {
    let (actual, wanted) = (json!(actual), json!(wanted));
    let changed = |field: &'static Field| {
        let (parent, name) = field.path.split_at(field.path.len() - 1);
        let of = |part: &Value| {
            let parent = parent.iter().try_fold(part, |part, key| part.get(key))?;
            let is_said = parent.as_object().is_some_and(|fields| !fields.is_empty());
            let value = parent.get(name.first()?).cloned().unwrap_or_default();
            is_said.then_some(value)
        };
        let (actual, value) = (of(&actual)?, of(&wanted)?);
        let is_said = !actual.is_null() && !value.is_null() || !field.none.is_empty();
        (is_said && !field.is_same(&actual, &value)).then(|| Change::new(field, value))
    };
    fields.iter().filter_map(changed).collect()
}

/// What is wanted of a part whose fields with these names have such defaults. Where nothing is wanted of them, and
/// something is there: the default if whoever asks for nothing `wants_defaults`, else what is there.
pub fn filled<T: Serialize + DeserializeOwned + Clone>(
    wanted: &T,
    actual: &T,
    defaults: &Value,
    wants_defaults: bool,
) -> T {
    let (told, there) = (json!(wanted), json!(actual));
    let defaults = defaults.as_object().into_iter().flatten();
    let mut filled = wanted.clone();
    for (name, default) in defaults {
        let said = |of: &Value| of.get(name).filter(|value| !value.is_null()).cloned();
        if let (None, Some(actual)) = (said(&told), said(&there)) {
            let value = if wants_defaults {
                default.clone()
            } else {
                actual
            };
            merge(&mut filled, &json!({ name: value }));
        }
    }
    filled
}

impl Field {
    fn is_same(&self, actual: &Value, wanted: &Value) -> bool {
        let networks = |value: &Value| {
            let texts: Vec<String> = serde_json::from_value(value.clone()).ok()?;
            self.is_set.then(|| canonical_set(&texts))
        };
        let are_same = networks(actual).zip(networks(wanted));
        actual == wanted || are_same.is_some_and(|(actual, wanted)| actual == wanted)
    }
}

impl Change {
    /// This field gets this value.
    #[must_use]
    pub fn new(field: &'static Field, value: impl Serialize) -> Self {
        Self {
            field,
            value: json!(value),
            text: None,
        }
    }

    /// The same where people are told something else than the value.
    #[must_use]
    pub fn told(field: &'static Field, value: impl Serialize, text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::new(field, value)
        }
    }

    /// What users notice of it.
    #[must_use]
    pub const fn impact(&self) -> Impact {
        self.field.impact
    }

    /// The value, for people.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        let text = match &self.value {
            Value::Array(all) => {
                let texts: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
                texts.join(", ")
            }
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        if text.is_empty() {
            self.field.none.to_owned()
        } else {
            text
        }
    }

    /// What the cloud is told.
    #[must_use]
    pub fn body(&self) -> Value {
        let path = self.field.path.iter().rev();
        path.fold(self.value.clone(), |value, key| json!({ *key: value }))
    }

    /// What a part is then.
    pub fn take<T: Serialize + DeserializeOwned>(&self, part: &mut T) {
        merge(part, &self.body());
    }
}

/// Gives something what is said here.
pub(super) fn merge<T: Serialize + DeserializeOwned>(part: &mut T, said: &Value) {
    let mut changed = json!(part);
    json_patch::merge(&mut changed, said);
    if let Ok(changed) = serde_json::from_value(changed) {
        *part = changed;
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, unit] = self.field.words;
        write!(f, "{name} to {}{unit}", self.text())
    }
}
