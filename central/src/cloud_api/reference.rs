//! What one object says of another, in whichever shape a cloud says it.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use super::{lenient, or_default};

/// Another object: by its identifier, and its name if it has one; or by the identifier alone, as a cloud is told of
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "Shape")]
pub struct Reference {
    /// Its identifier.
    pub id: String,
    /// Its name, if it has one.
    pub name: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Shape {
    Told(String),
    Said {
        #[serde(alias = "uuid")]
        id: String,
        #[serde(default, deserialize_with = "or_default")]
        name: String,
    },
    Node {
        node: String,
    },
}

impl Reference {
    /// What has this identifier.
    #[must_use]
    pub fn of(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: String::new(),
        }
    }
}

impl From<Shape> for Reference {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Told(id) | Shape::Node { node: id } => Self::of(&id),
            Shape::Said { id, name } => Self { id, name },
        }
    }
}

/// The identifier of another. `None`: nothing readable is said of one.
///
/// # Errors
/// Only if the text is no JSON.
pub fn referred<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(lenient(deserializer)?.map(|other: Reference| other.id))
}

/// The identifiers of several others.
///
/// # Errors
/// Only if the text is no JSON.
pub fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    let all: Vec<Reference> = or_default(deserializer)?;
    Ok(all.into_iter().map(|other| other.id).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn reads_references_of_every_shape() {
        for (shape, name) in [
            (json!({"id": "a", "name": "web"}), "web"),
            (json!({"id": "a", "name": null, "node": "b"}), ""),
            (
                json!({"uuid": "a", "name": "web", "href": "https://api/a"}),
                "web",
            ),
            (json!({"node": "a"}), ""),
            (json!("a"), ""),
        ] {
            let read: Reference = from_value(shape).unwrap();
            assert_eq!((&*read.id, &*read.name), ("a", name));
            assert_eq!(from_value::<Reference>(json!(read)).unwrap(), read);
        }
        assert!(from_value::<Reference>(json!({"name": "web"})).is_err());
        for (shape, id) in [(json!({"uuid": "a"}), Some("a")), (json!(null), None)] {
            assert_eq!(referred(shape).unwrap().as_deref(), id);
        }
    }
}
