//! Something goes wrong at each single call of central to PhoenixNAP, and all ends as if nothing had:
//! no block is bought twice, none is stranded, none taken off a network that it is not on.
//!
//! `make test` kills central before and after each write, and does each other thing once: `SEED=` says
//! where. `SWEEP=all` does all of it at every call, `CASE=create/kill-after/7` one alone, and `CASE=move`
//! all of an operation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::StatusCode;
use mooring_cloud_sim::phoenixnap::{Behaviour, Kind, Pace, TOKEN_PATH};
use mooring_cloud_sim::{Fault, Injection, When};
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_support::wait::try_eventually;
use serde_json::Value;

use crate::phoenixnap_services::blocks::{address, requested};
use crate::phoenixnap_services::cluster::{CloudCluster, has_finalizer};

/// How long central waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a case may take: a claim to buy that nobody takes back holds for half a minute.
const LIMIT: Duration = Duration::from_secs(120);
/// How many cases are done at once: as many as there are control planes.
const AT_ONCE: usize = 4;

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    /// Makes a Service, which gets a block of its own: bought, tagged, assigned.
    Create,
    /// Makes two, which share a block.
    Share,
    /// Deletes it: marked, taken off, given back.
    Delete,
    /// Names another network: taken off the old one, put on the new one.
    Move,
}

const OPERATIONS: [Operation; 4] = [
    Operation::Create,
    Operation::Share,
    Operation::Delete,
    Operation::Move,
];

/// What goes wrong at one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    KillBefore,
    KillAfter,
    Status(u16),
    Html,
    Torn,
    Hang,
    /// It is done, and its answer is lost.
    Dropped,
    /// It is done only when central has given up.
    Late,
}

const DISTURBANCES: [Disturbance; 11] = [
    Disturbance::KillBefore,
    Disturbance::KillAfter,
    Disturbance::Status(500),
    Disturbance::Status(401),
    Disturbance::Status(409),
    Disturbance::Status(429),
    Disturbance::Html,
    Disturbance::Torn,
    Disturbance::Hang,
    Disturbance::Dropped,
    Disturbance::Late,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    operation: Operation,
    disturbance: Disturbance,
    /// Counted from 1, of the calls that it is about.
    call: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = format!("{:?}", self.operation).to_lowercase();
        let disturbance = match self.disturbance {
            Disturbance::KillBefore => "kill-before".to_owned(),
            Disturbance::KillAfter => "kill-after".to_owned(),
            Disturbance::Status(status) => status.to_string(),
            other => format!("{other:?}").to_lowercase(),
        };
        write!(f, "{operation}/{disturbance}/{}", self.call)
    }
}

impl Disturbance {
    const fn kills(self) -> bool {
        matches!(self, Self::KillBefore | Self::KillAfter)
    }

    /// Whether it is about writes only.
    const fn is_about_writes(self) -> bool {
        matches!(self, Self::KillAfter | Self::Dropped | Self::Late)
    }

    fn fault(self) -> Fault {
        match self {
            Self::KillBefore | Self::KillAfter => Fault::reset(),
            Self::Status(status) => {
                Fault::status(StatusCode::from_u16(status).expect("a status of HTTP"))
            }
            Self::Html => Fault::html(StatusCode::BAD_GATEWAY),
            Self::Torn => Fault::torn(),
            Self::Hang => Fault::hang(),
            Self::Dropped => Fault::reset().executed(),
            Self::Late => Fault::late(TIMEOUT + Duration::from_secs(4)),
        }
    }
}

/// Requests that it is about: all, or those that change something. Tokens are not among these.
fn target(is_about_writes: bool) -> When {
    if is_about_writes {
        When::write("**/*").but(TOKEN_PATH)
    } else {
        When::everything()
    }
}

/// Central, which may be killed and started again.
struct Controller(Arc<Mutex<Option<Central>>>);

impl Controller {
    fn none() -> Self {
        Self(Arc::default())
    }

    async fn start(&self, cluster: &CloudCluster, flags: CentralFlags) {
        let central = cluster.central_with(flags).await;
        *self.lock() = Some(central);
    }

    fn stop(&self) {
        drop(self.lock().take());
    }

    fn is_running(&self) -> bool {
        let central = self.lock();
        central
            .as_ref()
            .is_some_and(|central| central.process.is_running())
    }

    fn killer(&self) -> impl Fn() + Send + Sync + 'static {
        let central = self.0.clone();
        move || {
            let central = central.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(central) = &*central {
                central.process.kill();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Central>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operation {
    fn flags(self, cluster: &CloudCluster) -> CentralFlags {
        let flags = match self {
            Self::Share => cluster.sharing(),
            Self::Create | Self::Delete | Self::Move => cluster.flags(),
        };
        flags.environment("PNAP_API_TIMEOUT", TIMEOUT.as_secs().to_string())
    }

    /// What is there before.
    async fn prepare(self, cluster: &mut CloudCluster, controller: &Controller) {
        if matches!(self, Self::Delete | Self::Move) {
            controller.start(cluster, self.flags(cluster)).await;
            cluster.provide("web").await;
            controller.stop();
        }
        if self == Self::Move {
            cluster.cloud.network = cluster.sim().add_network("new", "PHX");
        }
        cluster.sim().behave(Behaviour {
            creating: Pace::Looks(1),
            assigning: Pace::Looks(1),
            unassigning: Pace::Looks(1),
            ..Behaviour::default()
        });
    }

    async fn begin(self, cluster: &CloudCluster) {
        match self {
            Self::Create => drop(cluster.create("web").await),
            Self::Share => {
                cluster.create("web").await;
                cluster.create("db").await;
            }
            Self::Delete => cluster.delete("web").await,
            Self::Move => {}
        }
    }

    /// What is not as it is to be in the end.
    async fn wrong(self, cluster: &CloudCluster) -> Result<(), String> {
        let sim = cluster.sim();
        let names: &[&str] = match self {
            Self::Create | Self::Move => &["web"],
            Self::Share => &["db", "web"],
            Self::Delete => &[],
        };
        let mut addresses = Vec::new();
        for name in names {
            let service = cluster.get(name).await;
            let found = address(&service);
            if found.is_none() || requested(&service) != found || !has_finalizer(&service) {
                return Err(format!("{name}: {service:?}"));
            }
            addresses.extend(found);
        }
        addresses.sort();
        addresses.dedup();
        let blocks = sim.tagged(&[("cluster", cluster.cloud.cluster_uid.as_str())]);
        let on_network = sim.blocks_on(&cluster.cloud.network);
        let ids: Vec<String> = blocks.iter().map(|b| text(&b["id"])).collect();
        let bought = sim.purchases().len();
        if self == Self::Delete {
            let services = cluster.services().get_opt("web").await.unwrap();
            let is_over = services.is_none() && sim.all(Kind::Block).is_empty();
            let is_once = bought == 1 && sim.releases().len() == 1;
            return if is_over && is_once {
                Ok(())
            } else {
                Err(format!("{services:?} {blocks:?}, {bought} bought"))
            };
        }
        let is_whole = addresses.len() == names.len()
            && blocks.len() == 1
            && blocks[0]["status"] == "assigned"
            && ids == on_network;
        if !is_whole {
            return Err(format!("{addresses:?} {blocks:?} {on_network:?}"));
        }
        // A purchase of which nobody knows, is found by its tags.
        if bought != 1 || !sim.releases().is_empty() {
            return Err(format!(
                "{bought} blocks were bought, {:?} given back",
                sim.releases()
            ));
        }
        Ok(())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// How many calls an operation takes, and how many of them are writes.
#[derive(Clone, Copy, Debug)]
struct Reference {
    calls: u64,
    writes: u64,
}

/// Whether a case that ended well was one at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Struck {
    Yes,
    /// All was done with fewer calls than in the reference: one look less at what takes time.
    CallNeverCame,
}

impl Case {
    async fn run(self) -> Result<Struck, String> {
        let mut cluster = CloudCluster::start().await;
        let controller = Controller::none();
        self.operation.prepare(&mut cluster, &controller).await;
        let done = Arc::new(AtomicBool::new(self.disturbance != Disturbance::Late));
        let when = target(self.disturbance.is_about_writes());
        let struck = self.arm(&cluster, &controller, when, &done);
        let flags = || self.operation.flags(&cluster);
        controller.start(&cluster, flags()).await;
        self.operation.begin(&cluster).await;
        let settled = try_eventually(LIMIT, async || {
            if self.disturbance.kills() && struck.hits() > 0 && !controller.is_running() {
                controller.start(&cluster, flags()).await;
            }
            // Only looks may be fewer than in the reference.
            if struck.hits() == 0 && self.disturbance.is_about_writes() {
                return Err("the write has not come".to_owned());
            }
            if struck.hits() > 0 && !done.load(Ordering::Acquire) {
                return Err("what comes late has not come".to_owned());
            }
            self.operation.wrong(&cluster).await
        });
        let outcome = settled.await;
        struck.lift();
        if self.disturbance.kills() && !controller.is_running() {
            controller.start(&cluster, flags()).await;
        }
        let is_struck = match struck.hits() {
            0 => Struck::CallNeverCame,
            _ => Struck::Yes,
        };
        // That of a process that was killed would keep the marker waiting for half a minute.
        cluster.forget_claims().await;
        // Whoever has forgotten something would be seen now.
        let outcome = match outcome {
            Ok(()) => {
                cluster.marker().await;
                // What comes late comes to where all is done.
                let is_late = self.disturbance == Disturbance::Late;
                if is_late {
                    Ok(())
                } else {
                    misdirected(&cluster)
                }
            }
            Err(why) => Err(format!("{why}\n{}", cluster.sim().calls().summary())),
        };
        let log = controller
            .lock()
            .as_ref()
            .map(|central| central.process.log());
        controller.stop();
        match outcome {
            Ok(()) => Ok(is_struck),
            Err(why) => Err(format!("{self}: {why}\n{}", log.unwrap_or_default())),
        }
    }

    fn arm(
        self,
        cluster: &CloudCluster,
        controller: &Controller,
        when: When,
        done: &Arc<AtomicBool>,
    ) -> Injection {
        if self.disturbance.kills() {
            let executed = self.disturbance == Disturbance::KillAfter;
            return cluster
                .sim()
                .kill_switch(when, self.call, executed, controller.killer());
        }
        let done = done.clone();
        let fault = self.disturbance.fault();
        let fault = fault.last(move || done.store(true, Ordering::Release));
        cluster.sim().faults().inject(when.nth(self.call), fault)
    }
}

fn misdirected(cluster: &CloudCluster) -> Result<(), String> {
    let told = cluster.sim().misdirected();
    if told.is_empty() {
        Ok(())
    } else {
        Err(format!("{told:?}"))
    }
}

/// The operation, undisturbed.
async fn reference(operation: Operation) -> (Operation, Reference) {
    let mut cluster = CloudCluster::start().await;
    let controller = Controller::none();
    operation.prepare(&mut cluster, &controller).await;
    let (calls, writes) = (cluster.sim().calls().len(), cluster.sim().writes().len());
    controller.start(&cluster, operation.flags(&cluster)).await;
    operation.begin(&cluster).await;
    let done = try_eventually(LIMIT, async || operation.wrong(&cluster).await);
    let calls_of_all = cluster.sim().calls();
    done.await.unwrap_or_else(|why| {
        panic!(
            "{operation:?}, undisturbed: {why}\n{}",
            calls_of_all.summary()
        )
    });
    let reference = Reference {
        calls: (cluster.sim().calls().len() - calls) as u64,
        writes: (cluster.sim().writes().len() - writes) as u64,
    };
    controller.stop();
    cluster.finish().await;
    (operation, reference)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Which cases are done.
fn cases(references: &BTreeMap<Operation, Reference>) -> Vec<Case> {
    let seed = variable("SEED").map(|seed| seed.parse().expect("SEED is a whole number"));
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("SEED={seed}");
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut all = Vec::new();
    for (operation, reference) in references {
        for disturbance in DISTURBANCES {
            let calls = if disturbance.is_about_writes() {
                reference.writes
            } else {
                reference.calls
            };
            all.extend((1..=calls).map(|call| Case {
                operation: *operation,
                disturbance,
                call,
            }));
        }
    }
    if let Some(wanted) = variable("CASE") {
        let within = format!("{wanted}/");
        all.retain(|case| case.to_string() == wanted || case.to_string().starts_with(&within));
        assert!(!all.is_empty(), "CASE={wanted}: there is no such case");
    } else if variable("SWEEP").as_deref() != Some("all") {
        chance.shuffle(&mut all);
        let mut seen: Vec<Disturbance> = Vec::new();
        all.retain(|case| {
            let is_kill_after = case.disturbance == Disturbance::KillAfter;
            let is_first = !seen.contains(&case.disturbance);
            seen.push(case.disturbance);
            is_kill_after || is_first
        });
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_at_a_call_no_block_is_bought_twice_or_stranded() {
    let references = stream::iter(OPERATIONS).map(reference);
    let references: BTreeMap<_, _> = references.buffer_unordered(AT_ONCE).collect().await;
    println!("{references:?}");
    let cases = cases(&references);
    let count = cases.len();
    let mut done = stream::iter(cases)
        .map(|case| async move { (case, case.run().await) })
        .buffer_unordered(AT_ONCE);
    let (mut failures, mut number, mut never_came) = (Vec::new(), 0, 0);
    while let Some((case, outcome)) = done.next().await {
        number += 1;
        let told = match &outcome {
            Ok(Struck::Yes) => "good",
            Ok(Struck::CallNeverCame) => "good, though that call never came",
            Err(_) => "BAD",
        };
        println!("{number}/{count} {case}: {told}");
        never_came += usize::from(outcome == Ok(Struck::CallNeverCame));
        failures.extend(outcome.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        never_came * 4 <= count,
        "{never_came} of {count} calls never came"
    );
}
