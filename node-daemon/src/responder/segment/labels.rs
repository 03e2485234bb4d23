//! Counting, by segment.

use crate::protocol::{Figures, Moment, Path, Transition};
use crate::responder::Member;
use crate::responder::address_responder::TransmitKind;
use crate::responder::metrics::{
    DropLabels, MemberLabels, Metrics, PathLabels, ProtocolMetrics, SegmentLabels, SegmentMetrics,
    TransitionLabels,
};

/// The labels of one segment.
pub(super) struct Labels {
    segment: SegmentLabels,
    on_segment: PathLabels,
    on_node_network: PathLabels,
}

impl Labels {
    pub(super) fn new(segment: &str) -> Self {
        let path = |path| PathLabels {
            segment: segment.to_owned(),
            path,
        };
        Self {
            segment: SegmentLabels::new(segment),
            on_segment: path("segment"),
            on_node_network: path("node_network"),
        }
    }

    const fn path(&self, path: Path) -> &PathLabels {
        match path {
            Path::Segment => &self.on_segment,
            Path::NodeNetwork => &self.on_node_network,
        }
    }

    pub(super) fn asked(&self, metrics: &Metrics, frame: &[u8]) {
        let questions = &protocol(metrics, frame).questions;
        questions.get_or_create(&self.segment).inc();
    }

    pub(super) fn sent(&self, metrics: &Metrics, frame: &[u8], kind: TransmitKind) {
        let metrics = protocol(metrics, frame);
        let counter = match kind {
            TransmitKind::Answer => &metrics.answers,
            TransmitKind::Announcement | TransmitKind::Prime => &metrics.unsolicited,
        };
        counter.get_or_create(&self.segment).inc();
    }

    pub(super) fn send_error(&self, metrics: &Metrics) {
        metrics.send_errors.get_or_create(&self.segment).inc();
    }

    pub(super) fn said(&self, metrics: &SegmentMetrics, path: Path) {
        metrics.sent.get_or_create(self.path(path)).inc();
    }

    pub(super) fn received(&self, metrics: &SegmentMetrics, path: Path) {
        metrics.received.get_or_create(self.path(path)).inc();
    }

    pub(super) fn lost(&self, metrics: &SegmentMetrics, path: Path, count: u64) {
        if count > 0 {
            let lost = metrics.heartbeats_lost.get_or_create(self.path(path));
            lost.inc_by(count);
        }
    }

    pub(super) fn dropped(&self, metrics: &SegmentMetrics, reason: &'static str) {
        let labels = DropLabels {
            segment: self.segment.segment.clone(),
            reason,
        };
        metrics.dropped.get_or_create(&labels).inc();
    }

    pub(super) fn gateway(&self, metrics: &SegmentMetrics, reachable: bool) {
        let gauge = metrics.gateway_reachable.get_or_create(&self.segment);
        gauge.set(i64::from(reachable));
    }

    pub(super) fn speaking_lease(
        &self,
        metrics: &SegmentMetrics,
        until: Option<Moment>,
        now: Moment,
    ) {
        match until {
            Some(until) => {
                let remaining = until.since(now).as_secs_f64();
                let gauge = metrics
                    .speaking_lease_remaining
                    .get_or_create(&self.segment);
                gauge.set(remaining);
            }
            None => {
                metrics.speaking_lease_remaining.remove(&self.segment);
            }
        }
    }

    pub(super) fn members(&self, metrics: &SegmentMetrics, others: &[Member]) {
        for (path, hears) in [
            (&self.on_segment, (|m| m.on_segment) as fn(&Member) -> bool),
            (&self.on_node_network, |m| m.on_node_network),
        ] {
            let heard = others.iter().filter(|member| hears(member)).count();
            for (state, count) in [("heard", heard), ("silent", others.len() - heard)] {
                let labels = MemberLabels {
                    segment: path.segment.clone(),
                    path: path.path,
                    state,
                };
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                metrics.members.get_or_create(&labels).set(count);
            }
        }
    }

    pub(super) fn figures(&self, metrics: &SegmentMetrics, figures: Figures) {
        let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
        for (metric, value) in [
            (&metrics.quorum, i64::from(figures.quorum)),
            (&metrics.voters, number(figures.voters)),
            (&metrics.wanted, number(figures.wanted)),
            (&metrics.without_speaker, number(figures.without_speaker)),
        ] {
            metric.get_or_create(&self.segment).set(value);
        }
    }

    pub(super) fn transition(&self, metrics: &SegmentMetrics, transition: Transition) {
        if transition == Transition::Lapsed {
            metrics.lapses.get_or_create(&self.segment).inc();
        }
        let labels = TransitionLabels {
            segment: self.segment.segment.clone(),
            transition: name(transition),
        };
        metrics.transitions.get_or_create(&labels).inc();
    }
}

const fn protocol<'a>(metrics: &'a Metrics, frame: &[u8]) -> &'a ProtocolMetrics {
    // The EtherType tells 0806 from 86dd by its first byte.
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, ..] => &metrics.ndp,
        _ => &metrics.arp,
    }
}

const fn name(transition: Transition) -> &'static str {
    match transition {
        Transition::Joined => "joined",
        Transition::Lapsed => "lapsed",
        Transition::SegmentLost => "segment_lost",
        Transition::Suspected(_) => "suspected",
        Transition::Claimed => "claimed",
        Transition::Granted => "granted",
        Transition::Refused => "refused",
        Transition::ClaimWon => "claim_won",
        Transition::ClaimLost => "claim_lost",
        Transition::HandOverBegun => "hand_over_begun",
        Transition::HandOverDone => "hand_over_done",
        Transition::HandOverFailed => "hand_over_failed",
        Transition::VoterAwake => "voter_awake",
        Transition::BegunAnew => "begun_anew",
        Transition::GenerationAdopted => "generation_adopted",
        Transition::Proposed => "proposed",
        Transition::PrimaryAlone => "primary_alone",
        Transition::SurvivedViaApi => "survived_via_api",
        Transition::KeysDropped => "keys_dropped",
        Transition::GivenBack => "given_back",
        Transition::Rebalanced => "rebalanced",
        Transition::MessageDropped => "message_dropped",
        Transition::SpokeLate => "spoke_late",
        Transition::Damped => "damped",
    }
}
