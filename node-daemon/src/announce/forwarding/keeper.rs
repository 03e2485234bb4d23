//! Writes the table, counts connections, and says when an offered address can be taken.

mod work;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use self::work::Work;
use super::conntrack;
use super::messages::{self, Transaction};
use super::state::Device;
use super::table::Flow;
use crate::protocol::mac::Mac;
use crate::protocol::{Awaited, NodeId};
use crate::responder::ConnectionReport;
use crate::vlan::nft::{self, NftError};
use crate::wire::clock;

/// How many outcomes may wait: all addresses of a large segment at once, several times.
const WAITING: usize = 4096;
/// How often to look whether anything has ended.
const LOOK: Duration = Duration::from_secs(1);
/// How often connections are counted: the kernel lists all that it tracks.
const COUNT: Duration = Duration::from_secs(5);
/// How often the kernel is told again: three times before its lease runs out.
const RENEW: Duration = Duration::from_secs(20);

/// Who ends waits no longer: meanwhile nobody answers.
const SAVING: Duration = Duration::from_millis(200);

/// What the keeper is told.
#[derive(Debug)]
pub enum Command {
    /// The segments that there are: the interface of each, and `spec.keepConnections`.
    Configure(BTreeMap<String, (Option<Device>, Duration)>),
    /// The other members of a segment.
    Members(String, BTreeMap<NodeId, Mac>),
    /// What the protocol says.
    Report(String, ConnectionReport),
    /// This node speaks for an address no more.
    Stopped(String, IpAddr),
    /// The process is about to end: it is to be answered once all that was told before is on disk.
    Save(oneshot::Sender<()>),
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These may move now, and whether the kernel does what they wait for.
    Prepared(String, Awaited, Vec<IpAddr>, bool),
    /// What a new speaker is to be told.
    Counts(String, NodeId, Vec<(IpAddr, u32)>),
    /// For how many addresses the kernel passes on.
    Forwarded(usize),
    /// Why connections cannot be kept; `None`: they can.
    Fault(Option<String>),
}

/// Where commands go. It never waits, and none is lost: a node that has missed one could pass on in a circle.
#[derive(Clone, Debug)]
pub struct Keeper(mpsc::UnboundedSender<Command>);

impl Keeper {
    /// The keeper, what it says, and what works as long as it is polled. It ends when the first is dropped. What
    /// the next process has to know is saved in the folder.
    pub fn new(folder: PathBuf) -> (Self, mpsc::Receiver<Outcome>, impl Future<Output = ()>) {
        let (commands, heard) = mpsc::unbounded_channel();
        let (said, outcomes) = mpsc::channel(WAITING);
        (Self(commands), outcomes, keep(folder, heard, said))
    }

    /// Tells it something.
    pub fn tell(&self, command: Command) {
        // One that has ended keeps nothing any more.
        let _ = self.0.send(command);
    }

    /// Waits until all that it was told is on disk, for a moment at most. Whether that was long enough.
    pub async fn saved(&self) -> bool {
        let (saved, is_saved) = oneshot::channel();
        self.tell(Command::Save(saved));
        let in_time = timeout(SAVING, is_saved).await.is_ok();
        if !in_time {
            tracing::warn!("what is known of connections is not saved within {SAVING:?}");
        }
        in_time
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

/// Does them in order.
///
/// # Errors
/// [`NftError`] if the kernel refuses one or does not answer.
pub async fn write_all(transactions: Vec<Transaction>) -> Result<(), NftError> {
    for transaction in transactions {
        write(transaction).await?;
    }
    Ok(())
}

/// The connections that this node tracks, of those that are asked for. It may track a million others.
///
/// # Errors
/// [`NftError`] if the kernel refuses or does not answer.
pub async fn flows(wanted: impl Fn(&Flow) -> bool) -> Result<Vec<Flow>, NftError> {
    let mut flows = Vec::new();
    nft::list(conntrack::GET, &conntrack::question(), |payload| {
        flows.extend(conntrack::read_flow(payload).into_iter().filter(&wanted));
    })
    .await?;
    Ok(flows)
}

async fn keep(
    folder: PathBuf,
    mut heard: mpsc::UnboundedReceiver<Command>,
    said: mpsc::Sender<Outcome>,
) {
    let mut work = Work::new(folder, said);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_ends_is_told_whether_it_is_saved_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, _outcomes, work) = Keeper::new(folder.path().to_owned());
        assert!(!keeper.saved().await, "nobody works");
        tokio::select! {
            in_time = keeper.saved() => assert!(in_time),
            () = work => panic!("the keeper has ended"),
        }
    }
}
