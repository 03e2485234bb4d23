//! The task that looks, plans and takes the steps, whenever something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};

use mooring_common::engine::Step as _;
use mooring_common::errors::with_causes;
use mooring_common::l2_network::Segment;
use rtnetlink::{Handle, MulticastGroup};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};

use super::apply::{ApplyError, apply};
use super::interest::Interest;
use super::metrics::RepairLabels;
use super::nft::Watch;
use super::observe::{ObserveError, observe};
use super::plan::{Planned, plan};
use super::reconcile_state::ReconcileState;
use super::step::{Step, Subject};
use super::wanted::{Wanted, resolve};
use super::{Faults, Metrics, Options};
use crate::wire::netlink::{self, Ended, Notifications};

/// How often everything is looked at even if nothing was told.
const REREAD: Duration = Duration::from_secs(30);
/// The shortest time between two looks: what comes together is looked at together.
const SETTLE: Duration = Duration::from_millis(20);
/// After a failure.
const RETRY: Duration = Duration::from_secs(1);
/// How long a look may take, and a step.
const PASS_TIMEOUT: Duration = Duration::from_secs(5);
/// How many looks follow each other at once while there is something to do: somebody may undo all
/// that is done here.
const LOOKS_AT_ONCE: u32 = 8;

/// The segments of this Node; `None` while they are not known, or may not be acted on.
pub type Segments = Option<Vec<Segment>>;

/// Why the kernel cannot be followed. It is tried again.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("cannot open a netlink socket")]
    Open(#[from] std::io::Error),
    #[error(transparent)]
    Ended(#[from] Ended),
    #[error(transparent)]
    Observe(#[from] ObserveError),
    #[error("the kernel did not answer within {PASS_TIMEOUT:?}")]
    Silent,
}

/// Keeps the VLAN interfaces of the segments, for as long as the future is polled. What fails is
/// logged, told by `faults`, and tried again.
pub async fn keep(
    options: Options,
    segments: watch::Receiver<Segments>,
    faults: Faults,
    metrics: Metrics,
) {
    let mut keeper = Keeper {
        options,
        segments,
        faults,
        metrics,
        reconcile_state: ReconcileState::default(),
        interest: Interest::default(),
        said: BTreeSet::new(),
    };
    loop {
        let Err(error) = keeper.follow().await;
        let pause = if let FollowError::Ended(Ended::Overrun) = error {
            keeper.metrics.overruns.inc();
            tracing::debug!("{error}, reading all anew");
            SETTLE
        } else {
            let error = with_causes(&error);
            tracing::warn!(error, "VLAN interfaces cannot be looked after, will retry");
            RETRY
        };
        sleep(pause).await;
    }
}

struct Keeper {
    options: Options,
    segments: watch::Receiver<Segments>,
    faults: Faults,
    metrics: Metrics,
    reconcile_state: ReconcileState,
    interest: Interest,
    /// What was said, so that it is said once.
    said: BTreeSet<String>,
}

/// What is to follow a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// All is as it should be.
    Rest,
    /// Something was done, or has changed meanwhile.
    Look,
    /// Something failed.
    Retry,
}

impl Keeper {
    async fn follow(&mut self) -> Result<Infallible, FollowError> {
        // Listening begins before the first look, so that no change is missed.
        let (sockets, handle, notifications) = netlink::open(&[
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
            MulticastGroup::Ipv4Route,
            MulticastGroup::Ipv6Route,
            MulticastGroup::Ipv4Rule,
            MulticastGroup::Ipv6Rule,
        ])?;
        let firewall = Watch::open();
        tokio::select! {
            () = sockets => Err(Ended::Closed.into()),
            ended = self.work(&handle, notifications, firewall) => ended,
        }
    }

    async fn work(
        &mut self,
        handle: &Handle,
        mut notifications: Notifications,
        mut firewall: Watch,
    ) -> Result<Infallible, FollowError> {
        let mut looks = 0;
        loop {
            let looked = Instant::now();
            notifications.skip()?;
            let next = self.round(handle).await?;
            looks = if next == Next::Look { looks + 1 } else { 0 };
            if looks > 0 && looks < LOOKS_AT_ONCE {
                continue;
            }
            looks = 0;
            let rest = match next {
                Next::Rest => REREAD,
                Next::Look | Next::Retry => RETRY,
            };
            let again = self.reconcile_state.next_deletion().into_iter();
            let again = again.fold(looked + rest, Instant::min);
            self.wait(again, &mut notifications, &mut firewall).await?;
            sleep_until((looked + SETTLE).into()).await;
        }
    }

    /// Waits for something to look at.
    async fn wait(
        &mut self,
        until: Instant,
        notifications: &mut Notifications,
        firewall: &mut Watch,
    ) -> Result<(), Ended> {
        loop {
            tokio::select! {
                told = notifications.next() => {
                    if self.interest.concerns(&told?) {
                        return Ok(());
                    }
                }
                () = firewall.changed() => return Ok(()),
                changed = self.segments.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    return Ok(());
                }
                () = sleep_until(until.into()) => return Ok(()),
            }
        }
    }

    async fn round(&mut self, handle: &Handle) -> Result<Next, FollowError> {
        let segments = self.segments.borrow_and_update().clone();
        let Some(segments) = segments else {
            return Ok(Next::Rest);
        };
        let looking = observe(handle, &self.options.proc_sys_net);
        let observed = timeout(PASS_TIMEOUT, looking).await;
        let observed = observed.map_err(|_| FollowError::Silent)??;
        self.faults
            .set_forbidden(observed.firewall == super::nft::Firewall::Forbidden);
        let wanted = resolve(&segments, &observed.links);
        let now = Instant::now();
        self.reconcile_state.note(&wanted, &observed, now);
        self.interest = Interest::new(&wanted, &observed, &self.reconcile_state);
        if observed.firewall == super::nft::Firewall::Unsupported && !wanted.vlans.is_empty() {
            self.say_once(
                "the kernel has no nftables (nf_tables): answers to what comes in by a VLAN leave by \
                 the default route",
            );
        }
        let planned = plan(
            &wanted,
            &observed,
            &self.reconcile_state,
            self.options.mask,
            now,
        );
        self.report_missing_marks(&planned);
        let next = self.take(handle, &wanted, &planned).await?;
        if next == Next::Rest {
            self.reconcile_state.settled =
                settled(&wanted, &observed, &self.reconcile_state, &self.options);
        }
        Ok(next)
    }

    async fn take(
        &mut self,
        handle: &Handle,
        wanted: &Wanted,
        planned: &Planned,
    ) -> Result<Next, FollowError> {
        let mut faults = wanted.faults.clone();
        let mut next = Next::Rest;
        for step in planned.plan.steps() {
            let applying = apply(handle, &self.options.proc_sys_net, step);
            let done = timeout(PASS_TIMEOUT, applying).await;
            match done.map_err(|_| FollowError::Silent)? {
                Ok(()) => {
                    tracing::info!(%step, impact = %step.impact(), "VLANs");
                    self.count(step);
                    if next == Next::Rest {
                        next = Next::Look;
                    }
                }
                Err(ApplyError::Raced) => {
                    tracing::debug!(%step, "the machine changed meanwhile, looking again");
                    if next == Next::Rest {
                        next = Next::Look;
                    }
                }
                Err(error @ ApplyError::Sysctl { .. }) => {
                    // It works without, where the defaults are right.
                    self.reconcile_state.sysctl_refused = true;
                    self.say_once(&error.to_string());
                }
                Err(error) => {
                    next = Next::Retry;
                    let text = with_causes(&error);
                    self.say_once(&format!("cannot {step}: {text}"));
                    blame(step, wanted, &text, &mut faults);
                }
            }
        }
        self.faults.set(faults);
        Ok(next)
    }

    fn count(&mut self, step: &Step) {
        let Some(subject) = step.subject() else {
            return;
        };
        if self.reconcile_state.settled.remove(&subject) {
            let what = subject.what;
            self.metrics
                .repairs
                .get_or_create(&RepairLabels { what })
                .inc();
            tracing::warn!(%step, "repaired what somebody else has changed");
        }
        if let Step::Create { vlan, .. } = step {
            // What goes with the interface is not missed for itself.
            self.reconcile_state
                .settled
                .retain(|other| other.vlan != Some(*vlan));
        }
    }

    fn report_missing_marks(&mut self, planned: &Planned) {
        for (segments, path) in &planned.without_mark {
            self.say_once(&format!(
                "no mark is left for {} on {} ({segments}): answers leave by the default route; widen \
                 --return-path-mark-mask, now {}",
                path.subnet, path.device.name, self.options.mask
            ));
        }
    }

    fn say_once(&mut self, text: &str) {
        if self.said.insert(text.to_owned()) {
            tracing::warn!("{text}");
        }
    }
}

/// All that is there now that nothing is left to do: the subjects of the steps that would be taken
/// if it were not.
fn settled(
    wanted: &Wanted,
    observed: &super::observe::Observed,
    reconcile_state: &ReconcileState,
    options: &Options,
) -> BTreeSet<Subject> {
    let mut subjects = BTreeSet::new();
    let now = Instant::now();
    let mut bare = observed.clone();
    bare.routes.clear();
    bare.rules.clear();
    if let super::nft::Firewall::Table(_) = bare.firewall {
        bare.firewall = super::nft::Firewall::Absent;
    }
    for link in &mut bare.links {
        if reconcile_state.ours.contains(&link.index) {
            link.addresses.clear();
            link.stack.alias.clear();
            link.stack.mtu = 0;
            link.stack.ipv4 = Some(crate::wire::links::Ipv4Settings::default());
        }
    }
    let planned = plan(wanted, &bare, reconcile_state, options.mask, now);
    subjects.extend(planned.plan.steps().iter().filter_map(Step::subject));
    for vlan in wanted.vlans.keys() {
        for what in ["device", "state"] {
            subjects.insert(Subject {
                vlan: Some(*vlan),
                what,
                which: String::new(),
            });
        }
    }
    subjects
}

/// Enters a failure for the segments that it concerns: those of the step's VLAN, else all.
fn blame(step: &Step, wanted: &Wanted, text: &str, faults: &mut BTreeMap<String, String>) {
    let of = match step {
        Step::Create { vlan, .. } => Some(*vlan),
        Step::SetUp(device) => Some(device.vlan),
        // The segment can be spoken on all the same.
        _ => return,
    };
    let concerned = wanted.vlans.values().filter(|want| Some(want.vlan) == of);
    for segment in concerned.flat_map(|want| &want.segments) {
        faults.insert(segment.clone(), text.to_owned());
    }
}
