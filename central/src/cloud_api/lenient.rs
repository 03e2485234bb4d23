//! Decoding what is not needed without insisting on it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// For a field that may be absent, null, or of another shape than expected: all of these are
/// `None`, and the rest of the object is read nevertheless. Use with `#[serde(default)]`.
///
/// # Errors
/// Only if the text is no JSON.
pub fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

/// The same where nothing is the default.
///
/// # Errors
/// Only if the text is no JSON.
pub fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(lenient(deserializer)?.unwrap_or_default())
}
