//! What must hold at every instant, judged in true time.
//!
//! 1. At one instant at most one node has the right to speak for a key, wherever one client could
//!    hear both. A right lasts from the instant at which the machine says so to the instant at
//!    which the node's clock shows its end; a stopped process keeps its rights.
//! 2. While a majority of the voters is connected, with a node that may hold a key and can be
//!    heard, somebody who can be heard has the right to speak for it: nobody has for a whole
//!    second only if something else went wrong meanwhile. Where a majority is not needed (one of
//!    two voters, survivors), the same holds for longer times; and where messages of some node are
//!    slow, for as much longer as one of them may take.
//! 3. Once all is healed and some time has passed, nothing moves.
//! 4. A while after that, those that are preferred most of all that may hold a key have it.
//! 5. Machines send few and small messages, and always go on.

use std::fmt;

use mooring_node::protocol::Cause;

use super::clock::{Instant, MILLISECOND, SECOND};
use super::network::{MOST_NODES, Nodes, each, has};
use super::trace::Stamp;

/// How long two may speak after a cut segment has healed, each of which survived in a part of it.
pub const YIELDING: Instant = 500 * MILLISECOND;
/// How often a key may change hands after healing.
pub const MOST_MOVES: usize = 8;

/// For how long a key may be dark while the same majority is well, and others come and go.
const STEADY: Instant = 3 * SECOND;

/// For how much longer a key may be dark that is asked about before its first use: the best asks for 600 ms, and
/// another one begins as long after it, if it does not claim.
const FIRST_USE: Instant = 1_200 * MILLISECOND;

/// How many things make sure that a key is spoken for.
pub const ASSURANCES: usize = 5;

/// What makes sure that a key is spoken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assurance {
    /// A majority of the voters is connected, with one who may hold the key.
    Majority,
    /// One of two voters reaches the API server; the other is gone.
    OneOfTwo,
    /// All that live reach the API server; the majority is gone, and its Leases run out.
    Survivors,
    /// Nothing is wrong any more, and has not been for a while.
    Healed,
    /// One and the same majority has been connected all the time with one who may hold the key,
    /// whatever went wrong elsewhere.
    Steady,
}

impl Assurance {
    /// All of them.
    pub const ALL: [Self; ASSURANCES] = [
        Self::Majority,
        Self::OneOfTwo,
        Self::Survivors,
        Self::Healed,
        Self::Steady,
    ];

    /// For how long a key may be dark in spite of it.
    #[must_use]
    pub const fn patience(self) -> Instant {
        match self {
            Self::Majority | Self::Healed => SECOND,
            Self::Steady => STEADY,
            Self::OneOfTwo => 4 * SECOND,
            Self::Survivors => 45 * SECOND,
        }
    }
}

/// What must never be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two have the right to speak.
    TwoSpeakers {
        key: usize,
        nodes: [usize; 2],
        at: Instant,
        until: Instant,
    },
    /// Nobody who can be heard has.
    Dark {
        key: usize,
        since: Instant,
        at: Instant,
        assurance: Assurance,
    },
    /// A key moves on and on although all is healed.
    Restless { key: usize, moves: usize },
    /// A key moved long after all was healed.
    Late { key: usize, at: Instant },
    /// A node has a key that another should have, which is preferred.
    NotPreferred { key: usize, node: usize },
    /// A node sends too much.
    Noisy { node: usize, messages: usize },
    /// A message is too large.
    Large { node: usize, items: usize },
    /// A machine wants to be called again and again at one instant.
    Stuck { node: usize },
    /// A frame left too late, and the rightful speaker did not tell everybody again.
    NotMadeGood { key: usize, at: Instant },
    /// A daemon goes by other voters than the API server names, although nothing is wrong.
    OtherVoters {
        node: usize,
        serves: u64,
        named: u64,
    },
    /// A daemon that was told to end did not.
    DidNotEnd { node: usize },
    /// A frame for a key that is sent to a node is passed on for ever.
    Circle { key: usize, node: usize },
}

impl Violation {
    /// Which invariant it breaks.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TwoSpeakers { .. } => "two speakers",
            Self::Dark { .. } => "dark",
            Self::Restless { .. } => "restless",
            Self::Late { .. } => "late move",
            Self::NotPreferred { .. } => "not preferred",
            Self::Noisy { .. } => "noisy",
            Self::Large { .. } => "large",
            Self::Stuck { .. } => "stuck",
            Self::NotMadeGood { .. } => "not made good",
            Self::OtherVoters { .. } => "other voters",
            Self::DidNotEnd { .. } => "did not end",
            Self::Circle { .. } => "circle",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoSpeakers {
                key,
                nodes: [one, other],
                at,
                until,
            } => {
                let (key, one, other) = (key + 1, one + 1, other + 1);
                let overlap = (until - at) as f64 / MILLISECOND as f64;
                write!(
                    f,
                    "two speakers: n{one} and n{other} both may speak for k{key} from {} on, for up to {overlap:.3} ms",
                    Stamp(*at)
                )
            }
            Self::Dark {
                key,
                since,
                at,
                assurance,
            } => write!(
                f,
                "dark: nobody speaks for k{} from {} to {} although there is {assurance:?}",
                key + 1,
                Stamp(*since),
                Stamp(*at)
            ),
            Self::Restless { key, moves } => {
                write!(
                    f,
                    "restless: k{} moves {moves} times after healing",
                    key + 1
                )
            }
            Self::Late { key, at } => {
                write!(f, "late move: k{} still moves at {}", key + 1, Stamp(*at))
            }
            Self::NotPreferred { key, node } => write!(
                f,
                "not preferred: n{} still has k{}, which a preferred node could have",
                node + 1,
                key + 1
            ),
            Self::Noisy { node, messages } => {
                write!(
                    f,
                    "noisy: n{} sends {messages} messages in a second",
                    node + 1
                )
            }
            Self::Large { node, items } => {
                write!(f, "large: n{} sends a message of {items} items", node + 1)
            }
            Self::Stuck { node } => write!(f, "stuck: n{} does not let time pass", node + 1),
            Self::NotMadeGood { key, at } => write!(
                f,
                "not made good: a frame about k{} left too late at {}, and nobody corrected it",
                key + 1,
                Stamp(*at)
            ),
            Self::OtherVoters {
                node,
                serves,
                named,
            } => write!(
                f,
                "other voters: n{} goes by those of generation {serves}, and the API server names \
                 those of {named}",
                node + 1
            ),
            Self::DidNotEnd { node } => {
                write!(
                    f,
                    "did not end: n{} was told to end, and could have",
                    node + 1
                )
            }
            Self::Circle { key, node } => {
                let (key, node) = (key + 1, node + 1);
                write!(
                    f,
                    "circle: a frame for k{key} that n{node} gets is passed on for ever"
                )
            }
        }
    }
}

/// A time without anybody who could be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DarkTime {
    /// Of which key.
    pub key: usize,
    /// From when on.
    pub from: Instant,
    /// Until when.
    pub to: Instant,
    /// Since when somebody had spoken before.
    pub lit_since: Option<Instant>,
}

#[derive(Clone, Debug, Default)]
struct KeyWatch {
    rights: [Instant; MOST_NODES],
    lit_until: Instant,
    lit_since: Option<Instant>,
    dark_since: Option<Instant>,
    assured_since: [Option<Instant>; ASSURANCES],
    moves: usize,
}

/// Two late frames are told apart by their key only.
#[derive(Clone, Copy, Debug)]
struct LateFrame {
    key: usize,
    at: Instant,
    sender: usize,
}

/// Watches over one simulation.
#[derive(Clone, Debug)]
pub struct Watch {
    keys: Vec<KeyWatch>,
    audible: Nodes,
    disturbed_at: Instant,
    slowness: Instant,
    /// How much longer a key may be dark since it is asked about first.
    asking: Instant,
    healed_at: Instant,
    ends_at: Instant,
    /// When other voters were last served, or a primary went on alone.
    voters_changed_at: Option<Instant>,
    late: Vec<LateFrame>,
    /// Times without anybody who could be heard, as they end.
    pub dark_times: Vec<DarkTime>,
    /// How many frames left too late.
    pub late_frames: u64,
    /// The first thing that must never be.
    pub violation: Option<Violation>,
}

/// How long somebody may take to make a late frame good.
const MAKING_GOOD: Instant = SECOND;
/// The end of the schedule, in which nothing moves.
const AT_REST: Instant = 3 * SECOND;

impl Watch {
    /// Watches from the beginning on.
    #[must_use]
    pub fn new(keys: usize, healed_at: Instant, ends_at: Instant) -> Self {
        let dark = KeyWatch {
            dark_since: Some(0),
            ..KeyWatch::default()
        };
        Self {
            keys: vec![dark; keys],
            audible: 0,
            disturbed_at: 0,
            slowness: 0,
            asking: 0,
            healed_at,
            ends_at,
            voters_changed_at: None,
            late: Vec::new(),
            dark_times: Vec::new(),
            late_frames: 0,
            violation: None,
        }
    }

    /// Notes what must never be; only the first counts.
    pub fn violated(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    /// Until when a node may speak for a key.
    #[must_use]
    pub fn right(&self, key: usize, node: usize) -> Instant {
        self.keys[key].rights[node]
    }

    /// Who may speak for a key now.
    #[must_use]
    pub fn speakers(&self, key: usize, now: Instant) -> Nodes {
        let rights = self.keys[key].rights.iter().enumerate();
        rights.fold(0, |nodes, (node, until)| {
            nodes | (Nodes::from(*until > now) << node)
        })
    }

    /// A node has the right to speak for a key until `until`. `may_both` says of which others it
    /// is known that no client hears both.
    pub fn set_right(
        &mut self,
        key: usize,
        node: usize,
        until: Instant,
        now: Instant,
        may_both: impl Fn(usize) -> bool,
    ) {
        self.keys[key].rights[node] = until;
        if until > now {
            for other in each(self.speakers(key, now) & !(1 << node)) {
                if !may_both(other) {
                    let until = until.min(self.keys[key].rights[other]);
                    self.violated(Violation::TwoSpeakers {
                        key,
                        nodes: [node, other],
                        at: now,
                        until,
                    });
                }
            }
        }
        self.refresh(key, now);
    }

    /// A node has no right any more: its process is gone.
    pub fn drop_rights(&mut self, node: usize, now: Instant) {
        for key in 0..self.keys.len() {
            self.keys[key].rights[node] = 0;
            self.refresh(key, now);
        }
    }

    /// These can be heard from now on, by clients and by where most of them are.
    pub fn set_audible(&mut self, audible: Nodes, now: Instant) {
        if self.audible != audible {
            self.refresh_all(now);
            self.audible = audible;
            self.refresh_all(now);
        }
    }

    /// Looks at all keys.
    pub fn refresh_all(&mut self, now: Instant) {
        for key in 0..self.keys.len() {
            self.refresh(key, now);
        }
    }

    fn refresh(&mut self, key: usize, now: Instant) {
        let audible = self.audible;
        let watch = &mut self.keys[key];
        if watch.dark_since.is_none() && watch.lit_until <= now {
            watch.dark_since = Some(watch.lit_until);
        }
        let rights = watch.rights.iter().enumerate();
        let heard = rights.filter(|(node, _)| has(audible, *node));
        let lit_until = heard.map(|(_, until)| *until).max().unwrap_or(0);
        watch.lit_until = lit_until.max(watch.lit_until.min(now));
        if lit_until <= now {
            watch.dark_since.get_or_insert(now);
            watch.lit_until = now;
            return;
        }
        watch.lit_until = lit_until;
        if let Some(from) = watch.dark_since.take() {
            let lit_since = watch.lit_since.replace(now);
            self.look_at_darkness(key, from, now);
            if from < now {
                self.dark_times.push(DarkTime {
                    key,
                    from,
                    to: now,
                    lit_since,
                });
            }
        }
    }

    /// Whether a key was dark for too long.
    fn look_at_darkness(&mut self, key: usize, from: Instant, now: Instant) {
        for (assurance, since) in Assurance::ALL.iter().zip(self.keys[key].assured_since) {
            let Some(since) = since else { continue };
            let calm = match assurance {
                Assurance::Steady => 0,
                _ => self.disturbed_at,
            };
            let since = since.max(from).max(calm);
            if now.saturating_sub(since) >= assurance.patience() + self.slowness + self.asking {
                self.violated(Violation::Dark {
                    key,
                    since: from,
                    at: now,
                    assurance: *assurance,
                });
            }
        }
    }

    fn look_at_all_darkness(&mut self, now: Instant) {
        for key in 0..self.keys.len() {
            self.refresh(key, now);
            if let Some(from) = self.keys[key].dark_since {
                self.look_at_darkness(key, from, now);
            }
        }
    }

    /// Something has gone wrong, or right again: the simulation may take its time anew.
    pub fn disturbed(&mut self, now: Instant) {
        self.look_at_all_darkness(now);
        self.disturbed_at = now;
    }

    /// Keys are asked about before their first use.
    pub const fn expect_first_uses(&mut self) {
        self.asking = FIRST_USE;
    }

    /// Messages of some node may be that late from now on. It takes part like all others, and what
    /// it claims or lets go is news for longer.
    pub const fn set_slowness(&mut self, slowness: Instant) {
        self.slowness = slowness;
    }

    /// What assures from now on that a key is spoken for.
    pub fn assure(&mut self, key: usize, assured: [Option<Instant>; ASSURANCES], now: Instant) {
        let mut next = self.keys[key].assured_since;
        for ((assurance, since), assured) in Assurance::ALL.iter().zip(&mut next).zip(assured) {
            // What is said of now has been so since it was said first.
            *since = match (assurance, *since) {
                (Assurance::Steady, _) | (_, None) => assured,
                (_, since) => assured.and(since),
            };
        }
        if next == self.keys[key].assured_since {
            return;
        }
        self.refresh(key, now);
        if let Some(from) = self.keys[key].dark_since {
            self.look_at_darkness(key, from, now);
        }
        self.keys[key].assured_since = next;
    }

    /// Whether something assures that a key is spoken for.
    #[must_use]
    pub fn is_assured(&self, key: usize, assurance: Assurance) -> bool {
        self.keys[key].assured_since[assurance as usize].is_some()
    }

    /// A node begins to speak for a key.
    pub fn begun(&mut self, key: usize, cause: Cause, now: Instant) {
        if now <= self.healed_at {
            return;
        }
        let watch = &mut self.keys[key];
        watch.moves += 1;
        let moves = watch.moves;
        if moves > MOST_MOVES {
            self.violated(Violation::Restless { key, moves });
        }
        // Evening out goes at its own pace: one key a second. And survivors wait for half a minute.
        let other_voters = self.voters_changed_at.is_some_and(|at| now < at + SECOND);
        let may_move = other_voters || matches!(cause, Cause::HandedOver | Cause::GivenBack);
        if now + AT_REST > self.ends_at && !may_move {
            self.violated(Violation::Late { key, at: now });
        }
    }

    /// Other voters are served, such as the survivors of a lost majority, or a primary goes on alone.
    pub const fn voters_changed(&mut self, now: Instant) {
        self.voters_changed_at = Some(now);
    }

    /// A frame about a key left although the right to it had ended.
    pub fn spoke_late(&mut self, key: usize, sender: usize, now: Instant) {
        self.late_frames += 1;
        self.late.push(LateFrame {
            key,
            at: now,
            sender,
        });
    }

    /// A node tells everybody about a key.
    pub fn burst(&mut self, key: usize) {
        self.late.retain(|late| late.key != key);
    }

    /// Judges the late frames of a while ago: if the same node has had the right all the time, and
    /// could hear the sender, it must have told everybody again.
    pub fn judge_late_frames(&mut self, now: Instant, hears: impl Fn(usize, usize) -> bool) {
        let due = |late: &LateFrame| now >= late.at + MAKING_GOOD;
        let judged: Vec<LateFrame> = self.late.iter().copied().filter(due).collect();
        self.late.retain(|late| !due(late));
        for LateFrame { key, at, sender } in judged {
            let watch = &self.keys[key];
            let speaks_since = watch.lit_since.filter(|_| watch.dark_since.is_none());
            let calm = self.disturbed_at < at;
            let speakers = self.speakers(key, now) & !(1 << sender);
            let hear = each(speakers).all(|speaker| hears(speaker, sender));
            if calm && speakers != 0 && hear && speaks_since.is_some_and(|since| since < at) {
                self.violated(Violation::NotMadeGood { key, at });
            }
        }
    }

    /// The end of the simulation.
    pub fn end(&mut self, now: Instant) {
        self.look_at_all_darkness(now);
    }
}
