//! What nodes ask of the API server, and how what changes there reaches them.

use mooring_node::protocol::{ApiAnswer, Moment, Request};

use super::super::clock::{Instant, MILLISECOND, SECOND};
use super::super::engine::Engine;
use super::super::node::Input;
use super::{Simulation, What};

impl<E: Engine> Simulation<E> {
    /// A request has reached the API server: it is executed, and the answer travels.
    pub(super) fn request(
        &mut self,
        node: usize,
        run: u32,
        request: (Option<u64>, &Request),
        asked: Moment,
    ) {
        let latency = self.api_latency();
        let (answer, later) = if self.api.is_reached_by(node) {
            let (ids, now) = (&self.ids, self.now);
            let is_own = node < self.own();
            let api = if is_own {
                &mut self.api
            } else {
                &mut self.foreign
            };
            let before = api.voters();
            let (answer, changed) = api.execute(request, node % ids.len(), ids, now);
            if changed && !is_own {
                self.objects_changed();
            } else if changed {
                self.api.remember(now);
                // Only survivors take out several at once. Others may see it before the one that
                // has asked for it has its answer, and go on.
                let after = self.api.voters();
                if before.voters.difference(&after.voters).count() > 1 {
                    self.survived |= self.are_alone(node);
                    self.watch.voters_changed(self.now);
                }
                self.objects_changed();
            }
            // A written answer may be lost on its way: the asker cannot know.
            let by_chance = self.shape.drift_ppb > 0 && self.chance.u8(0..100) == 0;
            if by_chance || !self.api.answers_reach(node) {
                (ApiAnswer::Unreachable, 2 * SECOND)
            } else {
                (answer, latency)
            }
        } else {
            let refused = self.chance.bool();
            let later = if refused { MILLISECOND } else { 2 * SECOND };
            (ApiAnswer::Unreachable, later)
        };
        self.say(|| format!("API   {request:?} of n{} gives {answer:?}", node + 1));
        let input = Input::Answer(answer, asked);
        self.push(self.now + later, What::Answers { node, run, input });
    }

    pub(super) fn api_latency(&mut self) -> Instant {
        if self.shape.drift_ppb == 0 {
            return 2 * MILLISECOND;
        }
        if self.chance.u8(0..50) == 0 {
            self.chance.u64(5 * MILLISECOND..800 * MILLISECOND)
        } else {
            self.chance.u64(MILLISECOND / 2..8 * MILLISECOND)
        }
    }

    /// The API's objects have changed: watches tell everybody, sooner or later.
    pub(super) fn objects_changed(&mut self) {
        self.recheck = true;
        for node in 0..self.nodes.len() {
            self.view_changes(node);
        }
    }

    pub(super) fn view_changes(&mut self, node: usize) {
        let latency = self.api_latency() + self.chance.u64(0..30 * MILLISECOND);
        self.push(self.now + latency, What::View { node });
    }
}
