//! What is done as the pages say causes no warning: neither in a log nor as an Event.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use mooring_common::names::components;

use super::Reader;

/// Who reports Mooring's Events.
const REPORTERS: [&str; 8] = [
    components::NODE,
    components::NODE_LIFECYCLE,
    components::SERVICE,
    components::ROUTE,
    components::NODE_IPAM,
    components::ADDRESS_POOL,
    components::CENTRAL,
    components::NODE_DAEMON,
];

impl Reader<'_> {
    /// Mooring has warned of nothing since then.
    pub(super) async fn is_quiet(&self, step: &'static str, since: Timestamp) -> Result<()> {
        self.steps
            .take(step, 60, async {
                let lines = self.logs.since(since).await?;
                let mut loud: Vec<String> = lines
                    .iter()
                    .filter(|line| line.is_loud())
                    .map(|line| format!("{}: {}", line.pod, line.text))
                    .collect();
                let events = Api::<Event>::all(self.installation.admin.clone());
                let warnings = ListParams::default().fields("type=Warning");
                let events = events.list(&warnings).await?.items;
                loud.extend(events.iter().filter_map(|event| warning(event, since)));
                ensure!(
                    loud.is_empty(),
                    "warnings and errors without a cause:\n{}",
                    loud.join("\n")
                );
                let pods: BTreeSet<&str> = lines.iter().map(|line| line.pod.as_str()).collect();
                let (lines, pods) = (lines.len(), pods.len());
                Ok(format!(
                    "{lines} lines of {pods} Pods without a WARN or ERROR, and no Warning Event"
                ))
            })
            .await
    }
}

/// A Warning of Mooring's about an object since then, in words.
fn warning(event: &Event, since: Timestamp) -> Option<String> {
    let source = event.source.as_ref();
    let reporter = source.and_then(|source| source.component.as_deref())?;
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    // Kubernetes counts in seconds.
    let is_new = last.is_none_or(|last| last.as_second() >= since.as_second());
    let is_warning = event.type_.as_deref() == Some("Warning");
    (is_new && is_warning && REPORTERS.contains(&reporter)).then(|| {
        let about = &event.involved_object;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        format!(
            "Event of {reporter} about {} {}: {}: {}",
            text(&about.kind),
            text(&about.name),
            text(&event.reason),
            text(&event.message)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn event(type_: &str, component: &str, last: &str) -> Event {
        let event: Value = json!({
            "metadata": {},
            "involvedObject": {"kind": "Service", "name": "web"},
            "source": {"component": component},
            "type": type_,
            "reason": "NoAddress",
            "message": "there is none",
            "lastTimestamp": last,
        });
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn only_new_warnings_of_mooring_count() {
        let since: Timestamp = "2026-11-28T10:00:00.9Z".parse().unwrap();
        let at = ["2026-11-28T09:59:59Z", "2026-11-28T10:00:00Z"];
        for (type_, component, last, counts) in [
            ("Warning", components::SERVICE, at[1], true),
            ("Warning", components::SERVICE, at[0], false),
            ("Normal", components::SERVICE, at[1], false),
            ("Warning", "kubelet", at[1], false),
        ] {
            let warning = warning(&event(type_, component, last), since);
            assert_eq!(warning.is_some(), counts, "{type_} {component} {last}");
        }
        assert_eq!(
            warning(&event("Warning", components::SERVICE, at[1]), since).unwrap(),
            "Event of service-controller about Service web: NoAddress: there is none"
        );
    }
}
