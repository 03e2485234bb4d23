//! A simulation of nodes: machines, driven by what happens in it, in the order in which it happens.
//!
//! Events lie in a heap, by true time. Whatever a machine is told, all that it then wants done is
//! done at once: what takes time in a daemon is in the delays of messages, in late ticks, and in
//! processes that are stopped.

mod assurance;
mod connections;
mod drive;
mod happen;
mod objects;
mod requests;
mod steady;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use fastrand::Rng;
use mooring_node::announce::forwarding::state::Forwarding;
use mooring_node::protocol::{Key, Local, Moment, NodeId, Request, Transition, VoterSet};

use super::api::Api;
use super::clock::{Clock, Instant, SECOND};
use super::daemon::Daemon;
use super::engine::{Alone, Engine, Here};
use super::invariants::{DarkTime, Violation, Watch};
use super::network::{MOST_NODES, Network, has};
use super::node::{Input, Node, Packet};
use super::objects::{NETWORK, SPOTS_OF_A_SERVICE, Spots, address};
use super::schedule::{SETTLING, Schedule, Shape};
use super::steps::Step;
use super::tally::{Tally, take_overs};
use super::trace::{Names, Trace};

/// What happens next.
#[derive(Clone, Debug)]
enum What {
    /// Something for the process that runs on a node then.
    Arrives { node: usize, input: Input },
    /// Something for this very process.
    Answers { node: usize, run: u32, input: Input },
    /// A process looks at its machine's deadline.
    Tick { node: usize, run: u32 },
    /// A request reaches the API server.
    Request {
        node: usize,
        run: u32,
        /// About which L2Network, if that matters.
        about: Option<u64>,
        request: Request,
        asked: Moment,
    },
    /// A node's Lease is due.
    Renew { node: usize },
    /// A watch tells a node of the API's objects.
    View { node: usize },
    /// A node's daemon notices the state of its node.
    Local { node: usize },
    /// A step of the schedule.
    Step(usize),
    /// A process that is ending has had its time.
    Grace { node: usize, run: u32 },
    /// What is assured may have changed by time alone.
    Recheck,
    /// A message that was recorded is delivered again.
    Again { node: usize, packet: Packet },
}

/// What is to happen, in the order in which it happens. The heap has only the times: what happens is
/// large, and would be moved about in it.
#[derive(Clone, Debug, Default)]
struct EventQueue {
    /// When, which of those at that instant, and where it is in `whats`.
    heap: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    whats: Vec<Option<What>>,
    vacant: Vec<usize>,
    order: u64,
}

impl EventQueue {
    fn push(&mut self, at: Instant, what: What) {
        self.order += 1;
        let place = self.vacant.pop().unwrap_or(self.whats.len());
        if place == self.whats.len() {
            self.whats.push(None);
        }
        self.whats[place] = Some(what);
        self.heap.push(Reverse((at, self.order, place)));
    }

    /// The next thing that happens until then.
    fn pop(&mut self, until: Instant) -> Option<(Instant, What)> {
        let Reverse((at, _, place)) = *self.heap.peek().filter(|next| next.0.0 <= until)?;
        self.heap.pop();
        self.vacant.push(place);
        Some((at, self.whats[place].take()?))
    }

    /// All of it.
    fn in_order(&self) -> Vec<(Instant, &What)> {
        let mut all: Vec<_> = self.heap.iter().map(|next| next.0).collect();
        all.sort_unstable();
        let whats = all.into_iter();
        whats
            .filter_map(|(at, _, place)| Some((at, self.whats[place].as_ref()?)))
            .collect()
    }
}

/// Takes text in to hash it.
struct Fingerprint(DefaultHasher);

impl std::fmt::Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// How a schedule ended.
#[derive(Debug)]
pub struct Outcome {
    /// What must never be, and was.
    pub violation: Option<Violation>,
    /// When it ended.
    pub ended_at: Instant,
    /// What was counted.
    pub tally: Tally,
    /// When nobody could be heard, by key.
    pub dark_times: Vec<DarkTime>,
    /// What happened, if it was to be told.
    pub trace: Option<Trace>,
}

/// A simulation in the middle of its schedule.
#[derive(Clone, Debug)]
pub struct Simulation<E = Alone> {
    shape: Shape,
    steps: Vec<Step>,
    healed_at: Instant,
    ends_at: Instant,
    now: Instant,
    queue: EventQueue,
    runs: u32,
    /// Those of the cluster that is judged, and after them those of another on the same segment.
    nodes: Vec<Node<E>>,
    /// What is judged: keys, or addresses, by what machines call them.
    keys: Arc<Vec<Key>>,
    /// The Nodes of either cluster, by number: they have the same names.
    ids: Vec<NodeId>,
    names_of_nodes: Arc<Vec<String>>,
    network: Network,
    api: Api,
    /// The API server of the other cluster.
    foreign: Api,
    watch: Watch,
    chance: Rng,
    tally: Tally,
    trace: Option<Trace>,
    names: Names,
    /// Some of the messages that were sent, to be replayed.
    recorded: Vec<Packet>,
    /// All of them, with when they were sent, if the schedule plays any back.
    record: Option<Vec<(Instant, usize, Packet)>>,
    /// What is assured is to be found out anew.
    recheck: bool,
    /// Room for what a process may speak for.
    permits: Vec<Option<Moment>>,
    /// Since when what a majority needs has been so.
    steady: steady::Steady,
    /// Whether any survivors of a lost majority went on.
    survived: bool,
    /// When the segment was last cut between two, and is whole again.
    joined_at: [[Instant; MOST_NODES]; MOST_NODES],
    /// What each Node of the cluster passes on.
    forwarding: Vec<Forwarding>,
}

/// The largest number of messages that are kept for replays.
const RECORDED: usize = 300;

impl<E: Engine> Simulation<E> {
    /// A simulation in which nothing has happened yet.
    #[must_use]
    pub fn new(schedule: &Schedule, trace: Option<Trace>) -> Self {
        let shape = schedule.shape.clone();
        let mut chance = chance_of(schedule.seed);
        let numbers = (0..shape.total()).map(|_| chance.u64(..));
        let names: Vec<String> = numbers.map(|number| number.to_string()).collect();
        let ids: Vec<NodeId> = if E::IS_WHOLE {
            names.iter().map(|name| NodeId::of(name)).collect()
        } else {
            let numbers = names.iter().filter_map(|name| name.parse().ok());
            numbers.map(NodeId).collect()
        };
        let keys: Vec<Key> = if E::IS_WHOLE {
            let spots = 0..shape.keys.len() * SPOTS_OF_A_SERVICE;
            spots.map(|spot| Key::of(NETWORK, address(spot))).collect()
        } else {
            shape.keys.iter().map(|_| Key(chance.u64(..))).collect()
        };
        let voters = shape.voters.map(|voters| {
            let named = (0..ids.len()).filter(|node| has(voters, *node));
            let voters: std::collections::BTreeSet<NodeId> = named.map(|node| ids[node]).collect();
            VoterSet {
                generation: 1,
                primary: (voters.len() == 2)
                    .then(|| voters.first().copied())
                    .flatten(),
                voters,
            }
        });
        let services: Vec<_> = (0..shape.keys.len())
            .map(|service| (shape.keys[service], Self::first_spots(&shape, service)))
            .collect();
        let mut api = Api::new(&services, voters, 1);
        if steps_go_back(schedule) {
            api.keep_the_past();
        }
        let foreign = Api::new(&[(None, 1 << FOREIGN_SPOT)], None, 2);
        let nodes = (0..ids.len() + shape.strangers).map(|number| {
            let clock = Self::clock(&shape, &mut chance, 0);
            let id = ids[number % ids.len()];
            Node::new(number, id, clock, shape.is_on_segment(number))
        });
        let nodes: Vec<Node<E>> = nodes.collect();
        let macs: Vec<_> = nodes
            .iter()
            .take(ids.len())
            .map(|node| node.contact.mac)
            .collect();
        let network = Network::new(shape.manners, chance.fork());
        let steps = schedule.all_steps();
        let plays_back = steps
            .iter()
            .any(|(_, step)| matches!(step, Step::PlayBack { .. }));
        let mut watch = Watch::new(keys.len(), schedule.healed_at, schedule.ends_at);
        if shape.parameters.probe_addresses {
            watch.expect_first_uses();
        }
        let mut simulation = Self {
            watch,
            steady: steady::Steady::new(keys.len()),
            names: Names {
                nodes: ids.clone(),
                keys: keys.clone(),
            },
            names_of_nodes: Arc::new(names),
            foreign,
            steps: steps.iter().map(|(_, step)| step.clone()).collect(),
            healed_at: schedule.healed_at,
            ends_at: schedule.ends_at,
            now: 0,
            queue: EventQueue::default(),
            runs: 0,
            nodes,
            keys: Arc::new(keys),
            ids,
            network,
            api,
            chance,
            tally: Tally::default(),
            trace,
            recorded: Vec::new(),
            record: plays_back.then(Vec::new),
            recheck: true,
            permits: Vec::new(),
            survived: false,
            joined_at: [[0; MOST_NODES]; MOST_NODES],
            forwarding: Self::nothing_passed_on(&macs),
            shape,
        };
        for (number, (at, _)) in steps.iter().enumerate() {
            simulation.push(*at, What::Step(number));
        }
        simulation.push(schedule.healed_at + SETTLING, What::Recheck);
        simulation.begin();
        simulation
    }

    /// The addresses that a Service has from the beginning.
    fn first_spots(shape: &Shape, service: usize) -> Spots {
        if !E::IS_WHOLE {
            return 1 << service;
        }
        let first = service * SPOTS_OF_A_SERVICE;
        let second = has(shape.dual, service);
        (1 << (first + 1)) | (Spots::from(second) << (first + 2))
    }

    /// The Service that something judged belongs to.
    const fn service_of(spot: usize) -> usize {
        if E::IS_WHOLE {
            spot / SPOTS_OF_A_SERVICE
        } else {
            spot
        }
    }

    /// How many Nodes the cluster has that is judged.
    const fn own(&self) -> usize {
        self.ids.len()
    }

    /// The API server of a node's cluster.
    const fn api_of(&self, node: usize) -> &Api {
        if node < self.own() {
            &self.api
        } else {
            &self.foreign
        }
    }

    fn clock(shape: &Shape, chance: &mut Rng, now: Instant) -> Clock {
        let drift = shape.drift_ppb;
        let drift = if drift > 0 {
            chance.i64(-drift..=drift)
        } else {
            0
        };
        // Up for a few minutes to a year: a promise must not be held for older than the boot.
        Clock::new(now, chance.u64(60 * SECOND..30_000_000 * SECOND), drift)
    }

    fn begin(&mut self) {
        for (node, weight) in self.shape.weights.clone() {
            self.nodes[node].weight = weight;
        }
        for node in 0..self.nodes.len() {
            if (self.shape.first()..self.own()).contains(&node) {
                self.nodes[node].present = false;
                self.nodes[node].down = 1;
                continue;
            }
            let at = self.chance.u64(0..=self.shape.lateness.max(1) * 50);
            let renew = self.chance.u64(0..10 * SECOND);
            self.push(renew, What::Renew { node });
            self.nodes[node].down = 1;
            self.steps.push(Step::Up { node, memory: true });
            let step = self.steps.len() - 1;
            self.push(at, What::Step(step));
        }
        self.find_out_who_is_heard();
    }

    /// Lets all happen that happens until then, or until something is that must never be.
    pub fn advance(&mut self, until: Instant) {
        while self.watch.violation.is_none()
            && let Some((at, what)) = self.queue.pop(until)
        {
            self.now = at;
            self.tally.events += 1;
            self.happen(what);
            if self.recheck {
                self.recheck = false;
                self.find_out_what_is_assured();
            }
        }
        if self.watch.violation.is_none() {
            self.now = until;
        }
    }

    /// Lets something happen now that is in no schedule.
    pub fn interfere(&mut self, step: &Step) {
        self.step(step);
    }

    /// What must never be, and was.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.watch.violation.as_ref()
    }

    /// What time it is.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// A hash of all that decides what happens next.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fingerprint(DefaultHasher::new());
        let mut queue = self.queue.in_order().into_iter();
        let written = queue
            .try_for_each(|(at, what)| write!(hash, "{at} {what:?};"))
            .and_then(|()| {
                write!(
                    hash,
                    "{} {:?} {:?} {:?} {:?} {}",
                    self.now, self.nodes, self.network, self.api, self.watch, self.survived
                )
            });
        debug_assert!(written.is_ok(), "hashing does not fail");
        hash.0.finish()
    }

    /// Lets all happen that the schedule says, until its end or until something is that must
    /// never be.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        self.advance(self.ends_at);
        if self.watch.violation.is_none() {
            self.watch.end(self.ends_at);
            self.judge_voters();
            self.judge_preferences();
        }
        self.outcome()
    }

    /// How it is now.
    #[must_use]
    pub fn outcome(mut self) -> Outcome {
        self.tally.late_frames += self.watch.late_frames;
        Outcome {
            violation: self.watch.violation,
            ended_at: self.now,
            tally: self.tally,
            dark_times: self.watch.dark_times,
            trace: self.trace,
        }
    }

    fn push(&mut self, at: Instant, what: What) {
        self.queue.push(at, what);
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrives { node, input } => self.tell(node, input),
            What::Answers { node, run, input } => {
                if self.is_run(node, run) {
                    self.tell(node, input);
                }
            }
            What::Tick { node, run } => {
                if self.is_run(node, run) {
                    self.tick(node);
                }
            }
            What::Request {
                node,
                run,
                about,
                request,
                asked,
            } => self.request(node, run, (about, &request), asked),
            What::Renew { node } => {
                let alive = self.nodes[node].runs() && self.api.is_reached_by(node);
                if alive && node < self.own() {
                    self.api.renew(node, self.now);
                }
                let next = self.now + if alive { 10 * SECOND } else { SECOND };
                self.push(next, What::Renew { node });
            }
            What::View { node } => self.show_view(node),
            What::Local { node } => self.tell(node, Input::Local),
            What::Step(step) => {
                let step = self.steps[step].clone();
                self.step(&step);
            }
            What::Grace { node, run } => {
                if self.is_run(node, run) {
                    self.end_process(node, false);
                }
            }
            What::Recheck => {
                self.recheck = true;
                let network = &self.network;
                self.watch.judge_late_frames(self.now, |one, other| {
                    network.is_good(one, other, mooring_node::protocol::Path::Segment)
                });
            }
            What::Again { node, packet } => {
                let by_segment = self.chance.bool() && self.nodes[node].is_on_segment();
                let path = if by_segment {
                    mooring_node::protocol::Path::Segment
                } else {
                    mooring_node::protocol::Path::NodeNetwork
                };
                let is_news = self.is_news(&packet.message, node, path);
                let dropped = self.tally.times(Transition::MessageDropped);
                self.tell(node, Input::Message(packet, path));
                if is_news && self.tally.times(Transition::MessageDropped) == dropped {
                    self.watch.disturbed(self.now);
                }
            }
        }
    }

    fn is_run(&self, node: usize, run: u32) -> bool {
        let process = self.nodes[node].process.as_ref();
        process.is_some_and(|process| process.run == run)
    }

    fn local(&self, node: usize) -> Local {
        let state = &self.nodes[node];
        let ending = state.process.as_ref().is_some_and(|process| process.ending);
        Local {
            link_up: state.is_on_segment() && self.network.link_is_up(node),
            draining: state.sees_draining,
            ending,
            service_proxy_works: state.unfit == 0,
            weight: state.weight,
            contact: state.contact.clone(),
            secrets: Vec::new(),
            has_gateway: self.shape.gateway,
        }
    }

    /// The state of a node, as its daemon finds it.
    fn here(&self, node: usize) -> Here {
        let state = &self.nodes[node];
        Here {
            local: self.local(node),
            has_address: self.network.link_is_up(node) || !self.shape.drops_addresses,
            is_selected: state.unlabelled == 0,
            is_registered: state.unregistered == 0,
        }
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.add(self.now, self.names.readable(&line()));
        }
    }
}

/// The number of the address that the other cluster speaks for: it is not judged.
const FOREIGN_SPOT: usize = 63;

fn chance_of(seed: u64) -> Rng {
    Rng::with_seed(seed ^ 0x005e_ed0f_c4a0_5000)
}

/// Which of the first so many nodes has the lowest name in the simulation of a seed, where machines run
/// alone.
#[must_use]
pub fn lowest(seed: u64, nodes: usize) -> Option<usize> {
    let mut chance = chance_of(seed);
    let ids: Vec<u64> = (0..nodes).map(|_| chance.u64(..)).collect();
    (0..nodes).min_by_key(|node| ids[*node])
}

fn steps_go_back(schedule: &Schedule) -> bool {
    let steps = schedule.all_steps();
    let mut steps = steps.iter();
    steps.any(|(_, step)| matches!(step, Step::Restore { .. }))
}

/// Lets a schedule happen.
#[must_use]
pub fn run(schedule: &Schedule, trace: Option<Trace>) -> Outcome {
    let mut outcome = if schedule.shape.whole {
        Simulation::<Daemon>::new(schedule, trace).run()
    } else {
        Simulation::<Alone>::new(schedule, trace).run()
    };
    for fault in &schedule.faults {
        *outcome.tally.faults.entry(fault.kind).or_default() += 1;
    }
    outcome.tally.schedules += 1;
    outcome.tally.take_overs = take_overs(schedule, &outcome.dark_times);
    outcome
}
