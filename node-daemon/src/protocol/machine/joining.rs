//! Epochs: how a member gets one, and how it loses it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::{Cause, Transition};
use crate::protocol::message::{Answer, Echo, Epoch, Key, NodeId};
use crate::protocol::time::Moment;

/// How long what a voter says about this node counts: three heartbeats.
const REPORT_LASTS: u32 = 3;
/// Who is refused for so long begins anew: a recording that somebody plays once is no reason.
const REFUSED: Duration = Duration::from_millis(300);

/// What a voter last said about this node.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Report {
    epoch: Epoch,
    at: Moment,
    /// Whether it hears this run, and promises.
    accepted: bool,
}

/// Where this member stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Membership {
    /// Zero while it has none.
    pub(super) epoch: Epoch,
    /// The highest that it has had.
    last_epoch: Epoch,
    /// It had an epoch, and lost it.
    pub(super) released: bool,
    /// It listens until then before it joins.
    listen_until: Moment,
    /// Only what voters say from then on counts for joining.
    since: Moment,
    /// How long a report counts.
    report_lasts: Duration,
    reports: BTreeMap<NodeId, Report>,
    /// Which voters refuse this run, and when they last said so.
    #[serde(default)]
    refused_by: BTreeMap<NodeId, Moment>,
    /// Since when voters refuse this run, or it them, and no majority is heard.
    #[serde(default)]
    refused_since: Option<Moment>,
    /// What it held when its right ran out: it is the first to claim that again.
    pub(super) lost: BTreeMap<Key, Moment>,
}

impl Membership {
    pub(super) fn new(now: Moment, heartbeat: Duration) -> Self {
        Self {
            epoch: Epoch(0),
            last_epoch: Epoch(0),
            released: false,
            listen_until: now + heartbeat * REPORT_LASTS,
            since: now,
            report_lasts: heartbeat * REPORT_LASTS,
            reports: BTreeMap::new(),
            refused_by: BTreeMap::new(),
            refused_since: None,
            lost: BTreeMap::new(),
        }
    }

    pub(super) const fn has_joined(&self) -> bool {
        self.epoch.0 > 0
    }

    /// When to look again whether it can join.
    pub(super) fn due(&self, now: Moment) -> Moment {
        if self.has_joined() || self.listen_until <= now {
            Moment::NEVER
        } else {
            self.listen_until
        }
    }

    /// Takes in that a voter refuses this run: what it says is older than what the voter knows.
    pub(super) fn note_refused_by(&mut self, voter: NodeId, now: Moment) {
        self.refused_by.insert(voter, now);
    }

    /// Forgets what voters of another generation have said.
    pub(super) fn change_voters(&mut self) {
        self.reports.clear();
    }
}

impl Machine {
    /// Takes in what a voter says about this node.
    pub(super) fn note_report(&mut self, voter: NodeId, echo: &Echo) {
        let accepted = echo.incarnation == self.incarnation
            && matches!(
                echo.answer,
                Answer::Accepted { .. } | Answer::Refused { .. } | Answer::Unknown
            );
        let report = Report {
            epoch: if self.rules().last_holder_is_preferred() {
                echo.epoch
            } else {
                Epoch(0)
            },
            at: self.now,
            accepted,
        };
        self.membership.reports.insert(voter, report);
        if self.membership.has_joined()
            && report.epoch > self.membership.epoch
            && self.held_keys.keys.is_empty()
        {
            // Somebody remembers a later run of this node: what is said under this epoch is void.
            self.leave_epoch();
        }
    }

    /// How many voters hear this run of this node.
    fn reporting(&self, since: Moment) -> usize {
        let oldest = (self.now - self.membership.report_lasts).max(since);
        self.membership
            .reports
            .iter()
            .filter(|(voter, report)| {
                report.accepted && report.at >= oldest && self.voter_sets.has_voter(**voter)
            })
            .map(|(voter, _)| self.weight_of_vote(*voter))
            .sum()
    }

    /// Whether a voter hears this run of this node.
    pub(super) fn is_reporting(&self, voter: NodeId) -> bool {
        let oldest = self.now - self.membership.report_lasts;
        self.membership
            .reports
            .get(&voter)
            .is_some_and(|report| report.accepted && report.at >= oldest)
    }

    /// Whether it hears a majority of the voters, and they hear it.
    pub(super) fn hears_quorum(&self) -> bool {
        self.voter_sets.exists()
            && self.reporting(Moment::default()) >= self.voter_sets.current.majority()
    }

    /// Takes an epoch once enough voters have said which it had.
    pub(super) fn try_join(&mut self) {
        if self.membership.has_joined()
            || self.now < self.membership.listen_until
            || !self.voter_sets.exists()
            || self.reporting(self.membership.since) < self.voter_sets.current.majority()
        {
            return;
        }
        let highest = self
            .membership
            .reports
            .iter()
            .filter(|(voter, _)| self.voter_sets.has_voter(**voter))
            .map(|(_, report)| report.epoch)
            .max()
            .unwrap_or_default()
            .max(self.membership.last_epoch);
        if !self.rules().last_holder_is_preferred() && self.membership.last_epoch > Epoch(0) {
            // Nobody tells it which epoch is new.
            return;
        }
        self.membership.epoch = Epoch(highest.0.saturating_add(1));
        self.membership.last_epoch = self.membership.epoch;
        self.membership.released = false;
        self.note(Transition::Joined);
        self.heartbeat_timer.hurry = true;
        self.claims.replan = true;
    }

    /// Whether voters refuse this run, or it them: what the one says is older than what the other
    /// knows.
    fn is_refused(&self) -> bool {
        let now = self.now;
        let Membership {
            refused_by,
            report_lasts,
            ..
        } = &self.membership;
        self.voter_sets.current.voters.iter().any(|voter| {
            let by = refused_by
                .get(voter)
                .is_some_and(|at| *at + *report_lasts > now);
            let peer = self.peers.get(voter);
            by || peer.is_some_and(|peer| peer.stale_run(now).is_some())
        })
    }

    /// Begins anew, as another run, if that alone brings it back: no majority hears it, and voters
    /// refuse what it says, or it what they say. As long as it may speak nothing is given up.
    pub(super) fn check_refusal(&mut self) {
        if self.held_keys.speaks() || !self.is_refused() || self.hears_quorum() {
            self.membership.refused_since = None;
            return;
        }
        let since = *self.membership.refused_since.get_or_insert(self.now);
        if since + REFUSED <= self.now {
            self.begin_anew();
        }
    }

    /// Gives the epoch up, to take the next one.
    fn leave_epoch(&mut self) {
        // What is said under no epoch does not count.
        self.abandon_claims();
        self.membership.epoch = Epoch(0);
        self.membership.since = self.now;
        // It has been listening all the time.
        self.membership.listen_until = self.now;
        self.speaking_lease.void();
        self.handovers.abandon();
        self.heartbeat_timer.hurry = true;
    }

    /// Latches a right that has run out: everything is let go, and the epoch is over.
    pub(super) fn check_lapse(&mut self) {
        if !self.held_keys.speaks() || self.speaking_lease.end().is_some_and(|end| self.now < end) {
            return;
        }
        self.note(Transition::Lapsed);
        let held: Vec<Key> = self.held_keys.keys.keys().copied().collect();
        self.membership.lost = held.iter().map(|key| (*key, self.now)).collect();
        for key in held {
            self.release(key, None, Cause::Lapsed);
        }
        self.held_keys.lapsed = true;
        if self.rules().lapse_is_latched() {
            self.membership.released = true;
            self.leave_epoch();
        }
    }
}
