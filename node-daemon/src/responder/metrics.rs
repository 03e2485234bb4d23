//! What is counted about announcing.

mod segments;

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;

use mooring_common::metrics::OptionalGauge;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use self::segments::{DropLabels, MemberLabels, PathLabels, SegmentMetrics, TransitionLabels};

/// One address on one segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct AddressLabels {
    /// The L2Network's name.
    pub segment: String,
    /// The address.
    pub ip: String,
}

impl AddressLabels {
    /// Labels of an address.
    #[must_use]
    pub fn new(segment: &str, address: IpAddr) -> Self {
        Self {
            segment: segment.to_owned(),
            ip: address.to_string(),
        }
    }
}

/// Why something became so on a segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CauseLabels {
    /// The L2Network's name.
    pub segment: String,
    /// Why.
    pub reason: &'static str,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SegmentLabels {
    /// The L2Network's name.
    pub segment: String,
}

impl SegmentLabels {
    /// Labels of a segment.
    #[must_use]
    pub fn new(segment: &str) -> Self {
        Self {
            segment: segment.to_owned(),
        }
    }
}

/// Counts per segment of one protocol.
#[derive(Clone, Debug, Default)]
pub struct ProtocolMetrics {
    /// Questions for our addresses.
    pub questions: Family<SegmentLabels, Counter>,
    /// Answers to them.
    pub answers: Family<SegmentLabels, Counter>,
    /// Frames sent unasked.
    pub unsolicited: Family<SegmentLabels, Counter>,
}

impl ProtocolMetrics {
    fn register(&self, registry: &mut Registry, names: [&str; 3], protocol: &str) {
        let [questions, answers, unsolicited] = names;
        registry.register(
            questions,
            format!("{protocol} questions for addresses that this node announces"),
            self.questions.clone(),
        );
        registry.register(
            answers,
            format!("{protocol} answers sent"),
            self.answers.clone(),
        );
        registry.register(
            unsolicited,
            format!("{protocol} frames sent unasked: bursts, refreshes, defences, router primes"),
            self.unsolicited.clone(),
        );
    }
}

/// The metrics of announcing. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// 1 for each address that this node announces; gone when it does not any more.
    pub owner: Family<AddressLabels, Gauge>,
    /// How often this node began to announce an address.
    pub takeovers: Family<CauseLabels, Counter>,
    /// Claims of addresses of ours by stations that are none of ours.
    pub conflicts: Family<AddressLabels, Counter>,
    /// ARP.
    pub arp: ProtocolMetrics,
    /// Neighbour discovery.
    pub ndp: ProtocolMetrics,
    /// Frames that the kernel did not take.
    pub send_errors: Family<SegmentLabels, Counter>,
    /// How late the thread of the segments woke up, in seconds, where that was 50 ms or more.
    pub stalls: Histogram,
    /// What the thread of the segments counts besides.
    pub segments: SegmentMetrics,
    /// Renewals of the own Lease that failed.
    pub lease_renew_failures: Counter,
    /// Whether the service proxy works, as far as it says; absent where nobody asks it.
    pub service_proxy: OptionalGauge,
    /// Services for which the service proxy was waited for in vain.
    pub service_proxy_late: Counter,
    /// Addresses whose older connections are passed on to their former speakers.
    pub forwarded: Gauge,
    /// Seconds since the API server was last heard of.
    pub view_age: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            owner: Family::default(),
            takeovers: Family::default(),
            conflicts: Family::default(),
            arp: ProtocolMetrics::default(),
            ndp: ProtocolMetrics::default(),
            send_errors: Family::default(),
            stalls: Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0]),
            segments: SegmentMetrics::default(),
            lease_renew_failures: Counter::default(),
            service_proxy: OptionalGauge::default(),
            service_proxy_late: Counter::default(),
            forwarded: Gauge::default(),
            view_age: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Makes the metrics and enters them into a registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "mooring_l2_owner",
            "Addresses that this node announces",
            metrics.owner.clone(),
        );
        registry.register(
            "mooring_l2_takeovers",
            "How often this node began to announce an address, by reason",
            metrics.takeovers.clone(),
        );
        registry.register(
            "mooring_l2_conflicts",
            "Claims of our addresses by stations that are no node daemons",
            metrics.conflicts.clone(),
        );
        let arp = [
            "mooring_l2_arp_requests",
            "mooring_l2_arp_replies",
            "mooring_l2_arp_gratuitous",
        ];
        metrics.arp.register(registry, arp, "ARP");
        let ndp = [
            "mooring_l2_ndp_solicitations",
            "mooring_l2_ndp_advertisements",
            "mooring_l2_ndp_unsolicited",
        ];
        metrics.ndp.register(registry, ndp, "NDP");
        registry.register(
            "mooring_l2_send_errors",
            "Frames that the kernel did not take",
            metrics.send_errors.clone(),
        );
        registry.register(
            "mooring_l2_loop_stall_seconds",
            "How late the thread of the segments woke up, where that was 50 ms or more",
            metrics.stalls.clone(),
        );
        metrics.segments.register(registry);
        registry.register(
            "mooring_l2_lease_renew_failures",
            "Renewals of this node's Lease that failed",
            metrics.lease_renew_failures.clone(),
        );
        metrics.service_proxy.register(
            registry,
            "mooring_l2_service_proxy_works",
            "0 while this node's service proxy says that it does not work; absent where nobody asks it",
        );
        registry.register(
            "mooring_l2_service_proxy_late",
            "Services with externalTrafficPolicy Local whose endpoint here the service proxy did not \
             confirm in time",
            metrics.service_proxy_late.clone(),
        );
        registry.register(
            "mooring_l2_forwarded_addresses",
            "Addresses whose older connections this node passes on to their former speakers",
            metrics.forwarded.clone(),
        );
        registry.register(
            "mooring_l2_api_view_age_seconds",
            "Seconds since the API server was last heard of",
            metrics.view_age.clone(),
        );
        metrics
    }

    /// Shows what is counted on a segment before anything has happened there: of a counter that begins with its
    /// first event, a monitoring system never sees that event as an increase.
    pub fn count_from_zero(&self, segment: &str, reasons: &[&'static str]) {
        let of_segment = SegmentLabels::new(segment);
        for protocol in [&self.arp, &self.ndp] {
            for family in [
                &protocol.questions,
                &protocol.answers,
                &protocol.unsolicited,
            ] {
                drop(family.get_or_create(&of_segment));
            }
        }
        for reason in reasons {
            let labels = CauseLabels {
                segment: segment.to_owned(),
                reason,
            };
            drop(self.takeovers.get_or_create(&labels));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_zero() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.count_from_zero("public", &["TakenOver"]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "mooring_l2_takeovers_total{segment=\"public\",reason=\"TakenOver\"} 0",
            "mooring_l2_arp_requests_total{segment=\"public\"} 0",
            "mooring_l2_ndp_unsolicited_total{segment=\"public\"} 0",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}: {text}");
        }
    }

    #[test]
    fn drops_series_with_address() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let labels = AddressLabels::new("public", IpAddr::from([192, 0, 2, 10]));
        metrics.owner.get_or_create(&labels).set(1);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(text().contains("mooring_l2_owner{segment=\"public\",ip=\"192.0.2.10\"} 1"));
        metrics.owner.remove(&labels);
        assert!(!text().contains("192.0.2.10"));
    }
}
