//! What runs on a node of the simulation: the protocol's machine alone, or all that a daemon runs.

use std::fmt;
use std::sync::Arc;

use mooring_node::protocol::{
    Cause, Decision, Destination, Incarnation, Key, Local, Machine, Moment, NodeId, Parameters,
    Request,
};

use super::node::{Input, Packet};

/// What a process is born with.
#[derive(Clone, Debug)]
pub struct Birth {
    /// The Node's name.
    pub name: String,
    /// Who it is.
    pub node: NodeId,
    /// Which run.
    pub incarnation: Incarnation,
    /// The times and rules.
    pub parameters: Parameters,
    /// Sets everything random.
    pub seed: u64,
    /// The keys, by the number of what is judged.
    pub keys: Arc<Vec<Key>>,
    /// The names of the Nodes of its cluster, by number.
    pub names: Arc<Vec<String>>,
    /// It takes part over the node network only.
    pub witness: bool,
}

/// The state of the node that a process runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Here {
    /// What a machine is told of it.
    pub local: Local,
    /// Whether its interface has its address.
    pub has_address: bool,
    /// Whether its Node has the label of the segment.
    pub is_selected: bool,
    /// Whether its Node object is there.
    pub is_registered: bool,
}

/// What a process wants done.
#[derive(Clone, Debug)]
pub enum Output {
    /// A machine has decided something.
    Decision(Decision),
    /// It says something to other members.
    Say(Packet, Destination),
    /// It asks the API server about the L2Network with this UID.
    Ask(Request, u64),
    /// It begins to speak for an address.
    Begun(usize, Cause),
    /// It sends a frame of ARP.
    Frame(Vec<u8>),
}

/// What runs on a node.
pub trait Engine: fmt::Debug + Sized {
    /// Whether it is a whole daemon: its Services have several addresses.
    const IS_WHOLE: bool;

    /// A process that has just started.
    fn start(birth: &Birth, now: Moment) -> Self;

    /// Takes something in; with [`Input::Local`], how its node is.
    fn tell(&mut self, input: Input, here: Option<Here>, now: Moment);

    /// Lets time pass.
    fn tick(&mut self, now: Moment);

    /// When to let time pass at the latest.
    fn next_deadline(&self) -> Moment;

    /// The next thing that it wants done.
    fn poll(&mut self) -> Option<Output>;

    /// Until when a frame about each of what is judged may leave.
    fn permits(&self, permits: &mut [Option<Moment>]);

    /// A frame that was checked before has left.
    fn frame_sent(&mut self, spot: usize, now: Moment);

    /// Whether nothing is held any more after it was told to end.
    fn has_ended(&self) -> bool;

    /// Another process goes on in its place.
    #[must_use]
    fn upgrade(self, now: Moment) -> Self;
}

/// The machine alone, told by the simulation what a daemon would tell it.
#[derive(Clone)]
pub struct Alone {
    machine: Machine,
    keys: Arc<Vec<Key>>,
}

impl fmt::Debug for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.machine.fmt(f)
    }
}

impl Engine for Alone {
    const IS_WHOLE: bool = false;

    fn start(birth: &Birth, now: Moment) -> Self {
        let Birth {
            node,
            incarnation,
            parameters,
            seed,
            ..
        } = *birth;
        Self {
            machine: Machine::new(node, incarnation, parameters, seed, now),
            keys: Arc::clone(&birth.keys),
        }
    }

    fn tell(&mut self, input: Input, here: Option<Here>, now: Moment) {
        let machine = &mut self.machine;
        match input {
            Input::Message(packet, path) => machine.receive(&packet.message, path, now),
            Input::Answer(answer, asked) => machine.api_answered(answer, asked, now),
            Input::Kernel(other) => machine.kernel_answered(other, now),
            Input::Address(key, station) => {
                machine.address_answered(key, station, now);
            }
            Input::Gateway => machine.gateway_answered(now),
            Input::Prepared(awaited, key) => {
                machine.connections_prepared(awaited, &[key], true, now);
            }
            Input::View(objects) | Input::SavedHealth(objects) => {
                machine.set_view(objects.view(&self.keys), now);
            }
            Input::Local => {
                if let Some(here) = here {
                    machine.set_local(here.local, now);
                }
            }
            Input::Frame(..) => {}
        }
    }

    fn tick(&mut self, now: Moment) {
        self.machine.tick(now);
    }

    fn next_deadline(&self) -> Moment {
        self.machine.next_deadline()
    }

    fn poll(&mut self) -> Option<Output> {
        if let Some(decision) = self.machine.poll_decision() {
            return Some(Output::Decision(decision));
        }
        let transmit = self.machine.poll_transmit()?;
        let packet = Packet {
            message: Arc::new(transmit.message),
            bytes: None,
        };
        Some(Output::Say(packet, transmit.to))
    }

    fn permits(&self, permits: &mut [Option<Moment>]) {
        permits.fill(None);
        for (right, until) in self.machine.rights() {
            let spot = self.keys.iter().position(|key| *key == right);
            if let Some(permit) = spot.and_then(|spot| permits.get_mut(spot)) {
                *permit = Some(until);
            }
        }
    }

    fn frame_sent(&mut self, spot: usize, now: Moment) {
        if let Some(key) = self.keys.get(spot) {
            self.machine.frame_sent(*key, now);
        }
    }

    fn has_ended(&self) -> bool {
        self.machine.has_ended()
    }

    fn upgrade(self, now: Moment) -> Self {
        Self {
            machine: Machine::inherit(self.machine.export(), now),
            keys: self.keys,
        }
    }
}
