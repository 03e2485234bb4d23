//! Who votes where no API server says so: each node has a file with the voters, and a revision that goes up by
//! one with each change of them.
//!
//! A node *serves* one set, and *accepts* at most one set as the next. Both are remembered on disk. What a node
//! accepts, and what it serves meanwhile, is there before anything else goes by it; what it serves without having
//! accepted the next may come there later.
//!
//! # Rules
//! 1. Begin: a node that remembers nothing serves the set of its file if that has revision 1, and nobody is heard
//!    to serve another.
//! 2. Join: a node that remembers nothing serves what most of the voters of a set serve, itself not counted.
//! 3. Follow: a node serves a newer set as soon as it hears that somebody does. Nobody goes back.
//! 4. Accept: a node accepts the set of its file if that has the next revision and differs by one name. It never
//!    accepts another of that revision.
//! 5. Succeed: a node serves the set that it accepts once most voters of the one it serves accept the same, and
//!    have served theirs for longer than a promise.
//!
//! # Guarantees
//! * Of one revision one set is ever served: two would need two majorities that accept it, which have a voter in
//!   common, and that accepts one only (rules 4 and 5; rules 2 and 3 copy what is served).
//! * At one time the voters of one set at most are a majority of it that serves it. Majorities of two sets that follow
//!   each other have a voter in common, which serves one of them. Before a third is served a majority of the second
//!   has accepted it, and with that has written that it serves the second. It shares a voter with each majority of
//!   the first, and that has left the first for ever.
//! * A voter that has lost what it remembers breaks neither: it serves a set again only once a majority of the others
//!   does. Those have not accepted what comes after the next, so that it has no majority that accepts it.
//!
//! # Caveats
//! Nodes that begin with different sets of revision 1, and do not hear each other, are two clusters. So are nodes
//! whose memory was restored from a backup.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::message::{NodeId, VoterSet};

/// What a node remembers of who votes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// The set that it serves; of generation zero: none.
    pub served: VoterSet,
    /// The set that it accepts as the next.
    pub accepted: Option<VoterSet>,
}

/// What another node says of who votes, or this one itself. Only those count that live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who.
    pub node: NodeId,
    /// The set that it serves.
    pub served: VoterSet,
    /// The newest generation that it has served for longer than a promise.
    pub settled: u64,
    /// The set that it accepts as the next ([`VoterSet::fingerprint`]); zero: none.
    pub approved: u64,
}

/// What a node goes by.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// This node.
    pub me: NodeId,
    /// The set of its file; its revision is the generation.
    pub file: &'a VoterSet,
    /// All that live, this node among them.
    pub heard: &'a [Heard],
    /// Whether it has listened for long enough to have heard everybody who lives.
    pub has_listened: bool,
}

/// The rule by which a node goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It serves the first set.
    Begin,
    /// It serves what the others do.
    Join,
    /// It serves a newer set, which another does; or has begun to already, as its machine has heard of it.
    Follow,
    /// It accepts the set of its file.
    Accept,
    /// It serves the set that most accept.
    Succeed,
}

/// How the file compares with what is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// They are the same.
    Served,
    /// Nothing is served yet: the node waits for others.
    AwaitsOthers,
    /// It is accepted, and waits until most voters accept it and enough of the new ones have joined.
    AwaitsAcceptance,
    /// The others serve a later revision.
    Outdated,
    /// It has other voters than what is served under the same revision.
    Contradicts,
    /// Another set of its revision was accepted before.
    AcceptedOther,
    /// It differs from what is served by more than one name.
    TooManyChanges,
    /// Revisions are missing between the two.
    SkipsRevisions,
}

/// What this node is to remember next, and why. `None`: nothing changes.
#[must_use]
pub fn step(remembered: &Remembered, observed: Observed<'_>) -> Option<(Rule, Remembered)> {
    let serve = |rule, served: &VoterSet| {
        let accepted = remembered.accepted.clone();
        let accepted = accepted.filter(|next| next.generation > served.generation);
        let served = served.clone();
        Some((rule, Remembered { served, accepted }))
    };
    let served = &remembered.served;
    if served.generation == 0 {
        if let Some(set) = observed.joinable() {
            return serve(Rule::Join, set);
        }
        return if observed.may_begin() {
            serve(Rule::Begin, observed.file)
        } else {
            None
        };
    }
    if let Some(newer) = observed.newer_than(served) {
        return serve(Rule::Follow, newer);
    }
    match &remembered.accepted {
        Some(next) if observed.may_succeed(served, next) => serve(Rule::Succeed, next),
        Some(_) => None,
        None if follows(served, observed.file) => Some((
            Rule::Accept,
            Remembered {
                served: served.clone(),
                accepted: Some(observed.file.clone()),
            },
        )),
        None => None,
    }
}

/// How the file compares with what is remembered.
#[must_use]
pub fn compare(remembered: &Remembered, file: &VoterSet) -> FileState {
    let Remembered { served, accepted } = remembered;
    if served.generation == 0 {
        return FileState::AwaitsOthers;
    }
    if file == served {
        return FileState::Served;
    }
    match file.generation.checked_sub(served.generation) {
        None => FileState::Outdated,
        Some(0) => FileState::Contradicts,
        Some(1) if !follows(served, file) => FileState::TooManyChanges,
        Some(1) if accepted.as_ref().is_some_and(|next| next != file) => FileState::AcceptedOther,
        Some(1) => FileState::AwaitsAcceptance,
        Some(_) => FileState::SkipsRevisions,
    }
}

impl Rule {
    /// Whether what follows must be on disk before anything goes by it.
    #[must_use]
    pub const fn is_promise(self) -> bool {
        matches!(self, Self::Accept)
    }
}

/// Whether a set is the next after another, and differs by one name at most.
fn follows(served: &VoterSet, next: &VoterSet) -> bool {
    let changes = served.voters.symmetric_difference(&next.voters).count();
    next.generation == served.generation + 1 && changes <= 1 && !next.voters.is_empty()
}

impl<'a> Observed<'a> {
    fn others(&self) -> impl Iterator<Item = &'a Heard> {
        let me = self.me;
        self.heard.iter().filter(move |heard| heard.node != me)
    }

    /// The newest set that most of its voters serve, this node not counted.
    fn joinable(&self) -> Option<&'a VoterSet> {
        let sets: Vec<&VoterSet> = self.others().map(|heard| &heard.served).collect();
        let is_served = |set: &&&VoterSet| {
            let serving = self
                .others()
                .filter(|heard| heard.served == ***set && set.voters.contains(&heard.node));
            set.generation > 0 && serving.count() >= set.majority()
        };
        let served = sets.iter().filter(is_served);
        served.max_by_key(|set| set.generation).copied()
    }

    fn may_begin(&self) -> bool {
        let alone = |heard: &Heard| heard.served.generation == 0 || heard.served == *self.file;
        self.file.generation == 1
            && self.file.voters.contains(&self.me)
            && self.has_listened
            && self.others().all(alone)
    }

    fn newer_than(&self, served: &VoterSet) -> Option<&'a VoterSet> {
        self.heard
            .iter()
            .map(|heard| &heard.served)
            .filter(|set| set.generation > served.generation)
            .max_by_key(|set| set.generation)
    }

    fn may_succeed(&self, served: &VoterSet, next: &VoterSet) -> bool {
        let accepts = |heard: &Heard| {
            heard.node == self.me
                || (heard.served == *served && heard.approved == next.fingerprint())
        };
        let has_settled = |heard: &Heard| heard.settled >= served.generation;
        // Who serves nothing yet joins only what most serve without it: of two voters that would be none.
        let has_joined = |heard: &Heard| heard.served.generation >= served.generation;
        follows(served, next)
            && self.are_most(served, accepts)
            && self.are_most(served, has_settled)
            && self.are_most(next, has_joined)
    }

    /// Whether most voters of a set live and are so.
    fn are_most(&self, set: &VoterSet, is_so: impl Fn(&Heard) -> bool) -> bool {
        let voters = self.heard.iter().filter(|heard| is_so(heard));
        let voters: BTreeSet<NodeId> = voters.map(|heard| heard.node).collect();
        voters.intersection(&set.voters).count() >= set.majority()
    }
}

#[cfg(test)]
mod tests;
