//! Events: how a person learns, on the object itself, what was done and why not.
//!
//! They are those of the core API: the roles of the Go controllers grant these alone, and whoever
//! reads `events.k8s.io` sees them too. An Event is told apart by its text, so that of two failures
//! with one reason both can be read. There is no budget: what would be too often is for those who
//! report not to say.

mod cache;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::errors::with_causes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;

use cache::{EventCache, EventKey, Written};

/// Normal, or something that a person should look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// For information.
    Normal,
    /// A person should look at it.
    Warning,
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        })
    }
}

/// Reports Events as one component. The same Event again, about the same object in the same words,
/// raises the count of the first.
#[derive(Clone)]
pub struct Events {
    client: Client,
    component: String,
    instance: String,
    cache: Arc<Mutex<EventCache>>,
    permitted: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// The longest note that readers of events.k8s.io/v1 reckon with, in bytes. The core API sets no
/// limit to Events without `eventTime`.
const LONGEST_NOTE: usize = 1024;
/// The same for `reportingInstance`; a Node's name can be longer.
const LONGEST_INSTANCE: usize = 128;
/// Where Events about cluster-wide objects are.
const CLUSTER_WIDE: &str = "default";
/// Nobody's work waits for longer.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

impl Events {
    /// Reports as this component (see [`crate::names::components`]), from this instance.
    #[must_use]
    pub fn new(client: Client, component: &str, instance: &str) -> Self {
        Self {
            client,
            component: component.to_owned(),
            instance: shortened(instance.to_owned(), LONGEST_INSTANCE),
            cache: Arc::default(),
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

    /// Reports one Event about an object. A failure is logged and otherwise let go, after a few
    /// seconds at most: an Event that cannot be written must not keep the work from being done.
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
        let told = EventKey {
            about: about.clone(),
            kind,
            reason: reason.to_owned(),
            note: shortened(note.into(), LONGEST_NOTE),
        };
        let now = Timestamp::now();
        let written = {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            cache.once_more(&told, now)
        };
        let name = about.name.as_deref().unwrap_or_default();
        let note = &told.note;
        match tokio::time::timeout(SEND_TIMEOUT, self.write(&told, &written, now)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(
                error = with_causes(&error),
                reason,
                name,
                note,
                "cannot write an Event"
            ),
            Err(_) => tracing::warn!(reason, name, note, "no time to write an Event"),
        }
    }

    /// An Event that is gone, or was never taken, is made with the count that it would have.
    async fn write(&self, told: &EventKey, written: &Written, now: Timestamp) -> Result<(), Error> {
        let namespace = told.about.namespace.as_deref();
        let namespace = namespace.filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or(CLUSTER_WIDE);
        let api = Api::<Event>::namespaced(self.client.clone(), namespace);
        if written.count > 1 {
            let raised = json!({ "count": written.count, "lastTimestamp": Time(now) });
            let (params, raised) = (PatchParams::default(), Patch::Merge(raised));
            match api.patch(&written.name, &params, &raised).await {
                Err(error) if has_code(&error, 404) => {}
                other => return other.map(drop),
            }
        }
        let event = self.event(told, written, namespace, now);
        match api.create(&PostParams::default(), &event).await {
            // Somebody else reported the same at the same time, and was faster.
            Err(error) if has_code(&error, 409) => Ok(()),
            other => other.map(drop),
        }
    }

    fn event(&self, told: &EventKey, written: &Written, namespace: &str, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(written.name.clone()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: told.about.clone(),
            type_: Some(told.kind.to_string()),
            reason: Some(told.reason.clone()),
            action: Some(told.reason.clone()),
            message: Some(told.note.clone()),
            count: Some(written.count),
            first_timestamp: Some(Time(written.first)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: None,
            }),
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

fn has_code(error: &Error, code: u16) -> bool {
    matches!(error, Error::Api(status) if status.code == code)
}

fn shortened(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let mut end = longest - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
