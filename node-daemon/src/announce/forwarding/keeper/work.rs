//! What the keeper does, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use mooring_common::errors::with_causes;
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use tokio::sync::{mpsc, oneshot};

use super::{COUNT, Command, Outcome, RENEW, clean_up, flows, write_all};
use crate::announce::forwarding::messages;
use crate::announce::forwarding::saved::{self, Saved};
use crate::announce::forwarding::state::Forwarding;
use crate::announce::forwarding::table::{Flow, Group, KERNEL_LEASE, MOST_FLOWS, Table};
use crate::protocol::{Awaited, Moment, NodeId};
use crate::responder::ConnectionReport;
use crate::vlan::nft::NftError;
use crate::wire::clock;

/// What is kept, and what the kernel was told of it.
pub(super) struct Work {
    folder: PathBuf,
    said: mpsc::Sender<Outcome>,
    segments: BTreeMap<String, Forwarding>,
    /// What the process before has left, of segments that are not known yet.
    restored: BTreeMap<String, Forwarding>,
    /// What is in the file; empty: nothing was ever saved.
    saved: Vec<u8>,
    /// It was said that the file cannot be written.
    is_unsaved: bool,
    /// What was offered and is not answered, and whether it can be passed on.
    offered: Vec<(String, IpAddr, NodeId, bool)>,
    /// What is about to be handed on, and is not answered.
    handing_on: Vec<(String, IpAddr, NodeId)>,
    /// What the kernel has; `None`: it may be anything.
    written: Option<Table>,
    renew_at: Moment,
    count_at: Moment,
    /// Whether to find out if the kernel can do it at all.
    probe_is_due: bool,
    fault: Option<String>,
    /// For how many addresses the kernel was last said to pass on.
    forwarded: usize,
    /// Who waits until all is on disk.
    saving: Vec<oneshot::Sender<()>>,
}

/// What was done about the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Nothing,
    /// The kernel has taken one.
    Written,
}

impl Work {
    pub(super) fn new(folder: PathBuf, said: mpsc::Sender<Outcome>) -> Self {
        let saved = Saved::read(&folder);
        let now = clock::now();
        let mut restored = saved.segments.clone();
        for segment in restored.values_mut() {
            segment.restore(now);
        }
        Self {
            folder,
            said,
            segments: BTreeMap::new(),
            restored,
            saved: if saved.is_empty() {
                Vec::new()
            } else {
                saved.to_text()
            },
            is_unsaved: false,
            written: Some(saved.written),
            offered: Vec::new(),
            handing_on: Vec::new(),
            renew_at: Moment::default(),
            count_at: Moment::default(),
            probe_is_due: false,
            fault: None,
            forwarded: 0,
            saving: Vec::new(),
        }
    }

    /// Whether time alone may change anything.
    pub(super) fn has_something_to_do(&self) -> bool {
        let mut segments = self.segments.values();
        segments.any(|segment| segment.keeps().is_some())
            || !self.restored.is_empty()
            || self
                .written
                .as_ref()
                .is_none_or(|written| !written.is_empty())
    }

    /// All segments, of which some may not be known yet.
    fn all(&self) -> impl Iterator<Item = &Forwarding> {
        self.restored.values().chain(self.segments.values())
    }

    fn say(&self, outcome: Outcome) {
        if let Err(error) = self.said.try_send(outcome) {
            tracing::warn!(%error, "what is known of connections is not told");
        }
    }

    pub(super) fn take(&mut self, command: Command, now: Moment) {
        match command {
            Command::Configure(segments) => {
                self.probe_is_due = true;
                self.segments.retain(|name, _| segments.contains_key(name));
                for (name, (device, keep_for)) in segments {
                    let restored = &mut self.restored;
                    let left = || restored.remove(&name).unwrap_or_default();
                    let segment = self.segments.entry(name.clone()).or_insert_with(left);
                    segment.configure(device, keep_for);
                }
            }
            Command::Members(name, members) => {
                if let Some(segment) = self.segments.get_mut(&name) {
                    segment.set_members(members);
                }
            }
            Command::Stopped(name, address) => {
                if let Some(segment) = self.segments.get_mut(&name) {
                    segment.stopped(address);
                }
            }
            Command::Report(name, report) => self.take_report(name, report, now),
            Command::Save(saved) => self.saving.push(saved),
        }
    }

    fn take_report(&mut self, name: String, report: ConnectionReport, now: Moment) {
        let Some(segment) = self.segments.get_mut(&name) else {
            return;
        };
        match report {
            ConnectionReport::Offered { address, former } => {
                // Also where nothing is passed on: whoever waits is to go on.
                let can = segment.prepare(address, former, now);
                self.offered.push((name, address, former, can));
            }
            ConnectionReport::HandingOn { address, to } => {
                segment.handing_on(address, to, now);
                self.handing_on.push((name, address, to));
            }
            ConnectionReport::Began {
                address,
                former,
                is_announced,
            } => segment.began(address, former, is_announced, now),
            ConnectionReport::Announced(address) => segment.announced(address),
            ConnectionReport::HandedOn {
                address,
                to,
                is_announced: true,
            } => segment.handed_on(address, to, now),
            ConnectionReport::HandedOn { address, .. } => segment.left_unannounced(address),
            ConnectionReport::Gone(node) => segment.gone(node),
            ConnectionReport::Counted {
                from,
                address,
                connections,
            } => segment.told(from, address, connections, now),
        }
    }

    pub(super) async fn step(&mut self, now: Moment) {
        self.restored.retain(|_, segment| {
            segment.tick(now);
            let is_there = |interface| if_nametoindex(interface).is_ok();
            segment.is_restored() && segment.interface().is_some_and(is_there)
        });
        for segment in self.segments.values_mut() {
            segment.tick(now);
        }
        let offered = std::mem::take(&mut self.offered);
        let handing_on = std::mem::take(&mut self.handing_on);
        let done = self.bring_about(!offered.is_empty(), now).await;
        let is_written = done.is_ok();
        self.note(done);
        self.tell_forwarded();
        // Whoever offers relies on it: a process after this one must not go on with what was before.
        let is_saved = self.save().await;
        for saved in self.saving.drain(..) {
            // Whoever asked may not wait any more.
            let _ = saved.send(());
        }
        let mut prepared: BTreeMap<(String, Awaited, bool), Vec<IpAddr>> = BTreeMap::new();
        for (name, address, former, can) in offered {
            let is_done = can && is_written && is_saved && self.is_prepared(&name, address, former);
            let of = (name, Awaited::Offer(former), is_done);
            prepared.entry(of).or_default().push(address);
        }
        for (name, address, to) in handing_on {
            let of = (name, Awaited::HandOver(to), is_written);
            prepared.entry(of).or_default().push(address);
        }
        for ((name, awaited, is_done), addresses) in prepared {
            self.say(Outcome::Prepared(name, awaited, addresses, is_done));
        }
        if now >= self.count_at {
            self.count_at = now + COUNT;
            self.count(now).await;
            self.save().await;
        }
    }

    /// Whether what was offered is passed on, and not what was taken, and handed on, since.
    fn is_prepared(&self, name: &str, address: IpAddr, former: NodeId) -> bool {
        let segment = self.segments.get(name);
        segment.is_some_and(|segment| segment.passes_on_to(address, former))
    }

    /// Writes the table where it is not as it should be, or is to be renewed.
    async fn bring_about(&mut self, is_offered: bool, now: Moment) -> Result<Done, NftError> {
        let wanted = Forwarding::table(self.all(), now);
        if wanted.is_empty() {
            let goes = self
                .written
                .as_ref()
                .is_none_or(|written| !written.is_empty());
            if goes {
                let cleaned = clean_up().await;
                if let Err(error) = &cleaned {
                    tracing::debug!(error = %with_causes(error), "the table runs out, or goes at the next try");
                }
                self.written = cleaned.is_ok().then_some(wanted);
            }
            return self.probe().await;
        }
        let before = self.written.as_ref();
        let current = before.is_some_and(|before| !wanted.differs_from(before));
        if current && now < self.renew_at && !is_offered {
            return Ok(Done::Nothing);
        }
        let anew = before.is_none_or(Table::is_empty);
        let written = match self.write(&wanted, is_offered, anew).await {
            // A set takes no more flows, and all else is as it was.
            Err(error) if !anew && is_full(&error) => return Err(error),
            // What is there is not what was thought, as where an interface is gone and its chain with it.
            Err(error) if !anew => {
                tracing::debug!(error = %with_causes(&error), "the table is written anew");
                self.write(&wanted, is_offered, true).await
            }
            written => written,
        };
        self.renew_at = now + RENEW;
        self.written = written.is_ok().then_some(wanted);
        written.map(|()| Done::Written)
    }

    async fn write(&self, wanted: &Table, is_offered: bool, anew: bool) -> Result<(), NftError> {
        // Whatever is written anew has no flows.
        let own = if is_offered || anew {
            self.own_flows().await?
        } else {
            BTreeSet::new()
        };
        let nothing = Table::default();
        let before = self.written.as_ref().unwrap_or(&nothing);
        write_all(messages::replace(before, wanted, &own, anew)).await
    }

    /// Writes a table for no address, so that a kernel that cannot is known of before anything moves.
    async fn probe(&mut self) -> Result<Done, NftError> {
        let keeping = self.segments.values().find_map(Forwarding::keeps);
        let (Some(device), true) = (keeping, self.probe_is_due) else {
            return Ok(Done::Nothing);
        };
        let group = Group {
            device: device.name.clone(),
            own: device.mac,
            former: device.mac,
            never_from: [device.mac].into(),
            learns: false,
            addresses: BTreeMap::new(),
        };
        let table = Table {
            groups: vec![group],
            known_for: KERNEL_LEASE,
        };
        self.probe_is_due = false;
        let nothing = Table::default();
        let transactions = messages::replace(&nothing, &table, &BTreeSet::new(), true);
        write_all(transactions).await?;
        clean_up().await?;
        Ok(Done::Written)
    }

    /// Saves what the next process has to know, where it has changed. Whether it is on disk.
    async fn save(&mut self) -> bool {
        let mut segments = self.restored.clone();
        segments.extend(self.segments.clone());
        let nothing = Table::default();
        let saved = Saved::of(self.written.as_ref().unwrap_or(&nothing), &segments);
        if saved.is_empty() && self.saved.is_empty() {
            return true;
        }
        let text = saved.to_text();
        if text == self.saved {
            return true;
        }
        let (folder, copy) = (self.folder.clone(), text.clone());
        let written = tokio::task::spawn_blocking(move || saved::write(&folder, &copy)).await;
        let error = match written {
            Ok(Ok(())) => {
                self.saved = text;
                self.is_unsaved = false;
                return true;
            }
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        if !self.is_unsaved {
            self.is_unsaved = true;
            let folder = self.folder.display();
            tracing::warn!(%folder, error, "what is known of connections cannot be kept, so that they do not stay \
                with their node; is --state-dir a folder that this process may write to?");
        }
        false
    }

    /// This node's own connections to what is passed on.
    async fn own_flows(&self) -> Result<BTreeSet<Flow>, NftError> {
        let pointed: BTreeSet<IpAddr> = self.all().flat_map(Forwarding::pointed).collect();
        let flows = flows(|flow| pointed.contains(&flow.destination)).await?;
        // The rest of the set is for new ones.
        let most = usize::try_from(MOST_FLOWS / 2).unwrap_or(usize::MAX);
        Ok(flows.into_iter().take(most).collect())
    }

    fn tell_forwarded(&mut self) {
        let groups = self.written.iter().flat_map(|written| &written.groups);
        let forwarded = groups.map(|group| group.addresses.len()).sum();
        if forwarded != self.forwarded {
            self.forwarded = forwarded;
            self.say(Outcome::Forwarded(forwarded));
        }
    }

    fn note(&mut self, done: Result<Done, NftError>) {
        let fault = match done {
            // Where nothing is kept any more, nothing is wrong with it.
            Ok(Done::Nothing) if self.segments.values().all(|it| it.keeps().is_none()) => None,
            Ok(Done::Nothing) => return,
            Ok(Done::Written) => None,
            Err(error) => Some(with_causes(&error)),
        };
        if fault.is_some() {
            for segment in self.segments.values_mut() {
                segment.give_up_offers();
            }
        }
        if fault != self.fault {
            if let Some(fault) = &fault {
                tracing::warn!(%fault, "connections do not stay with their node");
            }
            self.fault.clone_from(&fault);
            self.say(Outcome::Fault(fault));
        }
    }

    async fn count(&mut self, now: Moment) {
        let mut counts: BTreeMap<IpAddr, u32> = BTreeMap::new();
        for address in self.segments.values().flat_map(Forwarding::counts_for) {
            counts.insert(address, 0);
        }
        if counts.is_empty() {
            return;
        }
        let counted: BTreeSet<IpAddr> = counts.keys().copied().collect();
        match flows(|flow| counted.contains(&flow.destination)).await {
            Ok(flows) => {
                for flow in flows {
                    if let Some(count) = counts.get_mut(&flow.destination) {
                        *count = count.saturating_add(1);
                    }
                }
            }
            Err(error) => {
                tracing::debug!(error = %with_causes(&error), "connections cannot be counted");
                return;
            }
        }
        for (name, segment) in &mut self.segments {
            for (address, count) in &counts {
                segment.counted(*address, *count, now);
            }
            let mut told: BTreeMap<NodeId, Vec<(IpAddr, u32)>> = BTreeMap::new();
            for count in segment.counts(now) {
                let list = told.entry(count.to).or_default();
                list.push((count.address, count.connections));
            }
            for (to, list) in told {
                let _ = self.said.try_send(Outcome::Counts(name.clone(), to, list));
            }
        }
    }
}

/// Whether a set has no room for what is to be added.
const fn is_full(error: &NftError) -> bool {
    matches!(error, NftError::Refused(Errno::ENFILE))
}
