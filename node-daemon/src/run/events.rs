//! Events of the announcer, which must never wait for the API server.

use k8s_openapi::api::core::v1::ObjectReference;
use mooring_common::k8s::{EventKind, Events};
use tokio::sync::mpsc;

use crate::announce::EventSink;

/// How many Events may wait. When 100 addresses move at once, each has one; more than that are
/// better looked up in the metrics.
const WAITING: usize = 128;

struct QueuedEvent {
    about: ObjectReference,
    kind: EventKind,
    reason: &'static str,
    note: String,
}

/// Takes Events at once, and lets go those that are too many.
pub(super) struct QueuedEvents {
    queue: mpsc::Sender<QueuedEvent>,
}

impl QueuedEvents {
    /// The queue, and what writes its Events for as long as it is polled.
    pub(super) fn new(events: Events) -> (Self, impl Future<Output = ()>) {
        let (queue, mut queued) = mpsc::channel::<QueuedEvent>(WAITING);
        let write = async move {
            while let Some(QueuedEvent {
                about,
                kind,
                reason,
                note,
            }) = queued.recv().await
            {
                events.report(&about, kind, reason, note).await;
            }
        };
        (Self { queue }, write)
    }
}

impl EventSink for QueuedEvents {
    fn event(&self, about: ObjectReference, kind: EventKind, reason: &'static str, note: String) {
        if self
            .queue
            .try_send(QueuedEvent {
                about,
                kind,
                reason,
                note,
            })
            .is_err()
        {
            tracing::warn!(reason, "too many Events at once: one is let go");
        }
    }
}
