//! What all segments of the thread use.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::metrics::Metrics;
use super::system::{NodeNetworkSocket, SegmentSockets, System};
use super::{Attachment, OpenedSockets, Report};
use crate::protocol::Moment;
use crate::wire::keys::KeyRing;

/// What all segments use.
pub(super) struct Shared {
    reports: mpsc::Sender<(String, Report)>,
    pub(super) metrics: Metrics,
    pub(super) ring: Arc<KeyRing>,
    pub(super) system: Box<dyn System>,
    pub(super) node_network: Option<Box<dyn NodeNetworkSocket>>,
    pub(super) node_network_port: Option<u16>,
    /// Why there is no socket on the node network.
    pub(super) fault: Option<String>,
    /// What was opened beforehand, by interface.
    prepared: RefCell<OpenedSockets>,
}

impl Shared {
    /// Without a socket on the node network yet.
    pub(super) fn new(
        reports: mpsc::Sender<(String, Report)>,
        metrics: Metrics,
        ring: Arc<KeyRing>,
        system: Box<dyn System>,
        prepared: OpenedSockets,
    ) -> Self {
        Self {
            reports,
            metrics,
            ring,
            system,
            node_network: None,
            node_network_port: None,
            fault: None,
            prepared: RefCell::new(prepared),
        }
    }

    /// Reports, unless there is no room: whoever reads it must not hold up the thread.
    pub(super) fn report(&self, segment: &str, report: Report) -> bool {
        let sent = self.reports.try_send((segment.to_owned(), report));
        if let Err(error) = &sent {
            tracing::warn!(segment, %error, "report dropped");
        }
        sent.is_ok()
    }

    /// Reports, where there is room.
    pub(super) fn try_report(&self, segment: &str, report: Report) -> bool {
        let report = (segment.to_owned(), report);
        self.reports.try_send(report).is_ok()
    }

    /// What was opened beforehand for an interface.
    pub(super) fn prepared(&self, attachment: &Attachment) -> Option<Box<dyn SegmentSockets>> {
        let interface = (attachment.name.clone(), attachment.index);
        let wire = self.prepared.borrow_mut().remove(&interface)?;
        Some(Box::new(wire))
    }

    /// What time it is.
    pub(super) fn now(&self) -> Moment {
        self.system.now()
    }
}
