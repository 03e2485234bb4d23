//! What the simulator looks at of a segment.

use std::net::IpAddr;

use super::Segment;
use crate::protocol::{Epoch, Moment};

impl Segment {
    /// The addresses that a frame may leave for, each with until when.
    pub(in crate::responder) fn permits(&self) -> impl Iterator<Item = (IpAddr, Moment)> {
        let addresses = self.desired.addresses.iter();
        let addresses = addresses.filter(|_| self.link.is_some());
        addresses.flat_map(|(key, group)| {
            let until = self.machine.permitted_until(*key).into_iter();
            until.flat_map(|until| group.keys().map(move |address| (*address, until)))
        })
    }

    /// Under which epoch it speaks; zero while it has none.
    pub(in crate::responder) const fn epoch(&self) -> Epoch {
        self.machine.epoch()
    }
}
