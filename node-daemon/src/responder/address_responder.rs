//! Answers and announces the addresses of one segment: a state machine without I/O.
//!
//! It takes in what to speak for ([`AddressResponder::begin`], [`AddressResponder::stop`]) and what is heard
//! ([`AddressResponder::frame_received`]), is asked what to send ([`AddressResponder::poll_transmit`]) and what there
//! is to report ([`AddressResponder::poll_notice`]), and says when it wants to be asked again
//! ([`AddressResponder::next_deadline`]). The clock is an argument everywhere, so that a test or a simulator
//! can be the clock.
//!
//! # Guarantees
//! * No frame leaves for an address without the [`SpeakingRight`] to its key, which is asked for each
//!   frame.
//! * A station that is none of ours and claims the address does not take it: the address is
//!   defended, at most once in ten seconds (RFC 5227 section 2.4), and the conflict is reported.
//! * The claim of another member takes nothing either: who speaks is the protocol's to say. What the
//!   other's frame has taught the neighbours is corrected, as rarely.
//! * What is held with [`AnnounceMode::OnRequest`] is answered for, and never announced.

mod rate_limit;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use self::timers::{BurstKind, Task, Timers};
use crate::protocol::mac::Mac;
use crate::protocol::{AnnounceMode, Cause, Key, Machine, Moment, NodeId};
use crate::wire::frames::{self, Claim, Question};

/// RFC 5227 section 1.1, DEFEND_INTERVAL.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// The right to speak. Asked before every single frame.
pub trait SpeakingRight {
    /// Whether a frame about `key` may leave at `now`.
    fn permits(&self, key: Key, now: Moment) -> bool;
}

impl SpeakingRight for Machine {
    fn permits(&self, key: Key, now: Moment) -> bool {
        Self::permits(self, key, now)
    }
}

/// What keys stand for: their addresses, each with the router to tell first.
pub type Addresses = BTreeMap<Key, BTreeMap<IpAddr, Option<IpAddr>>>;

/// To speak for a key from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Which.
    pub key: Key,
    /// How. [`Cause::Inherited`] is not announced either way: neighbours know it.
    pub mode: AnnounceMode,
    /// Why.
    pub cause: Cause,
    /// Who spoke before, as far as is known.
    pub former: Option<NodeId>,
    /// Since when nobody could be heard for it, if that is known.
    pub silent_since: Option<Moment>,
}

/// A frame to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The whole frame, from the destination MAC on.
    pub frame: Vec<u8>,
    /// The address that it speaks for.
    pub address: IpAddr,
    /// The key that the address belongs to.
    pub key: Key,
    /// What kind of frame it is.
    pub kind: TransmitKind,
}

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitKind {
    /// Answers a question.
    Answer,
    /// Tells everybody unasked.
    Announcement,
    /// Tells the router.
    Prime,
}

/// Something to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// We speak for the address from now on.
    Began {
        /// Which.
        address: IpAddr,
        /// Why.
        cause: Cause,
        /// Who spoke before, as far as is known.
        former: Option<NodeId>,
        /// For how long nobody could be heard for it, if that is known.
        dark_for: Option<Duration>,
    },
    /// We do not speak for it any more.
    Stopped(IpAddr, Cause),
    /// A station that is none of ours claims it.
    Conflict(IpAddr, Mac),
}

/// What there was in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// It asks for an address that we speak for.
    pub asked: bool,
    /// It says where an address is, and that is not here.
    pub claim: Option<Claim>,
    /// It says so without asking for anything. Who only asks may be one that hears nobody.
    pub answers: bool,
}

/// Answers and announces the addresses of one segment.
#[derive(Debug)]
pub struct AddressResponder {
    own: Option<Mac>,
    /// The MAC address that it last had.
    last_own: Option<Mac>,
    addresses: Addresses,
    keys: BTreeMap<IpAddr, Key>,
    members: BTreeSet<Mac>,
    /// Questions are answered by the kernel.
    kernel_answers: bool,
    /// The keys that are spoken for.
    modes: BTreeMap<Key, AnnounceMode>,
    /// Since when each of them is.
    since: BTreeMap<Key, Moment>,
    /// The addresses that we have said to speak for.
    speaking: BTreeSet<IpAddr>,
    timers: Timers,
    answers: VecDeque<(Question, Mac)>,
    outbox: VecDeque<Transmit>,
    notices: VecDeque<Notice>,
    defended: BTreeMap<IpAddr, Moment>,
}

impl AddressResponder {
    /// Silent, and without a link. `seed` sets the random part of the refreshes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            own: None,
            last_own: None,
            addresses: Addresses::new(),
            keys: BTreeMap::new(),
            members: BTreeSet::new(),
            kernel_answers: false,
            modes: BTreeMap::new(),
            since: BTreeMap::new(),
            speaking: BTreeSet::new(),
            timers: Timers::new(seed),
            answers: VecDeque::new(),
            outbox: VecDeque::new(),
            notices: VecDeque::new(),
            defended: BTreeMap::new(),
        }
    }

    /// Says what keys stand for. Addresses that come to a key that is spoken for begin, and those
    /// that leave it stop.
    pub fn set_addresses(&mut self, addresses: Addresses, now: Moment) {
        self.keys = addresses
            .iter()
            .flat_map(|(key, group)| group.keys().map(|address| (*address, *key)))
            .collect();
        self.addresses = addresses;
        let speaking = self.speaking.iter().copied();
        let gone: Vec<_> = speaking
            .filter(|address| self.mode(*address).is_none())
            .collect();
        for address in gone {
            self.stop_address(address, Cause::Withdrawn);
        }
        let modes: Vec<_> = self.modes.iter().map(|(k, v)| (*k, *v)).collect();
        for (key, mode) in modes {
            let beginning = Beginning {
                key,
                mode,
                cause: Cause::Unclaimed,
                former: None,
                silent_since: None,
            };
            for address in self.group(key) {
                if !self.speaking.contains(&address) {
                    self.begin_address(address, &beginning, BurstKind::Begin, now);
                }
            }
        }
    }

    /// The MAC addresses of the other members.
    pub fn set_members(&mut self, members: BTreeSet<Mac>) {
        self.members = members;
    }

    /// Whether questions are left to the kernel, which has the addresses on the interface.
    pub fn set_kernel_answers(&mut self, kernel_answers: bool) {
        self.kernel_answers = kernel_answers;
        if kernel_answers {
            self.answers.clear();
        }
    }

    /// The link came up with this MAC address, or changed it, or (`None`) went down. What is announced is announced once
    /// more; from another MAC address also what is only answered for, since neighbours know the former one.
    pub fn set_link(&mut self, own: Option<Mac>, now: Moment) {
        if self.own == own {
            return;
        }
        let is_other = own.is_some() && self.last_own.is_some() && own != self.last_own;
        self.own = own;
        self.last_own = own.or(self.last_own);
        self.answers.clear();
        self.outbox.clear();
        let speaking: Vec<_> = self.speaking.iter().copied().collect();
        for address in speaking {
            self.timers.stop(address);
            let is_announced = self.mode(address) == Some(AnnounceMode::Unsolicited);
            if is_other || own.is_some() && is_announced {
                self.timers.start(address, BurstKind::Repeat, now);
            }
        }
    }

    /// Begins to speak for a key.
    pub fn begin(&mut self, beginning: &Beginning, now: Moment) {
        let key = beginning.key;
        let kind = match beginning.cause {
            Cause::Inherited => BurstKind::Known,
            _ => BurstKind::Begin,
        };
        self.modes.insert(key, beginning.mode);
        self.since.insert(key, now);
        for address in self.group(key) {
            self.begin_address(address, beginning, kind, now);
        }
    }

    /// Announces a key that is spoken for; from now on it is announced like any other.
    pub fn burst(&mut self, key: Key, now: Moment) {
        let Some(mode) = self.modes.get_mut(&key) else {
            return;
        };
        *mode = AnnounceMode::Unsolicited;
        for address in self.group(key) {
            if self.own.is_some() {
                self.timers.start(address, BurstKind::Begin, now);
            }
        }
    }

    /// Whether an address is announced whose router this is.
    #[must_use]
    pub fn speaks_by(&self, router: IpAddr) -> bool {
        self.announced_behind(router).is_some()
    }

    /// Asks for a router in the name of an address that is announced, if there is one.
    pub fn prime(&mut self, router: IpAddr) {
        if let (Some(own), Some(address)) = (self.own, self.announced_behind(router)) {
            let frame = frames::prime(own, address, router);
            self.post(address, TransmitKind::Prime, frame);
        }
    }

    fn announced_behind(&self, of: IpAddr) -> Option<IpAddr> {
        let mut speaking = self.speaking.iter().copied();
        speaking.find(|address| {
            let announced = self.mode(*address) == Some(AnnounceMode::Unsolicited);
            announced && router(&self.addresses, &self.keys, *address) == Some(of)
        })
    }

    /// Says nothing more about a key.
    pub fn stop(&mut self, key: Key, cause: Cause) {
        self.since.remove(&key);
        if self.modes.remove(&key).is_some() {
            for address in self.group(key) {
                self.stop_address(address, cause);
            }
        }
    }

    /// The keys that are spoken for, and how.
    #[must_use]
    pub const fn modes(&self) -> &BTreeMap<Key, AnnounceMode> {
        &self.modes
    }

    /// The key that an address belongs to.
    #[must_use]
    pub fn key_of(&self, address: IpAddr) -> Option<Key> {
        self.keys.get(&address).copied()
    }

    /// The addresses that are spoken for.
    #[must_use]
    pub const fn speaking(&self) -> &BTreeSet<IpAddr> {
        &self.speaking
    }

    /// The keys whose burst of announcements is not over.
    #[must_use]
    pub fn unfinished(&self) -> BTreeSet<Key> {
        let unfinished = self.speaking.iter().filter(|a| self.timers.in_burst(**a));
        unfinished
            .filter_map(|address| self.keys.get(address).copied())
            .collect()
    }

    /// Takes in a frame that came to the segment's interface at that time. A question that came before
    /// the address was ours is not answered: who spoke then has answered it.
    pub fn frame_received(
        &mut self,
        frame: &[u8],
        came: Moment,
        right: &impl SpeakingRight,
        now: Moment,
    ) -> Heard {
        let Some(own) = self.own else {
            return Heard::default();
        };
        let Some(heard) = frames::parse(frame, own) else {
            return Heard::default();
        };
        let claim = heard.claim.filter(|claim| claim.mac != own);
        let answers = claim.is_some() && heard.question.is_none();
        if let Some(claim) = claim
            && self.permits(claim.address, right, now)
        {
            self.contest(claim, now);
        }
        let question = heard.question.filter(|question| {
            question.asker_mac != own
                && self.permits(question.target, right, now)
                && self.spoke_at(question.target, came)
        });
        if !self.kernel_answers {
            let answers = question.map(|question| (question, own));
            self.answers.extend(answers);
        }
        Heard {
            asked: question.is_some(),
            claim,
            answers,
        }
    }

    /// The next frame to send now, if any. Answers go first.
    pub fn poll_transmit(&mut self, right: &impl SpeakingRight, now: Moment) -> Option<Transmit> {
        let own = self.own?;
        loop {
            if let Some((question, own)) = self.answers.pop_front() {
                let frame = frames::answer(own, &question);
                self.post(question.target, TransmitKind::Answer, frame);
            } else if self.outbox.is_empty() {
                let (addresses, keys) = (&self.addresses, &self.keys);
                let (task, address) = self.timers.take(now, |task, address| match task {
                    Task::Prime => u32::from(router(addresses, keys, address).is_some()),
                    Task::Announce => 1 + u32::from(address.is_ipv4()),
                })?;
                self.post_task(task, address, own);
            }
            if let Some(transmit) = self.outbox.pop_front()
                && right.permits(transmit.key, now)
            {
                return Some(transmit);
            }
        }
    }

    /// The next thing to report, if any.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When to call [`Self::poll_transmit`] next, if nothing else happens.
    #[must_use]
    pub fn next_deadline(&self, now: Moment) -> Moment {
        if self.own.is_none() {
            Moment::NEVER
        } else if self.answers.is_empty() && self.outbox.is_empty() {
            self.timers.next(now).unwrap_or(Moment::NEVER)
        } else {
            now
        }
    }

    fn group(&self, key: Key) -> Vec<IpAddr> {
        let group = self.addresses.get(&key).into_iter();
        group.flat_map(BTreeMap::keys).copied().collect()
    }

    fn mode(&self, address: IpAddr) -> Option<AnnounceMode> {
        self.modes.get(self.keys.get(&address)?).copied()
    }

    fn permits(&self, address: IpAddr, right: &impl SpeakingRight, now: Moment) -> bool {
        let key = self.keys.get(&address);
        key.is_some_and(|key| self.modes.contains_key(key) && right.permits(*key, now))
    }

    /// Whether the address was spoken for at that time. A right that has run out does not come back, so
    /// that who has begun before has had it all the time.
    fn spoke_at(&self, address: IpAddr, at: Moment) -> bool {
        let key = self.keys.get(&address);
        let since = key.and_then(|key| self.since.get(key));
        since.is_some_and(|since| *since <= at)
    }

    fn begin_address(
        &mut self,
        address: IpAddr,
        beginning: &Beginning,
        kind: BurstKind,
        now: Moment,
    ) {
        self.timers.stop(address);
        if self.own.is_some() && beginning.mode == AnnounceMode::Unsolicited {
            self.timers.start(address, kind, now);
        }
        if self.speaking.insert(address) {
            self.notices.push_back(Notice::Began {
                address,
                cause: beginning.cause,
                former: beginning.former,
                dark_for: beginning.silent_since.map(|since| now.since(since)),
            });
        }
    }

    fn stop_address(&mut self, address: IpAddr, cause: Cause) {
        self.timers.stop(address);
        self.answers
            .retain(|(question, _)| question.target != address);
        self.outbox.retain(|transmit| transmit.address != address);
        self.defended.remove(&address);
        if self.speaking.remove(&address) {
            self.notices.push_back(Notice::Stopped(address, cause));
        }
    }

    /// Another station claims an address that is ours to speak for.
    fn contest(&mut self, claim: Claim, now: Moment) {
        let address = claim.address;
        let member = self.members.contains(&claim.mac);
        if member && self.mode(address) == Some(AnnounceMode::OnRequest) {
            // Its node still forwards: nobody is to be drawn away from it.
            return;
        }
        let defended = self.defended.get(&address);
        if defended.is_none_or(|last| now.since(*last) >= DEFEND_INTERVAL) {
            self.defended.insert(address, now);
            self.timers.announce_once(address);
            if !member {
                self.notices.push_back(Notice::Conflict(address, claim.mac));
            }
        }
    }

    fn post_task(&mut self, task: Task, address: IpAddr, own: Mac) {
        match task {
            Task::Announce => {
                for frame in frames::announcement(own, address) {
                    self.post(address, TransmitKind::Announcement, Some(frame));
                }
            }
            Task::Prime => {
                let router = router(&self.addresses, &self.keys, address);
                let frame = router.and_then(|router| frames::prime(own, address, router));
                self.post(address, TransmitKind::Prime, frame);
            }
        }
    }

    fn post(&mut self, address: IpAddr, kind: TransmitKind, frame: Option<Vec<u8>>) {
        if let (Some(frame), Some(key)) = (frame, self.keys.get(&address)) {
            self.outbox.push_back(Transmit {
                frame,
                address,
                key: *key,
                kind,
            });
        }
    }
}

fn router(addresses: &Addresses, keys: &BTreeMap<IpAddr, Key>, address: IpAddr) -> Option<IpAddr> {
    let group = addresses.get(keys.get(&address)?)?;
    group.get(&address).copied().flatten()
}

#[cfg(test)]
mod tests;
