//! Segments that this Node is not on any more: what it holds there is handed over before they are
//! closed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::responder::{DesiredSegment, DesiredSegments};

/// How long to hand over what is held, at the end of the daemon or of a segment.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The segments that are being left.
#[derive(Clone, Debug, Default)]
pub struct Leaving {
    /// Each as it was last desired, and until when it hands over.
    segments: BTreeMap<String, (Arc<DesiredSegment>, Instant)>,
    /// Those of which everything was handed over.
    ended: BTreeSet<String>,
}

impl Leaving {
    /// What is wanted, and what is still to be handed over on segments that run and are wanted no
    /// more.
    pub fn desired(
        &mut self,
        running: &DesiredSegments,
        wanted: &DesiredSegments,
        now: Instant,
    ) -> DesiredSegments {
        for (segment, desired) in running {
            if !wanted.contains_key(segment) && !self.segments.contains_key(segment) {
                let leaving = DesiredSegment {
                    ending: true,
                    ..DesiredSegment::clone(desired)
                };
                self.ended.remove(segment);
                let entry = (Arc::new(leaving), now + SHUTDOWN_GRACE);
                self.segments.insert(segment.clone(), entry);
            }
        }
        let ended = &self.ended;
        self.segments.retain(|segment, (_, until)| {
            !wanted.contains_key(segment) && now < *until && !ended.contains(segment)
        });
        let mut desired = wanted.clone();
        for (segment, (leaving, _)) in &self.segments {
            desired.insert(segment.clone(), Arc::clone(leaving));
        }
        desired
    }

    /// Everything on a segment was handed over.
    pub fn ended(&mut self, segment: &str) {
        self.ended.insert(segment.to_owned());
    }

    /// All segments end from now on.
    pub fn end(&mut self) {
        self.ended.clear();
    }

    /// Whether everything was handed over on all segments that run.
    #[must_use]
    pub fn have_ended(&self, running: &DesiredSegments) -> bool {
        let mut segments = running.keys();
        segments.all(|segment| self.ended.contains(segment))
    }
}
