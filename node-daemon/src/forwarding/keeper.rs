//! Writes the table, counts connections, and says when an offered address can be taken.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use mooring_common::errors::with_causes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::conntrack;
use super::messages::{self, Transaction};
use super::state::{Device, Forwarding};
use super::table::{Flow, Group, KERNEL_LEASE, Table};
use crate::protocol::mac::Mac;
use crate::protocol::{Moment, NodeId};
use crate::responder::ConnectionReport;
use crate::vlan::nft::{self, NftError};
use crate::wire::clock;

/// What may wait: all addresses of a large segment at once, several times.
const WAITING: usize = 4096;
/// How often to look whether anything has ended.
const LOOK: Duration = Duration::from_secs(1);
/// How often connections are counted: the kernel lists all that it tracks.
const COUNT: Duration = Duration::from_secs(5);
/// How often the kernel is told again: three times before its lease runs out.
const RENEW: Duration = Duration::from_secs(20);

/// What the keeper is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The segments that there are: the interface of each, and `spec.keepConnections`.
    Configure(BTreeMap<String, (Option<Device>, Duration)>),
    /// The other members of a segment.
    Members(String, BTreeMap<NodeId, Mac>),
    /// What the protocol says.
    Report(String, ConnectionReport),
    /// This node speaks for an address.
    Began(String, IpAddr, Option<NodeId>),
    /// It does no more.
    Stopped(String, IpAddr),
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These may be taken.
    Prepared(String, Vec<IpAddr>),
    /// What a new speaker is to be told.
    Counts(String, NodeId, Vec<(IpAddr, u32)>),
    /// Why connections cannot be kept; `None`: they can.
    Fault(Option<String>),
}

/// Where commands go. It never waits.
#[derive(Clone, Debug)]
pub struct Keeper(mpsc::Sender<Command>);

impl Keeper {
    /// The keeper, what it says, and what works as long as it is polled. It ends when the first is dropped.
    pub fn new() -> (Self, mpsc::Receiver<Outcome>, impl Future<Output = ()>) {
        let (commands, heard) = mpsc::channel(WAITING);
        let (said, outcomes) = mpsc::channel(WAITING);
        (Self(commands), outcomes, keep(heard, said))
    }

    /// Tells it something.
    pub fn tell(&self, command: Command) {
        if let Err(error) = self.0.try_send(command) {
            tracing::warn!(%error, "connections may not stay with their node");
        }
    }
}

/// Takes the table away, for good.
///
/// # Errors
/// [`NftError`] if the kernel refuses or does not answer; not where there is none.
pub async fn clean_up() -> Result<(), NftError> {
    match write(messages::delete()).await {
        Err(NftError::Refused(nix::errno::Errno::ENOENT)) => Ok(()),
        Err(error) if error.is_unsupported() => Ok(()),
        done => done,
    }
}

async fn write(transaction: Transaction) -> Result<(), NftError> {
    nft::transact(transaction.bytes, transaction.last).await
}

/// All connections that this node tracks.
async fn flows() -> Result<Vec<Flow>, NftError> {
    let mut flows = Vec::new();
    nft::list(conntrack::GET, &conntrack::question(), |payload| {
        flows.extend(conntrack::read_flow(payload));
    })
    .await?;
    Ok(flows)
}

async fn keep(mut heard: mpsc::Receiver<Command>, said: mpsc::Sender<Outcome>) {
    let mut work = Work::new(said);
    loop {
        let next = Instant::now() + LOOK;
        tokio::select! {
            biased;
            command = heard.recv() => {
                let Some(command) = command else {
                    return;
                };
                work.take(command, clock::now());
                while let Ok(command) = heard.try_recv() {
                    work.take(command, clock::now());
                }
            }
            () = sleep_until(next), if work.has_something_to_do() => {}
        }
        work.step(clock::now()).await;
    }
}

struct Work {
    said: mpsc::Sender<Outcome>,
    segments: BTreeMap<String, Forwarding>,
    /// What was offered and is not answered.
    offered: Vec<(String, IpAddr)>,
    /// What the kernel has; `None`: whatever the process before has left, until then.
    written: Option<Table>,
    left_until: Moment,
    renew_at: Moment,
    count_at: Moment,
    /// Whether to find out if the kernel can do it at all.
    probe_is_due: bool,
    fault: Option<String>,
}

/// What was done about the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Nothing,
    /// The kernel has taken one.
    Written,
}

impl Work {
    fn new(said: mpsc::Sender<Outcome>) -> Self {
        Self {
            said,
            segments: BTreeMap::new(),
            offered: Vec::new(),
            written: None,
            left_until: clock::now() + KERNEL_LEASE,
            renew_at: Moment::default(),
            count_at: Moment::default(),
            probe_is_due: false,
            fault: None,
        }
    }

    /// Whether time alone may change anything.
    fn has_something_to_do(&self) -> bool {
        let keeps = self
            .segments
            .values()
            .any(|segment| segment.keeps().is_some());
        keeps
            || self
                .written
                .as_ref()
                .is_none_or(|written| !written.is_empty())
    }

    fn say(&self, outcome: Outcome) {
        if let Err(error) = self.said.try_send(outcome) {
            tracing::warn!(%error, "what is known of connections is not told");
        }
    }

    fn take(&mut self, command: Command, now: Moment) {
        match command {
            Command::Configure(segments) => {
                self.probe_is_due = true;
                self.segments.retain(|name, _| segments.contains_key(name));
                for (name, (device, keep_for)) in segments {
                    let segment = self.segments.entry(name).or_default();
                    segment.configure(device, keep_for);
                }
            }
            Command::Members(name, members) => {
                if let Some(segment) = self.segments.get_mut(&name) {
                    segment.set_members(members);
                }
            }
            Command::Began(name, address, former) => {
                if let Some(segment) = self.segments.get_mut(&name) {
                    segment.began(address, former, now);
                }
            }
            Command::Stopped(name, address) => {
                if let Some(segment) = self.segments.get_mut(&name) {
                    segment.stopped(address, None, now);
                }
            }
            Command::Report(name, report) => self.take_report(name, report, now),
        }
    }

    fn take_report(&mut self, name: String, report: ConnectionReport, now: Moment) {
        let Some(segment) = self.segments.get_mut(&name) else {
            return;
        };
        match report {
            ConnectionReport::Offered { address, former } => {
                // Also where nothing is passed on: whoever waits is to go on.
                segment.prepare(address, former, now);
                self.offered.push((name, address));
            }
            ConnectionReport::HandedOn { address, to } => segment.stopped(address, Some(to), now),
            ConnectionReport::Gone(node) => segment.gone(node),
            ConnectionReport::Counted {
                from,
                address,
                connections,
            } => segment.told(from, address, connections, now),
        }
    }

    async fn step(&mut self, now: Moment) {
        for segment in self.segments.values_mut() {
            segment.tick(now);
        }
        let offered = std::mem::take(&mut self.offered);
        let done = self.bring_about(!offered.is_empty(), now).await;
        self.note(done);
        let mut prepared: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for (name, address) in offered {
            prepared.entry(name).or_default().push(address);
        }
        for (name, addresses) in prepared {
            self.say(Outcome::Prepared(name, addresses));
        }
        if now >= self.count_at {
            self.count_at = now + COUNT;
            self.count(now).await;
        }
    }

    /// Writes the table where it is not as it should be, or is to be renewed.
    async fn bring_about(&mut self, with_own: bool, now: Moment) -> Result<Done, NftError> {
        let wanted = Forwarding::table(self.segments.values(), now);
        if wanted.is_empty() {
            let goes = match &self.written {
                Some(written) => !written.is_empty(),
                None => now >= self.left_until,
            };
            if goes {
                if let Err(error) = clean_up().await {
                    tracing::debug!(error = %with_causes(&error), "the table is left to run out");
                }
                self.written = Some(wanted);
            }
            return self.probe().await;
        }
        let before = self.written.as_ref();
        let current = before.is_some_and(|before| !wanted.differs_from(before));
        if current && now < self.renew_at && !with_own {
            return Ok(Done::Nothing);
        }
        let own = if with_own {
            self.own_flows().await?
        } else {
            BTreeSet::new()
        };
        let anew = before.is_none_or(Table::is_empty);
        let nothing = Table::default();
        let transaction = messages::replace(before.unwrap_or(&nothing), &wanted, &own, anew);
        match write(transaction).await {
            Ok(()) => {
                self.written = Some(wanted);
                self.renew_at = now + RENEW;
                Ok(Done::Written)
            }
            Err(error) => {
                // What is there is not what was thought: the next time all is written anew.
                self.written = None;
                self.left_until = now;
                Err(error)
            }
        }
    }

    /// Writes a table for no address, so that a kernel that cannot is known of before anything moves.
    async fn probe(&mut self) -> Result<Done, NftError> {
        let keeping = self.segments.values().find_map(Forwarding::keeps);
        let (Some(device), true, Some(before)) = (keeping, self.probe_is_due, &self.written) else {
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
        write(messages::replace(before, &table, &BTreeSet::new(), true)).await?;
        clean_up().await?;
        Ok(Done::Written)
    }

    /// This node's own connections to what is passed on.
    async fn own_flows(&self) -> Result<BTreeSet<Flow>, NftError> {
        let pointed: BTreeSet<IpAddr> = self
            .segments
            .values()
            .flat_map(Forwarding::pointed)
            .collect();
        let flows = flows().await?.into_iter();
        Ok(flows
            .filter(|flow| pointed.contains(&flow.destination))
            .collect())
    }

    fn note(&mut self, done: Result<Done, NftError>) {
        let fault = match done {
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
        match flows().await {
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
