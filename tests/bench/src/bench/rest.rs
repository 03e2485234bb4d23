//! When all that follows from a change has been done: nobody says so, so that it is seen from outside.
//! And when a program has ended.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::proc::processor_time;
use mooring_cloud_sim::Calls;
use mooring_test_support::process::Process;
use mooring_test_support::wait::try_eventually;

/// Waits until the cloud was not asked for so long. `calls` gives all that it was asked so far.
///
/// # Errors
/// If that is not so within `limit`.
pub(crate) async fn cloud_rests(
    limit: Duration,
    quiet: Duration,
    calls: impl Fn() -> Calls,
) -> Result<()> {
    let rests = try_eventually(limit, async || {
        let calls = calls();
        calls.last().is_none_or(|last| last.at.elapsed() > quiet)
    });
    let rests = rests.await.map_err(anyhow::Error::msg);
    rests.context("the cloud is asked again and again")
}

/// Waits until a program has used less processor time than `at_rest` in each of so many seconds.
///
/// # Errors
/// If that is not so within `limit`, or the program has ended.
pub(crate) async fn program_rests(
    limit: Duration,
    at_rest: Duration,
    seconds: u32,
    pid: u32,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    let mut quiet = 0;
    while quiet < seconds {
        ensure!(Instant::now() < deadline, "central does not come to rest");
        let before = processor_time(pid)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let used = processor_time(pid)?.saturating_sub(before);
        quiet = if used < at_rest { quiet + 1 } else { 0 };
    }
    Ok(())
}

/// Ends a program in good order.
///
/// # Errors
/// If it has not ended within `limit`.
pub(crate) async fn end(program: &Process, limit: Duration) -> Result<()> {
    program.terminate()?;
    let ended = try_eventually(limit, async || !program.is_running()).await;
    ended.map_err(anyhow::Error::msg).context("it does not end")
}
