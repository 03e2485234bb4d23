//! Members that leave: they get no new connections for a while before they go, so that those that they have
//! can end.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::pool::Member;
use super::step::Part;

/// The members of one load balancer that leave.
#[derive(Debug)]
pub struct Drains {
    period: Duration,
    /// Since when those are known to get no new connections that do not, by ID.
    since: HashMap<String, Instant>,
    /// Those that still leave.
    leaving: HashMap<String, Instant>,
    /// When the next of them may go.
    next: Option<Duration>,
}

impl Drains {
    /// Each may stay for `period`. `since`: what [`Drains::finish`] gave the last time.
    pub(crate) fn new(period: Duration, since: HashMap<String, Instant>) -> Self {
        Self {
            period,
            since,
            leaving: HashMap::new(),
            next: None,
        }
    }

    /// Whether a member that is not wanted any more stays for now, without new connections.
    pub fn keeps<M: Member>(&mut self, member: &Part<M>) -> bool {
        if self.period.is_zero() {
            return false;
        }
        let now = Instant::now();
        let begun = self.since.get(&member.id).copied().unwrap_or(now);
        let left = match member.spec.is_enabled() {
            true => self.period,
            false => self.period.saturating_sub(now.duration_since(begun)),
        };
        if left.is_zero() {
            return false;
        }
        if !member.spec.is_enabled() {
            self.leaving.insert(member.id.clone(), begun);
        }
        self.next = Some(self.next.map_or(left, |next| next.min(left)));
        true
    }

    /// Adds to the members that are wanted those that are there and stay for now, without new connections. Where
    /// nobody is to be left, nobody takes over.
    pub fn keep<'a, M: Member>(
        &mut self,
        wanted: &mut Vec<M>,
        actual: impl Iterator<Item = &'a Part<M>>,
    ) {
        if wanted.is_empty() {
            return;
        }
        for member in actual {
            let is_wanted = wanted.iter().any(|wanted| wanted.is_as(&member.spec));
            if is_wanted || !member.spec.can_be_disabled() || !self.keeps(member) {
                continue;
            }
            let mut leaving = member.spec.clone();
            leaving.enable(false);
            wanted.push(leaving);
        }
    }

    /// When the next of them may go, and since when they leave.
    pub(crate) fn finish(self) -> (Option<Duration>, HashMap<String, Instant>) {
        (self.next, self.leaving)
    }
}

#[cfg(test)]
mod tests;
