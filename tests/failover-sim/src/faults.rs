//! What can go wrong, and how each of it is made of single steps.

use std::fmt;

use fastrand::Rng;
use mooring_node::protocol::Path;

use super::clock::{Instant, MILLISECOND, SECOND};
use super::network::{Nodes, each};
use super::objects::SPOTS_OF_A_SERVICE;
use super::schedule::{Shape, weight};
use super::steps::Step;

macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// One kind of what can go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $($(#[$doc])* $kind,)*
        }

        impl FaultKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];
        }

        impl fmt::Display for FaultKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Self::$kind => $name,)*
                })
            }
        }
    };
}

fault_kinds! {
    /// A node loses power, and boots later.
    NodeCrashed = "node crashed",
    /// A daemon is killed; its node's kernel goes on.
    DaemonKilled = "daemon killed",
    /// A daemon is killed and starts again while the API server is away, having kept nothing.
    DaemonForgot = "daemon forgot",
    /// A daemon is stopped by SIGSTOP.
    DaemonPaused = "daemon paused",
    /// A daemon is stopped between the check and the sending of a frame.
    FrameInHand = "frame in hand",
    /// A daemon gets a twentieth of a processor.
    DaemonStarved = "daemon starved",
    /// A node is cut off on both paths.
    NodeIsolated = "node isolated",
    /// The segment is cut in two.
    SegmentCut = "segment cut",
    /// The node network is cut in two.
    NodeNetworkCut = "node network cut",
    /// Both are cut, in the same way.
    BothCut = "both cut",
    /// Both are cut for half a minute or longer, and the one half does not reach the API server.
    MajorityLost = "majority lost",
    /// Some do not hear some others, on both paths.
    OneWayBlind = "blind one way",
    /// Two do not hear each other, on both paths.
    PairBlind = "pair blind",
    /// What a node sends on the segment is lost.
    TransmitDead = "transmit dead",
    /// What a node should hear on the segment is lost.
    ReceiveDead = "receive dead",
    /// A cable is pulled.
    LinkDown = "link down",
    /// A link comes and goes each second.
    LinkFlapping = "link flapping",
    /// The gateway does not answer some.
    GatewayAway = "gateway away",
    /// Some do not reach the API server.
    ApiAwayForSome = "API away for some",
    /// Nobody reaches the API server.
    ApiAwayForAll = "API away for all",
    /// What some ask the API server for is done, and they are not told.
    AnswersLost = "API answers lost",
    /// Some see the API's objects as they were.
    StaleViews = "stale views",
    /// A Node is drained, and taken into use again.
    Drained = "drained",
    /// A daemon is told to end, and starts again.
    DaemonEnded = "daemon ended",
    /// All daemons are told to end one after the other, each starting again.
    RollingRestart = "rolling restart",
    /// All daemons are killed at once, and start again.
    AllKilled = "all killed",
    /// A process takes another's place as the same member.
    Upgraded = "upgraded",
    /// A Node joins.
    NodeJoined = "node joined",
    /// A Node leaves.
    NodeLeft = "node left",
    /// Keys come and go.
    KeysChanged = "keys changed",
    /// Who may hold a key changes.
    CandidatesChanged = "candidates changed",
    /// A node's weight changes.
    WeightChanged = "weight changed",
    /// Old messages are sent again.
    Replayed = "replayed",
    /// Much is lost around some nodes.
    Lossy = "lossy",
    /// Messages from and to some nodes are slow, and overtake each other.
    Slow = "slow",
    /// A node's service proxy does not work.
    ServiceProxyDead = "service proxy dead",
    /// A Service changes an address, while some do not reach the API server.
    Readdressed = "readdressed",
    /// A Node loses the label that the L2Network selects.
    Unlabelled = "unlabelled",
    /// A Node object is deleted while its daemon runs, and made again.
    Unregistered = "unregistered",
    /// The API server is restored from a backup.
    Restored = "API restored",
    /// The L2Network is deleted and made again.
    NetworkMadeAnew = "network made anew",
}

impl FaultKind {
    /// Those that machines alone do not meet.
    pub const OF_DAEMONS: &'static [Self] = &[
        Self::Readdressed,
        Self::Unlabelled,
        Self::Unregistered,
        Self::Restored,
        Self::NetworkMadeAnew,
    ];

    /// Those that machines alone meet, too.
    pub const OF_MACHINES: usize = Self::ALL.len() - Self::OF_DAEMONS.len();
}

/// One thing that goes wrong, from one instant to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// From when on.
    pub at: Instant,
    /// Until when.
    pub until: Instant,
    /// What chance goes by in it.
    pub salt: u64,
}

/// Steps, each with its instant.
pub type Steps = Vec<(Instant, Step)>;

/// Makes the steps of one fault.
struct Maker<'a> {
    shape: &'a Shape,
    fault: Fault,
    chance: Rng,
    steps: Steps,
}

impl Fault {
    /// What it is made of.
    #[must_use]
    pub fn steps(&self, shape: &Shape) -> Steps {
        let mut maker = Maker {
            shape,
            fault: *self,
            chance: Rng::with_seed(self.salt),
            steps: Vec::new(),
        };
        maker.make();
        maker.steps
    }
}

impl Maker<'_> {
    fn at(&mut self, at: Instant, step: Step) {
        self.steps.push((at, step));
    }

    /// Begins with the fault, and ends with it.
    fn during(&mut self, step: impl Fn(bool) -> Step) {
        self.at(self.fault.at, step(true));
        self.at(self.fault.until, step(false));
    }

    fn any(&mut self) -> usize {
        self.chance.usize(0..self.shape.first())
    }

    fn member(&mut self) -> usize {
        self.chance.usize(0..self.shape.members)
    }

    fn key(&mut self) -> usize {
        self.chance.usize(0..self.shape.keys.len())
    }

    /// Some of the nodes: at least one, and not all.
    fn some(&mut self) -> Nodes {
        let all = self.shape.all();
        if self.shape.total() < 2 {
            return all;
        }
        loop {
            let nodes = self.chance.u16(..) & all;
            if nodes != 0 && nodes != all {
                return nodes;
            }
        }
    }

    fn down(&mut self, node: usize, power: bool) {
        let memory = self.chance.u8(0..4) > 0;
        self.at(self.fault.at, Step::Down { node, power });
        self.at(self.fault.until, Step::Up { node, memory });
    }

    fn make(&mut self) {
        match self.fault.kind {
            FaultKind::NodeCrashed => {
                let node = self.any();
                self.down(node, true);
            }
            FaultKind::DaemonKilled => {
                let node = self.any();
                self.down(node, false);
            }
            FaultKind::DaemonForgot => self.forgetting(),
            FaultKind::DaemonPaused => self.pause(false),
            FaultKind::FrameInHand => self.pause(true),
            FaultKind::DaemonStarved => self.starve(),
            FaultKind::NodeIsolated => {
                let nodes = 1 << self.any();
                self.during(|on| Step::CutSegment { nodes, on });
                self.during(|on| Step::CutNodeNetwork { nodes, on });
            }
            FaultKind::SegmentCut => {
                let nodes = self.some();
                self.during(|on| Step::CutSegment { nodes, on });
            }
            FaultKind::NodeNetworkCut => {
                let nodes = self.some();
                self.during(|on| Step::CutNodeNetwork { nodes, on });
            }
            FaultKind::BothCut => {
                let nodes = self.some();
                self.during(|on| Step::CutSegment { nodes, on });
                self.during(|on| Step::CutNodeNetwork { nodes, on });
            }
            FaultKind::MajorityLost => self.lose_majority(),
            FaultKind::OneWayBlind => self.blind_one_way(),
            FaultKind::PairBlind => self.blind_pair(),
            FaultKind::TransmitDead => {
                let node = self.member();
                self.during(|on| Step::TransmitDead { node, on });
            }
            FaultKind::ReceiveDead => {
                let node = self.member();
                self.during(|on| Step::ReceiveDead { node, on });
            }
            FaultKind::LinkDown => {
                let node = self.member();
                self.during(|on| Step::LinkDown { node, on });
            }
            FaultKind::LinkFlapping => self.flap(),
            _ => self.make_slow_ones(),
        }
    }

    /// Those that come by way of the API server, or change the manners of the network.
    fn make_slow_ones(&mut self) {
        match self.fault.kind {
            FaultKind::GatewayAway => {
                let nodes = self.some_or_all();
                self.during(|on| Step::GatewayAway { nodes, on });
            }
            FaultKind::ApiAwayForSome => {
                let nodes = self.some();
                self.during(|on| Step::ApiAway { nodes, on });
            }
            FaultKind::ApiAwayForAll => {
                let nodes = self.shape.all();
                self.during(|on| Step::ApiAway { nodes, on });
            }
            FaultKind::AnswersLost => {
                let nodes = self.some_or_all();
                self.during(|on| Step::AnswersLost { nodes, on });
            }
            FaultKind::StaleViews => {
                let nodes = self.some();
                self.during(|on| Step::StaleView { nodes, on });
            }
            FaultKind::Drained => {
                let node = self.member();
                self.during(|on| Step::Drain { node, on });
            }
            FaultKind::DaemonEnded => {
                let node = self.any();
                self.at(self.fault.at, Step::End { node });
                self.at(self.fault.until, Step::Up { node, memory: true });
            }
            FaultKind::RollingRestart => self.roll(),
            FaultKind::AllKilled => self.kill_all(),
            FaultKind::Upgraded => {
                let node = self.any();
                let gap = self.chance.u64(MILLISECOND..60 * MILLISECOND);
                self.at(self.fault.at, Step::Upgrade { node, gap });
            }
            FaultKind::NodeJoined => {
                let late = self.shape.first()..self.shape.total();
                if late.is_empty() {
                    return;
                }
                let node = self.chance.usize(late);
                self.at(self.fault.at, Step::Join { node });
            }
            FaultKind::NodeLeft => {
                let node = self.any();
                self.at(self.fault.at, Step::Leave { node });
                if self.chance.bool() {
                    self.at(self.fault.until, Step::Join { node });
                }
            }
            FaultKind::KeysChanged => {
                let key = self.key();
                self.during(|on| Step::KeyThere { key, on: !on });
            }
            FaultKind::CandidatesChanged => self.change_candidates(),
            FaultKind::WeightChanged => {
                let node = self.member();
                let weight = weight(self.chance.u16(20..300));
                self.at(self.fault.at, Step::Weight { node, weight });
            }
            FaultKind::Replayed => self.replay(),
            FaultKind::Lossy => {
                let nodes = self.some_or_all();
                let thousandths = self.chance.u16(20..300);
                self.during(|on| Step::Lossy {
                    nodes,
                    thousandths,
                    on,
                });
            }
            FaultKind::Slow => {
                let nodes = self.some_or_all();
                let delay = self.chance.u64(5 * MILLISECOND..450 * MILLISECOND);
                self.during(|on| Step::Slow { nodes, delay, on });
            }
            FaultKind::ServiceProxyDead => {
                let node = self.member();
                self.during(|on| Step::Unfit { node, on });
            }
            _ => self.make_those_of_daemons(),
        }
    }

    /// Those that whole daemons alone meet.
    fn make_those_of_daemons(&mut self) {
        match self.fault.kind {
            FaultKind::Readdressed => self.readdress(),
            FaultKind::Unlabelled => {
                for _ in 0..self.chance.usize(1..3) {
                    let node = self.member();
                    self.during(|on| Step::Unlabel { node, on });
                }
            }
            FaultKind::Unregistered => {
                for _ in 0..self.chance.usize(1..3) {
                    let node = self.any();
                    self.during(|on| Step::Unregister { node, on });
                }
            }
            FaultKind::Restored => {
                let back = self.chance.u64(SECOND..self.fault.at.max(2 * SECOND));
                self.at(self.fault.at, Step::Restore { back });
            }
            FaultKind::NetworkMadeAnew => {
                let uid = self.chance.u64(3..);
                self.at(self.fault.at, Step::Network { uid: None });
                self.at(self.fault.until, Step::Network { uid: Some(uid) });
            }
            _ => {}
        }
    }

    /// One of a Service's addresses is another from then on, while some are cut off from the API
    /// server, and perhaps for longer.
    fn readdress(&mut self) {
        let service = self.key();
        let first = service * SPOTS_OF_A_SERVICE;
        let spots = [0b011, 0b101, 0b110, 0b010, 0b100][self.chance.usize(0..5)] << first;
        let nodes = self.some();
        let before = self.chance.u64(0..2 * SECOND);
        let begins = self.fault.at.saturating_sub(before);
        self.at(begins, Step::ApiAway { nodes, on: true });
        self.at(self.fault.at, Step::Readdress { service, spots });
        self.at(self.fault.until, Step::ApiAway { nodes, on: false });
    }

    fn some_or_all(&mut self) -> Nodes {
        if self.chance.u8(0..4) == 0 {
            self.shape.all()
        } else {
            self.some()
        }
    }

    fn forgetting(&mut self) {
        let node = self.any();
        let nodes = if self.chance.bool() {
            1 << node
        } else {
            self.shape.all()
        };
        self.during(|on| Step::ApiAway { nodes, on });
        let most = self.fault.until.min(self.fault.at + 4 * SECOND);
        let up = self.chance.u64(self.fault.at..most) + MILLISECOND;
        self.at(self.fault.at, Step::Down { node, power: false });
        self.at(
            up,
            Step::Up {
                node,
                memory: false,
            },
        );
    }

    fn pause(&mut self, frame_in_hand: bool) {
        let node = self.any();
        let until = if self.chance.bool() {
            let short = self.chance.u64(20 * MILLISECOND..1_500 * MILLISECOND);
            self.fault.until.min(self.fault.at + short)
        } else {
            self.fault.until
        };
        self.at(
            self.fault.at,
            Step::Pause {
                node,
                frame_in_hand,
            },
        );
        self.at(until, Step::Resume { node });
    }

    /// Of each 100 ms it gets 5, as with a quota of the kernel's; or of any other stretch.
    fn starve(&mut self) {
        let node = self.any();
        let until = self.fault.until.min(self.fault.at + 8 * SECOND);
        let mut at = self.fault.at;
        while at < until {
            let stopped = self.chance.u64(30 * MILLISECOND..140 * MILLISECOND);
            let goes = self.chance.u64(2 * MILLISECOND..8 * MILLISECOND);
            let frame_in_hand = self.chance.bool();
            self.at(
                at,
                Step::Pause {
                    node,
                    frame_in_hand,
                },
            );
            self.at(at + stopped, Step::Resume { node });
            at += stopped + goes;
        }
    }

    fn lose_majority(&mut self) {
        let total = self.shape.total();
        let mut nodes = 0;
        let many = total / 2 + usize::from(self.chance.bool());
        while nodes_in(nodes) < many.min(total.saturating_sub(1)) {
            nodes |= 1 << self.chance.usize(0..total);
        }
        if self.chance.bool() {
            for node in each(nodes) {
                self.down(node, true);
            }
            return;
        }
        self.during(|on| Step::CutNodeNetwork { nodes, on });
        self.during(|on| Step::ApiAway { nodes, on });
        if self.chance.u8(0..3) > 0 {
            self.during(|on| Step::CutSegment { nodes, on });
        }
    }

    fn blind_one_way(&mut self) {
        let (from, to) = (self.some(), self.some());
        let paths = self.chance.u8(0..4);
        if paths != 0 {
            self.during(|on| Step::Blind {
                from,
                to,
                path: Path::Segment,
                on,
            });
        }
        if paths != 1 {
            self.during(|on| Step::Blind {
                from,
                to,
                path: Path::NodeNetwork,
                on,
            });
        }
    }

    fn blind_pair(&mut self) {
        let (one, other) = (self.any(), self.any());
        for path in [Path::Segment, Path::NodeNetwork] {
            for (from, to) in [(one, other), (other, one)] {
                self.during(|on| Step::Blind {
                    from: 1 << from,
                    to: 1 << to,
                    path,
                    on,
                });
            }
        }
    }

    fn flap(&mut self) {
        let node = self.member();
        let mut at = self.fault.at;
        for _ in 0..self.chance.usize(2..8) {
            let down = self.chance.u64(50 * MILLISECOND..900 * MILLISECOND);
            if at + down >= self.fault.until {
                break;
            }
            self.at(at, Step::LinkDown { node, on: true });
            self.at(at + down, Step::LinkDown { node, on: false });
            at += SECOND;
        }
    }

    fn roll(&mut self) {
        let between = self.chance.u64(600 * MILLISECOND..2_500 * MILLISECOND);
        let away = self.chance.u64(200 * MILLISECOND..2 * SECOND);
        let mut at = self.fault.at;
        for node in 0..self.shape.first() {
            self.at(at, Step::End { node });
            let up = (at + away).min(self.fault.until);
            self.at(up, Step::Up { node, memory: true });
            at = (at + between).min(self.fault.until);
        }
    }

    fn kill_all(&mut self) {
        let power = self.chance.u8(0..4) == 0;
        for node in 0..self.shape.first() {
            let at = self.fault.at + self.chance.u64(0..3 * MILLISECOND);
            let until = at + self.chance.u64(30 * MILLISECOND..3 * SECOND);
            let memory = self.chance.bool();
            self.at(at, Step::Down { node, power });
            self.at(
                until.min(self.fault.until.max(at)),
                Step::Up { node, memory },
            );
        }
    }

    fn change_candidates(&mut self) {
        let key = self.key();
        let mut at = self.fault.at;
        for _ in 0..self.chance.usize(1..4) {
            let nodes = self.shape.some_members(&mut self.chance);
            self.at(at.min(self.fault.until), Step::Candidates { key, nodes });
            at += self.chance.u64(50 * MILLISECOND..2 * SECOND);
        }
    }

    fn replay(&mut self) {
        let mut at = self.fault.at;
        for _ in 0..self.chance.usize(1..20) {
            let messages = self.chance.usize(1..60);
            self.at(at.min(self.fault.until), Step::Replay { messages });
            at += self.chance.u64(MILLISECOND..300 * MILLISECOND);
        }
    }
}

fn nodes_in(nodes: Nodes) -> usize {
    nodes.count_ones() as usize
}
