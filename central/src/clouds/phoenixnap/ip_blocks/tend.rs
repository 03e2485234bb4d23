//! Blocks that are nobody's any more: out of the network that they are really in, and back.

use std::time::Duration;

use mooring_common::names::reasons;
use tokio::time::{Instant, sleep};

use super::super::model::BlockStatus;
use super::Shared;
use super::apply::Taken;
use super::memory::{Memory, POLL};
use super::ownership::{Owned, Owner};
use super::plan::{Disposal, dispose};
use crate::clouds::load_balancers::{Attendant, Setback};

/// After how long is looked for them although nothing has called for it.
const REGULARLY: Duration = Duration::from_secs(300);
/// After how long is tried again what has failed.
pub(super) const AFTER_FAILURE: Duration = Duration::from_secs(15);

impl Shared {
    /// Gives back what is marked, for as long as it is polled.
    pub(super) async fn tend(&self, attendant: &dyn Attendant) {
        loop {
            let pause = match self.round(attendant).await {
                Ok(pause) => pause,
                Err(Setback::Stopped(_)) => AFTER_FAILURE,
                Err(error) => {
                    tracing::warn!(%error, "cannot look after IP blocks, will retry");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.untended.notified() => {}
            }
        }
    }

    /// One look at all of them; when to look again.
    pub(super) async fn round(&self, attendant: &dyn Attendant) -> Result<Duration, Setback> {
        attendant.before_write()?;
        let mut memory = self.memory().await;
        let steady = memory.fresh_since;
        let recent = Instant::now()
            .checked_sub(POLL)
            .unwrap_or(steady)
            .max(steady);
        self.list(&mut memory, recent).await?;
        let blocks = memory.blocks.as_ref().map_or(&[][..], |(blocks, _)| blocks);
        let marked: Vec<Owned> = blocks.to_vec();
        let did_not_arrive = |owned: &Owned| {
            owned.owner == Owner::Marked && owned.block.status == BlockStatus::ErrorAssigning
        };
        if marked.iter().any(did_not_arrive) {
            self.look_at_network(&mut memory, recent).await?;
        }
        let mut pause = REGULARLY;
        for owned in &marked {
            let network = memory.network.as_ref().map(|(network, _)| network);
            let Some(disposal) = dispose(owned, network) else {
                continue;
            };
            let disposed = self.dispose(&mut memory, disposal, attendant).await;
            match disposed {
                Ok(Disposed::Gone) => memory.freed = 2,
                Ok(Disposed::Goes(after)) => pause = pause.min(after),
                Err(Setback::Stopped(stop)) => return Err(stop.into()),
                Err(error) => {
                    let note = format!(
                        "The IP block {} ({}) cannot be given back yet: {error}",
                        owned.block.id, owned.block.cidr
                    );
                    self.tell(&mut memory, attendant, reasons::IP_BLOCK_STUCK, note)
                        .await;
                    pause = pause.min(AFTER_FAILURE);
                }
            }
        }
        if let Some(again) = self.look_for_surplus(&mut memory, attendant).await? {
            pause = pause.min(again);
        }
        self.write_segment(&mut memory, attendant).await?;
        self.write_peers(&mut memory, attendant).await?;
        if memory.network.is_some() {
            self.look_at_network(&mut memory, steady).await?;
            if let Some(again) = self.look_after_members(&mut memory, attendant).await? {
                pause = pause.min(again);
            }
        }
        let is_room = memory.freed > 0;
        memory.freed = memory.freed.saturating_sub(1);
        drop(memory);
        if is_room {
            attendant.freed();
            pause = pause.min(POLL);
        }
        Ok(pause)
    }

    async fn dispose(
        &self,
        memory: &mut Memory,
        disposal: Disposal,
        attendant: &dyn Attendant,
    ) -> Result<Disposed, Setback> {
        let step = match disposal {
            Disposal::Wait => return Ok(Disposed::Goes(POLL)),
            Disposal::Stuck(why) => {
                self.tell(memory, attendant, reasons::IP_BLOCK_STUCK, why)
                    .await;
                return Ok(Disposed::Goes(REGULARLY));
            }
            Disposal::Take(step) => step,
        };
        match self.take(memory, &step, attendant).await? {
            Taken::Done => {
                tracing::info!("{step}");
                let is_released = matches!(step, super::step::Step::Release { .. });
                Ok(match is_released {
                    true => Disposed::Gone,
                    false => Disposed::Goes(POLL),
                })
            }
            Taken::Later(after, _) => Ok(Disposed::Goes(after)),
            Taken::LookAgain => Ok(Disposed::Goes(POLL)),
        }
    }
}

/// How far a block has come.
enum Disposed {
    Gone,
    Goes(Duration),
}
