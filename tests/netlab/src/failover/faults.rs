//! The faults that are measured again and again, each from beginning to end.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{FailoverCluster, Seen, Watch};
use crate::netlab::Direction;
use mooring_test_support::process::Process;
use mooring_test_support::wait::try_eventually;

/// How long is watched after a fault at least: longer than any wrong answer takes to come.
const AFTER: Duration = Duration::from_millis(1500);

/// When is given up that all be well again.
const LIMIT: Duration = Duration::from_secs(20);

/// How often more than asked for is tried when the machine does not let the rig keep time.
const MORE: usize = 3;

/// A fault that is over again: what was seen of it.
pub type Fault =
    for<'a> fn(&'a mut FailoverCluster) -> futures::future::LocalBoxFuture<'a, Result<Seen>>;

/// Lets something fail until it has been measured so many times by a rig that kept time, and restores
/// the cluster each time. What must never be is asserted each time.
///
/// # Errors
/// If the cluster fails, or the machine is too busy to measure anything on it.
pub async fn repeat(
    cluster: &mut FailoverCluster,
    times: usize,
    fault: Fault,
) -> Result<Vec<Seen>> {
    until_measured(times, async || {
        let seen = fault(cluster).await?;
        println!("{seen}");
        seen.assert_safe();
        cluster.restore().await?;
        Ok(seen)
    })
    .await
}

/// Lets something be seen until a rig that kept time has seen it so many times.
///
/// # Errors
/// If it fails, or the machine is too busy.
pub async fn until_measured(
    times: usize,
    mut see: impl AsyncFnMut() -> Result<Seen>,
) -> Result<Vec<Seen>> {
    let mut all = Vec::new();
    for _ in 0..times * (1 + MORE) {
        let seen = see().await?;
        if seen.counts() {
            all.push(seen);
        }
        if all.len() == times {
            return Ok(all);
        }
    }
    bail!(
        "the machine is too busy: of {times} wanted, {} count",
        all.len()
    )
}

/// Waits for a moment.
pub async fn until(moment: Instant) {
    let limit = moment.saturating_duration_since(Instant::now()) + LIMIT;
    // It comes.
    let _ = try_eventually(limit, async || Instant::now() >= moment).await;
}

impl FailoverCluster {
    /// All clients at work, and who speaks.
    ///
    /// # Errors
    /// If all is not well.
    pub async fn watch_speaker(&self) -> Result<(Watch, String)> {
        let watch = self.watch().await?;
        let speaker = watch.speaker(Duration::from_millis(200));
        let name = self.name_of(speaker.context("nobody, or more than one, speaks")?);
        Ok((watch, name))
    }

    /// The speaker's node crashes.
    ///
    /// # Errors
    /// As all of these: if the clients are not well before, or the fault cannot be made.
    pub async fn suffer_crash(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        self.crash(&speaker)?;
        watch.settle(AFTER, LIMIT).await;
        Ok(watch.end(self))
    }

    /// The speaker's cable is pulled.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_cable(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        self.port(&speaker).pull()?;
        watch.settle(AFTER, LIMIT).await;
        Ok(watch.end(self))
    }

    /// All cables are plugged in again, and where nothing was wrong all stays as it is.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_plug(&mut self) -> Result<Seen> {
        let (mut watch, _) = self.watch_speaker().await?;
        watch.begin();
        for name in self.members() {
            self.port(name).plug()?;
        }
        watch.settle(AFTER * 3, LIMIT).await;
        Ok(watch.end(self))
    }

    /// The speaker's daemon is killed and stays dead.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_kill(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        self.kill(&speaker);
        watch.settle(AFTER * 2, LIMIT).await;
        Ok(watch.end(self))
    }

    /// The speaker's daemon is killed, and started again after a second.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_kill_and_restart(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        self.kill(&speaker);
        until(watch.began() + Duration::from_secs(1)).await;
        self.start_daemon(&speaker)?;
        watch.settle(AFTER * 3, LIMIT).await;
        Ok(watch.end(self))
    }

    /// The speaker's daemon stands still for 10 s.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_pause(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        let daemon = self.daemons.get(&speaker).context("it runs")?;
        watch.begin();
        daemon.freeze()?;
        until(watch.began() + Duration::from_secs(10)).await;
        daemon.thaw()?;
        watch
            .settle(Duration::from_secs(10) + AFTER * 2, LIMIT)
            .await;
        Ok(watch.end(self))
    }

    /// The speaker's daemon is told to end, and does.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_terminate(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        self.terminate(&speaker).await?;
        watch.settle(AFTER, LIMIT).await;
        Ok(watch.end(self))
    }

    /// All daemons are restarted, one after the other.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_rolling_restart(&mut self) -> Result<Seen> {
        let (mut watch, _) = self.watch_speaker().await?;
        watch.begin();
        let names: Vec<String> = self.daemons.keys().cloned().collect();
        for name in names {
            self.terminate(&name).await?;
            self.start_daemon(&name)?;
            self.members_take_part().await?;
            // The voice goes back to a node whose daemon has returned.
            watch.is_well(Duration::from_millis(500), LIMIT).await?;
        }
        watch.settle(AFTER, LIMIT).await;
        Ok(watch.end(self))
    }

    /// A new daemon starts on the speaker's node beside the old one, which is then told to end: what
    /// `maxSurge: 1` does.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_upgrade(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        let waited = |daemon: &Process| daemon.log().matches("waiting until it ends").count();
        // The daemons of a node write to one log.
        let before = self.daemons.get(&speaker).map_or(0, waited);
        watch.begin();
        let new = self.new_daemon(&speaker)?;
        // A Pod is ready then.
        let waits = async || waited(&new) > before;
        if try_eventually(LIMIT, waits).await.is_err() {
            bail!(
                "the new daemon does not wait for the old one:\n{}",
                new.log_tail()
            );
        }
        // In short what the DaemonSet's minReadySeconds waits.
        until(Instant::now() + Duration::from_secs(2)).await;
        let old = self
            .daemons
            .insert(speaker.clone(), new)
            .context("it ran")?;
        old.terminate()?;
        old.wait_for_exit(LIMIT).await;
        watch.settle(AFTER * 3, LIMIT).await;
        let runs = self.daemons.get(&speaker).is_some_and(Process::is_running);
        if !runs {
            bail!("the new daemon on {speaker} has ended");
        }
        Ok(watch.end(self))
    }

    /// The speaker's node is excluded from load balancers.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_drain(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        self.move_away(&watch, &speaker).await?;
        // The whole burst, and connections have had their turn on the new way.
        watch.settle(AFTER * 2, LIMIT).await;
        Ok(watch.end(self))
    }

    /// Excludes the speaker's node from load balancers, and waits until another one speaks. Gives that one.
    ///
    /// # Errors
    /// If it goes on to speak.
    pub async fn move_away(&mut self, watch: &Watch, speaker: &str) -> Result<String> {
        self.exclude(speaker).await?;
        let moved = try_eventually(LIMIT, async || {
            let now = self.name_of(watch.speaker(Duration::from_millis(100))?);
            (now != speaker).then_some(now)
        });
        let Ok(now) = moved.await else {
            bail!("{speaker} goes on to speak though its node is excluded");
        };
        Ok(now)
    }

    /// The segment, which is not the node network here, passes nothing of the speaker's any more; its
    /// link stays up.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_dead_segment(&mut self) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        self.port(&speaker).lose_all(Direction::Sends)?;
        self.port(&speaker).lose_all(Direction::Receives)?;
        watch.settle(AFTER, LIMIT).await;
        Ok(watch.end(self))
    }

    /// The API server is dead for so long. It is back at the end, but for whom it takes longer.
    ///
    /// # Errors
    /// See [`Self::suffer_crash`].
    pub async fn suffer_api_outage(&mut self, span: Duration) -> Result<Seen> {
        let (mut watch, _) = self.watch_speaker().await?;
        watch.begin();
        self.netlab.stop_api_server();
        watch.settle(span, LIMIT).await;
        // What its return brings is part of it.
        self.netlab.start_api_server().await?;
        let back = watch.began().elapsed();
        watch.settle(back + AFTER * 2, LIMIT).await;
        Ok(watch.end(self))
    }
}
