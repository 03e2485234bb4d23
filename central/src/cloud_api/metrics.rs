//! What is counted of the requests to clouds.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::TokenTimes;

/// One registration for all clouds; clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    duration: Family<OperationLabels, Histogram>,
    wait: Family<ProviderLabels, Histogram>,
    token_changed: Family<ProviderLabels, Gauge>,
    token_expires: Family<ProviderLabels, Gauge>,
    calls: Option<Calls>,
}

/// Whole calls, as a Go controller counts them: a listing is one, and so is a request that is sent again
/// with another token.
#[derive(Clone, Debug)]
struct Calls {
    counter: Family<CallLabels, Counter>,
    method: fn(&str) -> String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    provider: &'static str,
    operation: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    provider: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProviderLabels {
    provider: &'static str,
}

fn durations() -> Histogram {
    Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
}

fn waits() -> Histogram {
    Histogram::new([0.001, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
}

impl Metrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            duration: Family::new_with_constructor(durations as fn() -> Histogram),
            wait: Family::new_with_constructor(waits as fn() -> Histogram),
            token_changed: Family::default(),
            token_expires: Family::default(),
            calls: None,
        };
        registry.register(
            "mooring_cloud_requests",
            "Requests to a cloud, by what was asked and what came of it",
            metrics.requests.clone(),
        );
        registry.register(
            "mooring_cloud_request_duration_seconds",
            "How long a cloud took to answer",
            metrics.duration.clone(),
        );
        registry.register(
            "mooring_cloud_limiter_wait_seconds",
            "How long requests waited for their turn, by --cloud-api-qps and the cloud's word",
            metrics.wait.clone(),
        );
        registry.register(
            "mooring_cloud_token_changed_timestamp_seconds",
            "When the file with the token in use was last written, in seconds since 1970",
            metrics.token_changed.clone(),
        );
        registry.register(
            "mooring_cloud_token_expiry_timestamp_seconds",
            "When the token in use expires, in seconds since 1970, where the cloud says so",
            metrics.token_expires.clone(),
        );
        metrics
    }

    /// Counts whole calls besides, by a name that a Go controller gave the counter. `method` makes its name
    /// of a call from ours.
    #[must_use]
    pub fn with_calls(
        mut self,
        registry: &mut Registry,
        name: &'static str,
        method: fn(&str) -> String,
    ) -> Self {
        let counter = Family::default();
        let help = "Calls of the cloud, each counted once however many requests it took";
        registry.register(name, help, counter.clone());
        self.calls = Some(Calls { counter, method });
        self
    }

    /// A whole call has ended.
    pub(super) fn called(&self, operation: &'static str, succeeded: bool) {
        let Some(calls) = &self.calls else { return };
        let labels = CallLabels {
            method: (calls.method)(operation),
            result: if succeeded { "ok" } else { "error" },
        };
        calls.counter.get_or_create(&labels).inc();
    }

    /// This token is in use.
    pub(super) fn uses_token(&self, provider: &'static str, times: TokenTimes) {
        for (family, time) in [
            (&self.token_changed, times.changed),
            (&self.token_expires, times.expires),
        ] {
            if let Some(time) = time {
                family.get_or_create(&ProviderLabels { provider }).set(time);
            }
        }
    }

    /// A request was sent and has ended.
    pub fn ended(
        &self,
        provider: &'static str,
        operation: &'static str,
        result: &'static str,
        took: Duration,
    ) {
        self.counted(provider, operation, result);
        self.duration
            .get_or_create(&OperationLabels {
                provider,
                operation,
            })
            .observe(took.as_secs_f64());
    }

    /// A request has ended, or was never sent.
    pub(super) fn counted(
        &self,
        provider: &'static str,
        operation: &'static str,
        result: &'static str,
    ) {
        self.requests
            .get_or_create(&RequestLabels {
                provider,
                operation,
                result,
            })
            .inc();
    }

    /// A request waited for its turn.
    pub(super) fn waited(&self, provider: &'static str, wait: Duration) {
        self.wait
            .get_or_create(&ProviderLabels { provider })
            .observe(wait.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_of_a_token_what_is_known() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.uses_token("linode", TokenTimes::default());
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(!text().contains("linode"), "{}", text());
        let times = TokenTimes {
            changed: Some(5),
            expires: Some(7),
        };
        metrics.uses_token("linode", times);
        for line in [
            "mooring_cloud_token_changed_timestamp_seconds{provider=\"linode\"} 5",
            "mooring_cloud_token_expiry_timestamp_seconds{provider=\"linode\"} 7",
        ] {
            assert!(text().contains(line), "{}", text());
        }
    }
}
