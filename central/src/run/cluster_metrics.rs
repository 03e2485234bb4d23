//! Who leads, and what the leader knows of the cluster. Only the leader tells of the cluster, so that sums over
//! the replicas count nothing twice.

use std::fmt;
use std::sync::{Arc, OnceLock};

use mooring_common::k8s::Cache;
use mooring_common::l2_network::AddressCounts;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::controllers::address_pool::NetworkView;
use crate::election::Leadership;

/// Read at each scrape: series go with their objects.
#[derive(Debug)]
pub(super) struct ClusterMetrics {
    pub(super) leadership: Arc<OnceLock<Leadership>>,
    /// The name of the leader's Lease.
    pub(super) lease: String,
    pub(super) networks: Arc<Cache<NetworkView>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    network: String,
    family: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    network: String,
    condition: String,
}

/// Of one network and family.
type Pool = (PoolLabels, AddressCounts);
/// A metric of pools: its name, what it is, and its value.
type PoolFigure = (&'static str, &'static str, fn(AddressCounts) -> i64);

fn pools(network: &NetworkView) -> impl Iterator<Item = Pool> {
    let counts = network.status.iter().flat_map(|status| status.counts);
    let families = ["IPv4", "IPv6"];
    let known = families.into_iter().zip(counts);
    known.filter_map(|(family, counts)| {
        let network = network.name.clone();
        Some((PoolLabels { network, family }, counts?))
    })
}

/// The conditions of a network, and whether each is True.
fn conditions(network: &NetworkView) -> Vec<(ConditionLabels, bool)> {
    let labels = |condition: &str| ConditionLabels {
        network: network.name.clone(),
        condition: condition.to_owned(),
    };
    let Some(status) = &network.status else {
        return Vec::new();
    };
    let ready = (labels("Ready"), status.ready);
    let others = status.others.iter();
    let others = others.map(|[type_, status, ..]| (labels(type_), status == "True"));
    std::iter::once(ready).chain(others).collect()
}

impl ClusterMetrics {
    fn leads(&self) -> bool {
        let leadership = self.leadership.get();
        leadership.is_some_and(|leadership| leadership.check_record().is_ok())
    }
}

impl Collector for ClusterMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let leads = self.leads();
        let mut leader = encoder.encode_descriptor(
            "leader_election_master_status",
            "1 if this replica leads, by the Lease of this name",
            None,
            MetricType::Gauge,
        )?;
        let labels = LeaseLabels {
            name: self.lease.clone(),
        };
        ConstGauge::new(i64::from(leads)).encode(leader.encode_family(&labels)?)?;
        if !leads {
            return Ok(());
        }
        let mut networks = self.networks.all();
        networks.sort_by(|(one, _), (other, _)| one.cmp(other));
        let pools: Vec<Pool> = networks.iter().flat_map(|(_, n)| pools(n)).collect();
        let figures: [PoolFigure; 3] = [
            (
                "mooring_pool_addresses",
                "Addresses of an L2Network that Services can have at all",
                |counts| counts.total,
            ),
            (
                "mooring_pool_addresses_used",
                "Addresses of an L2Network that Services have",
                |counts| counts.used,
            ),
            (
                "mooring_pool_addresses_free",
                "Addresses of an L2Network that are left",
                |counts| counts.free,
            ),
        ];
        for (name, help, value) in figures {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, counts) in &pools {
                ConstGauge::new(value(*counts)).encode(metric.encode_family(labels)?)?;
            }
        }
        let mut metric = encoder.encode_descriptor(
            "mooring_l2_network_condition",
            "1 if the condition of an L2Network is True",
            None,
            MetricType::Gauge,
        )?;
        for (labels, is_true) in networks.iter().flat_map(|(_, n)| conditions(n)) {
            ConstGauge::new(i64::from(is_true)).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
