//! Which set of voters is proposed next, and by whom.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Machine;
use super::voter_sets::{BOOTSTRAP, REPLACED, STEADY};
use crate::protocol::decision::{Consent, Request, Transition};
use crate::protocol::message::{NodeId, VoterSet};

impl Machine {
    /// Proposes other voters. Without the rule, of two one is the primary at once.
    fn propose(&mut self, voters: BTreeSet<NodeId>) {
        let hasty = voters.len() == 2 && !self.rules().primary_by_itself();
        let primary = hasty.then_some(self.me);
        let current = &self.voter_sets.current;
        let is_left = current.primary == Some(self.me) && voters.iter().eq([&self.me]);
        let consent = if current.voters.len() == 2 && is_left {
            Consent::Own
        } else {
            self.most()
        };
        self.propose_with(voters, primary, consent);
    }

    /// The consent of most voters, who serve the present set to give it: without the rule nobody's.
    fn most(&self) -> Consent {
        if !self.rules().one_generation_at_a_time() {
            return Consent::Own;
        }
        Consent::Most(self.voter_sets.current.voters.clone())
    }

    pub(super) fn propose_with(
        &mut self,
        voters: BTreeSet<NodeId>,
        primary: Option<NodeId>,
        consent: Consent,
    ) {
        let generation = self.voter_sets.current.generation;
        let (replacing, generation) = match &self.voter_sets.stored {
            Some(stored) => (stored.generation, generation + 2),
            None => (generation, generation + 1),
        };
        let voters = VoterSet {
            generation,
            voters,
            primary,
        };
        if self.awaits(&voters) {
            return;
        }
        self.note(Transition::Proposed);
        self.ask(Request::Propose {
            replacing,
            voters,
            consent,
        });
    }

    /// Proposes the first voters.
    pub(super) fn bootstrap(&mut self) {
        if self.now < self.started + BOOTSTRAP || !self.local.link_up {
            return;
        }
        let lowest = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.suspected && !peer.last.flags.vlan_down)
            .map(|(node, _)| *node)
            .min();
        if lowest.is_some_and(|lowest| lowest < self.me) {
            return;
        }
        let members = self.members(Duration::ZERO);
        let size = ideal_size(&members);
        let mut voters = BTreeSet::new();
        while voters.len() < size
            && let Some(next) = next_voter(&voters, &members)
        {
            voters.insert(next);
        }
        if voters.contains(&self.me) {
            // Nobody has voted before.
            let primary = (voters.len() == 2).then_some(self.me);
            self.propose_with(voters, primary, Consent::Own);
        }
    }

    /// The members that may vote, and have been heard for that long, with zone and whether they are
    /// on the segment.
    pub(super) fn members(&self, steady: Duration) -> BTreeMap<NodeId, (u32, bool)> {
        let now = self.now;
        let mut members: BTreeMap<NodeId, (u32, bool)> = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.suspected && peer.steady_since + steady <= now)
            .map(|(node, peer)| {
                let contact = &peer.last.contact;
                (*node, (contact.zone, contact.mac.is_some()))
            })
            .collect();
        let contact = &self.local.contact;
        members.insert(self.me, (contact.zone, contact.mac.is_some()));
        members
    }

    /// Whether it is this member's turn to propose: it is the lowest of the voters that live, and a
    /// majority serves the present generation for long enough (rule E).
    pub(super) fn is_proposer(&self) -> bool {
        if !self.votes() || !self.hears_quorum() {
            return false;
        }
        let generation = self.voter_sets.current.generation;
        let mut settled = 0;
        for voter in &self.voter_sets.current.voters {
            if *voter == self.me {
                if self.settled() >= generation || !self.rules().one_generation_at_a_time() {
                    settled += self.weight_of_vote(self.me);
                }
                continue;
            }
            let Some(peer) = self.peers.get(voter).filter(|peer| !peer.suspected) else {
                continue;
            };
            if *voter < self.me {
                return false;
            }
            if peer.last.settled >= generation || !self.rules().one_generation_at_a_time() {
                settled += 1;
            }
        }
        settled >= self.voter_sets.current.majority()
    }

    /// Proposes one voter less or one more, or a primary of two.
    pub(super) fn reshape(&mut self) {
        let now = self.now;
        if self.voter_sets.stored.is_some() {
            let same = self.voter_sets.current.voters.clone();
            let consent = self.most();
            self.propose_with(same, None, consent);
            return;
        }
        if self.seems_gone_back() {
            self.ask(Request::ReadVoters);
            return;
        }
        let voters = &self.voter_sets.current.voters;
        let oldest = self.voter_sets.adopted_at.max(self.started);
        let dead = voters
            .iter()
            .filter(|voter| **voter != self.me)
            .find(|voter| {
                let heard = self
                    .peers
                    .get(voter)
                    .map_or(oldest, super::peers::Peer::last_heard);
                heard + REPLACED <= now
            })
            .copied();
        if let Some(dead) = dead {
            let mut rest = voters.clone();
            rest.remove(&dead);
            self.propose(rest);
            return;
        }
        let mut members = self.members(STEADY);
        for voter in voters {
            members.entry(*voter).or_insert((0, true));
        }
        let size = ideal_size(&members);
        let next = next_voter(voters, &members);
        // A voter on the segment can tell the others there whether they are heard; a witness cannot.
        let is_here = |node: &NodeId| members.get(node).is_some_and(|(_, here)| *here);
        let witness = voters.iter().find(|voter| !is_here(voter)).copied();
        let swaps = witness.is_some() && next.is_some_and(|next| is_here(&next));
        let full = voters.len() > size || (swaps && voters.len() == VoterSet::MOST);
        if let Some(witness) = witness.filter(|_| full) {
            let mut rest = voters.clone();
            rest.remove(&witness);
            self.propose(rest);
            return;
        }
        let next = next.filter(|_| voters.len() < size || (swaps && voters.len() == size));
        let two = voters.len() == 2 && self.rules().primary_by_itself();
        let named = self.voter_sets.current.primary.is_some();
        match next {
            // Others could be a majority without the primary, which may go on alone.
            Some(_) if two && self.alone_until().is_some() => {}
            Some(_) if two && named => {
                let (both, consent) = (voters.clone(), self.most());
                self.propose_with(both, None, consent);
            }
            Some(next) => {
                let mut more = voters.clone();
                more.insert(next);
                self.propose(more);
            }
            None if two && !named => {
                self.propose_with(voters.clone(), Some(self.me), Consent::Own);
            }
            None => {}
        }
    }
}

/// How many of these should vote: an odd number, since one more to an even one helps nobody, or two
/// if there are no more. Witnesses make up for members of the segment that are missing to three.
pub(super) fn ideal_size(members: &BTreeMap<NodeId, (u32, bool)>) -> usize {
    let here = members.values().filter(|(_, here)| *here).count();
    let size = members.len().min(here.max(3)).min(VoterSet::MOST);
    match size {
        0..=2 => size,
        size if size % 2 == 0 => size - 1,
        size => size,
    }
}

/// Who should vote next: members of the segment before witnesses, from zones that have the fewest.
fn next_voter(
    voters: &BTreeSet<NodeId>,
    members: &BTreeMap<NodeId, (u32, bool)>,
) -> Option<NodeId> {
    let in_zone = |zone: u32| {
        voters
            .iter()
            .filter(|voter| members.get(voter).is_some_and(|(other, _)| *other == zone))
            .count()
    };
    members
        .iter()
        .filter(|(node, _)| !voters.contains(node))
        .min_by_key(|(node, (zone, here))| (!*here, in_zone(*zone), **node))
        .map(|(node, _)| *node)
}
