//! Steps, after each of which is told what the client has lost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::console::{Console, Step};
use super::client::{Client, Lost};

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
        let step = Step::new(name, limit_seconds, CONCERNS);
        self.console
            .run(step, async {
                let since = Instant::now();
                let seen = work.await?;
                let Some(client) = &self.client else {
                    return Ok(((), seen));
                };
                let lost = client.lost_since(since).await?;
                judge(lost)?;
                Ok(((), format!("{lost}; {seen}")))
            })
            .await
    }
}

/// Whose logs to show if a step does not happen.
const CONCERNS: &[&str] = &["kube", "containerd"];

fn judge(lost: Lost) -> Result<()> {
    ensure!(
        lost.lost == 0 && lost.longest == Duration::ZERO,
        "the client: {lost}"
    );
    ensure!(lost.asked > 0, "the client has asked nothing");
    Ok(())
}
