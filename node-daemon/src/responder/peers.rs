//! The other members of a segment, as far as they are heard: for reports, for metrics, for reaching
//! them, and for the choice of the secret to sign with. The protocol keeps a book of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Member;
use crate::protocol::mac::Mac;
use crate::protocol::{
    Body, Contact, Epoch, Heartbeat, Incarnation, KeyId, Message, Moment, NodeId, Path, View,
};

/// A member that was not heard for so long is reported as silent.
const ALIVE: Duration = Duration::from_secs(1);
/// For how long the secrets of a member count that has fallen silent.
const SECRETS_COUNT: Duration = Duration::from_secs(30);
/// For how long a refused message is reported.
const REFUSED: Duration = Duration::from_secs(60);
/// When who is in no view is forgotten.
const FORGET: Duration = Duration::from_secs(600);
/// A longer pause is no loss of heartbeats, but an absence.
const ABSENCE: Duration = Duration::from_secs(5);

/// The other members.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: BTreeMap<NodeId, Peer>,
}

#[derive(Debug, Default)]
struct Peer {
    incarnation: Incarnation,
    epoch: Epoch,
    generation: u64,
    heartbeat: Option<Arc<Heartbeat>>,
    signed: Option<KeyId>,
    segment: Reception,
    node_network: Reception,
    refused: Option<Moment>,
}

/// What has come by one way.
#[derive(Debug, Default)]
struct Reception {
    seq: u64,
    at: Option<Moment>,
    heartbeat_at: Option<Moment>,
}

impl Reception {
    fn heard_within(&self, time: Duration, now: Moment) -> bool {
        self.at.is_some_and(|at| now.since(at) < time)
    }
}

impl Peer {
    fn heard_within(&self, time: Duration, now: Moment) -> bool {
        self.segment.heard_within(time, now) || self.node_network.heard_within(time, now)
    }
}

impl Peers {
    /// Takes in a message that may be believed. Says how many heartbeats have not come before it.
    pub(super) fn heard(
        &mut self,
        message: &Message,
        signed: Option<KeyId>,
        path: Path,
        interval: Duration,
        now: Moment,
    ) -> u64 {
        let peer = self.peers.entry(message.from).or_default();
        if peer.incarnation != message.incarnation {
            // While the one is heard, what bears the name of another run may be a recording.
            if peer.heard_within(ALIVE, now) {
                return 0;
            }
            *peer = Peer {
                incarnation: message.incarnation,
                ..Peer::default()
            };
        }
        let newest = peer.segment.seq.max(peer.node_network.seq);
        let reception = match path {
            Path::Segment => &mut peer.segment,
            Path::NodeNetwork => &mut peer.node_network,
        };
        if message.seq <= reception.seq {
            return 0;
        }
        reception.seq = message.seq;
        reception.at = Some(now);
        let mut lost = 0;
        if let Body::Heartbeat(heartbeat) = &message.body {
            lost = missed(reception.heartbeat_at.replace(now), interval, now);
            if message.seq > newest {
                peer.heartbeat = Some(Arc::clone(heartbeat));
            }
        }
        if message.seq > newest {
            peer.epoch = message.epoch;
            peer.generation = message.generation;
            peer.signed = signed;
        }
        lost
    }

    /// Takes in that a message in somebody's name was refused. Only of those in the view: anybody
    /// can make up names.
    pub(super) fn refused(&mut self, from: NodeId, view: &View, now: Moment) {
        if self.peers.contains_key(&from) || view.known.contains_key(&from) {
            self.peers.entry(from).or_default().refused = Some(now);
        }
    }

    /// Forgets who is gone for long.
    pub(super) fn forget(&mut self, view: &View, now: Moment) {
        self.peers
            .retain(|node, peer| view.known.contains_key(node) || peer.heard_within(FORGET, now));
    }

    /// How a member is reached: as it says itself, or else as the view says.
    pub(super) fn contact<'a>(&'a self, node: NodeId, view: &'a View) -> Option<&'a Contact> {
        let peer = self.peers.get(&node);
        let stated = peer.and_then(|peer| peer.heartbeat.as_deref());
        stated
            .map(|heartbeat| &heartbeat.contact)
            .or_else(|| view.known.get(&node))
    }

    /// Where a member hears messages on the node network. Where the view and the member itself name
    /// different hosts, none is believed: one of them may lead our messages to a machine of others.
    pub(super) fn socket(&self, node: NodeId, view: &View) -> Option<SocketAddr> {
        let stated = self.contact(node, view).and_then(|said| said.node_network);
        let registered = view.known.get(&node).and_then(|known| known.node_network);
        match (registered, stated) {
            (Some(registered), Some(stated)) if registered.ip() != stated.ip() => None,
            (registered, stated) => registered.or(stated),
        }
    }

    /// The MAC addresses of all members.
    pub(super) fn macs(&self, view: &View) -> BTreeSet<Mac> {
        let heard = self.peers.values();
        let heard = heard.filter_map(|peer| peer.heartbeat.as_ref()?.contact.mac);
        let known = view.known.values().filter_map(|contact| contact.mac);
        heard.chain(known).collect()
    }

    /// The secrets that each member accepts.
    pub(super) fn secrets(&self, now: Moment) -> impl Iterator<Item = &[KeyId]> {
        self.peers
            .values()
            .filter(move |peer| peer.heard_within(SECRETS_COUNT, now))
            .filter_map(|peer| Some(peer.heartbeat.as_ref()?.secrets.as_slice()))
    }

    /// Everybody, with those of the view that have never been heard; without this member, which has said so in its
    /// newest heartbeat.
    pub(super) fn members(
        &self,
        own: NodeId,
        view: &View,
        own_heartbeat: Option<&Heartbeat>,
        now: Moment,
    ) -> Vec<Member> {
        let nodes: BTreeSet<_> = self.peers.keys().chain(view.known.keys()).collect();
        let nobody = Peer::default();
        nodes
            .into_iter()
            .filter(|node| **node != own)
            .map(|node| {
                let peer = self.peers.get(node).unwrap_or(&nobody);
                let said = peer.heartbeat.as_deref();
                let is_voter = |own: &Heartbeat| own.voters.voters.contains(node);
                let is_suspected = |own: &Heartbeat| own.suspects.contains(node);
                Member {
                    node: *node,
                    epoch: peer.epoch,
                    alive: peer.heard_within(ALIVE, now),
                    on_segment: peer.segment.heard_within(ALIVE, now),
                    on_node_network: peer.node_network.heard_within(ALIVE, now),
                    flags: said.map(|said| said.flags).unwrap_or_default(),
                    voter: own_heartbeat.is_some_and(is_voter),
                    suspected: own_heartbeat.is_some_and(is_suspected),
                    weight: said.map(|said| said.weight).unwrap_or_default(),
                    contact: self.contact(*node, view).cloned().unwrap_or_default(),
                    generation: peer.generation,
                    voters: said.map(|said| said.voters.clone()).unwrap_or_default(),
                    settled: said.map_or(0, |said| said.settled),
                    approved: said.map_or(0, |said| said.approved),
                    holds: said.map_or(0, |said| said.count),
                    signed: peer.signed,
                    secrets: said.map(|said| said.secrets.clone()).unwrap_or_default(),
                    refused: peer.refused.is_some_and(|at| now.since(at) < REFUSED),
                }
            })
            .collect()
    }
}

/// How many heartbeats have not come since the last one.
fn missed(last: Option<Moment>, interval: Duration, now: Moment) -> u64 {
    let Some(pause) = last.map(|last| now.since(last)) else {
        return 0;
    };
    if pause > ABSENCE {
        return 0;
    }
    let intervals = (pause + interval / 2).as_nanos() / interval.as_nanos().max(1);
    u64::try_from(intervals).unwrap_or(0).saturating_sub(1)
}

#[cfg(test)]
mod tests;
