//! Additional labels that an admission policy refuses must not hold up the rest of a Node: which they
//! are is found out by dry run, one by one, and they are left out.

use std::collections::BTreeSet;

use super::apply::{WriteFailure, Writer};
use super::{Description, NodeStep};
use crate::engine::Plan;
use crate::k8s::EventKind;
use crate::names::{annotations, reasons};
use crate::node_view::NodeView;

impl Writer {
    /// Takes one step, without the additional labels that a policy refuses; an Event names those.
    /// Gives the Node as it is after it, or `None` where nothing is left to be written.
    pub(super) async fn take(
        &self,
        node: &NodeView,
        step: &NodeStep,
    ) -> Result<Option<NodeView>, WriteFailure> {
        let known = self.init_states().refused_labels(&node.name, &node.uid);
        let step = step.without_labels(node, &known);
        if step.is_empty() {
            return Ok(None);
        }
        let error = match self.apply(node, &step, false).await {
            Err(error @ WriteFailure::Refused { .. }) => error,
            written => return logged(&step, written),
        };
        let refused = self.refused_of(node, &step).await?;
        if refused.is_empty() {
            return Err(error);
        }
        self.tell_refused(node, &refused).await;
        let step = step.without_labels(node, &refused);
        if step.is_empty() {
            return Ok(None);
        }
        logged(&step, self.apply(node, &step, false).await)
    }

    /// What is left of a plan without the additional labels that a policy refuses; an Event names those.
    ///
    /// # Errors
    /// [`WriteFailure`] if the API server does not say.
    pub async fn permitted(
        &self,
        node: &NodeView,
        plan: &Plan<NodeStep>,
    ) -> Result<Plan<NodeStep>, WriteFailure> {
        let mut permitted = Plan::default();
        for step in plan.steps() {
            let refused = self.refused_of(node, step).await?;
            if !refused.is_empty() {
                self.tell_refused(node, &refused).await;
            }
            let step = step.without_labels(node, &refused);
            if !step.is_empty() {
                permitted.push(step);
            }
        }
        Ok(permitted)
    }

    /// The additional labels of a step that are refused each by itself.
    async fn refused_of(
        &self,
        node: &NodeView,
        step: &NodeStep,
    ) -> Result<BTreeSet<String>, WriteFailure> {
        let mut refused = BTreeSet::new();
        for (key, alone) in step.description().iter().flat_map(|all| all.one_by_one()) {
            match self.apply(node, &NodeStep::Describe(alone), true).await {
                Ok(_) => {}
                Err(WriteFailure::Refused { .. }) => {
                    refused.insert(key);
                }
                Err(other) => return Err(other),
            }
        }
        Ok(refused)
    }

    async fn tell_refused(&self, node: &NodeView, refused: &BTreeSet<String>) {
        self.init_states()
            .labels_were_refused(&node.name, &node.uid, refused);
        let keys: Vec<&str> = refused.iter().map(String::as_str).collect();
        let note = format!(
            "An admission policy refuses these labels of the machine: {}. Everything else is written. \
             Add their keys to nodeDaemon.additionalLabelKeys of the chart.",
            keys.join(", ")
        );
        self.report(node, EventKind::Warning, reasons::LABELS_REFUSED, &note)
            .await;
    }
}

fn logged(
    step: &NodeStep,
    written: Result<NodeView, WriteFailure>,
) -> Result<Option<NodeView>, WriteFailure> {
    let node = written?;
    tracing::info!(node = node.name, "{step}");
    Ok(Some(node))
}

impl NodeStep {
    const fn description(&self) -> Option<&Description> {
        match self {
            Self::SetAddresses(_) => None,
            Self::Describe(description) | Self::Initialize(description) => Some(description),
        }
    }

    /// Whether it writes nothing.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Describe(description) if description.is_empty())
    }

    fn without_labels(&self, node: &NodeView, keys: &BTreeSet<String>) -> Self {
        match self {
            Self::SetAddresses(_) => self.clone(),
            Self::Describe(all) => Self::Describe(all.without_labels(node, keys)),
            Self::Initialize(all) => Self::Initialize(all.without_labels(node, keys)),
        }
    }
}

impl Description {
    /// The same without these additional labels, and without a note that they are ours.
    fn without_labels(&self, node: &NodeView, keys: &BTreeSet<String>) -> Self {
        let mut rest = self.clone();
        rest.guarded_labels.retain(|key, _| !keys.contains(key));
        if let Some(Some(owned)) = rest.annotations.remove(annotations::OWNED_LABELS) {
            let pairs: Vec<&str> = owned
                .split(',')
                .filter(|pair| !keys.contains(key_of(pair)))
                .collect();
            let left = (!pairs.is_empty()).then(|| pairs.join(","));
            rest.annotate(node, annotations::OWNED_LABELS, left);
        } else if let Some(removed) = self.annotations.get(annotations::OWNED_LABELS) {
            rest.annotations
                .insert(annotations::OWNED_LABELS.to_owned(), removed.clone());
        }
        rest
    }

    /// What is written of each additional label: the label, and the note that it is ours.
    fn one_by_one(&self) -> Vec<(String, Self)> {
        let owned = self.annotations.get(annotations::OWNED_LABELS);
        let pairs = || owned.into_iter().flatten().flat_map(|all| all.split(','));
        let noted = pairs().map(key_of).map(ToOwned::to_owned);
        let keys: BTreeSet<String> = self.guarded_labels.keys().cloned().chain(noted).collect();
        let alone = |key: String| {
            let mut one = Self::default();
            let label = self.guarded_labels.get(&key).cloned();
            one.guarded_labels
                .extend(label.map(|label| (key.clone(), label)));
            let note = pairs().find(|pair| key_of(pair) == key);
            one.annotations.extend(
                note.map(|note| (annotations::OWNED_LABELS.to_owned(), Some(note.to_owned()))),
            );
            (key, one)
        };
        keys.into_iter().map(alone).collect()
    }
}

fn key_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::k8s::Slim as _;
    use crate::node_init::description::Guarded;

    fn node(owned: Option<&str>) -> NodeView {
        let mut node = json!({ "metadata": { "name": "n1", "uid": "u" } });
        if let Some(owned) = owned {
            node["metadata"]["annotations"][annotations::OWNED_LABELS] = json!(owned);
        }
        NodeView::slim(serde_json::from_value(node).unwrap())
    }

    fn described(owned: &str) -> Description {
        let to = |value: &str| Guarded {
            from: None,
            to: Some(value.to_owned()),
        };
        Description {
            labels: [("zone".to_owned(), "z".to_owned())].into(),
            guarded_labels: [("a".to_owned(), to("1")), ("b".to_owned(), to("2"))].into(),
            annotations: [(annotations::OWNED_LABELS.to_owned(), Some(owned.to_owned()))].into(),
            ..Description::default()
        }
    }

    fn keys(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn omits_label_together_with_ownership_note() {
        let rest = described("a=1,b=2").without_labels(&node(None), &keys(&["b"]));
        assert!(rest.labels.contains_key("zone"));
        assert_eq!(rest.guarded_labels.keys().collect::<Vec<_>>(), ["a"]);
        let noted = rest.annotations[annotations::OWNED_LABELS].as_deref();
        assert_eq!(noted, Some("a=1"));
        let none = described("a=1,b=2").without_labels(&node(None), &keys(&["a", "b"]));
        assert!(none.guarded_labels.is_empty() && none.annotations.is_empty());
        // What is noted already is not written again.
        let same = described("a=1,b=2").without_labels(&node(Some("a=1")), &keys(&["b"]));
        assert!(same.annotations.is_empty());
    }

    #[test]
    fn ownership_note_is_still_removed() {
        let mut gone = described("a=1");
        gone.annotations
            .insert(annotations::OWNED_LABELS.to_owned(), None);
        let rest = gone.without_labels(&node(Some("b=2")), &keys(&["b"]));
        assert_eq!(rest.annotations[annotations::OWNED_LABELS], None);
    }

    #[test]
    fn tries_label_with_ownership_note() {
        let mut description = described("a=1,b=2,c=3");
        description.guarded_labels.remove("a");
        let tried = description.one_by_one();
        let shown: Vec<_> = tried
            .iter()
            .map(|(key, one)| {
                let note = one.annotations[annotations::OWNED_LABELS].as_deref();
                (key.as_str(), one.guarded_labels.len(), note.unwrap())
            })
            .collect();
        assert_eq!(shown, [("a", 0, "a=1"), ("b", 1, "b=2"), ("c", 0, "c=3")]);
    }
}
