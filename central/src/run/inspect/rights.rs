//! What the user may not read, and the rule that would permit it.

use std::fmt;

use serde::Serialize;

/// A kind that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    /// Its API group; empty: the core API.
    pub(super) group: &'static str,
    /// Its name in rules, such as `nodes`.
    pub(super) resource: &'static str,
    /// What is not known without it.
    pub(super) shows: &'static str,
}

/// A right that the user lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MissingRight {
    pub(super) verb: &'static str,
    pub(super) resource: String,
    /// Where; absent: in the whole cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    /// What is not known without it.
    pub(super) hides: String,
    /// The rule of a Role or ClusterRole that grants it.
    pub(super) rule: String,
}

impl MissingRight {
    pub(super) fn new(verb: &'static str, kind: Kind, namespace: Option<&str>) -> Self {
        let Kind {
            group,
            resource,
            shows,
        } = kind;
        let qualified = match group {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        };
        Self {
            verb,
            resource: qualified,
            namespace: namespace.map(ToOwned::to_owned),
            hides: shows.to_owned(),
            rule: format!("{{apiGroups: [\"{group}\"], resources: [{resource}], verbs: [{verb}]}}"),
        }
    }
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            verb,
            resource,
            hides,
            rule,
            ..
        } = self;
        match &self.namespace {
            None => write!(
                f,
                "{verb} {resource}: not known is {hides}; a ClusterRole grants it with {rule}"
            ),
            Some(namespace) => write!(
                f,
                "{verb} {resource} in namespace {namespace}: not known is {hides}; a Role there grants it with {rule}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_verb_resource_and_rule() {
        let kind = Kind {
            group: "mooring.dev",
            resource: "l2networks",
            shows: "who speaks",
        };
        let told = MissingRight::new("list", kind, None).to_string();
        assert_eq!(
            told,
            "list l2networks.mooring.dev: not known is who speaks; a ClusterRole grants it with \
             {apiGroups: [\"mooring.dev\"], resources: [l2networks], verbs: [list]}"
        );
        let told = MissingRight::new("get", kind, Some("x")).to_string();
        assert!(
            told.contains("in namespace x") && told.contains("a Role there"),
            "{told}"
        );
    }
}
