//! Stories of a few machines in virtual time.

mod again;
mod api;
mod consent;
mod failover;
mod file;
mod grouping;
mod keeping;
mod many;
mod moves;
mod preferred;
mod probing;
mod quorum;
mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::*;
use crate::protocol::decision::{Awaited, ConnectionEvent, Consent, Destination, Request};
use crate::protocol::mac::Mac;
use crate::protocol::message::{Claim, Contact, Grant, VoterSet};
use crate::protocol::random::mix;
use crate::protocol::view::{Candidates, Group, Wanted};
use crate::protocol::weight::Weight;
use crate::wire::codec::{self, SegmentId};

const DELAY: Duration = Duration::from_micros(300);
const API_DELAY: Duration = Duration::from_millis(10);

pub(super) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Something that happens to a machine.
#[derive(Clone, Debug)]
enum Event {
    Message(Message, Path),
    Api(ApiAnswer, Moment),
    Kernel(NodeId),
    Address(Key, Mac),
    Gateway,
    Prepared(Awaited, Key),
    View,
}

/// A machine and its driver.
#[derive(Clone, Debug)]
struct Host {
    machine: Machine,
    /// Stopped: what comes in waits.
    stopped: bool,
    inbox: Vec<Event>,
    spoken: BTreeSet<Key>,
}

type Cut = Box<dyn Fn(u64, u64, Path) -> bool>;
type Loss = Box<dyn FnMut(&Message) -> bool>;

/// Machines, the wires between them, and the API server.
struct World {
    now: Moment,
    hosts: BTreeMap<u64, Host>,
    /// The nodes that the API objects know.
    known: BTreeSet<u64>,
    /// How many messages each has sent on a path, and the bytes of them.
    sent: BTreeMap<(u64, Path), (usize, usize)>,
    queue: BTreeMap<(Moment, u64), (u64, Event)>,
    order: u64,
    /// Whether a message from one to another is lost on a path.
    cut: Cut,
    /// Whether a message is lost on all paths.
    loss: Loss,
    api_voters: VoterSet,
    /// What each node approves, as the API server has it.
    approvals: BTreeMap<NodeId, VoterSet>,
    /// What was ever written: of one generation there is one set, whatever the API server forgets.
    written: BTreeMap<u64, VoterSet>,
    api_up: bool,
    /// Nodes that cannot reach the API server.
    no_api: BTreeSet<u64>,
    leases_unchanged: BTreeSet<NodeId>,
    /// Nodes whose kernels do not answer.
    dead_kernels: BTreeSet<NodeId>,
    /// How long it takes to have connections passed on; `None`: it never comes to that.
    prepares_in: Option<Duration>,
    /// How long it takes to let through what the next speaker passes on; `None`: it never comes to that.
    lets_through_in: Option<Duration>,
    /// Nodes that cannot reach the gateway.
    gateway_down: BTreeSet<u64>,
    keys: BTreeMap<Key, Wanted>,
    /// What has the addresses of keys beside the machines, and answers for them.
    others: BTreeMap<Key, Mac>,
    /// What the fabric answers broadcasts with, for stations that are dead.
    fabric: BTreeMap<Key, Mac>,
    /// Nodes that see no change of the API objects.
    blind: BTreeSet<u64>,
    /// How much nodes are preferred.
    preferences: BTreeMap<u64, u16>,
    parameters: Parameters,
    incarnations: u64,
    log: Vec<(Moment, u64, Decision)>,
    /// When somebody last spoke for each key, and the longest time when nobody did.
    last_spoken: BTreeMap<Key, (Moment, bool)>,
    longest_gap: BTreeMap<Key, Duration>,
    /// When each machine was last called, and how often at that moment.
    spins: BTreeMap<u64, (Moment, u32)>,
}

impl World {
    fn new(nodes: &[u64], keys: u64) -> Self {
        let mut world = Self {
            now: Moment(1_000_000_000),
            hosts: BTreeMap::new(),
            known: nodes.iter().copied().collect(),
            sent: BTreeMap::new(),
            queue: BTreeMap::new(),
            order: 0,
            cut: Box::new(|_, _, _| false),
            loss: Box::new(|_| false),
            api_voters: VoterSet::default(),
            approvals: BTreeMap::new(),
            written: BTreeMap::new(),
            api_up: true,
            no_api: BTreeSet::new(),
            leases_unchanged: BTreeSet::new(),
            dead_kernels: BTreeSet::new(),
            prepares_in: Some(DELAY),
            lets_through_in: Some(DELAY),
            gateway_down: BTreeSet::new(),
            keys: (0..keys)
                .map(|key| Key(mix(key)))
                .map(|key| (key, Wanted::alone(key, Candidates::All)))
                .collect(),
            others: BTreeMap::new(),
            fabric: BTreeMap::new(),
            blind: BTreeSet::new(),
            preferences: BTreeMap::new(),
            parameters: Parameters::default(),
            incarnations: 0,
            log: Vec::new(),
            last_spoken: BTreeMap::new(),
            longest_gap: BTreeMap::new(),
            spins: BTreeMap::new(),
        };
        for node in nodes {
            world.start(*node);
        }
        world
    }

    /// Three nodes that have shared so many keys.
    fn settled(keys: u64) -> Self {
        let mut world = Self::new(&[1, 2, 3], keys);
        world.run(ms(4000));
        world.expect_all_spoken();
        world.forget_gaps();
        world
    }

    fn local(&self, node: u64) -> Local {
        Local {
            link_up: true,
            contact: contact(node),
            has_gateway: true,
            weight: Weight::new(
                self.preferences.get(&node).copied().unwrap_or_default(),
                100,
            ),
            ..Local::default()
        }
    }

    fn view(&self) -> View {
        View {
            keys: self.keys.clone(),
            voters: Some(self.api_voters.clone()),
            approvals: self.approvals.clone(),
            voters_from_file: false,
            accepted: None,
            known: self
                .known
                .iter()
                .map(|node| (NodeId(*node), contact(*node)))
                .collect(),
        }
    }

    /// Starts a daemon, in a run of its own.
    fn start(&mut self, node: u64) {
        self.incarnations += 1;
        self.start_as(node, Incarnation(self.incarnations));
    }

    /// Starts a daemon in this run, which may have been there before.
    fn start_as(&mut self, node: u64, incarnation: Incarnation) {
        self.known.insert(node);
        let mut machine = Machine::new(NodeId(node), incarnation, self.parameters, 7, self.now);
        machine.set_local(self.local(node), self.now);
        machine.set_view(self.view(), self.now);
        let host = Host {
            machine,
            stopped: false,
            inbox: Vec::new(),
            spoken: BTreeSet::new(),
        };
        self.hosts.insert(node, host);
        self.drain(node);
    }

    fn kill(&mut self, node: u64) {
        self.hosts.remove(&node);
    }

    /// The whole node dies.
    fn crash(&mut self, node: u64) {
        self.kill(node);
        self.dead_kernels.insert(NodeId(node));
    }

    fn stop(&mut self, node: u64) {
        self.hosts.get_mut(&node).unwrap().stopped = true;
    }

    /// Lets a stopped daemon go on: first it gets what has come in meanwhile.
    fn resume(&mut self, node: u64) {
        let host = self.hosts.get_mut(&node).unwrap();
        host.stopped = false;
        let inbox = std::mem::take(&mut host.inbox);
        for event in inbox {
            self.deliver(node, event);
        }
        self.act(node, Machine::tick);
    }

    fn change_local(&mut self, node: u64, change: impl FnOnce(&mut Local)) {
        let mut local = self.hosts[&node].machine.local.clone();
        change(&mut local);
        self.act(node, |machine, now| machine.set_local(local, now));
    }

    fn change_view(&mut self) {
        let view = self.view();
        let nodes = self.hosts.keys().copied();
        let nodes: Vec<u64> = nodes.filter(|node| !self.blind.contains(node)).collect();
        for node in nodes {
            let view = view.clone();
            self.act(node, |machine, now| machine.set_view(view, now));
        }
    }

    fn act(&mut self, node: u64, act: impl FnOnce(&mut Machine, Moment)) {
        let now = self.now;
        act(&mut self.hosts.get_mut(&node).unwrap().machine, now);
        self.drain(node);
    }

    fn deliver(&mut self, node: u64, event: Event) {
        let Some(host) = self.hosts.get_mut(&node) else {
            return;
        };
        if host.stopped {
            host.inbox.push(event);
            return;
        }
        if matches!(event, Event::View) {
            let view = self.view();
            return self.act(node, |machine, now| machine.set_view(view, now));
        }
        self.act(node, |machine, now| match event {
            Event::View => {}
            Event::Message(message, path) => machine.receive(&message, path, now),
            Event::Api(answer, asked) => machine.api_answered(answer, asked, now),
            Event::Kernel(node) => machine.kernel_answered(node, now),
            Event::Address(key, mac) => {
                machine.address_answered(key, mac, now);
            }
            Event::Gateway => machine.gateway_answered(now),
            Event::Prepared(awaited, key) => {
                machine.connections_prepared(awaited, &[key], true, now);
            }
        });
    }

    fn later(&mut self, node: u64, delay: Duration, event: Event) {
        self.order += 1;
        self.queue
            .insert((self.now + delay, self.order), (node, event));
    }

    fn drain(&mut self, node: u64) {
        while let Some(decision) = self.hosts.get_mut(&node).unwrap().machine.poll_decision() {
            self.decide(node, &decision);
            self.log.push((self.now, node, decision));
        }
        while let Some(transmit) = self.hosts.get_mut(&node).unwrap().machine.poll_transmit() {
            let (path, targets): (Path, Vec<u64>) = match &transmit.to {
                Destination::Segment => (Path::Segment, self.hosts.keys().copied().collect()),
                Destination::NodeNetwork(to) => {
                    (Path::NodeNetwork, to.iter().map(|to| to.0).collect())
                }
            };
            let copies = match path {
                Path::Segment => 1,
                Path::NodeNetwork => targets.len(),
            };
            let length = encoded_length(&transmit.message);
            let (messages, bytes) = self.sent.entry((node, path)).or_default();
            *messages += copies;
            *bytes += copies * length;
            if (self.loss)(&transmit.message) {
                continue;
            }
            for to in targets {
                if to != node && !(self.cut)(node, to, path) {
                    self.later(to, DELAY, Event::Message(transmit.message.clone(), path));
                }
            }
        }
    }

    fn decide(&mut self, node: u64, decision: &Decision) {
        match decision {
            Decision::Begin { key, .. } => {
                let host = self.hosts.get_mut(&node).unwrap();
                assert!(host.spoken.insert(*key), "{node} begins {key:?} twice");
                assert!(host.machine.permits(*key, self.now));
            }
            Decision::Stop { key, .. } => {
                let host = self.hosts.get_mut(&node).unwrap();
                assert!(
                    host.spoken.remove(key),
                    "{node} stops what it has not begun"
                );
            }
            Decision::ProbeKernel { node: asked, .. } => {
                if !self.dead_kernels.contains(asked) {
                    self.later(node, DELAY * 2, Event::Kernel(*asked));
                }
            }
            Decision::ProbeAddress { key, stations } => {
                self.ask_stations(node, *key, |mac| stations.contains(mac));
                let alive = self.others.get(key).copied();
                self.answer_from(node, *key, alive.filter(|mac| stations.contains(mac)));
            }
            Decision::ProbeSegment { key } => {
                self.ask_stations(node, *key, |_| true);
                let known = self.others.get(key).or_else(|| self.fabric.get(key));
                self.answer_from(node, *key, known.copied());
            }
            Decision::ProbeGateway => {
                if !self.gateway_down.contains(&node) {
                    self.later(node, DELAY * 2, Event::Gateway);
                }
            }
            Decision::Ask(request) => {
                let answer = match self.no_api.contains(&node) {
                    true => ApiAnswer::Unreachable,
                    false => self.answer(node, request),
                };
                let asked = self.now;
                self.later(node, API_DELAY, Event::Api(answer, asked));
            }
            Decision::Connections(ConnectionEvent::Offered { key, former }) => {
                if let Some(delay) = self.prepares_in {
                    let awaited = Awaited::Offer(*former);
                    self.later(node, delay, Event::Prepared(awaited, *key));
                }
            }
            Decision::Connections(ConnectionEvent::HandingOn { key, to }) => {
                if let Some(delay) = self.lets_through_in {
                    let awaited = Awaited::HandOver(*to);
                    self.later(node, delay, Event::Prepared(awaited, *key));
                }
            }
            Decision::Burst { .. }
            | Decision::Conflict { .. }
            | Decision::Connections(_)
            | Decision::Note(_) => {}
        }
    }

    /// A station answers. What runs on the node that asks does not hear its questions.
    fn answer_from(&mut self, node: u64, key: Key, station: Option<Mac>) {
        if let Some(mac) = station.filter(|mac| contact(node).mac != Some(*mac)) {
            self.later(node, DELAY * 2, Event::Address(key, mac));
        }
    }

    /// Members that speak for the key answer a question about it.
    fn ask_stations(&mut self, node: u64, key: Key, whom: impl Fn(&Mac) -> bool) {
        let others: Vec<u64> = self.hosts.keys().copied().collect();
        for other in others {
            let mac = contact(other).mac.unwrap();
            if self.hosts[&other].machine.permits(key, self.now) && whom(&mac) {
                self.later(node, DELAY * 2, Event::Address(key, mac));
            }
        }
    }

    /// Everybody who reaches the API server is shown what has changed.
    fn show(&mut self) {
        let sees = |node: &u64| !self.no_api.contains(node) && !self.blind.contains(node);
        let nodes: Vec<u64> = self.hosts.keys().copied().filter(sees).collect();
        for node in nodes {
            self.later(node, API_DELAY, Event::View);
        }
    }

    fn check(&mut self) {
        let keys: Vec<Key> = self.keys.keys().copied().collect();
        for key in keys {
            let is_spoken = self.speaker(key).is_some();
            let (last, was_spoken) = self
                .last_spoken
                .insert(key, (self.now, is_spoken))
                .unwrap_or((self.now, is_spoken));
            if !is_spoken {
                // It counts from the last moment with a speaker.
                self.last_spoken.insert(key, (last, false));
            }
            if !is_spoken || !was_spoken {
                let gap = self.longest_gap.entry(key).or_default();
                *gap = (*gap).max(self.now.since(last));
            }
        }
    }

    /// Lets time pass.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let event = self.queue.first_key_value().map(|((at, _), _)| *at);
            let tick = self
                .hosts
                .iter()
                .filter(|(_, host)| !host.stopped)
                .map(|(node, host)| (host.machine.next_deadline(), *node))
                .min();
            let next = event.into_iter().chain(tick.map(|(at, _)| at)).min();
            let Some(at) = next.filter(|at| *at <= end) else {
                break;
            };
            // Just before it: rights run out between events.
            self.now = self.now.max(at - Duration::from_nanos(1));
            self.check();
            self.now = self.now.max(at);
            if event == Some(at) {
                let (_, (node, event)) = self.queue.pop_first().unwrap();
                self.deliver(node, event);
            } else if let Some((_, node)) = tick {
                self.act(node, Machine::tick);
                let (last, times) = self.spins.entry(node).or_default();
                *times = if *last == at { *times + 1 } else { 0 };
                *last = at;
                let deadlines = self.hosts[&node].machine.deadlines();
                assert!(
                    *times < 10,
                    "{node} wants to be called for ever: {deadlines:?}"
                );
            }
            self.check();
        }
        self.now = end;
        self.check();
    }
}

/// A key that only these may hold.
fn wanted(key: Key, nodes: &[u64]) -> Wanted {
    let nodes = nodes.iter().map(|node| NodeId(*node));
    Wanted::alone(key, Candidates::Only(nodes.collect()))
}

/// How long a message is on the wire, without a signature.
fn encoded_length(message: &Message) -> usize {
    let segment = SegmentId::of("public");
    codec::encode(segment, message, None).unwrap().len()
}

fn contact(node: u64) -> Contact {
    let last = u8::try_from(node).unwrap();
    Contact {
        mac: Some(Mac::new([2, 0, 0, 0, 0, last])),
        own_addresses: vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))],
        node_network: None,
        zone: 0,
    }
}
