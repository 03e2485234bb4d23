//! Carries out the steps of a plan, one after the other.
//!
//! What has been done is remembered step by step, so that the next pass goes on from there. A step
//! of which nobody knows how it ended ends the pass, and the load balancer is observed anew.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mooring_common::names::{annotations, cloudscale_annotations as keys, reasons};
use tokio::time::{Instant, sleep};

use super::super::api::Reference;
use super::super::api::balancers::{self, Balancer};
use super::desired::some_of;
use super::floating_ips::Permitted;
use super::memory::{Known, Write};
use super::observe::Question;
use super::observed::{Observed, Pool};
use super::removal::{LOOK_AGAIN, Marks};
use super::step::{PoolRef, Step};
use super::{Shared, assembly, requests};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::clouds::load_balancers::{Gate, Notice, Progress, Setback, Stop};
use mooring_common::engine::Impact;

/// When a load balancer is looked at again that has just been made.
const AFTER_CREATION: Duration = Duration::from_secs(2);
/// Between two looks at one that the cloud is at work on: at first, and at most.
const AT_WORK: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(5));
/// When to try again what puts back what has just been taken away: every moment counts.
const IN_CUT: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// A plan that is being carried out.
pub(super) struct Work<'a> {
    shared: &'a Shared,
    gate: &'a dyn Gate,
    question: &'a Question,
    /// The floating IPs that it may be given.
    permitted: Permitted,
    known: Option<Known>,
    /// When the listing was begun that shows no load balancer, if there is none.
    as_of: Instant,
    /// The pools that this plan has made.
    planned: Vec<String>,
    /// Members that were refused.
    refused: Vec<Refusal>,
}

/// A member that the cloud does not take.
struct Refusal {
    /// The UUID of the pool.
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

impl<'a> Work<'a> {
    /// A plan for what is known, or for what a listing that was begun at `as_of` does not show.
    pub(super) fn new(
        shared: &'a Shared,
        gate: &'a dyn Gate,
        question: &'a Question,
        permitted: Permitted,
        known: Option<Known>,
        as_of: Instant,
    ) -> Self {
        Self {
            shared,
            gate,
            question,
            permitted,
            known,
            as_of,
            planned: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Takes the steps. `None`: all of them are done.
    ///
    /// # Errors
    /// [`Setback`].
    pub(super) async fn run(&mut self, steps: &[Step]) -> Result<Option<Progress>, Setback> {
        let mut before: Option<(&Step, bool)> = None;
        for step in steps {
            let puts_back = before.filter(|(before, _)| is_cut(before, step));
            let is_left = (withdraws(step) && !self.may_withdraw(step))
                || puts_back.is_some_and(|(_, was_left)| was_left);
            before = Some((step, is_left));
            if is_left {
                continue;
            }
            match self.make(step, puts_back.is_some()).await? {
                Made::Done => {}
                Made::Wait(wait) => return Ok(Some(wait)),
                Made::Refused(error) => self.after_refusal(step, error).await?,
            }
            if matches!(step, Step::CreateBalancer { .. }) {
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
    fn may_withdraw(&self, step: &Step) -> bool {
        let pools = || self.known.iter().flat_map(|known| &known.observed.pools);
        let going = match step {
            Step::DeleteMember { uuid, .. } | Step::SwitchMember { uuid, .. } => Some(uuid),
            _ => None,
        };
        let is_served = |pool: &Pool| {
            let mut members = pool.members.iter();
            members.any(|member| member.spec.enabled && Some(&member.uuid) != going)
        };
        let is_served = |uuid: &String| pools().any(|pool| pool.uuid == *uuid && is_served(pool));
        self.refused.iter().all(|refusal| is_served(&refusal.pool))
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
                "cloudscale.ch does not take these members, and the load balancer serves without them: \
                 {} ({words}). Attach their servers to a network that the load balancer reaches, or \
                 exclude their Nodes with annotation {}.",
                some_of(&members),
                keys::NODE_SELECTOR
            ),
            by_provider: false,
        };
        by_words.into_iter().map(notice).collect()
    }

    /// The load balancer as it is after the steps.
    pub(super) fn into_known(self) -> Option<Known> {
        self.known
    }

    /// A member that is refused keeps nobody else from being served; a pool that is not empty is
    /// emptied first.
    async fn after_refusal(&mut self, step: &Step, error: CloudError) -> Result<(), Setback> {
        match step {
            Step::CreateMember { pool, member } if error.kind == ErrorKind::Invalid => {
                tracing::warn!(%error, member = member.name, "a member was refused");
                self.refused.push(Refusal {
                    pool: pool.uuid(&self.planned).unwrap_or_default().to_owned(),
                    member: member.name.clone(),
                    error,
                });
                Ok(())
            }
            Step::DeletePool { uuid, .. } => {
                for part in self.parts_of(uuid) {
                    self.insist(&part).await?;
                }
                self.insist(step).await
            }
            _ => Err(error.into()),
        }
    }

    async fn insist(&mut self, step: &Step) -> Result<(), Setback> {
        match self.make(step, false).await? {
            Made::Done => Ok(()),
            Made::Refused(error) => Err(error.into()),
            Made::Wait(_) => Err(Setback::Refused(format!(
                "{step}: the cloud is at work on the load balancer; it will be tried again"
            ))),
        }
    }

    /// What takes away all that is in a pool.
    fn parts_of(&self, pool: &str) -> Vec<Step> {
        let pools = self.known.iter().flat_map(|known| &known.observed.pools);
        let mut steps = Vec::new();
        for of in pools.filter(|of| of.uuid == pool) {
            let known = || PoolRef::Known(pool.to_owned());
            steps.extend(of.members.iter().map(|member| Step::DeleteMember {
                pool: known(),
                uuid: member.uuid.clone(),
                member: member.spec.clone(),
                impact: Impact::None,
            }));
            steps.extend(of.monitors.iter().map(|monitor| Step::DeleteMonitor {
                pool: known(),
                uuid: monitor.uuid.clone(),
                kind: monitor.spec.kind.clone(),
            }));
        }
        steps
    }

    /// Makes one step. `in_cut`: traffic stands still until it is done.
    async fn make(&mut self, step: &Step, in_cut: bool) -> Result<Made, Setback> {
        self.admit(in_cut)?;
        if matches!(step, Step::CreateBalancer { .. }) {
            self.gate.before_creation().await?;
            let now = Timestamp::now();
            self.gate
                .note(&[(annotations::CREATION_ASKED, now.to_string())])
                .await?;
            self.shared.memory.asks(&self.question.uid, now);
        }
        let shared = self.shared;
        if let Some(later) = self.look_before(step).await? {
            return Ok(Made::Wait(later));
        }
        let write = shared.memory.begin_write(&self.question.uid);
        let mut pauses = IN_CUT.iter().filter(|_| in_cut);
        let error = loop {
            let error = match self.send(step).await {
                Ok(known) => {
                    tracing::info!(step = %step, "changed a load balancer");
                    write.end(known);
                    if matches!(step, Step::CreateBalancer { .. }) {
                        self.note_creation().await;
                    }
                    return Ok(Made::Done);
                }
                Err(error) => error,
            };
            match pauses.next().filter(|_| is_refusal(&error)) {
                Some(pause) => sleep(*pause).await,
                None => break error,
            }
            self.admit(in_cut)?;
        };
        if matches!(step, Step::CreateBalancer { .. }) && !error.may_have_been_done() {
            shared.memory.settled(&self.question.uid);
        }
        if is_refusal(&error) {
            return self.weigh(step, error, write).await;
        }
        Err(error.into())
    }

    /// Writes down at once which one was made, for whoever leads next: the cloud may show it in no listing
    /// for a while. If that fails, it is written with the status.
    async fn note_creation(&self) {
        let Some(known) = &self.known else { return };
        let uuid = known.observed.balancer.uuid.clone();
        if let Err(error) = self.gate.note(&[(keys::UUID, uuid)]).await {
            tracing::warn!(%error, "the UUID of a new load balancer is not noted yet");
        }
    }

    /// What takes something from somebody is done on what is read just before, never on what is
    /// remembered: an operator may have given it to somebody else meanwhile. `None`: it is as it was.
    async fn look_before(&self, step: &Step) -> Result<Option<Progress>, CloudError> {
        let shared = self.shared;
        let (is_same, what) = match step {
            Step::DeleteBalancer { uuid, name } => {
                let marks = shared.marks(uuid, self.question).await?;
                (
                    marks != Marks::Anothers,
                    format!("load balancer {name} ({uuid})"),
                )
            }
            Step::AssignFloatingIp { network } => {
                let is_same = shared.leads_as_permitted(network, &self.permitted).await?;
                (is_same, format!("floating IP {network}"))
            }
            _ => return Ok(None),
        };
        if is_same {
            return Ok(None);
        }
        shared.memory.doubt(&self.question.uid);
        Ok(Some(Progress::Wait {
            after: LOOK_AGAIN,
            what: format!("the {what} is another's by now, it is looked at anew"),
        }))
    }

    /// In a cut nobody else is let in: that would prolong it.
    fn admit(&self, in_cut: bool) -> Result<(), Stop> {
        match self.gate.before_write() {
            Err(Stop::MakeWay) if in_cut => Ok(()),
            admitted => admitted,
        }
    }

    /// Sends the request, and gives what is known then.
    async fn send(&mut self, step: &Step) -> Result<Option<Known>, CloudError> {
        let cloud = &self.shared.cloud;
        let own = self
            .known
            .as_ref()
            .map(|known| &known.observed.balancer.uuid);
        let own = own.cloned().unwrap_or_default();
        let Some(request) = requests::request(step, &own, &self.planned) else {
            let what = format!("{step}: the pool that it is about was not made");
            return Err(CloudError::new(
                super::super::NAME,
                ErrorKind::Malformed,
                what,
            ));
        };
        let created = if makes(step) {
            let made: Reference = cloud.client.fetch(&request).await?;
            made.uuid
        } else {
            match cloud.client.call(&request).await {
                Err(error) if error.is_not_found() && takes_away(step) => {}
                answer => answer?,
            }
            String::new()
        };
        self.take(step, &created);
        self.gate.written();
        Ok(self.known.clone())
    }

    fn take(&mut self, step: &Step, created: &str) {
        if let Some(observed) = Observed::made(step, created) {
            self.known = Some(Known {
                observed,
                surplus: Vec::new(),
                as_of: self.as_of,
                written: Instant::now(),
            });
        }
        let Some(known) = &mut self.known else {
            return;
        };
        known.written = Instant::now();
        match step {
            Step::DeleteBalancer { uuid, .. } => known.surplus.retain(|(other, _)| other != uuid),
            _ => known.observed.take(step, created, &mut self.planned),
        }
        if let Step::AssignFloatingIp { network } = step {
            self.shared.memory.moved(&self.question.uid, network);
        }
    }

    /// Whether a refusal means no more than that the cloud is at work.
    async fn weigh(
        &mut self,
        step: &Step,
        error: CloudError,
        write: Write<'_>,
    ) -> Result<Made, Setback> {
        let subject = match (step, &self.known) {
            (Step::DeleteBalancer { uuid, .. }, _) => uuid.clone(),
            (_, Some(known)) => known.observed.balancer.uuid.clone(),
            (_, None) => return Err(error.into()),
        };
        let client = &self.shared.cloud.client;
        let listed: Balancer = match client.fetch(&balancers::one(&subject)).await {
            Ok(listed) => listed,
            Err(_) => return Err(error.into()),
        };
        if !assembly::balancer(&listed).is_changing {
            if error.may_have_been_done() {
                return Err(error.into());
            }
            return Ok(Made::Refused(error));
        }
        if let Some(known) = &mut self.known
            && known.observed.balancer.uuid == subject
        {
            known.observed.balancer.is_changing = true;
        }
        if !error.may_have_been_done() {
            write.end(self.known.clone());
        }
        Ok(Made::Wait(
            self.shared.wait(&self.question.uid, listed.name()),
        ))
    }
}

impl Shared {
    /// Waits for the cloud's work on a load balancer to end.
    pub(super) fn wait(&self, uid: &str, name: &str) -> Progress {
        let waits = self.memory.count_wait(uid);
        let (first, most) = AT_WORK;
        let after = first + Duration::from_secs(u64::from(waits.saturating_sub(1)));
        Progress::Wait {
            after: after.min(most),
            what: format!("cloudscale.ch is at work on the load balancer {name}"),
        }
    }
}

/// Whether the cloud has looked at the request and not taken it, which may be because it is at work.
pub(super) fn is_refusal(error: &CloudError) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::Busy) || error.status == Some(503)
}

/// Whether the second step puts back what the first has taken away.
fn is_cut(first: &Step, second: &Step) -> bool {
    matches!(
        (first, second),
        (Step::DeleteListener { .. }, Step::CreateListener { .. })
            | (Step::DeleteMember { .. }, Step::CreateMember { .. })
    )
}

/// Whether there is less to serve with after the step.
fn withdraws(step: &Step) -> bool {
    takes_away(step) || matches!(step, Step::SwitchMember { enabled: false, .. })
}

fn takes_away(step: &Step) -> bool {
    matches!(
        step,
        Step::DeleteBalancer { .. }
            | Step::DeletePool { .. }
            | Step::DeleteMember { .. }
            | Step::DeleteMonitor { .. }
            | Step::DeleteListener { .. }
    )
}

fn makes(step: &Step) -> bool {
    matches!(
        step,
        Step::CreateBalancer { .. }
            | Step::CreatePool(_)
            | Step::CreateMember { .. }
            | Step::CreateMonitor { .. }
            | Step::CreateListener { .. }
    )
}
