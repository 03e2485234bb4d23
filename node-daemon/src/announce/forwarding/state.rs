//! Which address is passed on to whom, and until when, on one segment: pure.
//!
//! # Why no frame goes round
//! For an address, each node has at most one *former* speaker F and one *successor* S, both of its own last
//! time as speaker: F spoke right before it, S right after it. It passes a frame on to F only if the frame
//! comes from no member, or from S. While it speaks it has no successor, and passes on nothing that
//! comes from a member, but for what is said of the next speaker below.
//!
//! A circle N1 → N2 → … → N1 would need S(Ni+1) = Ni at each step: the last time of Ni as speaker begins
//! after that of Ni+1 has ended. Times of speakers do not overlap, so the beginnings of these times fall along
//! the path, and a circle would need one that is before itself. It holds for whatever the tables say
//! of other nodes, and needs no clock that is shared: each node goes by its own last time alone.
//!
//! A speaker takes the one that it is about to hand over to for its successor a moment before, and only if that one has
//! said that it is prepared: until it has spoken itself, it passes on nothing that comes from a member, so it is
//! on no circle. If it does not take the address, the speaker goes on, and forgets it after 5 s, or
//! when it hands over to somebody else; and the other forgets what it has prepared. Whoever takes the address without
//! having said so is no successor, since its kernel may do what it did after an older time: what the speaker
//! before it passed on ends.
//!
//! # Chains
//! A connection that began two moves ago takes two hops, and so on: each node knows what is its own. A
//! chain breaks where a node on it goes, or has not learnt its successor; then connections beyond
//! it are reset, as all were before.
//!
//! # Unannounced moves
//! While a node's daemon is restarted, another one answers for its addresses without announcing them: clients
//! go on to send to the first node, and get their connections from there. So an unannounced move is no end of
//! a node's time as speaker, and its return no beginning: what the node passes on stays as it is. So does what the one
//! that answers meanwhile passes on, if it has been a speaker before: that is still of its own last time. If it announces
//! the address in the end, or hands it on, a new time begins of which it knows no former speaker, and it passes on nothing.

mod counts;
mod wanted;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::counts::Count;
use self::counts::Served;
use super::table::KERNEL_LEASE;
use crate::protocol::mac::Mac;
use crate::protocol::{Moment, NodeId};

/// An offered address is taken within that time, or not at all.
const PREPARED: Duration = Duration::from_secs(5);
/// UDP flows that are not known are taken for those of the former speaker for so long, new ones too: no datagram says
/// that it is the first. One that is silent all that time begins anew here.
const LEARNS: Duration = Duration::from_secs(30);
/// A former speaker that says nothing of its connections for so long has none.
const UNTOLD: Duration = Duration::from_secs(30);

/// Who is about to speak for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Next {
    node: NodeId,
    until: Moment,
}

/// Where this node stands with an address whose former speaker is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// It was offered.
    Prepared(Moment),
    /// This node speaks for it.
    Speaking,
    /// This node has handed it on.
    HandedOn(NodeId),
    /// Another one answers for it, but has not announced it.
    Unannounced,
    /// This node has handed it on to that one, and answers for it, but has not announced it.
    Answering(NodeId),
}

/// An address, and to whom its older connections are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pointer {
    former: NodeId,
    phase: Phase,
    /// Whose frames are let through before this node, which speaks, lets go.
    #[serde(skip)]
    next: Option<Next>,
    /// When the former speaker was last known to have connections.
    #[serde(skip)]
    told: Moment,
    learns_until: Moment,
    ends: Moment,
}

/// A member that the process before knew, and that this one has not heard yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Unheard {
    mac: Mac,
    /// It is gone if it is not heard until then. A process that ends earlier leaves the same time to the next, so that
    /// nothing goes to somebody who is long gone.
    until: Moment,
}

/// The interface of the segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// Its MAC address.
    pub mac: Mac,
}

/// One segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarding {
    device: Option<Device>,
    /// `spec.keepConnections`; zero: not at all.
    keep_for: Duration,
    #[serde(default)]
    members: BTreeMap<NodeId, Mac>,
    /// The members that the process before knew, until each can have been heard again.
    #[serde(default)]
    unheard: BTreeMap<NodeId, Unheard>,
    pointers: BTreeMap<IpAddr, Pointer>,
    served: BTreeMap<IpAddr, Served>,
}

impl Forwarding {
    /// Takes in the interface and `spec.keepConnections`. Another interface, or none, ends everything.
    pub fn configure(&mut self, device: Option<Device>, keep_for: Duration) {
        if self.device != device {
            self.pointers.clear();
        }
        if keep_for.is_zero() {
            self.pointers.clear();
            self.served.clear();
        }
        self.device = device;
        self.keep_for = keep_for;
    }

    /// Goes on from what the process before has saved.
    pub fn restore(&mut self, now: Moment) {
        for pointer in self.pointers.values_mut() {
            pointer.told = now;
        }
        self.pointers.retain(|_, pointer| {
            !matches!(pointer.phase, Phase::Prepared(_) | Phase::Answering(_))
        });
        let until = now + KERNEL_LEASE;
        let heard = std::mem::take(&mut self.members).into_iter();
        self.unheard
            .extend(heard.map(|(node, mac)| (node, Unheard { mac, until })));
    }

    /// Whether it is of the process before, and not all members may have been heard yet.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// The interface's name.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        Some(&self.device.as_ref()?.name)
    }

    /// Whether there is nothing that a process after this one would have to know.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty() && self.served.is_empty()
    }

    /// The interface, if connections are kept on it.
    #[must_use]
    pub fn keeps(&self) -> Option<&Device> {
        self.device.as_ref().filter(|_| !self.keep_for.is_zero())
    }

    /// Takes in who is a member, and where. What is passed on to somebody else ends.
    pub fn set_members(&mut self, members: BTreeMap<NodeId, Mac>) {
        self.members = members;
        self.forget_others();
    }

    /// Ends what is passed on to, or told to, somebody who is no member, and was none before the restart.
    fn forget_others(&mut self) {
        let (members, unheard) = (&self.members, &self.unheard);
        let is_known = |node: &NodeId| members.contains_key(node) || unheard.contains_key(node);
        self.pointers.retain(|_, pointer| is_known(&pointer.former));
        self.served.retain(|_, served| is_known(&served.to));
    }

    /// An address was offered by the one who speaks for it. Whether the table is to be written before it is
    /// taken.
    pub fn prepare(&mut self, address: IpAddr, former: NodeId, now: Moment) -> bool {
        let can = self.device.is_some() && !self.keep_for.is_zero();
        if !can || self.mac_of(former).is_none() {
            return false;
        }
        let pointer = Pointer {
            former,
            phase: Phase::Prepared(now + PREPARED),
            next: None,
            told: now,
            learns_until: now + LEARNS,
            ends: now + self.keep_for,
        };
        self.pointers.insert(address, pointer);
        true
    }

    /// Whether an address is passed on to the node that offered it, and was handed to nobody since.
    #[must_use]
    pub fn passes_on_to(&self, address: IpAddr, former: NodeId) -> bool {
        self.pointers.get(&address).is_some_and(|pointer| {
            let is_of_offer = matches!(pointer.phase, Phase::Prepared(_) | Phase::Speaking);
            is_of_offer && pointer.former == former
        })
    }

    /// What was offered cannot be passed on: it moves as without this.
    pub fn give_up_offers(&mut self) {
        self.pointers
            .retain(|_, pointer| !matches!(pointer.phase, Phase::Prepared(_)));
    }

    /// This node speaks for an address, after `former`. What was before counts no more, unless nobody has
    /// announced anything since.
    pub fn began(
        &mut self,
        address: IpAddr,
        former: Option<NodeId>,
        is_announced: bool,
        now: Moment,
    ) {
        if is_announced {
            self.served.remove(&address);
        }
        let Some(pointer) = self.pointers.get_mut(&address) else {
            return;
        };
        pointer.next = None;
        match pointer.phase {
            Phase::Prepared(_) if former == Some(pointer.former) => {
                pointer.phase = Phase::Speaking;
                pointer.told = now;
                pointer.learns_until = now + LEARNS;
                pointer.ends = now + self.keep_for;
            }
            Phase::Speaking | Phase::Unannounced if !is_announced => {
                pointer.phase = Phase::Speaking;
            }
            Phase::HandedOn(to) | Phase::Answering(to) if !is_announced => {
                pointer.phase = Phase::Answering(to);
            }
            _ => {
                self.pointers.remove(&address);
            }
        }
    }

    /// This node announces an address that it has only answered for, or announces it once more.
    pub fn announced(&mut self, address: IpAddr) {
        self.served.remove(&address);
        let pointer = self.pointers.get(&address);
        if pointer.is_some_and(|pointer| matches!(pointer.phase, Phase::Answering(_))) {
            self.pointers.remove(&address);
        }
    }

    /// This node speaks for an address, and is about to hand it over to a node whose kernel passes on to this one
    /// already: what it passes on is let through before it does.
    pub fn handing_on(&mut self, address: IpAddr, to: NodeId, now: Moment) {
        if let Some(pointer) = self.pointers.get_mut(&address)
            && pointer.phase == Phase::Speaking
            && pointer.former != to
        {
            let until = now + PREPARED;
            pointer.next = Some(Next { node: to, until });
        }
    }

    /// This node has handed an address over, and its successor announces it.
    pub fn handed_on(&mut self, address: IpAddr, to: NodeId, now: Moment) {
        if self.keep_for.is_zero() {
            return;
        }
        self.served
            .insert(address, Served::to(to, now + self.keep_for));
        match self.pointers.get_mut(&address) {
            Some(pointer) if pointer.next.is_some_and(|next| next.node == to) => {
                pointer.phase = Phase::HandedOn(to);
                pointer.next = None;
            }
            // One that has not said that it is prepared may still pass on what it did before, in a circle.
            _ => {
                self.pointers.remove(&address);
            }
        }
    }

    /// This node has handed an address over, and its successor does not announce it.
    pub fn left_unannounced(&mut self, address: IpAddr) {
        let Some(pointer) = self.pointers.get_mut(&address) else {
            return;
        };
        match pointer.phase {
            Phase::Speaking => {
                pointer.phase = Phase::Unannounced;
                pointer.next = None;
            }
            Phase::Answering(to) => pointer.phase = Phase::HandedOn(to),
            Phase::Prepared(_) | Phase::HandedOn(_) | Phase::Unannounced => {}
        }
    }

    /// This node speaks for it no more. If it was handed over, that is said before.
    pub fn stopped(&mut self, address: IpAddr) {
        let speaks = |phase: Phase| matches!(phase, Phase::Speaking | Phase::Answering(_));
        self.pointers
            .retain(|of, pointer| *of != address || !speaks(pointer.phase));
    }

    /// A node has said how many connections it has to an address that was its own.
    pub fn told(&mut self, from: NodeId, address: IpAddr, connections: u32, now: Moment) {
        if let Some(pointer) = self.pointers.get_mut(&address)
            && pointer.former == from
        {
            pointer.told = now;
            if connections == 0 {
                self.pointers.remove(&address);
            }
        }
    }

    /// A node is gone: nothing is passed on to it.
    pub fn gone(&mut self, node: NodeId) {
        self.pointers.retain(|_, pointer| pointer.former != node);
        self.served.retain(|_, served| served.to != node);
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Moment) {
        let before = self.unheard.len();
        self.unheard.retain(|_, unheard| now < unheard.until);
        if self.unheard.len() < before {
            self.forget_others();
        }
        self.pointers.retain(|_, pointer| {
            pointer.next = pointer.next.filter(|next| now < next.until);
            let taken = !matches!(pointer.phase, Phase::Prepared(until) if until <= now);
            taken && now < pointer.ends && now < pointer.told + UNTOLD
        });
        self.served.retain(|_, served| now < served.ends);
    }

    /// The addresses that are passed on, or are about to be: of these, this node's own connections matter.
    pub fn pointed(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.pointers.keys().copied()
    }
}

#[cfg(test)]
mod tests;
