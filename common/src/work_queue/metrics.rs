//! What is counted of queues: `workqueue_…` under the names of client-go, and how passes ended.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

use super::WorkQueue;
use crate::engine::Outcome;

/// How a pass ended.
const OUTCOMES: [&str; 6] = [
    "done",
    "again_later",
    "failed",
    "timed_out",
    "waits_for_change",
    "not_ours",
];

/// What one queue counts.
#[derive(Debug)]
pub(super) struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    /// How long keys waited that were ready.
    pub(super) waited: Histogram,
    /// How long passes took.
    pub(super) worked: Histogram,
    outcomes: [Counter; OUTCOMES.len()],
}

impl Default for QueueMetrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.001, 10.0, 6));
        Self {
            adds: Counter::default(),
            retries: Counter::default(),
            waited: seconds(),
            worked: seconds(),
            outcomes: Default::default(),
        }
    }
}

impl QueueMetrics {
    /// A pass has ended; `None`: it took too long.
    pub(super) fn ended<E>(&self, outcome: Option<&Outcome<E>>) {
        let index = match outcome {
            Some(Outcome::Done | Outcome::DoneFor(_)) => 0,
            Some(Outcome::RetryAfter(_) | Outcome::Yield) => 1,
            Some(Outcome::Backoff(_) | Outcome::BackoffAnew(_)) => 2,
            None => 3,
            Some(Outcome::WaitForChange(_)) => 4,
            Some(Outcome::NotOurs(_)) => 5,
        };
        if let Some(counter) = self.outcomes.get(index) {
            counter.inc();
        }
        if matches!(index, 2 | 3) {
            self.retries.inc();
        }
    }
}

/// A queue whose figures can be read.
trait Measured: Send + Sync {
    fn metrics(&self) -> &QueueMetrics;
    /// How many keys are ready.
    fn depth(&self) -> usize;
    /// For how long each pass that is under way has taken.
    fn under_way(&self) -> Vec<Duration>;
}

impl<K: Clone + Eq + Hash + Send> Measured for WorkQueue<K> {
    fn metrics(&self) -> &QueueMetrics {
        &self.metrics
    }

    fn depth(&self) -> usize {
        let mut state = self.lock();
        state.promote(Instant::now(), &self.metrics);
        state.queued.len()
    }

    fn under_way(&self) -> Vec<Duration> {
        let state = self.lock();
        state.in_flight.values().map(Instant::elapsed).collect()
    }
}

/// The queues of a program, each by the name of its controller. To be registered as a collector.
#[derive(Default)]
pub struct Queues {
    all: Vec<(&'static str, Arc<dyn Measured>)>,
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabels {
    controller: &'static str,
    outcome: &'static str,
}

impl Queues {
    /// Adds the queue of a controller.
    pub fn add<K>(&mut self, controller: &'static str, queue: &Arc<WorkQueue<K>>)
    where
        K: Clone + Eq + Hash + Send + 'static,
    {
        self.all.push((controller, queue.clone()));
    }

    /// One metric of all queues.
    fn each<M: EncodeMetric>(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        (name, help, kind): (&str, &str, MetricType),
        value: impl Fn(&dyn Measured) -> M,
    ) -> Result<(), fmt::Error> {
        let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
        for (name, queue) in &self.all {
            let labels = NameLabels { name };
            value(&**queue).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        use MetricType::{Counter, Gauge, Histogram};
        let encoder = &mut encoder;
        let depth = ("workqueue_depth", "Keys that are ready", Gauge);
        self.each(encoder, depth, |queue| ConstGauge::new(queue.depth()))?;
        let adds = ("workqueue_adds", "Keys that became ready", Counter);
        self.each(encoder, adds, |queue| queue.metrics().adds.clone())?;
        let retries = ("workqueue_retries", "Passes that failed", Counter);
        self.each(encoder, retries, |queue| queue.metrics().retries.clone())?;
        let waited = (
            "workqueue_queue_duration_seconds",
            "How long keys that were ready waited for a pass",
            Histogram,
        );
        self.each(encoder, waited, |queue| queue.metrics().waited.clone())?;
        let worked = (
            "workqueue_work_duration_seconds",
            "How long passes took",
            Histogram,
        );
        self.each(encoder, worked, |queue| queue.metrics().worked.clone())?;
        let unfinished = (
            "workqueue_unfinished_work_seconds",
            "For how long the passes under way have taken, all together",
            Gauge,
        );
        self.each(encoder, unfinished, |queue| {
            let all: Duration = queue.under_way().iter().sum();
            ConstGauge::new(all.as_secs_f64())
        })?;
        let longest = (
            "workqueue_longest_running_processor_seconds",
            "For how long the longest pass under way has taken",
            Gauge,
        );
        self.each(encoder, longest, |queue| {
            let longest = queue.under_way().into_iter().max();
            ConstGauge::new(longest.unwrap_or_default().as_secs_f64())
        })?;
        let mut passes = encoder.encode_descriptor(
            "mooring_passes",
            "Passes, by how they ended",
            None,
            Counter,
        )?;
        for (controller, queue) in &self.all {
            for (outcome, counter) in OUTCOMES.iter().zip(&queue.metrics().outcomes) {
                let labels = PassLabels {
                    controller,
                    outcome,
                };
                counter.encode(passes.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
