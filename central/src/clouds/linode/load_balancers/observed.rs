//! A NodeBalancer as it is.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use mooring_common::names::linode_tags;
use serde::Deserialize;
use tokio::time::Instant;

use super::super::api::node_balancers::{CONFIGS, NODES, NodeBalancer, marked};
use super::NodeBalancers;
use super::firewalls::Firewall;
use super::model::{ConfigSpec, NodeSpec};
use super::step::Step;
use crate::cloud_api::{CloudError, or_default};
use crate::engine::provider::{self, Listed as _};
use crate::engine::step::Part;

/// How many lists of nodes are asked for at once.
const NODE_LISTS: usize = 4;

/// A NodeBalancer with all its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Observed {
    /// The NodeBalancer itself.
    pub(super) balancer: NodeBalancer,
    /// Its configs, in the API's order.
    pub(super) configs: Vec<Config>,
    /// The firewalls that protect it.
    pub(super) attached: Vec<Firewall>,
    /// Those that bear the mark of its Service, and do not: they protect nothing, or another NodeBalancer that
    /// the Service has had. Of all Services, if it bears no mark.
    pub(super) loose: Vec<Firewall>,
}

/// A config with its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Config {
    /// The config itself.
    #[serde(flatten)]
    pub(super) part: Part<ConfigSpec>,
    /// What the API shows of its certificate.
    #[serde(default, rename = "ssl_fingerprint", deserialize_with = "or_default")]
    pub(super) fingerprint: String,
    /// Its nodes, which are listed apart.
    #[serde(skip)]
    pub(super) nodes: Vec<Part<NodeSpec>>,
}

impl Observed {
    fn config(&mut self, id: &str) -> Option<&mut Config> {
        let mut configs = self.configs.iter_mut();
        configs.find(|config| config.part.id == id)
    }
}

impl provider::Observed for Observed {
    type Listed = NodeBalancer;
    type Step = Step;
    type Member = NodeSpec;

    fn listed(&self) -> &NodeBalancer {
        &self.balancer
    }

    fn listed_mut(&mut self) -> &mut NodeBalancer {
        &mut self.balancer
    }

    fn members(&self) -> impl Iterator<Item = (&str, &Part<NodeSpec>)> {
        let configs = self.configs.iter();
        configs.flat_map(|config| config.nodes.iter().map(|node| (&*config.part.id, node)))
    }

    fn is_unused(&self) -> bool {
        self.configs.is_empty()
    }

    fn lacks_parts(&self) -> bool {
        self.configs.is_empty() || self.configs.iter().any(|config| config.nodes.is_empty())
    }

    fn cost(&self) -> usize {
        1 + self.configs.len()
    }

    fn take(&mut self, step: &Step, made: &str, planned: &mut Vec<String>) {
        match step {
            Step::ChangeBalancer { throttle, tags } => {
                if let Some(throttle) = throttle {
                    self.balancer.throttle = Some(*throttle);
                }
                if let Some(tags) = tags {
                    self.balancer.tags.clone_from(tags);
                }
            }
            Step::CreateConfig(_) | Step::CreateFirewall(_) => planned.push(made.to_owned()),
            Step::ChangeConfig { id, spec, .. } => {
                if let Some(config) = self.config(id) {
                    config.part.spec = (**spec).clone();
                }
            }
            Step::DeleteConfig { id, .. } => self.configs.retain(|config| config.part.id != *id),
            Step::Node(step) => {
                if let Some(config) = step.pool.id(planned).and_then(|id| self.config(id)) {
                    step.take(&mut config.nodes, made);
                }
            }
            Step::ChangeRules { id, spec, .. } => {
                let all = self.attached.iter_mut().chain(&mut self.loose);
                for firewall in all.filter(|firewall| firewall.id == *id) {
                    firewall.take(spec);
                }
            }
            Step::MarkFirewall { id, tags, .. } => {
                let all = self.attached.iter_mut().chain(&mut self.loose);
                for firewall in all.filter(|firewall| firewall.id == *id) {
                    firewall.tags.clone_from(tags);
                }
            }
            Step::DeleteFirewall { id, .. } => self.loose.retain(|firewall| firewall.id != *id),
            // What there is then is observed anew, or is no part of it.
            Step::CreateBalancer(_)
            | Step::DeleteBalancer { .. }
            | Step::Release { .. }
            | Step::FillConfig { .. }
            | Step::Attach { .. } => {}
        }
    }
}

impl NodeBalancers {
    /// A NodeBalancer with all its parts as they were at `since` or later, and since when that holds.
    pub(super) async fn observe_parts(
        &self,
        listed: &NodeBalancer,
        since: Instant,
    ) -> Result<(Observed, Instant), CloudError> {
        let begun = Instant::now();
        let firewalls = self.firewalls.get(since).await?;
        let configs: Vec<Config> = self.cloud.all(&CONFIGS, &[&listed.id]).await?;
        let configs: Vec<Config> = stream::iter(configs)
            .map(|mut config| async move {
                let of = [&*listed.id, &*config.part.id];
                config.nodes = self.cloud.all(&NODES, &of).await?;
                Ok::<_, CloudError>(config)
            })
            .buffered(NODE_LISTS)
            .try_collect()
            .await?;
        let owner = listed.owner();
        let all = firewalls.all.iter();
        let (attached, others): (Vec<_>, Vec<_>) = all.partition(|one| one.protects(&listed.id));
        // One that nobody has marked yet may become any Service's, whose plan knows its own marks.
        let may_be_own = |firewall: &&&Firewall| {
            let marked = marked(&firewall.tags, linode_tags::SERVICE);
            marked.is_some() && (marked == owner || owner.is_none())
        };
        let observed = Observed {
            balancer: listed.clone(),
            configs,
            attached: attached.into_iter().cloned().collect(),
            loose: others.iter().filter(may_be_own).copied().cloned().collect(),
        };
        Ok((observed, begun.min(firewalls.begun)))
    }
}
