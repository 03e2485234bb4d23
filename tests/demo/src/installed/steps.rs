//! Steps, after each of which is told what the client has lost.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::super::console::{Console, Step};
use super::client::{Client, Lost};
use super::machine::Machine;

/// Who tells the steps, and the client that asks meanwhile.
pub(super) struct Steps<'a> {
    pub(super) console: &'a Console,
    client: Option<Client>,
}

impl<'a> Steps<'a> {
    /// Without a client: nothing serves yet.
    pub(super) fn new(console: &'a Console) -> Self {
        Self {
            console,
            client: None,
        }
    }

    /// The logs of what runs on a machine are shown if a step does not happen.
    pub(super) fn heed(&self, machine: &Machine) {
        let services = machine.services().iter();
        services.for_each(|service| self.console.heed(service));
    }

    /// From now on this client asks.
    pub(super) fn ask(&mut self, client: Client) {
        self.client = Some(client);
    }

    /// Ends the client.
    pub(super) fn stop_asking(&mut self) {
        self.client = None;
    }

    /// Takes a step that costs the client nothing.
    ///
    /// # Errors
    /// If it does not happen in time, or a request of the client is lost.
    pub(super) async fn take(
        &self,
        name: &'static str,
        limit_seconds: u64,
        work: impl Future<Output = Result<String>>,
    ) -> Result<()> {
        self.take_losing(0, name, limit_seconds, work).await
    }

    /// Takes a step in which the address moves to another node: connections through the old one that are
    /// open then are reset.
    ///
    /// # Errors
    /// If it does not happen in time, or more is lost.
    pub(super) async fn take_moving(
        &self,
        name: &'static str,
        limit_seconds: u64,
        work: impl Future<Output = Result<String>>,
    ) -> Result<()> {
        self.take_losing(OPEN_AT_ONCE, name, limit_seconds, work)
            .await
    }

    async fn take_losing(
        &self,
        most: usize,
        name: &'static str,
        limit_seconds: u64,
        work: impl Future<Output = Result<String>>,
    ) -> Result<()> {
        let step = Step::new(name, limit_seconds, CONCERNS);
        self.console
            .run(step, async {
                let since = Instant::now();
                let seen = work.await?;
                let Some(client) = &self.client else {
                    return Ok(((), seen));
                };
                let lost = client.lost_since(since).await?;
                judge(&lost, most)?;
                Ok(((), format!("{lost}; {seen}")))
            })
            .await
    }
}

/// How many connections of the client may be open at one time, on a busy machine too.
const OPEN_AT_ONCE: usize = 2;

/// What the client's kernel says of a connection that was open.
const RESET: &str = "Connection reset by peer";

/// Whose logs to show if a step does not happen.
const CONCERNS: &[&str] = &["kube-"];

fn judge(lost: &Lost, most: usize) -> Result<()> {
    ensure!(lost.lost <= most, "the client: {lost}");
    let is_expected = lost.lost == 0 || lost.why.contains(RESET);
    ensure!(is_expected, "the client: {lost}");
    Ok(())
}
