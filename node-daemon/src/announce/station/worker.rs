//! The loop.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc as channel};

use arc_swap::ArcSwap;

use super::super::inheritance::Inheritance;
use super::{Answered, Setup, Slot};

/// The thread's own.
pub(super) struct Worker {
    setup: Setup,
}

impl Worker {
    pub(super) fn new(
        setup: Setup,
        _slot: Arc<ArcSwap<Slot>>,
        _answered: channel::Receiver<Answered>,
        _woken: UnixStream,
    ) -> Self {
        Self { setup }
    }

    pub(super) fn run(self) -> Inheritance {
        Inheritance {
            node: self.setup.node,
            incarnation: self.setup.incarnation,
            segments: BTreeMap::new(),
        }
    }
}
