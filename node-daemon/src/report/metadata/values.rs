//! Reading single values out of metadata: what is absent is absent, and what cannot be right is an
//! error that names it.

use std::net::IpAddr;

use ipnet::IpNet;
use mooring_common::label;
use mooring_common::node_addresses::is_of_one_host;
use mooring_common::provider_id::ProviderId;
use serde_json::Value;

use super::errors::MetadataError;

/// How much of a wrong value a message shows.
const SHOWN: usize = 80;

/// A JSON object, and where it was read.
#[derive(Clone, Debug)]
pub(super) struct Document {
    from: String,
    root: Value,
}

impl Document {
    /// Reads a JSON object.
    ///
    /// # Errors
    /// [`MetadataError::NotJson`] if it is no whole JSON; [`MetadataError::Malformed`] if it is no
    /// object.
    pub(super) fn read(from: &str, text: &[u8]) -> Result<Self, MetadataError> {
        let root: Value = serde_json::from_slice(text).map_err(|problem| {
            let from = from.to_owned();
            MetadataError::NotJson { from, problem }
        })?;
        if !root.is_object() {
            let shown = root.to_string();
            return Err(malformed(from, "the document", &shown, "no JSON object"));
        }
        let from = from.to_owned();
        Ok(Self { from, root })
    }

    /// Where it was read.
    pub(super) fn from(&self) -> &str {
        &self.from
    }

    /// What stands at a path of keys with dots between them; null counts as absent.
    fn at(&self, path: &str) -> Option<&Value> {
        path.split('.')
            .try_fold(&self.root, |value, key| value.get(key))
            .filter(|value| !value.is_null())
    }

    /// Whether anything stands at a path, even null.
    pub(super) fn has(&self, path: &str) -> bool {
        path.split('.')
            .try_fold(&self.root, |value, key| value.get(key))
            .is_some()
    }

    /// A text, `None` if there is none or an empty one.
    ///
    /// # Errors
    /// [`MetadataError::Malformed`] if it is no text.
    pub(super) fn text(&self, path: &str) -> Result<Option<&str>, MetadataError> {
        match self.at(path) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
            Some(other) => Err(self.malformed(path, &other.to_string(), "no text")),
        }
    }

    /// A label value made of a text.
    pub(super) fn label(&self, path: &str) -> Result<Option<String>, MetadataError> {
        Ok(self.text(path)?.and_then(label::sanitize))
    }

    /// A whole number greater than 0.
    pub(super) fn number(&self, path: &str) -> Result<Option<u64>, MetadataError> {
        match self.at(path) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|number| *number > 0) {
                Some(number) => Ok(Some(number)),
                None => {
                    let fault = "no whole number greater than 0";
                    Err(self.malformed(path, &value.to_string(), fault))
                }
            },
        }
    }

    /// A list; null counts as an empty one. `None`: there is nothing at all.
    pub(super) fn list(&self, path: &str) -> Result<Option<&[Value]>, MetadataError> {
        match self.at(path) {
            None => Ok(self.has(path).then_some(&[])),
            Some(Value::Array(values)) => Ok(Some(values)),
            Some(other) => Err(self.malformed(path, &other.to_string(), "no list")),
        }
    }

    /// An address that a machine can have, with or without a prefix length behind it.
    pub(super) fn address(&self, path: &str) -> Result<Option<IpAddr>, MetadataError> {
        self.text(path)?
            .map(|text| self.read_address(path, text))
            .transpose()
    }

    /// A list of them.
    pub(super) fn addresses(&self, path: &str) -> Result<Option<Vec<IpAddr>>, MetadataError> {
        let Some(values) = self.list(path)? else {
            return Ok(None);
        };
        let read = |value: &Value| match value {
            Value::String(text) => self.read_address(path, text),
            other => Err(self.malformed(path, &other.to_string(), "no text")),
        };
        values.iter().map(read).collect::<Result<_, _>>().map(Some)
    }

    fn read_address(&self, path: &str, text: &str) -> Result<IpAddr, MetadataError> {
        let net = || text.parse::<IpNet>().map(|net| net.addr());
        let fault = match text.parse().or_else(|_| net()) {
            Ok(address) if is_of_one_host(address) => return Ok(address),
            Ok(_) => "no address that a machine can be reached at",
            Err(_) => "no IP address",
        };
        Err(self.malformed(path, text, fault))
    }

    /// The error for a value that cannot be right.
    pub(super) fn malformed(&self, key: &str, value: &str, fault: &'static str) -> MetadataError {
        malformed(&self.from, key, value, fault)
    }

    /// The error for a value that contradicts another one.
    pub(super) fn contradictory(&self, key: &str, value: &str, other: String) -> MetadataError {
        contradictory(&self.from, key, value, other)
    }
}

/// The error for a value that cannot be right.
pub(super) fn malformed(from: &str, key: &str, value: &str, fault: &'static str) -> MetadataError {
    MetadataError::Malformed {
        from: from.to_owned(),
        key: key.to_owned(),
        value: shown(value),
        fault,
    }
}

/// The error for a value that contradicts another one.
pub(super) fn contradictory(from: &str, key: &str, value: &str, other: String) -> MetadataError {
    MetadataError::Contradictory {
        from: from.to_owned(),
        key: key.to_owned(),
        value: shown(value),
        other,
    }
}

/// A value for a message: quoted, and not too long.
pub(super) fn shown(value: &str) -> String {
    let short: String = value.chars().take(SHOWN).collect();
    if short.len() == value.len() {
        format!("{short:?}")
    } else {
        format!("{short:?}…")
    }
}

/// A provider ID.
///
/// # Errors
/// [`MetadataError::Malformed`] if the instance cannot be part of one.
pub(super) fn provider_id(
    scheme: &str,
    from: &str,
    key: &str,
    instance: &str,
) -> Result<ProviderId, MetadataError> {
    ProviderId::new(scheme, instance)
        .map_err(|_| malformed(from, key, instance, "no part of a provider ID"))
}
