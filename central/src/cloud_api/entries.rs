//! Listings of which each entry is read for itself.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The entries of a listing that can be read, and what is wrong with each of the others: one that is odd hides no
/// other. As long as there are any of those, nothing is missing because it is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries<T> {
    /// Those that can be read.
    pub read: Vec<T>,
    /// What is wrong with the others, in words: of a field, with its value; of what is no object, without its text,
    /// which may be secret.
    pub unread: Vec<String>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            unread: Vec::new(),
        }
    }
}

impl<T> Entries<T> {
    /// Reads each of them further; an error says what is wrong with one.
    #[must_use]
    pub fn try_map<U>(self, read: impl Fn(T) -> Result<U, String>) -> Entries<U> {
        let mut all = Entries {
            read: Vec::new(),
            unread: self.unread,
        };
        for entry in self.read {
            all.add(read(entry));
        }
        all
    }

    fn add(&mut self, entry: Result<T, String>) {
        match entry {
            Ok(entry) => self.read.push(entry),
            Err(why) => self.unread.push(why),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = Entries {
            read: Vec::<Value>::deserialize(deserializer)?,
            unread: Vec::new(),
        };
        Ok(all.try_map(read))
    }
}

fn read<T: DeserializeOwned>(entry: Value) -> Result<T, String> {
    let kind = match &entry {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => {
            return serde_json::from_value(entry)
                .map_err(|error| format!("an entry of a listing cannot be read: {error}"));
        }
    };
    Err(format!("an entry of a listing is {kind}, and no object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    struct Named {
        name: String,
    }

    #[test]
    fn odd_entries_hide_no_other_and_are_told_without_their_text() {
        let listed =
            r#"[{"name": "a"}, null, "s3cr3t", ["s3cr3t"], {"key": "s3cr3t"}, {"name": "b"}]"#;
        let all: Entries<Named> = serde_json::from_str(listed).unwrap();
        let names: Vec<&str> = all.read.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let told = all.unread.join("; ");
        for words in ["null, and", "a text", "a list", "missing field `name`"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(all.unread.len() == 4 && !told.contains("s3cr3t"), "{told}");
        let none = serde_json::from_str::<Entries<Named>>(r#"{"name": "a"}"#);
        assert!(none.is_err(), "it is no listing: {none:?}");
    }
}
