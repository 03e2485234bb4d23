//! The file that `--cloud-config` names, read as the Go controller reads it.
//!
//! Keys are known in capitals or not, of several equal ones the last counts, null is as if the key
//! were absent, and keys that are not known mean nothing. A comma too many at the end of a list,
//! which Go refuses, is taken: the template of the old controller's Secret has one.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What the file says, as far as it is known.
#[derive(Clone, Default)]
pub(super) struct File {
    pub(super) client_id: Option<String>,
    pub(super) client_secret: Option<String>,
    pub(super) location: Option<String>,
    pub(super) load_balancer: Option<String>,
    pub(super) annotation_ip_location: Option<String>,
    pub(super) api_server_port: Option<i32>,
    pub(super) base_url: Option<String>,
    pub(super) token_url: Option<String>,
    pub(super) service_node_selector: Option<String>,
    /// Keys that mean nothing.
    pub(super) unknown: Vec<String>,
    /// Whether there was a comma too many.
    pub(super) has_trailing_comma: bool,
}

/// Why the file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileFault {
    /// It is no JSON object.
    NotAnObject(String),
    /// The value of a key is of another type.
    WrongType {
        /// The key, as it is written.
        key: String,
        /// The value, unless it may be a secret.
        value: Option<String>,
        /// What it should be.
        expected: &'static str,
    },
}

impl File {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Vec<FileFault>> {
        let text = String::from_utf8_lossy(bytes);
        let (pairs, has_trailing_comma) = match serde_json::from_str::<Option<Pairs>>(&text) {
            Ok(pairs) => (pairs, false),
            Err(error) => match serde_json::from_str(&without_trailing_commas(&text)) {
                Ok(pairs) => (pairs, true),
                Err(_) => return Err(vec![FileFault::NotAnObject(error.to_string())]),
            },
        };
        let mut file = Self {
            has_trailing_comma,
            ..Self::default()
        };
        let mut faults = Vec::new();
        for (key, value) in pairs.map(|pairs| pairs.0).unwrap_or_default() {
            if let Err(fault) = file.take(&key, value) {
                faults.push(fault);
            }
        }
        if faults.is_empty() {
            Ok(file)
        } else {
            Err(faults)
        }
    }

    fn take(&mut self, key: &str, value: Value) -> Result<(), FileFault> {
        let field = match key.to_lowercase().as_str() {
            "clientid" => &mut self.client_id,
            "clientsecret" => &mut self.client_secret,
            "location" => &mut self.location,
            "loadbalancer" => &mut self.load_balancer,
            "annotationiplocation" => &mut self.annotation_ip_location,
            "base-url" => &mut self.base_url,
            "token-url" => &mut self.token_url,
            "servicenodeselector" => &mut self.service_node_selector,
            "apiserverport" => return self.take_port(key, &value),
            _ => {
                self.unknown.push(key.to_owned());
                return Ok(());
            }
        };
        match value {
            Value::Null => Ok(()),
            Value::String(text) => {
                *field = Some(text);
                Ok(())
            }
            other => Err(FileFault::WrongType {
                key: key.to_owned(),
                // A secret that lacks its quotes is one all the same.
                value: (!key.to_lowercase().starts_with("client")).then(|| other.to_string()),
                expected: "a text in quotes",
            }),
        }
    }

    fn take_port(&mut self, key: &str, value: &Value) -> Result<(), FileFault> {
        if value.is_null() {
            return Ok(());
        }
        let port = value.as_i64().and_then(|port| i32::try_from(port).ok());
        self.api_server_port = Some(port.ok_or_else(|| FileFault::WrongType {
            key: key.to_owned(),
            value: Some(value.to_string()),
            expected: "a whole number without quotes",
        })?);
        Ok(())
    }
}

/// The keys of an object and their values, in the order in which they are written.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// The text without each comma that is followed by `}` or `]`, outside of quotes.
fn without_trailing_commas(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_quotes = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        let is_last = || {
            let rest = text.get(at + 1..).unwrap_or_default();
            rest.trim_start().starts_with(['}', ']'])
        };
        if !in_quotes && c == ',' && is_last() {
            continue;
        }
        if c == '"' && !escaped {
            in_quotes = !in_quotes;
        }
        escaped = in_quotes && c == '\\' && !escaped;
        kept.push(c);
    }
    kept
}
