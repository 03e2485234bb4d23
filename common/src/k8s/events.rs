//! Events: how a person learns, on the object itself, what was done and why not.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

/// Normal, or something that a person should look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// For information.
    Normal,
    /// A person should look at it.
    Warning,
}

/// Reports Events as one component. The same Event again raises the count of the first.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    permitted: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The longest note that the API server takes, in bytes (events.k8s.io/v1 `note`).
const LONGEST_NOTE: usize = 1024;

impl Events {
    /// Reports as this component (see [`crate::names::components`]), from this instance.
    #[must_use]
    pub fn new(client: Client, component: &str, instance: &str) -> Self {
        let reporter = Reporter {
            controller: component.to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self {
            recorder: Recorder::new(client, reporter),
            permitted: Arc::new(|| true),
        }
    }

    /// Reports only as long as this says so: who does not lead (any more) must not write.
    #[must_use]
    pub fn only_while(self, permitted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            permitted: Arc::new(permitted),
            ..self
        }
    }

    /// Reports one Event about an object. A failure is logged and otherwise let go: an Event that
    /// cannot be written must not keep the work from being done.
    pub async fn report(
        &self,
        about: &ObjectReference,
        kind: EventKind,
        reason: &str,
        note: impl Into<String>,
    ) {
        if !(self.permitted)() {
            return;
        }
        let event = Event {
            type_: match kind {
                EventKind::Normal => EventType::Normal,
                EventKind::Warning => EventType::Warning,
            },
            reason: reason.to_owned(),
            note: Some(shortened(note.into())),
            action: reason.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, about).await {
            let name = about.name.as_deref().unwrap_or_default();
            tracing::warn!(%error, reason, name, "cannot write an Event");
        }
    }
}

fn shortened(mut note: String) -> String {
    if note.len() > LONGEST_NOTE {
        let mut end = LONGEST_NOTE - '…'.len_utf8();
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push('…');
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_cut_between_characters() {
        assert_eq!(shortened("short".into()), "short");
        let long = shortened("ä".repeat(2000));
        assert!(long.len() <= LONGEST_NOTE && long.ends_with('…'));
    }
}
