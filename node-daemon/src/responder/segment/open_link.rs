//! What exists only while a segment is attached to an interface.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use crate::protocol::Moment;
use crate::responder::Attachment;
use crate::responder::system::{SegmentSockets, System};
use crate::wire::multicast_groups::MulticastGroups;
use crate::wire::packet_socket::PacketSocketError;

/// How soon to try again to join groups.
const RETRY: Duration = Duration::from_secs(1);

/// The sockets on an interface.
pub(super) struct OpenLink {
    pub(super) attachment: Attachment,
    pub(super) sockets: Box<dyn SegmentSockets>,
    groups: MulticastGroups,
    /// When to try again to join groups: they could not be joined the last time.
    rejoin: Option<Moment>,
}

impl OpenLink {
    /// Attaches, and joins the groups. `prepared` is what was opened for the interface beforehand.
    pub(super) fn open(
        attachment: Attachment,
        prepared: Option<Box<dyn SegmentSockets>>,
        system: &dyn System,
        groups: &BTreeSet<Ipv6Addr>,
        now: Moment,
    ) -> Result<Self, PacketSocketError> {
        let sockets = match prepared {
            Some(sockets) => {
                // Questions of before are answered, and messages taken in.
                sockets.drain();
                sockets
            }
            None => system.open_segment(&attachment.name, attachment.index)?,
        };
        let mut link = Self {
            sockets,
            groups: MulticastGroups::new(attachment.index),
            attachment,
            rejoin: None,
        };
        link.join(groups, now);
        Ok(link)
    }

    /// Is in exactly these groups.
    pub(super) fn join(&mut self, groups: &BTreeSet<Ipv6Addr>, now: Moment) {
        let interface = &self.attachment.name;
        let was_deaf = self.rejoin.is_some();
        let result = self.groups.set(groups, Instant::now());
        match &result {
            Ok(()) if was_deaf => tracing::info!(%interface, "IPv6 multicast groups joined"),
            Ok(()) => {}
            Err(error) if was_deaf => {
                tracing::debug!(%interface, %error, "still cannot join IPv6 multicast groups");
            }
            Err(error) => {
                tracing::warn!(%interface, %error, "cannot join IPv6 multicast groups, will try \
                    again: questions for IPv6 addresses may not arrive; is IPv6 disabled on the \
                    interface?");
            }
        }
        self.rejoin = result.is_err().then(|| now + RETRY);
    }

    /// Tries again what has failed.
    pub(super) fn rejoin_if_due(&mut self, groups: &BTreeSet<Ipv6Addr>, now: Moment) {
        if self.rejoin.is_some_and(|at| now >= at) {
            self.join(groups, now);
        }
    }

    /// When to try again.
    pub(super) const fn rejoin_at(&self) -> Option<Moment> {
        self.rejoin
    }
}
