//! When to announce what.
//!
//! An address that begins to be spoken for is announced in a burst of rounds, after that every
//! one to two minutes. Rounds that are due wait for their turn: the first rounds of all addresses
//! go before the second rounds of any, and routers are asked before anything is announced.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::rate_limit::RateLimit;
use crate::protocol::Moment;
use crate::protocol::random::SplitMix;

/// The rounds of a burst, counted from its start. The last two are more than a second after the
/// first, since some neighbours take no second update within a second.
const BURST: &[Duration] = &[
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(600),
    Duration::from_millis(1100),
    Duration::from_millis(2000),
];
/// The rounds after something happened to the segment while an address was spoken for.
const REPEAT: &[Duration] = &[
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_millis(1100),
];
/// The rounds, by their time after the start, in which the router is asked directly.
const PRIMED: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_millis(1100),
];
/// Announcements are repeated for as long as an address is spoken for, often enough for switches
/// that forget a MAC after 300 s. Each time a random part is added, so that addresses spread.
const REFRESH: Duration = Duration::from_secs(60);
/// The largest random part.
const REFRESH_JITTER: Duration = Duration::from_secs(60);
/// Frames per second during bursts, and how many at once: some switches drop what comes faster.
const BURST_PACE: (u32, u32) = (2000, 50);
/// Frames per second of refreshes.
const REFRESH_PACE: (u32, u32) = (50, 4);

/// One thing to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// Tell the router of the address' subnet.
    Prime,
    /// Tell everybody.
    Announce,
}

/// The order of what is due: by round, then by task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Burst(usize, Task),
    Refresh,
}

/// Which rounds to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BurstKind {
    /// The address begins to be spoken for.
    Begin,
    /// Something happened to the segment.
    Repeat,
    /// Neighbours know it already.
    Known,
}

#[derive(Debug)]
struct Schedule {
    rounds: &'static [Duration],
    started: Moment,
    /// Index of the next round; past the last one, refreshes follow.
    next: usize,
    /// When that is due.
    due: Moment,
}

/// When to announce which address.
#[derive(Debug)]
pub(super) struct Timers {
    schedules: BTreeMap<IpAddr, Schedule>,
    due: BTreeSet<(Moment, IpAddr)>,
    ready: BTreeSet<(Turn, IpAddr)>,
    bursts: RateLimit,
    refreshes: RateLimit,
    jitter: SplitMix,
}

impl Timers {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            schedules: BTreeMap::new(),
            due: BTreeSet::new(),
            ready: BTreeSet::new(),
            bursts: RateLimit::new(BURST_PACE.0, BURST_PACE.1),
            refreshes: RateLimit::new(REFRESH_PACE.0, REFRESH_PACE.1),
            jitter: SplitMix::new(seed),
        }
    }

    /// Starts a burst, in place of whatever was going on for the address.
    pub(super) fn start(&mut self, address: IpAddr, kind: BurstKind, now: Moment) {
        self.stop(address);
        let rounds = match kind {
            BurstKind::Begin => BURST,
            BurstKind::Repeat => REPEAT,
            BurstKind::Known => &[],
        };
        let due = match rounds.first() {
            Some(offset) => now + *offset,
            None => now + REFRESH + self.jitter.up_to(REFRESH_JITTER),
        };
        let schedule = Schedule {
            rounds,
            started: now,
            next: 0,
            due,
        };
        self.schedules.insert(address, schedule);
        self.due.insert((due, address));
    }

    /// Forgets an address.
    pub(super) fn stop(&mut self, address: IpAddr) {
        if let Some(schedule) = self.schedules.remove(&address) {
            self.due.remove(&(schedule.due, address));
        }
        for round in 0..BURST.len() {
            for task in [Task::Prime, Task::Announce] {
                self.ready.remove(&(Turn::Burst(round, task), address));
            }
        }
        self.ready.remove(&(Turn::Refresh, address));
    }

    /// Whether rounds of a burst are still to come.
    pub(super) fn in_burst(&self, address: IpAddr) -> bool {
        self.schedules
            .get(&address)
            .is_some_and(|schedule| schedule.next < schedule.rounds.len())
    }

    /// Adds one announcement to what is due now, apart from the rounds.
    pub(super) fn announce_once(&mut self, address: IpAddr) {
        self.ready.insert((Turn::Burst(0, Task::Announce), address));
    }

    /// What is to be sent now, if anything. `frames` tells how many frames a task takes.
    pub(super) fn take(
        &mut self,
        now: Moment,
        frames: impl Fn(Task, IpAddr) -> u32,
    ) -> Option<(Task, IpAddr)> {
        self.promote(now);
        let (turn, address) = *self.ready.first()?;
        if self.limit(turn).next(now) > now {
            return None;
        }
        self.ready.pop_first();
        let task = match turn {
            Turn::Burst(_, task) => task,
            Turn::Refresh => Task::Announce,
        };
        let frames = frames(task, address);
        match turn {
            Turn::Burst(..) => self.bursts.sent(frames, now),
            Turn::Refresh => self.refreshes.sent(frames, now),
        }
        Some((task, address))
    }

    /// When [`Self::take`] next has something to give.
    pub(super) fn next(&self, now: Moment) -> Option<Moment> {
        let ready = self
            .ready
            .first()
            .map(|(turn, _)| self.limit(*turn).next(now));
        let due = self.due.first().map(|(at, _)| *at);
        ready.into_iter().chain(due).min()
    }

    const fn limit(&self, turn: Turn) -> &RateLimit {
        match turn {
            Turn::Burst(..) => &self.bursts,
            Turn::Refresh => &self.refreshes,
        }
    }

    /// Moves rounds whose time has come to those that wait for their turn.
    fn promote(&mut self, now: Moment) {
        while let Some((at, address)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_first();
            let Some(schedule) = self.schedules.get_mut(&address) else {
                continue;
            };
            match schedule.rounds.get(schedule.next) {
                Some(offset) => {
                    if PRIMED.contains(offset) {
                        self.ready
                            .insert((Turn::Burst(schedule.next, Task::Prime), address));
                    }
                    self.ready
                        .insert((Turn::Burst(schedule.next, Task::Announce), address));
                }
                None => {
                    self.ready.insert((Turn::Refresh, address));
                }
            }
            schedule.next = schedule.next.saturating_add(1);
            schedule.due = match schedule.rounds.get(schedule.next) {
                Some(offset) => schedule.started + *offset,
                None => at + REFRESH + self.jitter.up_to(REFRESH_JITTER),
            };
            self.due.insert((schedule.due, address));
        }
    }
}
