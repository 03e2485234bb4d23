//! Since when this node can hear the others.

use std::time::{Duration, Instant};

use crate::protocol::NodeId;
use crate::responder::Report;

/// After that time everybody who lives has been heard.
const LISTENING: Duration = Duration::from_secs(1);

/// Whether this node has listened for long enough to have heard everybody who lives.
///
/// That does not count from the start of the process: the interface may come much later, and a process that hears nothing
/// has not found out that there is nobody.
#[derive(Debug, Default)]
pub(super) struct Listening {
    since: Option<Instant>,
}

impl Listening {
    /// The responder has started. A witness is on no interface: it listens on the node network.
    pub(super) fn started(&mut self, is_witness: bool, now: Instant) {
        self.since = is_witness.then_some(now);
    }

    /// Takes in what the responder says: it is on the segment, or somebody is heard on any path.
    pub(super) fn note(&mut self, report: &Report, me: NodeId, now: Instant) {
        match report {
            Report::Responding(Some(_)) => {
                self.since.get_or_insert(now);
            }
            Report::Responding(None) => self.since = None,
            Report::Members(members) if members.iter().any(|one| one.node != me && one.alive) => {
                self.since.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// Whether it is long enough.
    pub(super) fn is_enough(&self, now: Instant) -> bool {
        let listens = |since| now.saturating_duration_since(since) >= LISTENING;
        self.since.is_some_and(listens)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::announce::control_plane::desired::tests::member;
    use crate::protocol::mac::Mac;
    use crate::responder::Member;

    const ME: NodeId = NodeId(1);

    fn on_segment() -> Report {
        Report::Responding(Some(Mac::new([2, 0, 0, 0, 0, 1])))
    }

    fn members(node: NodeId, alive: bool) -> Report {
        Report::Members(Arc::new(vec![Member {
            alive,
            on_segment: false,
            on_node_network: alive,
            ..member(node)
        }]))
    }

    #[test]
    fn counts_from_when_it_can_hear_and_not_from_the_start() {
        let start = Instant::now();
        let mut listening = Listening::default();
        listening.started(false, start);
        // The interface comes a minute later.
        let attached = start + Duration::from_secs(60);
        assert!(!listening.is_enough(attached));
        listening.note(&members(ME, true), ME, attached);
        listening.note(&members(NodeId(2), false), ME, attached);
        listening.note(&on_segment(), ME, attached);
        assert!(!listening.is_enough(attached + LISTENING - Duration::from_millis(1)));
        assert!(listening.is_enough(attached + LISTENING));
        // A new MAC address is no new beginning; a lost interface is.
        listening.note(&on_segment(), ME, attached + LISTENING);
        assert!(listening.is_enough(attached + LISTENING));
        listening.note(&Report::Responding(None), ME, attached + LISTENING);
        assert!(!listening.is_enough(attached + LISTENING * 9));
    }

    #[test]
    fn one_that_hears_others_needs_no_interface() {
        let start = Instant::now();
        let mut witness = Listening::default();
        witness.started(true, start);
        assert!(!witness.is_enough(start) && witness.is_enough(start + LISTENING));
        let mut member = Listening::default();
        member.started(false, start);
        member.note(&members(NodeId(2), true), ME, start);
        assert!(!member.is_enough(start) && member.is_enough(start + LISTENING));
    }
}
