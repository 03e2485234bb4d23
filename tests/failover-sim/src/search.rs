//! Running many schedules, and making those small that must not be.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mooring_node::protocol::Parameters;

use super::invariants::Violation;
use super::schedule::Schedule;
use super::simulation;
use super::tally::Tally;
use super::whole::Off;

/// After how many schedules it is said how far it is.
const PROGRESS: u64 = 2000;

/// Which schedules are run.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The first seed.
    pub first: u64,
    /// How many seeds.
    pub schedules: u64,
    /// What the machines are told.
    pub parameters: Parameters,
    /// What is switched off.
    pub off: Off,
    /// It stops when so many violations are found.
    pub enough: usize,
    /// How many run side by side; `None`: as many as there are processors.
    pub threads: Option<usize>,
}

/// A schedule in which something is that must never be.
#[derive(Clone, Debug)]
pub struct Found {
    /// The schedule, with as few faults as it takes.
    pub schedule: Schedule,
    /// The faults of the seed's schedule that it can do without, counted from 1.
    pub without: Vec<usize>,
    /// What must never be.
    pub violation: Violation,
}

impl Search {
    /// Runs them, on all processors. What is counted, what was found, and how long it took.
    #[must_use]
    pub fn run(&self) -> (Tally, Vec<Found>, Duration) {
        let begun = Instant::now();
        let next = AtomicU64::new(self.first);
        let stop = AtomicBool::new(false);
        let end = self.first.saturating_add(self.schedules);
        let all = Mutex::new((Tally::default(), Vec::new()));
        let work = || {
            let mut tally = Tally::default();
            while !stop.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    break;
                }
                let done = seed - self.first;
                if done > 0 && done.is_multiple_of(PROGRESS) {
                    let rate = done as f64 / begun.elapsed().as_secs_f64();
                    eprintln!("{done} of {} schedules, {rate:.0} a second", self.schedules);
                }
                let schedule = Schedule::random_without(seed, self.parameters, self.off);
                let outcome = simulation::run(&schedule, None);
                tally.virtual_time += u128::from(outcome.ended_at);
                tally.add(outcome.tally);
                if outcome.violation.is_some()
                    && let Ok(mut all) = all.lock()
                {
                    all.1.push(schedule);
                    stop.store(all.1.len() >= self.enough, Ordering::Relaxed);
                }
            }
            if let Ok(mut all) = all.lock() {
                all.0.add(tally);
            }
        };
        let threads = self
            .threads
            .or_else(|| thread::available_parallelism().ok().map(usize::from))
            .unwrap_or(1);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        let took = begun.elapsed();
        let (tally, mut found) = all.into_inner().unwrap_or_default();
        found.sort_by_key(|schedule: &Schedule| schedule.seed);
        let found = found.into_iter().filter_map(shrink).collect();
        (tally, found, took)
    }
}

/// Takes away faults as long as the same thing is that must never be. `None`: nothing is.
#[must_use]
pub fn shrink(schedule: Schedule) -> Option<Found> {
    let mut violation = simulation::run(&schedule, None).violation?;
    let mut kept: Vec<usize> = (1..=schedule.faults.len()).collect();
    let mut smallest = schedule.clone();
    let mut place = 0;
    while place < kept.len() {
        let smaller = smallest.without(place);
        match simulation::run(&smaller, None).violation {
            Some(same) if same.name() == violation.name() => {
                violation = same;
                smallest = smaller;
                kept.remove(place);
                place = 0;
            }
            _ => place += 1,
        }
    }
    let kept: BTreeSet<usize> = kept.into_iter().collect();
    let all = 1..=schedule.faults.len();
    Some(Found {
        schedule: smallest,
        without: all.filter(|fault| !kept.contains(fault)).collect(),
        violation,
    })
}
