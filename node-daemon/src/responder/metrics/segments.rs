//! What the thread of the segments counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::atomic::AtomicU64;

use super::SegmentLabels;

/// One way between members of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PathLabels {
    /// The L2Network's name.
    pub segment: String,
    /// `segment` or `node_network`.
    pub path: &'static str,
}

/// Members by way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct MemberLabels {
    /// The L2Network's name.
    pub segment: String,
    /// `segment` or `node_network`.
    pub path: &'static str,
    /// `heard` within the last second, or `silent`.
    pub state: &'static str,
}

/// Messages that were not taken, or not sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DropLabels {
    /// The L2Network's name.
    pub segment: String,
    /// Why: `unsigned`, `unknown_secret`, `forged`, `malformed`, `version`; `stale` for what the
    /// protocol does not take (replayed, of an old epoch, for another run of this daemon); and
    /// `too_long` for what was not sent.
    pub reason: &'static str,
}

/// Transitions of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TransitionLabels {
    /// The L2Network's name.
    pub segment: String,
    /// Which, in snake case: `joined`, `lapsed`, `suspected`, …
    pub transition: &'static str,
}

/// The metrics of the thread. Clones count together.
#[derive(Clone, Debug)]
pub struct SegmentMetrics {
    /// For how long this node may still speak without being confirmed by voters, in seconds; gone
    /// while it speaks for nothing.
    pub speaking_lease_remaining: Family<SegmentLabels, Gauge<f64, AtomicU64>>,
    /// How often the right to speak ran out.
    pub lapses: Family<SegmentLabels, Counter>,
    /// For how long nobody could be heard for an address that was taken over, in seconds.
    pub takeover: Histogram,
    /// How long hand-overs took, in seconds.
    pub hand_over: Histogram,
    /// The other members, by way and by whether they are heard.
    pub members: Family<MemberLabels, Gauge>,
    /// 1: a majority of the voters hears this node, and is heard.
    pub quorum: Family<SegmentLabels, Gauge>,
    /// How many voters there are.
    pub voters: Family<SegmentLabels, Gauge>,
    /// Addresses that somebody is to speak for.
    pub wanted: Family<SegmentLabels, Gauge>,
    /// Those of them for which nobody is known to speak.
    pub without_speaker: Family<SegmentLabels, Gauge>,
    /// From a heartbeat until a voter's echo of it arrives, in seconds.
    pub heartbeat_rtt: Histogram,
    /// Heartbeats that should have come and have not, while their sender was heard otherwise.
    pub heartbeats_lost: Family<PathLabels, Counter>,
    /// Messages sent.
    pub sent: Family<PathLabels, Counter>,
    /// Messages taken.
    pub received: Family<PathLabels, Counter>,
    /// Messages not taken, or not sent.
    pub dropped: Family<DropLabels, Counter>,
    /// 1: a gateway has answered when it was last asked. It is asked while there is doubt.
    pub gateway_reachable: Family<SegmentLabels, Gauge>,
    /// Transitions of the protocol.
    pub transitions: Family<TransitionLabels, Counter>,
}

impl Default for SegmentMetrics {
    fn default() -> Self {
        Self {
            speaking_lease_remaining: Family::default(),
            lapses: Family::default(),
            takeover: Histogram::new([0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0, 5.0, 30.0]),
            hand_over: Histogram::new([0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1.0]),
            members: Family::default(),
            quorum: Family::default(),
            voters: Family::default(),
            wanted: Family::default(),
            without_speaker: Family::default(),
            heartbeat_rtt: Histogram::new([0.001, 0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4]),
            heartbeats_lost: Family::default(),
            sent: Family::default(),
            received: Family::default(),
            dropped: Family::default(),
            gateway_reachable: Family::default(),
            transitions: Family::default(),
        }
    }
}

impl SegmentMetrics {
    /// Enters them into a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "mooring_l2_speaking_lease_remaining_seconds",
            "For how long this node may still speak without being confirmed by voters",
            self.speaking_lease_remaining.clone(),
        );
        registry.register(
            "mooring_l2_speaking_lease_lapses",
            "How often the right to speak ran out",
            self.lapses.clone(),
        );
        registry.register(
            "mooring_l2_takeover_seconds",
            "For how long nobody could be heard for an address that was taken over",
            self.takeover.clone(),
        );
        registry.register(
            "mooring_l2_handover_seconds",
            "How long it took to hand addresses over to another node",
            self.hand_over.clone(),
        );
        registry.register(
            "mooring_l2_peers",
            "Other members of each segment, by the path they are heard on or not",
            self.members.clone(),
        );
        registry.register(
            "mooring_l2_quorum",
            "1 while this node hears a majority of the voters, and they hear it",
            self.quorum.clone(),
        );
        registry.register(
            "mooring_l2_voters",
            "Nodes that vote on who speaks",
            self.voters.clone(),
        );
        registry.register(
            "mooring_l2_addresses",
            "Addresses of the segment that a node is to speak for",
            self.wanted.clone(),
        );
        registry.register(
            "mooring_l2_addresses_without_speaker",
            "Those of these addresses for which nobody is known to speak",
            self.without_speaker.clone(),
        );
        registry.register(
            "mooring_l2_heartbeat_rtt_seconds",
            "From a heartbeat until a voter's echo of it",
            self.heartbeat_rtt.clone(),
        );
        registry.register(
            "mooring_l2_heartbeats_lost",
            "Heartbeats of other members that have not come",
            self.heartbeats_lost.clone(),
        );
        registry.register(
            "mooring_l2_messages_sent",
            "Messages to other members",
            self.sent.clone(),
        );
        registry.register(
            "mooring_l2_messages_received",
            "Messages of other members",
            self.received.clone(),
        );
        registry.register(
            "mooring_l2_messages_dropped",
            "Messages that were not taken or not sent, by reason",
            self.dropped.clone(),
        );
        registry.register(
            "mooring_l2_gateway_reachable",
            "Whether a gateway has answered when it was last asked, which is done in doubt",
            self.gateway_reachable.clone(),
        );
        registry.register(
            "mooring_l2_transitions",
            "Transitions of the protocol by which nodes agree on who speaks",
            self.transitions.clone(),
        );
    }

    /// Forgets a segment.
    pub fn forget(&self, segment: &str) {
        let labels = SegmentLabels::new(segment);
        self.speaking_lease_remaining.remove(&labels);
        self.gateway_reachable.remove(&labels);
        for metric in [
            &self.quorum,
            &self.voters,
            &self.wanted,
            &self.without_speaker,
        ] {
            metric.remove(&labels);
        }
        for path in ["segment", "node_network"] {
            for state in ["heard", "silent"] {
                self.members.remove(&MemberLabels {
                    segment: segment.to_owned(),
                    path,
                    state,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_go_with_their_segment() {
        let mut registry = Registry::default();
        let metrics = SegmentMetrics::default();
        metrics.register(&mut registry);
        let labels = SegmentLabels::new("lan");
        for gauge in [
            &metrics.quorum,
            &metrics.voters,
            &metrics.wanted,
            &metrics.without_speaker,
            &metrics.gateway_reachable,
        ] {
            gauge.get_or_create(&labels).set(1);
        }
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        assert!(text().contains("mooring_l2_addresses_without_speaker{segment=\"lan\"} 1"));
        metrics.forget("lan");
        assert!(!text().contains("\"lan\""), "{}", text());
    }
}
