//! Services that are to have an address and have none: how many, why, and since when. Counted by the leader,
//! after each pass over a Service.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooring_common::engine::Outcome;
use mooring_common::k8s::ObjectKey;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::Failure;
use crate::cloud_api::ErrorKind;
use crate::views::service_view::ServiceView;

/// Why a Service has no address: the values of the label `reason`, of which there are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Nothing is known to be in its way.
    Pending,
    /// The cloud needs time.
    InProgress,
    /// What it asks for cannot be understood.
    Invalid,
    /// It can be understood, and is not done.
    Refused,
    /// No L2Network has it for the Service: [`crate::controllers::address_pool::Unavailable::label`].
    Unavailable(&'static str),
    /// The cloud did not do it.
    Cloud(ErrorKind),
    /// The API server did not.
    ApiServer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("pending"),
            Self::InProgress => f.write_str("in_progress"),
            Self::Invalid => f.write_str("invalid"),
            Self::Refused => f.write_str("refused"),
            Self::Unavailable(label) => f.write_str(label),
            Self::Cloud(kind) => write!(f, "cloud_{}", kind.label()),
            Self::ApiServer => f.write_str("api_server"),
        }
    }
}

impl Reason {
    /// What an outcome says by itself. `None`: the Service is another's.
    fn of(outcome: &Outcome<Failure>) -> Option<Self> {
        Some(match outcome {
            Outcome::NotOurs(_) => return None,
            Outcome::Done | Outcome::DoneFor(_) => Self::Pending,
            Outcome::RetryAfter(_) | Outcome::Yield => Self::InProgress,
            Outcome::WaitForChange(_) => Self::Refused,
            Outcome::Backoff(failure) | Outcome::BackoffAnew(failure) => match failure {
                Failure::Cloud(error) => Self::Cloud(error.kind),
                Failure::Unavailable(why) => Self::Unavailable(why.label()),
                Failure::NotLeading(_) | Failure::Stopped(_) | Failure::Gone => Self::Pending,
                Failure::Api(_) | Failure::Conflict | Failure::Patch(_) | Failure::Cluster(_) => {
                    Self::ApiServer
                }
            },
        })
    }
}

/// What is known of a Service that is to have an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Served,
    /// Since then, in seconds since 1970.
    Waiting {
        since: i64,
        reason: Reason,
    },
}

#[derive(Debug, Default)]
struct State {
    services: HashMap<ObjectKey, Standing>,
    /// What the pass under way has met.
    met: HashMap<ObjectKey, Reason>,
}

/// All Services that are to have an address of ours. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct WithoutAddress {
    state: Arc<Mutex<State>>,
}

impl WithoutAddress {
    /// What is in the way of a Service, for the end of the pass that is under way.
    pub(super) fn meets(&self, key: &ObjectKey, reason: Reason) {
        self.state().met.insert(key.clone(), reason);
    }

    /// A pass over a Service has ended. `service`: as it is now, if it is ours to serve. `now` is in seconds
    /// since 1970.
    pub(super) fn passed(
        &self,
        key: &ObjectKey,
        service: Option<&ServiceView>,
        outcome: &Outcome<Failure>,
        now: i64,
    ) {
        let mut state = self.state();
        let met = state.met.remove(key);
        let service = service.filter(|service| service.wants_load_balancer());
        let (Some(service), Some(by_outcome)) = (service, Reason::of(outcome)) else {
            state.services.remove(key);
            return;
        };
        let standing = if !service.ingress.is_empty() {
            Standing::Served
        } else {
            let since = match state.services.get(key) {
                Some(Standing::Waiting { since, .. }) => *since,
                Some(Standing::Served) => now,
                None => service.created,
            };
            let reason = met.unwrap_or(by_outcome);
            Standing::Waiting { since, reason }
        };
        state.services.insert(key.clone(), standing);
    }

    /// By reason: how many, and since when the oldest of them waits.
    fn by_reason(&self) -> BTreeMap<String, (i64, i64)> {
        let mut all = BTreeMap::new();
        for standing in self.state().services.values() {
            if let Standing::Waiting { since, reason } = *standing {
                let entry = all.entry(reason.to_string()).or_insert((0, since));
                entry.0 += 1;
                entry.1 = since.min(entry.1);
            }
        }
        all
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: String,
}

impl Collector for WithoutAddress {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.by_reason();
        let mut put = |name, help, value: fn((i64, i64)) -> i64| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (reason, known) in &all {
                let reason = reason.clone();
                let labels = ReasonLabels { reason };
                ConstGauge::new(value(*known)).encode(metric.encode_family(&labels)?)?;
            }
            Ok::<(), fmt::Error>(())
        };
        put(
            "mooring_services_without_address",
            "Services that are to have an address and have none, by reason",
            |(count, _)| count,
        )?;
        put(
            "mooring_services_without_address_oldest_timestamp_seconds",
            "Since when the first of these Services has had no address, in seconds since 1970",
            |(_, since)| since,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud_api::CloudError;
    use crate::views::service_view::Ingress;
    use crate::views::service_view::tests::service;

    fn waiting(created: i64) -> ServiceView {
        ServiceView {
            created,
            ingress: Vec::new(),
            is_load_balancer: true,
            ..service()
        }
    }

    fn text(all: &WithoutAddress) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register_collector(Box::new(all.clone()));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn counts_by_reason_and_forgets_the_served_and_the_gone() {
        let all = WithoutAddress::default();
        let (old, new) = (ObjectKey::new("a", "old"), ObjectKey::new("a", "new"));
        let refused = Outcome::WaitForChange("no".to_owned());
        all.meets(&old, Reason::Unavailable("no_free_address"));
        all.passed(&old, Some(&waiting(100)), &refused, 500);
        all.meets(&new, Reason::Unavailable("no_free_address"));
        all.passed(&new, Some(&waiting(200)), &refused, 500);
        let both = "mooring_services_without_address{reason=\"no_free_address\"} 2";
        let oldest = "mooring_services_without_address_oldest_timestamp_seconds{reason=\"no_free_address\"} 100";
        assert!(
            text(&all).contains(both) && text(&all).contains(oldest),
            "{}",
            text(&all)
        );
        let served = ServiceView {
            ingress: vec![Ingress::vip("192.0.2.1".to_owned())],
            ..waiting(100)
        };
        all.passed(&old, Some(&served), &Outcome::Done, 600);
        let one = "mooring_services_without_address{reason=\"no_free_address\"} 1";
        assert!(text(&all).contains(one), "{}", text(&all));
        all.passed(&new, None, &Outcome::Done, 600);
        assert!(!text(&all).contains("reason="), "{}", text(&all));
    }

    #[test]
    fn lost_address_counts_from_its_loss() {
        let all = WithoutAddress::default();
        let key = ObjectKey::new("a", "web");
        let served = ServiceView {
            ingress: vec![Ingress::vip("192.0.2.1".to_owned())],
            ..waiting(100)
        };
        all.passed(&key, Some(&served), &Outcome::Done, 500);
        let error = CloudError::new("linode", ErrorKind::Unauthorized, "no");
        let failed = Outcome::Backoff(error.into());
        all.passed(&key, Some(&waiting(100)), &failed, 700);
        all.passed(&key, Some(&waiting(100)), &failed, 800);
        let expected = BTreeMap::from([("cloud_unauthorized".to_owned(), (1, 700))]);
        assert_eq!(all.by_reason(), expected);
        let elsewhere = Outcome::NotOurs("another's".to_owned());
        all.passed(&key, Some(&waiting(100)), &elsewhere, 900);
        assert_eq!(all.by_reason(), BTreeMap::new());
    }

    #[test]
    fn what_a_pass_met_counts_for_that_pass_alone() {
        let all = WithoutAddress::default();
        let key = ObjectKey::new("a", "web");
        let again = || Outcome::RetryAfter(std::time::Duration::from_secs(1));
        all.meets(&key, Reason::Cloud(ErrorKind::RateLimited));
        all.passed(&key, Some(&waiting(1)), &again(), 5);
        assert!(all.by_reason().contains_key("cloud_rate_limited"));
        all.passed(&key, Some(&waiting(1)), &again(), 6);
        assert!(all.by_reason().contains_key("in_progress"));
        // A Service that is being deleted waits for nothing.
        let deleting = ServiceView {
            deleting: true,
            ..waiting(1)
        };
        all.passed(&key, Some(&deleting), &again(), 7);
        assert_eq!(all.by_reason(), BTreeMap::new());
    }
}
