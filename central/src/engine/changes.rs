//! What is changed in place about one resource by a single request: several fields together.

use std::fmt;

use serde_json::{Value, json};

use super::change::Change;
use crate::cloud_api::body;

/// Fields with the values that they get, one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes(Vec<Change>);

impl Changes {
    /// Those that there are. `None`: nothing is to be changed.
    pub fn of(changes: impl IntoIterator<Item = Option<Change>>) -> Option<Self> {
        let changes: Vec<Change> = changes.into_iter().flatten().collect();
        (!changes.is_empty()).then_some(Self(changes))
    }

    /// What the cloud is told: nothing of what is null.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut all = json!({});
        for change in &self.0 {
            json_patch::merge(&mut all, &change.body());
        }
        body(&all)
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::Field;
    use super::*;

    const SIZE: &Field = &Field::new(&["size"], "size", " GB");
    const PORTS: &Field = &Field::new(&["ports"], "ports", "").or("none");

    #[test]
    fn several_fields_are_one_request() {
        assert_eq!(Changes::of([None, None]), None);
        let ports = Change::told(PORTS, [80, 443], "80 and 443");
        let changes = Changes::of([Some(Change::new(SIZE, 2)), None, Some(ports)]).unwrap();
        assert_eq!(changes.to_string(), "size to 2 GB; ports to 80 and 443");
        assert_eq!(changes.body(), json!({"size": 2, "ports": [80, 443]}));
    }
}
