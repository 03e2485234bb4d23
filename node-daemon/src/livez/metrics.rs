//! What is counted about health checks.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::response::StatusCode;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: u16,
}

/// The metrics of health checks. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    healthy: Counter,
    unhealthy: Counter,
    others: Family<CodeLabel, Counter>,
}

impl Metrics {
    /// Makes the metrics and enters them into a registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let answers = Family::<CodeLabel, Counter>::default();
        // The two that there are many of are looked up once.
        let of = |code| answers.get_or_create(&CodeLabel { code }).clone();
        let metrics = Self {
            healthy: of(StatusCode::Ok.number()),
            unhealthy: of(StatusCode::Unavailable.number()),
            others: answers.clone(),
        };
        registry.register(
            "mooring_health_checks",
            "Health checks that were answered, by the answer's status",
            answers,
        );
        metrics
    }

    pub(super) fn count(&self, status: StatusCode) {
        match status {
            StatusCode::Ok => self.healthy.inc(),
            StatusCode::Unavailable => self.unhealthy.inc(),
            other => {
                let label = CodeLabel {
                    code: other.number(),
                };
                self.others.get_or_create(&label).inc()
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_status() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        for status in [StatusCode::Ok, StatusCode::Ok, StatusCode::NotFound] {
            metrics.count(status);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "mooring_health_checks_total{code=\"200\"} 2",
            "mooring_health_checks_total{code=\"404\"} 1",
            "mooring_health_checks_total{code=\"503\"} 0",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
