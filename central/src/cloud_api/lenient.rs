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

/// Null is the default; what cannot be read is an error, and so is what is absent, unless `#[serde(default)]` says
/// otherwise.
///
/// # Errors
/// If it is of another shape than expected.
pub fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text that is not empty.
///
/// # Errors
/// Only if the text is no JSON.
pub fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: Option<String> = lenient(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// The short name of another object, such as a zone or a size: some clouds call it `handle`, others `slug`.
///
/// # Errors
/// Only if the text is no JSON.
pub fn short_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(alias = "slug")]
        handle: String,
    }
    Ok(lenient(deserializer)?.map(|named: Named| named.handle))
}

/// The text of an ID, which some clouds write as a number.
///
/// # Errors
/// If it is neither.
pub fn id_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(u64),
        Text(String),
    }
    Ok(match Id::deserialize(deserializer)? {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => text,
    })
}

/// A word of an API in the one form in which it can be compared: some write `error assigning` in their
/// documentation and `ERROR_ASSIGNING` in their answers.
#[must_use]
pub fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace(['_', '-'], " ")
}

/// Defines what an API answers. A field with `?` may be absent, null, or of another shape than expected: it has its
/// default then, and the rest of the object is read nevertheless ([`or_default`]).
#[macro_export]
macro_rules! api_objects {
    (@fields [$($head:tt)*] [$($done:tt)*]) => {
        $($head)* { $($done)* }
    };
    (@fields $head:tt [$($done:tt)*]
        $(#[$meta:meta])* $visible:vis $field:ident ?: $type:ty, $($rest:tt)*) => {
        $crate::api_objects!(@fields $head [$($done)*
            $(#[$meta])*
            #[serde(default, deserialize_with = "crate::cloud_api::or_default")]
            $visible $field: $type,
        ] $($rest)*);
    };
    (@fields $head:tt [$($done:tt)*]
        $(#[$meta:meta])* $visible:vis $field:ident: $type:ty, $($rest:tt)*) => {
        $crate::api_objects!(@fields $head [$($done)* $(#[$meta])* $visible $field: $type,] $($rest)*);
    };
    ($($(#[$meta:meta])* $visible:vis struct $name:ident { $($fields:tt)* })*) => {
        $($crate::api_objects!(@fields [$(#[$meta])* $visible struct $name] [] $($fields)*);)*
    };
}
