//! Clusters that several cases share, one after the other.
//!
//! The first case that is asked for starts all clusters that are wanted, two at a time. Each case then
//! waits for its own outcome. In there, each case finds the cluster whole; if one does not leave it
//! so, the next finds a new one.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use mooring_test_netlab::failover::{FailoverCluster, Layout};
use mooring_test_netlab::netlab::{clear_netlab, run_test_in_netlab};
use mooring_test_support::figures;

/// How many clusters are at work at once.
const AT_ONCE: usize = 2;

/// How long one case may take: what hangs ends by this. Each wait in it has its own limit.
const LIMIT: Duration = Duration::from_secs(600);

/// In a netlab: which cases are wanted.
const WANTED: &str = "MOORING_CASES";

/// Lines by which a cluster tells of its cases.
const BEGINS: &str = "CASE BEGINS ";
const HOLDS: &str = "CASE HOLDS ";
const FAILS: &str = "CASE FAILS ";

/// What the names of cases and clusters begin with as tests.
const SUITE: &str = "failover::";

/// A case, in a cluster that is whole.
pub type Case = for<'a> fn(&'a mut FailoverCluster) -> LocalBoxFuture<'a, ()>;

/// A cluster and its cases.
#[derive(Clone, Copy)]
pub struct SharedCluster {
    pub name: &'static str,
    pub cases: &'static [(&'static str, Case)],
}

/// Makes a test of each case, and one of each cluster, in which they run.
macro_rules! cases {
    ($($cluster:ident($layout:expr): [$($module:ident::$case:ident),* $(,)?];)*) => {
        /// All clusters.
        pub const ALL: &[$crate::failover::shared::SharedCluster] = &[$($crate::failover::shared::SharedCluster {
            name: stringify!($cluster),
            cases: &[$((stringify!($case), |cluster| Box::pin($module::$case(cluster)))),*],
        }),*];
        $($(
            #[test]
            fn $case() {
                $crate::failover::shared::outcome(stringify!($case));
            }
        )*)*
        $(
            #[test]
            #[ignore = "a cluster for the cases, which run it"]
            fn $cluster() {
                mooring_test_netlab::netlab::in_netlab(async || {
                    $crate::failover::shared::run_cases(stringify!($cluster), $layout).await;
                });
            }
        )*
    };
}
pub(crate) use cases;

/// What became of a case, and all that was printed.
#[derive(Clone, Debug)]
struct Outcome {
    holds: bool,
    lines: Vec<String>,
}

#[derive(Default)]
struct Outcomes {
    known: Mutex<BTreeMap<&'static str, Outcome>>,
    news: Condvar,
}

static OUTCOMES: LazyLock<&'static Outcomes> = LazyLock::new(|| {
    let outcomes: &'static Outcomes = Box::leak(Box::default());
    let queue: VecDeque<(SharedCluster, Vec<&'static str>)> = wanted().into();
    let queue: &'static Mutex<_> = Box::leak(Box::new(Mutex::new(queue)));
    for _ in 0..AT_ONCE {
        std::thread::spawn(move || {
            let next = || lock(queue).pop_front();
            while let Some((shared, cases)) = next() {
                run(shared, &cases, outcomes);
            }
        });
    }
    outcomes
});

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clusters with the cases that the command line's filters let pass.
fn wanted() -> Vec<(SharedCluster, Vec<&'static str>)> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_exact = arguments.iter().any(|argument| argument == "--exact");
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let passes = |case: &str| {
        let case = format!("{SUITE}{case}");
        let fits = |filter: &&String| {
            if is_exact {
                case == **filter
            } else {
                case.contains(filter.as_str())
            }
        };
        filters.is_empty() || filters.iter().any(fits)
    };
    let clusters = crate::failover::ALL.iter().map(|shared| {
        let names = shared.cases.iter().map(|(name, _)| *name);
        (*shared, names.filter(|name| passes(name)).collect())
    });
    clusters
        .filter(|(_, cases): &(SharedCluster, Vec<_>)| !cases.is_empty())
        .collect()
}

/// Runs a cluster, and notes what becomes of its cases as it tells.
fn run(shared: SharedCluster, cases: &[&'static str], outcomes: &Outcomes) {
    let (mut lines, mut told) = (Vec::new(), Vec::new());
    let list = cases.join(",");
    let note = |name: &'static str, outcome: Outcome| {
        lock(&outcomes.known).insert(name, outcome);
        outcomes.news.notify_all();
    };
    let named = |line: &str, mark: &str| {
        let name = line.strip_prefix(mark)?;
        cases.iter().copied().find(|case| *case == name)
    };
    let test = format!("{SUITE}{}", shared.name);
    let ended = run_test_in_netlab(&test, &[(WANTED, &list)], |line| {
        if figures::pass_on(line) {
            return;
        }
        if line.starts_with(BEGINS) {
            lines.clear();
        }
        lines.push(line.to_owned());
        for (mark, holds) in [(HOLDS, true), (FAILS, false)] {
            if let Some(name) = named(line, mark) {
                told.push(name);
                let lines = std::mem::take(&mut lines);
                note(name, Outcome { holds, lines });
            }
        }
    });
    if let Err(error) = ended {
        lines.push(format!("the cluster {} has ended: {error:#}", shared.name));
    }
    for name in cases.iter().filter(|case| !told.contains(case)) {
        let lines = lines.clone();
        note(
            name,
            Outcome {
                holds: false,
                lines,
            },
        );
    }
}

/// Waits for the outcome of a case, prints what it printed, and panics if it does not hold.
pub fn outcome(case: &'static str) {
    let outcomes = *OUTCOMES;
    let mut known = lock(&outcomes.known);
    let outcome = loop {
        if let Some(outcome) = known.get(case) {
            break outcome.clone();
        }
        let waited = outcomes.news.wait(known);
        known = waited.unwrap_or_else(PoisonError::into_inner);
    };
    drop(known);
    for line in &outcome.lines {
        println!("{line}");
    }
    assert!(outcome.holds, "the case does not hold; see above");
}

/// In a netlab: runs the cases that are wanted.
pub async fn run_cases(shared: &str, layout: Layout) {
    let wanted = std::env::var(WANTED).unwrap_or_default();
    let shared = crate::failover::ALL
        .iter()
        .find(|known| known.name == shared);
    let cases = shared.expect("it is in the list").cases.iter();
    let mut cluster = None;
    for (name, case) in cases.filter(|(name, _)| wanted.split(',').any(|want| want == *name)) {
        println!("\n{BEGINS}{name}");
        let start = Instant::now();
        let holds = AssertUnwindSafe(attempt(&mut cluster, &layout, *case))
            .catch_unwind()
            .await
            .is_ok();
        println!("it took {:?}", start.elapsed());
        let mark = if holds { HOLDS } else { FAILS };
        println!("\n{mark}{name}");
    }
}

/// Plays one case, and sees to it that the cluster is whole for the next.
async fn attempt(cluster: &mut Option<FailoverCluster>, layout: &Layout, case: Case) {
    let start = Instant::now();
    if cluster.is_none() {
        // Of one that could not be built, or was not whole again.
        clear_netlab().expect("the netlab can be cleared");
        let built = FailoverCluster::build(layout.clone()).await;
        *cluster =
            Some(built.unwrap_or_else(|error| panic!("the cluster cannot be built: {error:#}")));
        println!("the cluster stands after {:?}", start.elapsed());
    }
    let set = cluster.as_mut().expect("it was just built");
    let began = Instant::now();
    let played = AssertUnwindSafe(tokio::time::timeout(LIMIT, case(set)))
        .catch_unwind()
        .await;
    if !matches!(played, Ok(Ok(()))) {
        tell(set, began);
    }
    let restored = set.restore().await;
    if let Err(error) = &restored {
        println!("the cluster is not whole again: {error:#}");
        tell(set, began);
        *cluster = None;
    }
    match played {
        Err(panic) => std::panic::resume_unwind(panic),
        Ok(Err(_)) => panic!("the case takes longer than {LIMIT:?}"),
        Ok(Ok(())) => restored.expect("the cluster is whole after the case"),
    }
}

/// What can be seen of a failure.
fn tell(cluster: &FailoverCluster, began: Instant) {
    println!("--- on the wire:\n{}", cluster.timeline(began));
    println!("--- central:\n{}", cluster.central.log_tail());
    for (name, daemon) in &cluster.daemons {
        println!("--- the daemon on {name}:\n{}", daemon.log_tail());
    }
}

#[test]
fn all_cases_of_the_specification_are_here_or_said_to_be_elsewhere() {
    let elsewhere = [12, 15, 16, 17];
    let number = |name: &&str| name.strip_prefix("case_")?[..2].parse::<u32>().ok();
    let mut here: Vec<u32> = crate::failover::ALL
        .iter()
        .flat_map(|shared| shared.cases)
        .filter_map(|(name, _)| number(name))
        .chain(elsewhere)
        .collect();
    here.sort_unstable();
    here.dedup();
    assert_eq!(here, (1..=30).collect::<Vec<_>>());
}
