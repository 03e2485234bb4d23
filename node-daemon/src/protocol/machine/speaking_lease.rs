//! The right to speak: own heartbeats, who has echoed them, and until when that counts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::protocol::message::{Digest, NodeId, VoterSet};
use crate::protocol::time::Moment;

/// A heartbeat that was sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Sent {
    pub(super) seq: u64,
    pub(super) at: Moment,
    digest: Digest,
    generation: u64,
}

/// A heartbeat that enough voters have echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Confirmed {
    /// Keys that were held from this message on, or from an earlier one, may be spoken for.
    pub(super) seq: u64,
    /// Until then.
    pub(super) until: Moment,
}

/// How exactly an echo must fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exactness {
    /// Rule C: by 32 bits of the sequence number, else by 8.
    pub(super) sequence: bool,
    /// Rule A: by the digest of the set.
    pub(super) digest: bool,
    /// Rule E: of the generation that is served now.
    pub(super) generation: Option<u64>,
}

/// The own heartbeats of the current epoch, and who has echoed them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SpeakingLease {
    sent: VecDeque<Sent>,
    /// The newest own heartbeat that each voter has echoed.
    echoed: BTreeMap<NodeId, Sent>,
    /// The newest heartbeat that a majority has echoed.
    pub(super) confirmed: Option<Confirmed>,
    /// The newest heartbeat that counts because this node is the primary of two voters.
    pub(super) alone: Option<Confirmed>,
}

impl SpeakingLease {
    /// Notes a heartbeat that leaves now. Those that can no longer count are forgotten.
    pub(super) fn note_sent(
        &mut self,
        seq: u64,
        digest: Digest,
        generation: u64,
        now: Moment,
        speaking_lease: Duration,
    ) {
        while self
            .sent
            .front()
            .is_some_and(|sent| sent.at + speaking_lease <= now)
        {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            seq,
            at: now,
            digest,
            generation,
        });
    }

    /// Takes an echo in; whether it says more than the last of the same voter.
    pub(super) fn note_echo(
        &mut self,
        voter: NodeId,
        seq: u32,
        digest: Digest,
        exactness: Exactness,
    ) -> bool {
        let mask = if exactness.sequence { u32::MAX } else { 0xff };
        let known = self.echoed.get(&voter).map_or(0, |sent| sent.seq);
        let found = self.sent.iter().rev().find(|sent| {
            low(sent.seq) & mask == seq & mask
                && (!exactness.digest || sent.digest == digest)
                && exactness
                    .generation
                    .is_none_or(|generation| sent.generation == generation)
        });
        let Some(sent) = found.copied().filter(|sent| sent.seq > known) else {
            return false;
        };
        self.echoed.insert(voter, sent);
        true
    }

    /// Counts the echoes of these voters anew. What once was confirmed stays so until its time has
    /// run out: the voters that echoed it keep their promises, whatever they serve by now.
    pub(super) fn count(&mut self, voters: &VoterSet, speaking_lease: Duration) {
        let majority = voters.majority();
        let mut seqs = [(0_u64, Moment::default()); VoterSet::MOST];
        let mut count = 0;
        for voter in &voters.voters {
            if let Some(sent) = self.echoed.get(voter)
                && let Some(slot) = seqs.get_mut(count)
            {
                *slot = (sent.seq, sent.at);
                count += 1;
            }
        }
        let Some(echoes) = seqs.get_mut(..count) else {
            return;
        };
        echoes.sort_unstable_by(|a, b| b.cmp(a));
        let Some((seq, at)) = echoes.get(majority.saturating_sub(1)).copied() else {
            return;
        };
        if self.confirmed.is_none_or(|confirmed| confirmed.seq < seq) {
            self.confirmed = Some(Confirmed {
                seq,
                until: at + speaking_lease,
            });
        }
    }

    /// Counts the echo of this node alone, as the primary of two voters, until `limit`.
    pub(super) fn count_alone(&mut self, me: NodeId, limit: Moment, speaking_lease: Duration) {
        self.alone = self.echoed.get(&me).map(|sent| Confirmed {
            seq: sent.seq,
            until: (sent.at + speaking_lease).min(limit),
        });
    }

    /// Until when a key that is held since this sequence number may be spoken for.
    pub(super) fn until(&self, since: u64) -> Option<Moment> {
        let until = |confirmed: Option<Confirmed>| {
            let counts = confirmed.filter(|confirmed| since <= confirmed.seq)?;
            Some(counts.until)
        };
        until(self.confirmed).max(until(self.alone))
    }

    /// The end of whatever right there is.
    pub(super) fn end(&self) -> Option<Moment> {
        self.until(0)
    }

    /// When the newest heartbeat was sent that is confirmed.
    #[cfg(feature = "simulator")]
    pub(super) fn confirmed_seq(&self) -> u64 {
        [self.confirmed, self.alone]
            .into_iter()
            .flatten()
            .map(|confirmed| confirmed.seq)
            .max()
            .unwrap_or(0)
    }

    /// Forgets the echoes of voters of another generation; what is confirmed stays. What counts for
    /// a primary alone stays only if there is no other voter any more.
    pub(super) fn change_voters(&mut self, is_only: bool) {
        self.echoed.clear();
        if !is_only {
            self.alone = None;
        }
    }

    /// Nothing of the past counts any more.
    pub(super) fn void(&mut self) {
        *self = Self::default();
    }
}

/// The low 32 bits, as echoes carry them.
pub(super) fn low(seq: u64) -> u32 {
    u32::try_from(seq & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
