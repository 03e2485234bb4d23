//! A configuration file with one JSON object, read as the Go controllers read theirs.
//!
//! Keys are matched regardless of case, the last of several equal ones counts, and null is as if the
//! key were absent. A key that is not known is a notice. So is a comma after the last entry, which Go
//! refuses: the template of an old controller's Secret has one.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A key of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKey {
    /// The key, as messages write it.
    pub name: &'static str,
    /// The variable of the same setting, which wins. None: only the file has the setting.
    pub variable: Option<&'static str>,
    /// What its value is.
    pub kind: KeyKind,
}

impl FileKey {
    /// A key with the variable of the same setting.
    #[must_use]
    pub const fn new(name: &'static str, variable: Option<&'static str>, kind: KeyKind) -> Self {
        Self {
            name,
            variable,
            kind,
        }
    }
}

/// What the value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A text. An empty one counts as absent.
    Text,
    /// A text that no message shows.
    Secret,
    /// A whole number of 32 bits. 0 counts as absent.
    Integer,
}

impl KeyKind {
    /// What to write.
    const fn expected(self) -> &'static str {
        match self {
            Self::Text | Self::Secret => "a text in quotes",
            Self::Integer => "a whole number without quotes",
        }
    }

    /// The value as text, empty if it counts as absent. None: it is of another type.
    fn read(self, value: &Value) -> Option<String> {
        match self {
            Self::Text | Self::Secret => value.as_str().map(|text| text.trim().to_owned()),
            Self::Integer => match i32::try_from(value.as_i64()?).ok()? {
                0 => Some(String::new()),
                number => Some(number.to_string()),
            },
        }
    }
}

/// What the file says. The default is no file, without any key. Debug shows no value.
#[derive(Clone, Default)]
pub struct JsonFile {
    path: Option<PathBuf>,
    keys: &'static [FileKey],
    /// By [`FileKey::name`].
    values: HashMap<&'static str, String>,
    notices: Vec<String>,
}

impl fmt::Debug for JsonFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl JsonFile {
    /// No file, which would have these keys.
    #[must_use]
    pub fn absent(keys: &'static [FileKey]) -> Self {
        Self {
            keys,
            ..Self::default()
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Everything that is wrong with it, and what to do about it, without the path.
    pub fn read(path: &Path, keys: &'static [FileKey]) -> Result<Self, Vec<String>> {
        let bytes = std::fs::read(path).map_err(|error| {
            let variables: Vec<&str> = secrets(keys).filter_map(|key| key.variable).collect();
            vec![format!(
                "cannot be read ({error}); name a file that is there, or leave the flag away and \
                 set {}",
                variables.join(" and ")
            )]
        })?;
        Self::parse(path, keys, &bytes)
    }

    /// The file as it is now. None: it cannot be used, or there is none.
    pub async fn reread(&self) -> Option<Self> {
        let path = self.path.as_deref()?;
        let bytes = tokio::fs::read(path).await.ok()?;
        Self::parse(path, self.keys, &bytes).ok()
    }

    fn parse(path: &Path, keys: &'static [FileKey], bytes: &[u8]) -> Result<Self, Vec<String>> {
        let mut file = Self {
            path: Some(path.to_owned()),
            ..Self::absent(keys)
        };
        let shown = path.display();
        let text = String::from_utf8_lossy(bytes);
        let entries = match serde_json::from_str::<Option<Entries>>(&text) {
            Ok(entries) => entries,
            Err(error) => {
                file.notices.push(format!(
                    "{shown} has a comma after its last entry, which is no JSON; it is taken all \
                     the same"
                ));
                serde_json::from_str(&without_trailing_commas(&text))
                    .map_err(|_| vec![not_an_object(keys, &error)])?
            }
        };
        let mut faults = Vec::new();
        for (name, value) in entries.map(|entries| entries.0).unwrap_or_default() {
            let lower = name.to_lowercase();
            let Some(key) = keys.iter().find(|key| key.name.to_lowercase() == lower) else {
                let notice = format!("{shown}: the key {name:?} means nothing here");
                file.notices.push(notice);
                continue;
            };
            if value.is_null() {
                continue;
            }
            match key.kind.read(&value) {
                Some(text) => {
                    file.values.insert(key.name, text);
                }
                None => faults.push(wrong_type(&name, key.kind, &value)),
            }
        }
        if faults.is_empty() {
            Ok(file)
        } else {
            Err(faults)
        }
    }

    /// What is worth a line in the log.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// What this key says, without space around it. None: nothing, or it is empty.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let text = self.values.get(name).map(String::as_str);
        text.filter(|text| !text.is_empty())
    }

    /// The name of the key that has the setting of this variable.
    #[must_use]
    pub fn key_of(&self, variable: &str) -> Option<&'static str> {
        let mut keys = self.keys.iter();
        let key = keys.find(|key| key.variable == Some(variable))?;
        Some(key.name)
    }
}

fn secrets(keys: &'static [FileKey]) -> impl Iterator<Item = &'static FileKey> {
    keys.iter().filter(|key| key.kind == KeyKind::Secret)
}

fn not_an_object(keys: &'static [FileKey], error: &serde_json::Error) -> String {
    let example: Vec<String> = secrets(keys)
        .map(|key| format!("\"{}\": \"…\"", key.name))
        .collect();
    let example = example.join(", ");
    format!("is no JSON object ({error}); write it like {{{example}}}")
}

fn wrong_type(name: &str, kind: KeyKind, value: &Value) -> String {
    let expected = kind.expected();
    let value = match kind {
        // A secret that lacks its quotes is one all the same.
        KeyKind::Secret => "the value".to_owned(),
        KeyKind::Text | KeyKind::Integer => value.to_string(),
    };
    format!("{name}: {value} is not {expected}; write {expected}")
}

/// The keys of an object and their values, in the order in which they are written.
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
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

#[cfg(test)]
mod tests;
