//! The state machine.

mod attempts;
mod claims;
mod confirmation;
mod consent;
mod figures;
#[cfg(feature = "simulator")]
mod ghosts;
mod grouping;
mod handover;
mod held_keys;
mod joining;
mod keeping;
mod link_monitor;
mod node_network;
mod peers;
mod placement;
mod probing;
mod proposals;
mod quiet;
mod rebalance;
mod receiving;
mod sending;
mod speaking_lease;
mod survival;
mod survivors;
#[cfg(test)]
mod tests;
mod two_voters;
mod voter;
mod voter_sets;
mod voting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::claims::Claims;
pub use self::figures::Figures;
use self::grouping::Grouping;
use self::handover::HandOvers;
use self::held_keys::HeldKeys;
use self::joining::Membership;
use self::keeping::Keeping;
use self::link_monitor::LinkMonitor;
use self::node_network::NodeNetwork;
use self::peers::Peer;
use self::probing::Probing;
use self::quiet::FormerSpeakers;
pub use self::quiet::UNANNOUNCED_FROM_FILE;
use self::receiving::Admission;
use self::sending::HeartbeatTimer;
use self::speaking_lease::SpeakingLease;
use self::survivors::Survivors;
use self::voter::Voter;
use self::voter_sets::VoterSets;
use self::voting::WaitingClaims;
use super::decision::{AnnounceMode, Awaited, Cause, Decision, Path, Transition, Transmit};
use super::message::{Body, Epoch, Incarnation, Key, Message, NodeId};
use super::parameters::Parameters;
use super::random::{SplitMix, mix};
use super::rules::Rules;
use super::time::Moment;
use super::view::{ApiAnswer, Local, View};

/// How much longer than a promise a voter waits that has just started (rule B).
const WAKING: Duration = Duration::from_millis(50);

/// The whole state of a machine, for the process that goes on in its place on the same node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MachineState(Box<Machine>);

/// One node on one segment, as voter, deputy and holder. See the module above for what it
/// guarantees.
///
/// Whoever drives it calls one of the methods that take `now`, and then takes all of
/// [`Self::poll_decision`] and [`Self::poll_transmit`]. `now` never goes back.
///
/// # Flow
/// Every call first looks at the clock: a right that has run out is gone before anything else is
/// looked at (rule D). Then the input is taken in. At last what follows from it is settled: an
/// epoch is taken, confirmed keys are begun, free ones are claimed, and what others wait for is
/// sent.
///
/// # Guarantees
/// At one instant of real time [`Self::permits`] is true for a key on at most one of the machines
/// of a segment, as long as
/// * clocks run at the same rate to within 1 %,
/// * the voters that the API server names change by compare-and-swap only,
/// * no two processes run with the same incarnation, and a restarted one has another.
///
/// # Caveats
/// Whoever takes a frame from the driver and sends it later must ask again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    me: NodeId,
    incarnation: Incarnation,
    parameters: Parameters,
    random: SplitMix,
    now: Moment,
    started: Moment,
    local: Local,
    view: Option<View>,
    /// The number of the last message that was sent.
    seq: u64,
    #[serde(rename = "standing")]
    membership: Membership,
    peers: BTreeMap<NodeId, Peer>,
    /// The newest run of each that was heard, whether or not it counts yet.
    runs: BTreeMap<NodeId, Incarnation>,
    /// Who states to hold which key, of the others.
    owners: BTreeMap<Key, NodeId>,
    voter: Voter,
    waiting: WaitingClaims,
    #[serde(rename = "mandate")]
    speaking_lease: SpeakingLease,
    #[serde(rename = "estate")]
    held_keys: HeldKeys,
    claims: Claims,
    handovers: HandOvers,
    #[serde(rename = "together")]
    grouping: Grouping,
    #[serde(rename = "registry")]
    voter_sets: VoterSets,
    quiet: FormerSpeakers,
    #[serde(default)]
    keeping: Keeping,
    #[serde(rename = "senses")]
    link_monitor: LinkMonitor,
    survivors: Survivors,
    #[serde(default)]
    node_network: NodeNetwork,
    #[serde(default)]
    probing: Probing,
    #[serde(rename = "beat")]
    heartbeat_timer: HeartbeatTimer,
    /// When somebody may have been silent for too long.
    silence_check: Moment,
    #[serde(skip)]
    transmits: VecDeque<Transmit>,
    #[serde(skip)]
    decisions: VecDeque<Decision>,
}

impl Machine {
    /// A member that has just started. `seed` sets everything random.
    #[must_use]
    pub fn new(
        node: NodeId,
        incarnation: Incarnation,
        parameters: Parameters,
        seed: u64,
        now: Moment,
    ) -> Self {
        let awake_at = if parameters.rules().fresh_voter_waits() {
            now + parameters.promise + WAKING
        } else {
            now
        };
        Self {
            me: node,
            incarnation,
            parameters,
            random: SplitMix::new(seed ^ node.0),
            now,
            started: now,
            local: Local::default(),
            view: None,
            seq: 0,
            membership: Membership::new(now, parameters.heartbeat),
            peers: BTreeMap::new(),
            runs: BTreeMap::new(),
            owners: BTreeMap::new(),
            voter: Voter::new(awake_at, &parameters),
            waiting: WaitingClaims::new(awake_at),
            speaking_lease: SpeakingLease::default(),
            held_keys: HeldKeys::default(),
            claims: Claims::default(),
            handovers: HandOvers::default(),
            grouping: Grouping::default(),
            voter_sets: VoterSets::new(now),
            quiet: FormerSpeakers::new(),
            keeping: Keeping::default(),
            link_monitor: LinkMonitor::new(now),
            survivors: Survivors::new(),
            node_network: NodeNetwork::default(),
            probing: Probing::default(),
            heartbeat_timer: HeartbeatTimer::new(now),
            silence_check: Moment::NEVER,
            transmits: VecDeque::new(),
            decisions: VecDeque::new(),
        }
    }

    /// The whole state, moments included. The process that exports says nothing more.
    #[must_use]
    pub fn export(&self) -> MachineState {
        MachineState(Box::new(self.clone()))
    }

    /// Goes on where another process on this node has stopped, as the same member. What is held is
    /// reported again.
    #[must_use]
    pub fn inherit(state: MachineState, now: Moment) -> Self {
        let mut machine = *state.0;
        machine.transmits.clear();
        machine.decisions.clear();
        machine.advance(now);
        let held: Vec<Key> = machine.speaking().collect();
        for key in held {
            machine.decide(Decision::Begin {
                key,
                mode: AnnounceMode::OnRequest,
                cause: Cause::Inherited,
                former: Some(machine.me),
                silent_since: None,
            });
        }
        machine.heartbeat_timer.hurry = true;
        machine.settle();
        machine
    }

    /// Takes in what the API objects say.
    pub fn set_view(&mut self, view: View, now: Moment) {
        self.advance(now);
        if self.view.as_ref() != Some(&view) {
            if let Some(voters) = view.voters.clone() {
                self.adopt(voters);
            }
            self.drop_unwanted(&view);
            let known = self.view.as_ref().map(|known| &known.approvals);
            let approved = known != Some(&view.approvals);
            self.view = Some(view);
            if approved {
                self.note_approvals();
            }
            self.claims.replan = true;
            self.handovers.replan = true;
        }
        self.settle();
    }

    /// Takes in the state of this node.
    pub fn set_local(&mut self, local: Local, now: Moment) {
        self.advance(now);
        if self.local != local {
            self.note_link(local.link_up);
            let fitness = self.local.service_proxy_works != local.service_proxy_works;
            if fitness {
                self.handovers.unfit_since = (!local.service_proxy_works).then_some(self.now);
            }
            if local.ending && !self.local.ending {
                self.handovers.ending_since = Some(self.now);
            }
            self.local = local;
            self.claims.replan = true;
            self.handovers.replan = true;
            self.heartbeat_timer.hurry = true;
        }
        self.settle();
    }

    /// Takes in a message of another member, by whichever path it came.
    pub fn receive(&mut self, message: &Message, path: Path, now: Moment) {
        self.advance(now);
        if message.from != self.me {
            let admission = self.admit(message, path);
            if path == Path::NodeNetwork && admission != Admission::Refused {
                self.note_node_network();
            }
            match admission {
                Admission::First => self.dispatch(message),
                Admission::Copy => self.hear_copy(message),
                Admission::Refused => {}
            }
            self.check_refusal();
        }
        self.settle();
    }

    /// Goes on as another run of this node, which knows nothing of what this one has heard or
    /// promised, and as a voter keeps silent for as long as that may count.
    fn begin_anew(&mut self) {
        self.note(Transition::BegunAnew);
        // Another run of this node may draw the same numbers.
        let run = mix(self.random.next() ^ self.incarnation.0);
        let seed = self.random.next();
        let (me, parameters, now) = (self.me, self.parameters, self.now);
        let fresh = Self::new(me, Incarnation(run), parameters, seed, now);
        let former = std::mem::replace(self, fresh);
        self.transmits = former.transmits;
        self.decisions = former.decisions;
        self.set_local(former.local, now);
        if let Some(view) = former.view {
            self.set_view(view, now);
        }
    }

    /// Whether survivors of a lost majority go on, from now on.
    pub const fn set_survive_via_api(&mut self, survive: bool) {
        self.parameters.survive_via_api = survive;
    }

    /// Whether an address is asked for before its first use, from now on.
    pub const fn set_probe_addresses(&mut self, probe: bool) {
        self.parameters.probe_addresses = probe;
        self.claims.replan = true;
    }

    /// Whether connections stay with a former speaker that lives, from now on.
    pub const fn set_keep_connections(&mut self, keep: bool) {
        self.parameters.keep_connections = keep;
    }

    /// Takes in the answer to a [`Decision::Ask`], and when it was asked.
    pub fn api_answered(&mut self, answer: ApiAnswer, asked: Moment, now: Moment) {
        self.advance(now);
        if asked >= self.started {
            // What an earlier run has asked is of no account: it may be about another L2Network of this
            // name, which this one has replaced.
            self.note_api(answer, asked);
        }
        self.settle();
    }

    /// The kernel of a node has answered for one of its own addresses.
    pub fn kernel_answered(&mut self, node: NodeId, now: Moment) {
        self.advance(now);
        self.quiet.answered(node, self.now);
        self.settle();
    }

    /// Whatever keeps connections has done what it can for these keys; and whether the kernel does what it should.
    pub fn connections_prepared(
        &mut self,
        awaited: Awaited,
        keys: &[Key],
        is_done: bool,
        now: Moment,
    ) {
        self.advance(now);
        self.keeping.prepared(awaited, keys, is_done);
        self.settle();
    }

    /// Tells the new speaker of keys how many connections run through this node.
    pub fn tell_connections(&mut self, to: NodeId, counts: &[(Key, u32)], now: Moment) {
        self.advance(now);
        for counts in counts.chunks(Body::MOST_COUNTS) {
            let counts = counts.to_vec();
            self.tell_all_and(to, Body::Connections { to, counts });
        }
        self.settle();
    }

    /// The gateway has answered.
    pub fn gateway_answered(&mut self, now: Moment) {
        self.advance(now);
        self.link_monitor.gateway_answered = Some(self.now);
        self.settle();
    }

    /// A frame about this key has just been handed to the kernel. If the right to it had ended
    /// by then, the others are told.
    pub fn frame_sent(&mut self, key: Key, now: Moment) {
        let permitted = self.permits(key, now);
        self.advance(now);
        if !permitted {
            self.decide(Decision::Note(Transition::SpokeLate));
            self.tell_all(Body::SpokeLate { keys: vec![key] });
        }
        self.settle();
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Moment) {
        self.advance(now);
        self.note_waking();
        if self.now >= self.silence_check {
            self.check_silence();
        }
        self.tick_link_monitor();
        self.tick_node_network();
        self.tick_waiting();
        self.tick_claims();
        self.tick_handovers();
        self.tick_quiet();
        self.tick_voter_sets();
        self.tick_survivors();
        self.tick_probing();
        self.settle();
    }

    /// When to call [`Self::tick`] at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Moment {
        self.deadlines().into_iter().min().unwrap_or(Moment::NEVER)
    }

    /// When each part wants to be called.
    fn deadlines(&self) -> [Moment; 13] {
        let lapse = if self.held_keys.speaks() {
            self.speaking_lease.end().unwrap_or(Moment::NEVER)
        } else {
            Moment::NEVER
        };
        [
            self.heartbeat_timer.due(),
            self.held_keys.restate.map_or(Moment::NEVER, |(at, _)| at),
            lapse,
            self.membership.due(self.now),
            self.silence_check,
            self.waiting.due,
            self.claims.due,
            self.handovers.due,
            self.quiet.due,
            self.voter_sets.due,
            self.link_monitor.due,
            self.survivors.due,
            self.probing.due,
        ]
    }

    /// The next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next thing to do.
    pub fn poll_decision(&mut self) -> Option<Decision> {
        self.decisions.pop_front()
    }

    /// Until when a frame about this key may leave; `None`: not at all. To be asked before each
    /// frame.
    #[must_use]
    pub fn permitted_until(&self, key: Key) -> Option<Moment> {
        let holding = self.held_keys.keys.get(&key)?;
        self.speaking_lease.until(holding.added)
    }

    /// Each key that it may speak for, and until when.
    pub fn rights(&self) -> impl Iterator<Item = (Key, Moment)> {
        let held = self.held_keys.keys.iter();
        held.filter_map(|(key, holding)| Some((*key, self.speaking_lease.until(holding.added)?)))
    }

    /// Until when all that it speaks for may be spoken for; the beginning of time if it may not.
    #[must_use]
    pub fn speech_ends(&self) -> Moment {
        let speaking = self.held_keys.keys.values();
        let speaking = speaking.filter(|holding| holding.speaking);
        let ends = speaking.map(|holding| self.speaking_lease.until(holding.added));
        ends.min().flatten().unwrap_or_default()
    }

    /// Whether a frame about this key may leave at `now`.
    #[must_use]
    pub fn permits(&self, key: Key, now: Moment) -> bool {
        self.permitted_until(key).is_some_and(|until| now < until)
    }

    /// How many other members it has heard.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// The keys that it holds.
    #[must_use]
    pub fn held(&self) -> BTreeSet<Key> {
        self.held_keys.keys.keys().copied().collect()
    }

    /// Who it is.
    #[must_use]
    pub const fn identity(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    /// Under which epoch it speaks; zero while it has none.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.membership.epoch
    }

    /// The generation of voters that it serves; zero while there is none.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.voter_sets.current.generation
    }

    const fn rules(&self) -> Rules {
        self.parameters.rules()
    }

    fn decide(&mut self, decision: Decision) {
        self.decisions.push_back(decision);
    }

    fn note(&mut self, transition: Transition) {
        self.decide(Decision::Note(transition));
    }

    /// Goes on to `now`. What has run out by then is gone before anything else is looked at.
    fn advance(&mut self, now: Moment) {
        self.now = self.now.max(now);
        if self.rules().lapse_is_latched() {
            self.check_lapse();
        }
    }

    /// Draws the conclusions of whatever was taken in.
    fn settle(&mut self) {
        for _ in 0..4 {
            if !self.rules().lapse_is_latched() {
                self.check_lapse();
            }
            self.try_join();
            self.begin_confirmed();
            self.drop_hopeless();
            if self.claims.replan || self.now >= self.claims.due {
                self.plan_claims();
            }
            if self.handovers.replan || self.now >= self.handovers.due {
                self.plan_handovers();
            }
            if !self.flush() {
                break;
            }
        }
    }
}
