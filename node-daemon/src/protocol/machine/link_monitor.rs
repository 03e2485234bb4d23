//! Whether this node can be heard, and hears, on the segment itself (rule I).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::peers::Peer;
use super::sending::ON_SEGMENT;
use crate::protocol::decision::{Cause, Decision, Transition};
use crate::protocol::message::{Answer, Key, NodeId};
use crate::protocol::time::Moment;
use crate::protocol::view::Wanted;

/// What is felt is looked at that often, and more often while in doubt.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_CLOSELY: Duration = Duration::from_millis(25);
/// Without a sound on the segment for so long, the gateway is asked.
const DOUBT: Duration = Duration::from_millis(150);
/// If only one direction fails, that much longer: a few heartbeats may have been lost by chance.
const ONE_WAY: Duration = Duration::from_millis(150);
/// The gateway is asked that often.
const ASK_GATEWAY: Duration = Duration::from_millis(100);
/// It has so long to answer before that counts.
const GATEWAY_ANSWERS: Duration = Duration::from_millis(100);
/// If nobody hears anybody on the segment for so long, it filters heartbeats.
const FILTERED: Duration = Duration::from_secs(1);
/// What a member said of itself counts for so long after it was last heard.
const STALE: Duration = Duration::from_secs(2);
/// If nobody could take what was let go in doubt, it is kept for that long.
const SPARED: Duration = Duration::from_millis(600);
/// A link that went down so often within that time is left alone for a while.
const FLAPS: usize = 3;
const FLAPS_WITHIN: Duration = Duration::from_secs(30);
const DAMPED: Duration = Duration::from_secs(60);

/// What is known of the way through the segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LinkMonitor {
    pub(super) gateway_answered: Option<Moment>,
    gateway_asked: Option<Moment>,
    /// Whether each voter hears this node on the segment, and when it said so.
    heard_by: BTreeMap<NodeId, (bool, Moment)>,
    /// Since when something is wrong, and since when the gateway is asked about it.
    doubt_since: Option<Moment>,
    unheard_since: Option<Moment>,
    /// This node is not heard, or hears nobody, although others do.
    lost: bool,
    /// Nobody hears anybody on the segment: it lets no heartbeats through.
    pub(super) filtered: bool,
    /// Until when nothing is let go, since nobody else could take it.
    spared_until: Option<Moment>,
    link_downs: Vec<Moment>,
    pub(super) link_up_since: Option<Moment>,
    damped_until: Option<Moment>,
    pub(super) due: Moment,
}

impl LinkMonitor {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            gateway_answered: None,
            gateway_asked: None,
            heard_by: BTreeMap::new(),
            doubt_since: None,
            unheard_since: None,
            lost: false,
            filtered: false,
            spared_until: None,
            link_downs: Vec::new(),
            link_up_since: None,
            damped_until: None,
            due: Moment(now.0.saturating_add(1)),
        }
    }

    /// Takes in whether a voter hears this node on the segment.
    pub(super) fn note_heard_by(&mut self, voter: NodeId, heard: bool, now: Moment) {
        self.heard_by.insert(voter, (heard, now));
    }
}

impl Machine {
    /// Whether nothing speaks against this node on the segment.
    pub(super) fn is_heard_on_segment(&self) -> bool {
        self.speaks_on_segment()
            && !self.link_monitor.lost
            && self.link_monitor.damped_until.is_none()
    }

    /// Takes in whether the link is up.
    pub(super) fn note_link(&mut self, up: bool) {
        if up == self.local.link_up {
            return;
        }
        let now = self.now;
        if up {
            self.link_monitor.link_up_since = Some(now);
            return;
        }
        self.link_monitor.link_up_since = None;
        self.link_monitor
            .link_downs
            .retain(|at| now < *at + FLAPS_WITHIN);
        self.link_monitor.link_downs.push(now);
        if self.link_monitor.link_downs.len() >= FLAPS {
            self.link_monitor.link_downs.clear();
            self.link_monitor.damped_until = Some(now + DAMPED);
            self.note(Transition::Damped);
        }
        let held = self.held().into_iter().collect();
        self.leave_segment(held);
    }

    /// Lets keys go: nobody can hear it here.
    fn leave_segment(&mut self, held: Vec<Key>) {
        if !held.is_empty() {
            self.note(Transition::SegmentLost);
        }
        for key in held {
            self.release(key, None, Cause::SegmentLost);
        }
        self.abandon_claims();
        self.handovers.abandon();
        self.heartbeat_timer.hurry = true;
    }

    /// Looks whether this node is heard.
    pub(super) fn tick_link_monitor(&mut self) {
        let now = self.now;
        if now < self.link_monitor.due {
            return;
        }
        self.link_monitor.due = now + LOOK;
        let damped_until = self.link_monitor.damped_until;
        if damped_until.is_some_and(|until| until <= now || self.is_needed()) {
            self.link_monitor.damped_until = None;
            self.heartbeat_timer.hurry = true;
            self.claims.replan = true;
        }
        let settled = self
            .link_monitor
            .link_up_since
            .is_some_and(|since| since + ON_SEGMENT <= now);
        if !settled || !self.speaks_on_segment() || !self.rules().heard_on_the_segment() {
            self.link_monitor.doubt_since = None;
            return;
        }
        let unheard = self.is_unheard();
        let deaf = self.is_deaf(DOUBT);
        let parted = self.is_parted();
        if !unheard {
            self.link_monitor.unheard_since = None;
        } else if self.link_monitor.unheard_since.is_none() {
            self.link_monitor.unheard_since = Some(now);
        }
        if !unheard && !deaf && !parted && (!self.link_monitor.lost || self.has_proof()) {
            self.trust_segment();
            return;
        }
        self.link_monitor.due = now + LOOK_CLOSELY;
        let since = *self.link_monitor.doubt_since.get_or_insert(now);
        let answered = self.reaches_gateway() && self.local.has_gateway;
        let had_time = !self.local.has_gateway || since + GATEWAY_ANSWERS <= now;
        let for_long = since + FILTERED <= now;
        if answered {
            if unheard && deaf && for_long {
                self.link_monitor.filtered = true;
            }
            self.regain_segment();
        } else if !self.has_heir(None) {
            // Nobody else could take what this one lets go.
            if self.link_monitor.lost {
                self.link_monitor.spared_until = Some(now + SPARED);
            }
            self.regain_segment();
        } else if had_time
            && self
                .link_monitor
                .spared_until
                .is_none_or(|until| until <= now)
        {
            let long = self
                .link_monitor
                .unheard_since
                .is_some_and(|since| since + ONE_WAY <= now);
            let both = parted || (unheard && self.is_deaf(ON_SEGMENT));
            let deaf = both || self.is_deaf(ON_SEGMENT + ONE_WAY);
            self.doubt_segment(both || long, deaf, for_long);
        }
    }

    /// Whether anybody else could speak for a key, or for anything, if this node lets it go. Who is
    /// draining goes on as long as nobody takes what it has.
    fn has_heir(&self, key: Option<Key>) -> bool {
        let wanted = key.and_then(|key| self.view.as_ref()?.keys.get(&key));
        let candidates = wanted.map(|wanted| &wanted.candidates);
        self.peers.iter().any(|(node, peer)| {
            let flags = peer.last.flags;
            let drains = flags.draining && !flags.vlan_down && peer.last.count > 0;
            let heard = !peer.suspected || self.is_heard_by_others(*node);
            // What it last said of itself counts no more, so it is like one that was never heard.
            let is_fit = peer.is_fit() || peer.last_heard() + STALE <= self.now;
            let can = (heard && is_fit) || (key.is_none() && drains && !peer.suspected);
            can && candidates.is_none_or(|candidates| candidates.include(*node))
        }) || self
            .strangers()
            .any(|node| candidates.is_none_or(|candidates| candidates.include(node)))
    }

    /// Whether there is a key that nobody holds, or that is to leave its holder, and nobody but this node
    /// could take.
    fn is_needed(&self) -> bool {
        let mut keys = self.view.iter().flat_map(|view| &view.keys);
        self.speaks_on_segment()
            && self.hears_quorum()
            && keys.any(|(key, wanted)| {
                let holder = self.owners.get(key);
                wanted.candidates.include(self.me)
                    && holder.is_none_or(|holder| self.is_to_lose(*holder, wanted))
                    && !self.has_heir(Some(*key))
            })
    }

    /// Whether another is to have a key no more, as far as it says so, if somebody can take it.
    fn is_to_lose(&self, holder: NodeId, wanted: &Wanted) -> bool {
        let flags = self.peers.get(&holder).map(|peer| peer.last.flags);
        flags.is_some_and(|flags| {
            flags.draining || flags.unfit || !wanted.candidates.include(holder)
        })
    }

    /// Those that voters hear on the segment, and this node has never heard.
    fn strangers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers
            .values()
            .filter(|peer| !peer.suspected)
            .flat_map(|peer| peer.echoes(self.now))
            .filter(|echo| echo.on_segment && echo.node != self.me)
            .map(|echo| echo.node)
            .filter(|node| !self.peers.contains_key(node))
    }

    /// Whether a voter hears a node on the segment, or, if the voter is a witness, at all.
    fn is_heard_by_others(&self, node: NodeId) -> bool {
        self.peers
            .values()
            .filter(|peer| !peer.suspected)
            .any(|peer| {
                let witness = peer.last.contact.mac.is_none();
                let mut echoes = peer.echoes(self.now);
                echoes.any(|echo| {
                    let lives = witness && matches!(echo.answer, Answer::Accepted { .. });
                    echo.node == node && (echo.on_segment || lives)
                })
            })
    }

    /// Whether nobody is heard who is on the segment, on either path, although witnesses hear
    /// somebody there: nobody but the gateway can tell who is cut off.
    fn is_parted(&self) -> bool {
        self.local.has_gateway
            && self.neighbours().next().is_none()
            && self.peers.iter().any(|(node, peer)| {
                peer.last.contact.mac.is_some() && self.is_heard_by_others(*node)
            })
    }

    /// Whether the gateway has just answered, or there is none. It is asked for the next time.
    pub(super) fn reaches_gateway(&mut self) -> bool {
        let now = self.now;
        if !self.local.has_gateway {
            return true;
        }
        let ask = self
            .link_monitor
            .gateway_asked
            .is_none_or(|asked| asked + ASK_GATEWAY <= now);
        if ask {
            self.link_monitor.gateway_asked = Some(now);
            self.decide(Decision::ProbeGateway);
        }
        self.link_monitor
            .gateway_answered
            .is_some_and(|at| at + ON_SEGMENT > now)
    }

    /// Nothing shows that this node is on the segment.
    fn doubt_segment(&mut self, unheard: bool, deaf: bool, for_long: bool) {
        let others = self.segment_works_for_others();
        let gateway = self.local.has_gateway && !self.link_monitor.filtered;
        match (unheard, deaf) {
            // Nobody hears anybody, as far as they have said: they may not have noticed yet who hears whom.
            (true, true) if !others && !gateway && !for_long => {}
            // Nothing tells who is cut off.
            (true, true) if !others && !gateway => {
                self.link_monitor.filtered = true;
                self.regain_segment();
            }
            (true, _) => self.lose_segment(),
            // The other may be mute: it notices, and says so.
            (false, true) if others || gateway => self.lose_segment(),
            // What was kept for want of an heir may have one by now.
            _ if self.link_monitor.lost => self.lose_segment(),
            _ => {}
        }
    }

    /// Whether anything shows that the segment works again: somebody hears this node, and is heard,
    /// or there is nobody else.
    fn has_proof(&self) -> bool {
        let since = self.now - ON_SEGMENT;
        let mut others = self
            .peers
            .values()
            .filter(|peer| !peer.suspected && peer.last.contact.mac.is_some())
            .peekable();
        if others.peek().is_none() {
            return true;
        }
        let is_heard = self
            .link_monitor
            .heard_by
            .values()
            .any(|(heard, at)| *heard && *at >= since);
        is_heard && others.any(|peer| peer.heard_on_segment_since(since))
    }

    fn lose_segment(&mut self) {
        let heirs = self.held().into_iter();
        let heirs: Vec<Key> = heirs.filter(|key| self.has_heir(Some(*key))).collect();
        if !self.link_monitor.lost || !heirs.is_empty() {
            self.link_monitor.lost = true;
            self.link_monitor.filtered = false;
            self.leave_segment(heirs);
        }
    }

    fn regain_segment(&mut self) {
        if std::mem::take(&mut self.link_monitor.lost) {
            self.heartbeat_timer.hurry = true;
            self.claims.replan = true;
        }
    }

    fn trust_segment(&mut self) {
        self.link_monitor.doubt_since = None;
        self.link_monitor.filtered = false;
        self.regain_segment();
    }

    /// The members on the segment that live, and whether they say that they are heard there.
    fn neighbours(&self) -> impl Iterator<Item = (NodeId, &Peer, bool)> + '_ {
        self.peers
            .iter()
            .filter(|(_, peer)| !peer.suspected && peer.last.contact.mac.is_some())
            .map(|(node, peer)| (*node, peer, !peer.last.flags.vlan_down))
    }

    /// Whether the voters on the segment say that they do not hear this node there. What a voter
    /// hears counts in any case, what it does not hear only if it is there itself.
    fn is_unheard(&self) -> bool {
        let now = self.now;
        let mut any = false;
        for (node, peer, says_so) in self.neighbours() {
            if !self.voter_sets.has_voter(node) {
                continue;
            }
            // One whose link flapped says for a while that it is not there, and yet may be.
            let is_there = says_so
                || peer.heard_on_segment_since(now - ON_SEGMENT)
                || self.hears_others_on_segment(peer, Moment::default());
            match self.link_monitor.heard_by.get(&node) {
                Some((heard, at)) if now < *at + ON_SEGMENT => {
                    if *heard {
                        return false;
                    }
                    any |= is_there;
                }
                _ if is_there => return false,
                _ => {}
            }
        }
        any
    }

    /// Whether nobody was heard on the segment for so long, although others are there.
    fn is_deaf(&self, silence: Duration) -> bool {
        let since = self.now - silence;
        let mut any = false;
        for (_, peer, is_there) in self.neighbours() {
            if peer.heard_on_segment_since(since) {
                return false;
            }
            any |= is_there || self.hears_others_on_segment(peer, Moment::default());
        }
        any
    }

    /// Whether a member hears anybody but this node on the segment, and has said so since then.
    fn hears_others_on_segment(&self, peer: &Peer, since: Moment) -> bool {
        peer.hears_others_on_segment(self.me, since, self.now)
    }

    /// Whether the others hear each other on the segment while this node hears nobody there. Whoever was cut off
    /// when this node was says for [`ON_SEGMENT`] that it hears others, and this node knows to a heartbeat when
    /// that was. So what is said until then shows nothing.
    fn segment_works_for_others(&self) -> bool {
        let heard = self.peers.values().filter_map(Peer::last_heard_on_segment);
        let interval = self.parameters.heartbeat;
        let since = heard.max().unwrap_or_default() + ON_SEGMENT + interval + interval / 20;
        let mut others = self.peers.values().filter(|peer| !peer.suspected);
        others.any(|peer| self.hears_others_on_segment(peer, since))
    }
}
