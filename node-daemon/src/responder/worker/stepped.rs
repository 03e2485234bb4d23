//! The thread's loop, turned by somebody else: for a simulator, which is the clock and the network.

use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc as channel};

use arc_swap::ArcSwap;

use super::Worker;
use crate::protocol::{ApiAnswer, Epoch, Moment};
use crate::responder::system::System;
use crate::responder::upgrade_state::UpgradeState;
use crate::responder::{DesiredSegments, News, Setup, Slot, Told};

impl Worker {
    /// The addresses that a frame may leave for, by segment, each with until when.
    fn permits(&self) -> impl Iterator<Item = (&str, IpAddr, Moment)> {
        self.segments.values().flat_map(|(name, segment)| {
            let permits = segment.permits();
            permits.map(move |(address, until)| (name.as_str(), address, until))
        })
    }

    /// Under which epoch it speaks on a segment; zero while it has none.
    fn epoch(&self, segment: &str) -> Epoch {
        let mut segments = self.segments.values();
        let found = segments.find(|(name, _)| name == segment);
        found.map_or_else(Epoch::default, |(_, segment)| segment.epoch())
    }
}

/// What a [`crate::responder::Responder`] is, without a thread of its own.
pub struct SteppedResponder {
    worker: Worker,
    slot: Arc<ArcSwap<Slot>>,
    answers: channel::Sender<Told>,
}

impl SteppedResponder {
    /// As [`crate::responder::Responder::start`], with time and sockets from `system`.
    ///
    /// # Errors
    /// If the operating system gives no socket pair.
    pub fn new(setup: Setup, system: Box<dyn System>) -> std::io::Result<Self> {
        let (_, woken) = UnixStream::pair()?;
        let slot = Slot::of(Arc::clone(&setup.desired));
        let slot = Arc::new(ArcSwap::from_pointee(slot));
        let (answers, answered) = channel::channel();
        Ok(Self {
            worker: Worker::new(setup, system, Arc::clone(&slot), answered, woken),
            slot,
            answers,
        })
    }

    /// As [`crate::responder::Responder::set_desired`].
    pub fn set_desired(&self, desired: Arc<DesiredSegments>) {
        self.slot.store(Arc::new(Slot::of(desired)));
    }

    /// As [`crate::responder::Responder::answer`].
    pub fn answer(&self, segment: &str, answer: ApiAnswer, asked: Moment) {
        let told = Told {
            segment: segment.to_owned(),
            news: News::Answer(answer, asked),
        };
        // The receiver is in the worker.
        let _ = self.answers.send(told);
    }

    /// Does what there is to do now.
    pub fn turn(&mut self) {
        self.worker.turn(true);
    }

    /// When to turn it even if nothing happens.
    #[must_use]
    pub fn next_deadline(&self) -> Moment {
        self.worker.next_deadline()
    }

    /// The addresses that a frame may leave for, by segment, each with until when.
    pub fn permits(&self) -> impl Iterator<Item = (&str, IpAddr, Moment)> {
        self.worker.permits()
    }

    /// Under which epoch it speaks on a segment; zero while it has none.
    #[must_use]
    pub fn epoch(&self, segment: &str) -> Epoch {
        self.worker.epoch(segment)
    }

    /// As [`crate::responder::Responder::export`].
    #[must_use]
    pub fn export(self) -> UpgradeState {
        self.worker.export().0
    }
}
