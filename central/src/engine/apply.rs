//! Carries out the steps of a plan, one after the other.
//!
//! What has been done is remembered step by step, so that the next pass goes on from there. A step
//! of which nobody knows how it ended ends the pass, and the load balancer is observed anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use mooring_common::names::{annotations, reasons};
use tokio::time::{Instant, sleep};

use super::Shared;
use super::applied::changing;
use super::cache::{CachedState, Write};
use super::exclusive::Permitted;
use super::find::Query;
use super::members::some_of;
use super::pool::Member as _;
use super::provider::{IdBy, Listed as _, Observed, Provider, StepOf};
use super::remove::{LOOK_AGAIN, Marks, is_refusal};
use super::step::{Effect, Step as _};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{Notice, Progress, ReconcileError, Stop, WriteGuard};
use crate::views::creation_asked::asked;

/// When a load balancer is looked at again that has just been made.
const AFTER_CREATION: Duration = Duration::from_secs(2);
/// Between two looks at one that the cloud is at work on: at first, and at most.
const AT_WORK: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
/// When to try again what puts back what has just been taken away: every moment counts.
const IN_GAP: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    LONGEST_IN_GAP,
];
/// For how long at most a cloud that wants to be left alone is left alone then.
const LONGEST_IN_GAP: Duration = Duration::from_secs(4);

/// A plan that is being carried out.
pub(super) struct Work<'a, P: Provider> {
    shared: &'a Shared<P>,
    guard: &'a dyn WriteGuard,
    query: &'a Query,
    /// The exclusive resources that it may be given.
    permitted: Permitted,
    known: Option<CachedState<P::Observed>>,
    /// When the listing was begun that shows no load balancer, if there is none.
    as_of: Instant,
    /// The pools that this plan has made.
    planned: Vec<String>,
    /// Members that were refused.
    refused: Vec<Refusal>,
    /// Whether something was changed that is to be observed anew.
    is_unseen: bool,
    /// Whether the Service says that something is being changed.
    says_changing: bool,
}

/// A member that the cloud does not take.
struct Refusal {
    /// The ID of its pool.
    pool: String,
    /// Its name: `10.0.0.1:30080`.
    member: String,
    error: CloudError,
}

/// How a step ended.
enum Made {
    /// As wanted.
    Done,
    /// It was refused, and the cloud is not at work on the load balancer.
    Refused(CloudError),
    /// It was refused since the cloud is at work on the load balancer.
    Wait(Progress),
}

impl<'a, P: Provider> Work<'a, P> {
    /// A plan for what is known, or for what a listing that was begun at `as_of` does not show.
    pub(super) fn new(
        shared: &'a Shared<P>,
        guard: &'a dyn WriteGuard,
        query: &'a Query,
        permitted: Permitted,
        known: Option<CachedState<P::Observed>>,
        as_of: Instant,
    ) -> Self {
        Self {
            shared,
            guard,
            query,
            permitted,
            known,
            as_of,
            planned: Vec::new(),
            refused: Vec::new(),
            is_unseen: false,
            says_changing: false,
        }
    }

    /// Takes the steps. `None`: all of them are done.
    ///
    /// # Errors
    /// [`ReconcileError`].
    pub(super) async fn run(
        &mut self,
        steps: &[StepOf<P>],
    ) -> Result<Option<Progress>, ReconcileError> {
        let mut before: Option<(&StepOf<P>, bool)> = None;
        for step in steps {
            let puts_back = before.filter(|(before, _)| step.puts_back(before));
            let effect = step.effect(&self.planned);
            let is_left = (withdraws(&effect) && !self.may_withdraw(step))
                || puts_back.is_some_and(|(_, was_left)| was_left);
            before = Some((step, is_left));
            if is_left {
                continue;
            }
            match self.make(step, puts_back.is_some()).await? {
                Made::Done => {}
                Made::Wait(wait) => return Ok(Some(wait)),
                Made::Refused(error) => {
                    if let Some(wait) = self.after_refusal(step, error).await? {
                        return Ok(Some(wait));
                    }
                }
            }
            let known = self.known.as_ref();
            let is_usable = known.is_some_and(|known| !known.observed.listed().is_changing());
            if effect == Effect::CreateBalancer && !is_usable {
                return Ok(Some(Progress::Wait {
                    after: AFTER_CREATION,
                    what: "the load balancer is being created".to_owned(),
                }));
            }
        }
        Ok(None)
    }

    /// Whether something may be taken away although members were refused that were to follow it: as long
    /// as each of their pools has one left that is given traffic.
    fn may_withdraw(&self, step: &StepOf<P>) -> bool {
        let pools: BTreeSet<String> = self.refused.iter().map(|one| one.pool.clone()).collect();
        let known = self.known.as_ref();
        pools.is_empty()
            || known.is_some_and(|known| serve_after(&known.observed, &step.effect(&[]), &pools))
    }

    /// What a person should know of members that were refused.
    pub(super) fn notices(&self) -> Vec<Notice> {
        let mut by_words: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for refusal in &self.refused {
            let words = refusal.error.words.as_ref();
            let words = words.map_or_else(|| refusal.error.to_string(), Clone::clone);
            by_words.entry(words).or_default().push(&refusal.member);
        }
        let notice = |(words, members): (String, Vec<&str>)| Notice {
            reason: reasons::MEMBER_REFUSED,
            note: format!(
                "{} does not take these members, and the load balancer serves without them: {} ({words}). \
                 Attach their servers to a network that the load balancer reaches, or exclude their Nodes \
                 with {}.",
                P::WORDS.cloud,
                some_of(&members),
                P::WORDS.exclusion()
            ),
            by_provider: false,
        };
        by_words.into_iter().map(notice).collect()
    }

    /// The load balancer as it is after the steps.
    pub(super) fn into_known(self) -> Option<CachedState<P::Observed>> {
        self.known
    }

    /// A member that is refused keeps nobody else from being served; a pool that is not empty is
    /// emptied first. `None`: the plan goes on.
    async fn after_refusal(
        &mut self,
        step: &StepOf<P>,
        error: CloudError,
    ) -> Result<Option<Progress>, ReconcileError> {
        match step.effect(&self.planned) {
            Effect::CreateMember(pool, member) if error.kind == ErrorKind::Invalid => {
                tracing::warn!(%error, member, "a member was refused");
                let pool = pool.unwrap_or_default();
                self.refused.push(Refusal {
                    pool,
                    member,
                    error,
                });
                Ok(None)
            }
            Effect::DeletePool => {
                let known = self.known.as_ref();
                let parts = known.map(|known| known.observed.emptying(step));
                for part in parts.into_iter().flatten() {
                    if let Some(wait) = self.insist(&part).await? {
                        return Ok(Some(wait));
                    }
                }
                self.insist(step).await
            }
            _ => Err(error.into()),
        }
    }

    /// Makes one step that must not be refused. `None`: it is done.
    async fn insist(&mut self, step: &StepOf<P>) -> Result<Option<Progress>, ReconcileError> {
        match self.make(step, false).await? {
            Made::Done => Ok(None),
            Made::Wait(wait) => Ok(Some(wait)),
            Made::Refused(error) => Err(error.into()),
        }
    }

    /// Makes one step. `in_gap`: traffic stands still until it is done.
    async fn make(&mut self, step: &StepOf<P>, in_gap: bool) -> Result<Made, ReconcileError> {
        self.admit(in_gap)?;
        let creates = step.effect(&self.planned) == Effect::CreateBalancer;
        if creates {
            self.guard.before_creation().await?;
            let now = Timestamp::now();
            let text = asked(now, P::WORDS.provider);
            self.guard
                .note(&[(annotations::CREATION_ASKED, text)])
                .await?;
            self.shared.cache.asks(&self.query.uid, now);
        }
        let shared = self.shared;
        if let Some(later) = self.look_before(step).await? {
            return Ok(Made::Wait(later));
        }
        self.say_changing().await?;
        let write = shared.cache.begin_write(&self.query.uid);
        let mut pauses = IN_GAP.iter().filter(|_| in_gap);
        let error = loop {
            let error = match self.send(step).await {
                Ok(known) => {
                    tracing::info!(step = %step, "changed a load balancer");
                    // One of whose parts nothing is known is observed as it is from now on.
                    self.is_unseen |= (creates && known.is_none())
                        || matches!(
                            step.effect(&self.planned),
                            Effect::ChangeUnseen | Effect::CreateUnseen
                        );
                    if !self.is_unseen {
                        write.end(known);
                    }
                    if creates {
                        self.note_creation().await;
                    }
                    return Ok(Made::Done);
                }
                Err(error) => error,
            };
            match pauses.next().and_then(|pause| again_in_gap(&error, *pause)) {
                Some(pause) => sleep(pause).await,
                None => break error,
            }
            self.admit(in_gap)?;
        };
        if creates && !error.may_have_been_done() {
            shared.cache.settled(&self.query.uid);
        }
        if is_refusal(&error) {
            return self.weigh(step, error, write).await;
        }
        Err(error.into())
    }

    /// Before the first write the Service says that not all is as wanted: whoever starts after this process
    /// has died looks for itself.
    async fn say_changing(&mut self) -> Result<(), Stop> {
        let applied = self.query.applied.as_deref();
        if let Some(text) = applied.filter(|_| !self.says_changing).and_then(changing) {
            self.guard.note(&[(annotations::APPLIED, text)]).await?;
        }
        self.says_changing = true;
        Ok(())
    }

    /// Writes down at once which one was made, for whoever leads next: the cloud may show it in no listing
    /// for a while. If that fails, it is written with the status.
    async fn note_creation(&self) {
        let Some(known) = self
            .known
            .as_ref()
            .filter(|_| P::WORDS.id_by == IdBy::Central)
        else {
            return;
        };
        let id = known.observed.listed().id().to_owned();
        if let Err(error) = self.guard.note(&[(P::WORDS.id_key, id)]).await {
            tracing::warn!(%error, "the ID of a new load balancer is not noted yet");
        }
    }

    /// What takes something from somebody is done on what is read just before, never on what is
    /// remembered: an operator may have given it to somebody else meanwhile. `None`: it is as it was.
    async fn look_before(&self, step: &StepOf<P>) -> Result<Option<Progress>, CloudError> {
        let shared = self.shared;
        let (is_same, what) = match step.effect(&self.planned) {
            Effect::DeleteBalancer(id, name) => {
                let marks = shared.marks(&id, self.query).await?;
                let what = format!("load balancer {name} ({id})");
                (marks != Marks::Anothers, what)
            }
            Effect::Assign(name) => {
                let is_same = shared.leads_as_permitted(&name, &self.permitted).await?;
                (is_same, format!("{} {name}", P::WORDS.exclusive))
            }
            _ => return Ok(None),
        };
        if is_same {
            return Ok(None);
        }
        shared.cache.invalidate(&self.query.uid);
        Ok(Some(Progress::Wait {
            after: LOOK_AGAIN,
            what: format!("the {what} is another's by now, it is looked at anew"),
        }))
    }

    /// In a gap nobody else is let in: that would prolong it.
    fn admit(&self, in_gap: bool) -> Result<(), Stop> {
        match self.guard.before_write() {
            Err(Stop::Yield) if in_gap => Ok(()),
            admitted => admitted,
        }
    }

    /// Sends the request, and gives what is known then.
    async fn send(
        &mut self,
        step: &StepOf<P>,
    ) -> Result<Option<CachedState<P::Observed>>, CloudError> {
        let known = self.known.as_ref();
        let own = known.map(|known| known.observed.listed().id().to_owned());
        let own = own.unwrap_or_default();
        let provider = &self.shared.provider;
        let made = match provider.send(step, &own, &self.planned).await {
            Err(error) if error.is_not_found() && deletes(&step.effect(&self.planned)) => {
                String::new()
            }
            answer => answer?,
        };
        self.take(step, &made);
        self.guard.written();
        Ok(self.known.clone())
    }

    fn take(&mut self, step: &StepOf<P>, made: &str) {
        if self.known.is_none()
            && let Some(observed) = P::Observed::created(step, made)
        {
            self.known = Some(CachedState {
                observed,
                surplus: Vec::new(),
                as_of: self.as_of,
                written: Instant::now(),
            });
        }
        let effect = step.effect(&self.planned);
        let Some(known) = &mut self.known else {
            return;
        };
        known.written = Instant::now();
        match &effect {
            Effect::DeleteBalancer(id, _) | Effect::Release(id) => {
                // What served it alone may be idle now.
                self.is_unseen |= matches!(effect, Effect::DeleteBalancer(..));
                known.surplus.retain(|other| other.id() != id);
            }
            _ => known.observed.take(step, made, &mut self.planned),
        }
        if let Effect::Assign(name) = effect {
            self.shared.cache.moved(&self.query.uid, &name);
        }
    }

    /// Whether a refusal means no more than that the cloud is at work.
    async fn weigh(
        &mut self,
        step: &StepOf<P>,
        error: CloudError,
        write: Write<'_, P::Observed>,
    ) -> Result<Made, ReconcileError> {
        let subject = match (step.effect(&self.planned), &self.known) {
            (Effect::DeleteBalancer(id, _), _) => id,
            (_, Some(known)) => known.observed.listed().id().to_owned(),
            (_, None) => return Err(error.into()),
        };
        let Ok(Some(listed)) = self.shared.provider.get(&subject).await else {
            return Err(error.into());
        };
        if !listed.is_changing() {
            if error.may_have_been_done() {
                return Err(error.into());
            }
            return Ok(Made::Refused(error));
        }
        if let Some(known) = &mut self.known
            && known.observed.listed().id() == subject
        {
            known.observed.listed_mut().changes();
        }
        if !error.may_have_been_done() {
            write.end(self.known.clone());
        }
        let name = listed.name();
        Ok(Made::Wait(self.shared.wait(&self.query.uid, name)))
    }
}

impl<P: Provider> Shared<P> {
    /// Waits for the cloud's work on a load balancer to end.
    pub(super) fn wait(&self, uid: &str, name: &str) -> Progress {
        let cloud = P::WORDS.cloud;
        self.wait_for(
            uid,
            format!("{cloud} is at work on the load balancer {name}"),
        )
    }

    /// Waits for this, which the cloud does.
    pub(super) fn wait_for(&self, uid: &str, what: String) -> Progress {
        let waits = self.cache.count_wait(uid);
        let (first, most) = AT_WORK;
        let after = first + Duration::from_secs(u64::from(waits.saturating_sub(1)));
        Progress::Wait {
            after: after.min(most),
            what,
        }
    }
}

/// Whether there is less to serve with after the step.
fn withdraws(effect: &Effect) -> bool {
    deletes(effect) || matches!(effect, Effect::DisableMember(_))
}

/// Whether these pools all have a member that gets traffic once something of this effect is done.
fn serve_after<O: Observed>(observed: &O, effect: &Effect, pools: &BTreeSet<String>) -> bool {
    let going = match effect {
        Effect::DisableMember(id) | Effect::DeleteMember(id) => Some(id),
        _ => None,
    };
    pools.iter().all(|pool| {
        let mut members = observed.members().filter(|(of, _)| of == pool);
        members.any(|(_, member)| member.spec.is_enabled() && Some(&member.id) != going)
    })
}

/// For how long to wait in a gap before the same is sent again. `None`: it is not.
fn again_in_gap(error: &CloudError, pause: Duration) -> Option<Duration> {
    match error.kind {
        ErrorKind::RateLimited => Some(error.retry_after.unwrap_or(pause).min(LONGEST_IN_GAP)),
        _ => is_refusal(error).then_some(pause),
    }
}

fn deletes(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::DeleteBalancer(..) | Effect::DeletePool | Effect::DeleteMember(_) | Effect::Delete
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_again_in_gap_what_cloud_takes_later() {
        let pause = Duration::from_millis(250);
        let again = |kind, retry_after: Option<u64>| {
            let error = CloudError {
                retry_after: retry_after.map(Duration::from_secs),
                ..CloudError::new("c", kind, "x")
            };
            again_in_gap(&error, pause)
        };
        for (kind, retry_after, expected) in [
            (ErrorKind::RateLimited, None, Some(pause)),
            (
                ErrorKind::RateLimited,
                Some(2),
                Some(Duration::from_secs(2)),
            ),
            (ErrorKind::RateLimited, Some(600), Some(LONGEST_IN_GAP)),
            (ErrorKind::Busy, Some(600), Some(pause)),
            (ErrorKind::Invalid, None, Some(pause)),
            (ErrorKind::Forbidden, None, None),
            (ErrorKind::Timeout, None, None),
        ] {
            assert_eq!(again(kind, retry_after), expected, "{kind:?}");
        }
    }
}
