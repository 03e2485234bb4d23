//! The voice of this node on one segment: a state machine without I/O.
//!
//! It is told what happens ([`Speaker::set_view`], [`Speaker::set_link`],
//! [`Speaker::frame_received`]), is asked what to send ([`Speaker::poll_transmit`]) and what there
//! is to report ([`Speaker::poll_notice`]), and says when it wants to be asked again
//! ([`Speaker::next_deadline`]). The clock is an argument everywhere, so that a test or a
//! simulator can be the clock.
//!
//! # Guarantees
//! * No frame leaves for an address without the [`Mandate`], which is asked for each frame.
//! * When another daemon announces an address that this one speaks for, this one is silent about
//!   it at once, and stays so until a view made after its next own renewal says again that the
//!   address is ours. Then it bursts, since neighbours may have learnt the other's MAC. If that
//!   repeats itself (their views differ), it waits for 2, 4, 8, then 16 renewals: an address does
//!   not go back and forth with each renewal. A minute of peace, or a view by which the address is
//!   not ours, ends the count.
//! * A station that is none of ours and claims the address does not take it: the address is
//!   defended, at most once in ten seconds (RFC 5227 section 2.4), and the conflict is reported.

mod agenda;
mod mandate;
mod pace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use self::agenda::{Agenda, Occasion, Task};
pub use self::mandate::{Mandate, ViewMandate};
use super::frames::{self, Claim, Question};
use super::mac::Mac;

/// RFC 5227 section 1.1, DEFEND_INTERVAL.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// What this node is to announce on the segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The addresses that are ours, each with the router to tell first.
    pub mine: BTreeMap<IpAddr, Option<IpAddr>>,
    /// The MAC addresses of the other daemons on the segment.
    pub members: BTreeMap<Mac, Standing>,
    /// How many own renewals had been seen when the view was made.
    pub renewals: u64,
}

/// What the claim of another daemon counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is alive: if it announces an address of ours, it knows more than we do.
    Alive,
    /// Its Lease is released or expired: it is on its way out, or does not know yet that it has
    /// lost the address, and learns so from our announcement.
    Gone,
}

/// A frame to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The whole frame, from the destination MAC on.
    pub frame: Vec<u8>,
    /// The address that it speaks for.
    pub address: IpAddr,
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
    Began(IpAddr),
    /// We do not speak for it any more.
    Stopped(IpAddr),
    /// Another daemon speaks for it; that we stop follows.
    Yielded(IpAddr, Mac),
    /// A station that is none of ours claims it.
    Conflict(IpAddr, Mac),
    /// This process was held up for so long that others may have taken over. It has fallen silent
    /// until its next renewal.
    HeldUp(Duration),
}

/// The voice of this node on one segment.
#[derive(Debug)]
pub struct Speaker {
    own: Option<Mac>,
    view: View,
    mandate: ViewMandate,
    /// The addresses that we have said to speak for.
    speaking: BTreeSet<IpAddr>,
    agenda: Agenda,
    answers: VecDeque<(Question, Mac)>,
    outbox: VecDeque<Transmit>,
    notices: VecDeque<Notice>,
    defended: BTreeMap<IpAddr, Instant>,
    longest_gap: Duration,
    last_tick: Option<Instant>,
}

impl Speaker {
    /// Silent, and without a link. `seed` sets the random part of the refreshes. A gap between
    /// ticks of `longest_gap` or more means that others may have taken over meanwhile.
    #[must_use]
    pub fn new(seed: u64, longest_gap: Duration) -> Self {
        Self {
            own: None,
            view: View::default(),
            mandate: ViewMandate::default(),
            speaking: BTreeSet::new(),
            agenda: Agenda::new(seed),
            answers: VecDeque::new(),
            outbox: VecDeque::new(),
            notices: VecDeque::new(),
            defended: BTreeMap::new(),
            longest_gap,
            last_tick: None,
        }
    }

    /// Takes in a new view.
    pub fn set_view(&mut self, view: View, now: Instant) {
        self.tick(now);
        let before = self.mandate.held();
        self.mandate
            .renew(view.mine.keys().copied().collect(), view.renewals, now);
        self.view = view;
        let held = self.mandate.held();
        for address in before.difference(&held) {
            self.stop(*address);
        }
        for address in held.difference(&before) {
            self.begin(*address, Occasion::Begin, now);
        }
    }

    /// The link came up with this MAC address, or (`None`) went down. While it was down others may
    /// have taken over unheard, so nothing is said afterwards before the next own renewal.
    pub fn set_link(&mut self, own: Option<Mac>, now: Instant) {
        self.tick(now);
        if self.own == own {
            return;
        }
        self.own = own;
        self.mandate.set_link(own.is_some(), now);
        for address in self.mandate.held() {
            if own.is_some() {
                self.begin(address, Occasion::Repeat, now);
            } else {
                self.mandate.give_up(address);
                self.stop(address);
            }
        }
    }

    /// Takes in a frame from the segment. Says whether it asks for an address that we speak for.
    pub fn frame_received(&mut self, frame: &[u8], now: Instant) -> bool {
        let Some(own) = self.own else {
            return false;
        };
        let Some(heard) = frames::parse(frame, own) else {
            return false;
        };
        if let Some(claim) = heard.claim {
            self.hear_claim(claim, own, now);
        }
        match heard.question {
            Some(question) if question.asker_mac != own && self.permits(question.target, now) => {
                self.answers.push_back((question, own));
                true
            }
            _ => false,
        }
    }

    /// Lets time pass. To be called at least as often as [`Self::next_deadline`] says, and before
    /// anything that was asked while this process was held up is answered.
    pub fn tick(&mut self, now: Instant) {
        let gap = self
            .last_tick
            .replace(now)
            .map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        if gap >= self.longest_gap {
            let held = self.mandate.held();
            for address in &held {
                self.mandate.give_up(*address);
                self.stop(*address);
            }
            if !held.is_empty() {
                self.notices.push_back(Notice::HeldUp(gap));
            }
        }
    }

    /// Whether a frame for `address` may leave at `now`.
    #[must_use]
    pub fn permits(&self, address: IpAddr, now: Instant) -> bool {
        self.mandate.permits(address, now)
    }

    /// The next frame to send now, if any. Answers go first.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let own = self.own?;
        loop {
            if let Some((question, own)) = self.answers.pop_front() {
                let frame = frames::answer(own, &question);
                self.post(question.target, TransmitKind::Answer, frame);
            } else if self.outbox.is_empty() {
                let mine = &self.view.mine;
                let (task, address) = self.agenda.take(now, |task, address| match task {
                    Task::Prime => u32::from(mine.get(&address).is_some_and(Option::is_some)),
                    Task::Announce => 1 + u32::from(address.is_ipv4()),
                })?;
                self.post_task(task, address, own);
            }
            if let Some(transmit) = self.outbox.pop_front()
                && self.permits(transmit.address, now)
            {
                return Some(transmit);
            }
        }
    }

    /// The next thing to report, if any.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// When to call [`Self::tick`] and [`Self::poll_transmit`] next, if nothing else happens.
    #[must_use]
    pub fn next_deadline(&self, now: Instant) -> Instant {
        if self.own.is_some() && !(self.answers.is_empty() && self.outbox.is_empty()) {
            return now;
        }
        let alive = self.last_tick.unwrap_or(now) + self.longest_gap / 4;
        let agenda = self.own.and_then(|_| self.agenda.next(now));
        agenda.map_or(alive, |next| next.min(alive))
    }

    fn begin(&mut self, address: IpAddr, occasion: Occasion, now: Instant) {
        if self.own.is_none() {
            return;
        }
        self.agenda.start(address, occasion, now);
        if self.speaking.insert(address) {
            self.notices.push_back(Notice::Began(address));
        }
    }

    fn fall_silent(&mut self, address: IpAddr) {
        self.agenda.stop(address);
        self.answers
            .retain(|(question, _)| question.target != address);
        self.outbox.retain(|transmit| transmit.address != address);
    }

    fn stop(&mut self, address: IpAddr) {
        self.fall_silent(address);
        if self.speaking.remove(&address) {
            self.notices.push_back(Notice::Stopped(address));
        }
    }

    fn hear_claim(&mut self, claim: Claim, own: Mac, now: Instant) {
        if claim.mac == own || !self.permits(claim.address, now) {
            return;
        }
        let standing = self.view.members.get(&claim.mac).copied();
        if standing == Some(Standing::Alive) {
            self.mandate.give_way(claim.address, now);
            self.notices
                .push_back(Notice::Yielded(claim.address, claim.mac));
            self.stop(claim.address);
            return;
        }
        let defended = self.defended.get(&claim.address);
        if defended.is_none_or(|last| now.saturating_duration_since(*last) >= DEFEND_INTERVAL) {
            self.defended.insert(claim.address, now);
            self.agenda.announce_once(claim.address);
            if standing.is_none() {
                self.notices
                    .push_back(Notice::Conflict(claim.address, claim.mac));
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
                let router = self.view.mine.get(&address).copied().flatten();
                let frame = router.and_then(|router| frames::prime(own, address, router));
                self.post(address, TransmitKind::Prime, frame);
            }
        }
    }

    fn post(&mut self, address: IpAddr, kind: TransmitKind, frame: Option<Vec<u8>>) {
        self.outbox.extend(frame.map(|frame| Transmit {
            frame,
            address,
            kind,
        }));
    }
}

#[cfg(test)]
mod tests;
