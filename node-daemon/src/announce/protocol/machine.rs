//! The state machine.

use std::collections::BTreeSet;

use super::decision::{Decision, Path, Transmit};
use super::message::{Incarnation, Key, Message, NodeId};
use super::parameters::Parameters;
use super::time::Moment;
use super::view::{ApiAnswer, Local, View};

/// One node on one segment, as voter, deputy and holder. See the module above for what it
/// guarantees.
///
/// Whoever drives it calls one of the methods that take `now`, and then takes all of
/// [`Self::poll_decision`] and [`Self::poll_transmit`]. `now` never goes back.
#[derive(Clone, Debug)]
pub struct Machine {
    node: NodeId,
    incarnation: Incarnation,
}

/// Stub.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Inheritance(NodeId, Incarnation);

impl Machine {
    /// Stub.
    #[must_use]
    pub fn export(&self) -> Inheritance {
        Inheritance(self.node, self.incarnation)
    }
    /// Stub.
    #[must_use]
    pub fn inherit(i: Inheritance, _now: Moment) -> Self {
        Self {
            node: i.0,
            incarnation: i.1,
        }
    }
    /// A member that has just started. `seed` sets everything random.
    #[must_use]
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        _parameters: Parameters,
        _seed: u64,
        _now: Moment,
    ) -> Self {
        Self { node, incarnation }
    }

    /// Takes in what the API objects say.
    pub fn set_view(&mut self, _view: View, _now: Moment) {}

    /// Takes in the state of this node.
    pub fn set_local(&mut self, _local: Local, _now: Moment) {}

    /// Takes in a message of another member, by whichever path it came.
    pub fn receive(&mut self, _message: &Message, _path: Path, _now: Moment) {}

    /// Takes in the answer to a [`Decision::Ask`], and when it was asked.
    pub fn api_answered(&mut self, _answer: ApiAnswer, _asked: Moment, _now: Moment) {}

    /// The kernel of a node has answered for one of its own addresses.
    pub fn kernel_answered(&mut self, _node: NodeId, _now: Moment) {}

    /// The gateway has answered.
    pub fn gateway_answered(&mut self, _now: Moment) {}

    /// A frame about this key has just been handed to the kernel. If the right to it had ended
    /// by then, the others are told.
    pub fn frame_sent(&mut self, _key: Key, _now: Moment) {}

    /// Lets time pass.
    pub fn tick(&mut self, _now: Moment) {}

    /// When to call [`Self::tick`] at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Moment {
        Moment::NEVER
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    /// The next thing to do.
    pub fn poll_decision(&mut self) -> Option<Decision> {
        None
    }

    /// Until when a frame about this key may leave; `None`: not at all. To be asked before each
    /// frame.
    #[must_use]
    pub fn permitted_until(&self, _key: Key) -> Option<Moment> {
        None
    }

    /// Whether a frame about this key may leave at `now`.
    #[must_use]
    pub fn permits(&self, key: Key, now: Moment) -> bool {
        self.permitted_until(key).is_some_and(|until| now < until)
    }

    /// The keys that it holds.
    #[must_use]
    pub fn held(&self) -> BTreeSet<Key> {
        BTreeSet::new()
    }

    /// Whether all was handed over that could be, after [`Local::ending`].
    #[must_use]
    pub fn has_ended(&self) -> bool {
        true
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> (NodeId, Incarnation) {
        (self.node, self.incarnation)
    }
}
