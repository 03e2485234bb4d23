//! Finding the source: who recognises the machine is asked from then on.
//!
//! **Flow.** The metadata services are asked in a fixed order, again and again, until one recognises
//! the machine or all have said clearly that they do not know it: at a machine's start the network
//! and the service may be late. If all say no, what cloud-init has written counts, and if there is
//! none, the firmware. If some give no clear answer for 15 s, the machine is described in
//! that way for the time being, and the services are asked once a minute.
//!
//! **Guarantees.** A metadata service or cloud-init's file that has been chosen while all others
//! said no is kept for the life of the process. Until anything is chosen, nothing is said.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::errors::with_causes;
use mooring_common::machines::Identity;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::errors::MetadataError;
use super::{MetadataSource, Probe, SourceAnswer};

/// How long the services may be late.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);
/// How long until they are asked again, as long as they may be late.
const PAUSE: Duration = Duration::from_millis(250);
/// How long until they are asked again, from then on.
const REST: Duration = Duration::from_secs(60);

/// What the source can be.
#[derive(Debug)]
pub struct Candidates {
    /// Metadata services, in the order to ask them.
    pub services: Vec<Arc<dyn Probe>>,
    /// What has been written down on the machine.
    pub written: Arc<dyn Probe>,
    /// What every machine has.
    pub last: Arc<dyn MetadataSource>,
}

type Chosen = Option<Arc<dyn MetadataSource>>;

/// The source that is looked for.
#[derive(Debug)]
pub struct FoundSource {
    chosen: watch::Receiver<Chosen>,
}

/// What looks for it.
#[derive(Debug)]
pub struct Search {
    candidates: Candidates,
    chosen: watch::Sender<Chosen>,
}

/// What a round over the services came to.
enum Round {
    /// One recognises the machine.
    Found(Arc<dyn MetadataSource>),
    /// None does.
    Nobody,
    /// Some gave no clear answer.
    Unclear,
}

impl Search {
    /// A search among these, and the source that it finds.
    #[must_use]
    pub fn new(candidates: Candidates) -> (FoundSource, Self) {
        let (sender, chosen) = watch::channel(None);
        let search = Self {
            candidates,
            chosen: sender,
        };
        (FoundSource { chosen }, search)
    }

    /// Searches until a source is found for good, or cancelled. `changed` is raised each time that
    /// another source is asked from now on.
    pub async fn run(self, changed: watch::Sender<u64>, cancel: CancellationToken) {
        let searched = cancel.run_until_cancelled(self.search(&changed));
        if searched.await.is_some() {
            // Whoever waits for changes need not know that there will be none.
            changed.closed().await;
        }
    }

    async fn search(&self, changed: &watch::Sender<u64>) {
        let start = Instant::now();
        loop {
            let round = self.round().await;
            let late = start.elapsed() >= SEARCH_TIMEOUT;
            match round {
                Round::Found(source) => {
                    tracing::info!(source = source.name(), "metadata source found");
                    return self.choose(source, changed);
                }
                Round::Nobody => {
                    if let Some(source) = self.written().await {
                        tracing::info!(source = source.name(), "metadata source found");
                        return self.choose(source, changed);
                    }
                    let last = self.candidates.last.clone();
                    self.make_do(last, "no metadata service knows this machine", changed);
                }
                Round::Unclear if late => {
                    let last = || self.candidates.last.clone();
                    let source = self.written().await.unwrap_or_else(last);
                    self.make_do(source, "no metadata service answers", changed);
                }
                Round::Unclear => {}
            }
            let decided = self.chosen.borrow().is_some();
            sleep(if decided { REST } else { PAUSE }).await;
        }
    }

    async fn round(&self) -> Round {
        let mut unclear = false;
        for service in &self.candidates.services {
            match service.recognises().await {
                Ok(true) => return Round::Found(service.clone()),
                Ok(false) => tracing::debug!(source = service.name(), "not this cloud"),
                Err(error) => {
                    unclear = true;
                    let (source, error_text) = (service.name(), with_causes(&error));
                    tracing::debug!(source, error = error_text, "no clear answer");
                    if error.is_unreachable() {
                        break; // They are all at one endpoint.
                    }
                }
            }
        }
        if unclear {
            Round::Unclear
        } else {
            Round::Nobody
        }
    }

    async fn written(&self) -> Option<Arc<dyn MetadataSource>> {
        let written = &self.candidates.written;
        match written.recognises().await {
            Ok(true) => Some(written.clone()),
            Ok(false) => None,
            Err(error) => {
                let (source, error_text) = (written.name(), with_causes(&error));
                tracing::debug!(source, error = error_text, "cannot be used");
                None
            }
        }
    }

    /// Takes this until a service answers, unless that has been done.
    fn make_do(&self, source: Arc<dyn MetadataSource>, why: &str, changed: &watch::Sender<u64>) {
        if self.chosen.borrow().is_none() {
            let name = source.name();
            tracing::info!(
                source = name,
                why,
                "this machine is described without a service"
            );
            self.choose(source, changed);
        }
    }

    fn choose(&self, source: Arc<dyn MetadataSource>, changed: &watch::Sender<u64>) {
        self.chosen.send_replace(Some(source));
        changed.send_modify(|generation| *generation += 1);
    }
}

#[async_trait]
impl MetadataSource for FoundSource {
    /// What is asked, or `auto` as long as that is not known.
    fn name(&self) -> &'static str {
        let chosen = self.chosen.borrow();
        chosen.as_ref().map_or("auto", |source| source.name())
    }

    /// Waits until it is known whom to ask.
    async fn facts(&self, node: &Identity) -> Result<SourceAnswer, MetadataError> {
        let mut chosen = self.chosen.clone();
        let chosen = match chosen.wait_for(Option::is_some).await {
            Ok(chosen) => chosen.clone(),
            Err(_) => None,
        };
        match chosen {
            Some(source) => source.facts(node).await,
            None => Err(MetadataError::Searching),
        }
    }
}

#[cfg(test)]
mod tests;
