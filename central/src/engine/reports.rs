//! Events about the cluster, each reported again only after an hour while it holds.

use std::collections::HashMap;
use std::time::Duration;

use mooring_common::k8s::EventKind;
use tokio::time::Instant;

use crate::cloud_provider::load_balancers::CollectorContext;

/// After how long is reported again what still holds.
const AGAIN: Duration = Duration::from_secs(3600);

/// What was reported, and when.
#[derive(Debug, Default)]
pub struct Reports(HashMap<String, Instant>);

impl Reports {
    /// Reports a Warning, unless it was reported within the last hour.
    pub async fn warn(
        &mut self,
        context: &dyn CollectorContext,
        reason: &'static str,
        note: String,
    ) {
        let now = Instant::now();
        self.0.retain(|_, at| now - *at < AGAIN);
        if self.0.contains_key(&note) {
            return;
        }
        tracing::warn!("{note}");
        context.report(EventKind::Warning, reason, &note).await;
        self.0.insert(note, now);
    }
}
