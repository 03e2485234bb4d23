//! The fail-over protocol in a simulated simulation: the same [`Machine`] that a daemon runs, several of
//! it, with simulated clocks, paths, kernels and an API server, while things go wrong.
//!
//! ```text
//!   seed ──► Schedule ──► steps ─────┐
//!             (shape, faults)        ▼
//!                      Simulation: events by true time ──► Machine × n
//!                        │  clocks, network, API  ◄── messages, decisions, rights
//!                        ▼
//!                      Watch: the invariants ──► Violation, dark times
//! ```
//!
//! One seed gives one schedule, and one schedule always happens in the same way. `make sim` runs
//! many; `SEED=` tells what happens in one. The directed schedules of [`scenarios`] show, rule by
//! rule, what would go wrong without it.
//!
//! Docs: `docs/explanation/fail-over-simulated.md`.
//!
//! [`Machine`]: mooring_node::protocol::Machine

pub mod api;
pub mod clock;
pub mod daemon;
pub mod daemon_scenarios;
pub mod engine;
pub mod faults;
pub mod invariants;
pub mod lines;
pub mod model;
pub mod mutations;
pub mod network;
pub mod node;
pub mod objects;
pub mod report;
pub mod scenarios;
pub mod schedule;
pub mod search;
pub mod simulation;
pub mod steps;
pub mod tally;
pub mod trace;
pub mod whole;

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use mooring_node::protocol::Parameters;

use model::Small;
use report::Report;
use scenarios::Scenario;
use schedule::Schedule;
use search::Search;
use simulation::Outcome;
use trace::Trace;
use whole::Off;

/// `make sim`. Fails if anything is that must never be, or if something has never happened.
pub fn main() -> ExitCode {
    let done = if let Some(scenario) = variable("SCENARIO") {
        tell(&scenario)
    } else if variable("ROUNDS").is_some() {
        explore()
    } else if variable("SEED").is_some() {
        replay()
    } else {
        search()
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `SCHEDULES=` schedules, of the seeds from `FROM=` on, `THREADS=` at once.
fn search() -> Result<bool> {
    let search = Search {
        first: number("FROM")?.unwrap_or(1),
        schedules: number("SCHEDULES")?.unwrap_or(200_000),
        parameters: parameters()?,
        off: off()?,
        enough: usize::try_from(number("ENOUGH")?.unwrap_or(3))?,
        threads: number("THREADS")?.map(usize::try_from).transpose()?,
    };
    let (tally, found, took) = search.run();
    let report = Report {
        tally,
        found,
        off: search.off,
        took,
    };
    println!("{report}");
    Ok(report.is_good())
}

/// Explores small simulations to the end, with `ROUNDS=` instants at which something may happen.
fn explore() -> Result<bool> {
    let rounds = usize::try_from(number("ROUNDS")?.unwrap_or(0))?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let parameters = parameters()?;
    let mut is_good = true;
    for (name, small) in [
        ("re-joining", Small::rejoining(parameters, rounds)),
        ("growing", Small::growing(parameters, rounds)),
    ] {
        if let Some(turns) = variable("TURNS") {
            let turns = numbers("TURNS", &turns)?;
            is_good &= tell_outcome(name, &small.tell(&turns));
            continue;
        }
        let begun = Instant::now();
        let explored = small.explore(threads);
        let took = begun.elapsed().as_secs_f64();
        let verdict = explored.violation.as_deref().unwrap_or("all is well");
        println!(
            "{name}: {rounds} rounds, {} states in {took:.1} s: {verdict}",
            explored.states
        );
        is_good &= explored.violation.is_none();
    }
    Ok(is_good)
}

/// Tells the scenario of a rule: `SCENARIO=A`, with `RULE_OFF=A` where it goes wrong. `PHASE=` chooses one
/// of its schedules; without it, the first that goes wrong is told, or else the first of all.
fn tell(name: &str) -> Result<bool> {
    if let Some(schedules) = daemon_scenarios::named(name) {
        let worst = daemon_scenarios::worst(&schedules);
        return Ok(worst.is_none_or(show));
    }
    let scenario = Scenario::of_mutation(name)
        .with_context(|| format!("SCENARIO is {name:?}: no such rule"))?;
    let parameters = parameters()?;
    let phase = match number("PHASE")? {
        Some(phase) => usize::try_from(phase)?,
        None => scenario.first_violation(parameters).unwrap_or(0),
    };
    let mut schedule = scenario
        .schedules
        .get(phase)
        .context("PHASE is too large")?
        .clone();
    schedule.shape.parameters = parameters;
    println!("schedule {phase} of {}", scenario.schedules.len());
    Ok(show(&schedule))
}

/// Tells what happens in the schedule of `SEED=`, `WITHOUT=` some of its faults.
fn replay() -> Result<bool> {
    let seed = number("SEED")?.context("SEED is empty")?;
    let mut schedule = Schedule::random_without(seed, parameters()?, off()?);
    if let Some(without) = variable("WITHOUT") {
        let mut without = numbers("WITHOUT", &without)?;
        without.sort_unstable();
        for fault in without.into_iter().rev() {
            if (1..=schedule.faults.len()).contains(&fault) {
                schedule = schedule.without(fault - 1);
            }
        }
    }
    println!("{}", report::describe(&schedule));
    Ok(show(&schedule))
}

/// Tells what happens in a schedule, and says whether all is well.
fn show(schedule: &Schedule) -> bool {
    let mut trace = Trace::default();
    trace.verbose = variable("VERBOSE").is_some();
    let outcome = simulation::run(schedule, Some(trace));
    tell_outcome(&format!("seed {}", schedule.seed), &outcome)
}

fn tell_outcome(name: &str, outcome: &Outcome) -> bool {
    if let Some(trace) = &outcome.trace {
        println!("{trace}");
    }
    match &outcome.violation {
        Some(violation) => println!("{name}: {violation}"),
        None => println!("{name}: all is well"),
    }
    outcome.violation.is_none()
}

fn numbers(name: &str, value: &str) -> Result<Vec<usize>> {
    value
        .split(',')
        .map(|number| number.trim().parse::<usize>())
        .collect::<Result<Vec<_>, _>>()
        .with_context(|| format!("{name} is {value:?}, and not like 1,4"))
}

/// The parameters, with the rule that `RULE_OFF=` names switched off.
fn parameters() -> Result<Parameters> {
    let mut parameters = Parameters {
        probe_addresses: variable("PROBING").is_some(),
        keep_connections: true,
        ..Parameters::default()
    };
    if let Some(name) = variable("RULE_OFF") {
        let rule = mutations::Mutation::named(&name)
            .with_context(|| format!("RULE_OFF is {name:?}: no such rule"))?;
        rule.apply(&mut parameters);
    }
    Ok(parameters)
}

/// What `OFF=` names of what whole daemons meet.
fn off() -> Result<Off> {
    let Some(names) = variable("OFF") else {
        return Ok(Off::default());
    };
    Off::named(&names).with_context(|| {
        let known: Vec<_> = Off::names().collect();
        format!("OFF is {names:?}, and not some of {}", known.join(","))
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str) -> Result<Option<u64>> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let number = value
        .parse()
        .with_context(|| format!("{name} is {value:?}, and not a whole number"))?;
    Ok(Some(number))
}
