//! A NodeBalancer as it is.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use tokio::time::Instant;

use super::super::api::node_balancers::{ATTACHED, CONFIGS, MARKS, NODES, NodeBalancer};
use super::NodeBalancers;
use super::firewalls::Firewall;
use super::model::{ConfigSpec, NodeSpec};
use super::step::Step;
use crate::cloud_api::{CloudError, or_default, permitted};
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
    /// Whether the token may list firewalls. If not, only those are seen that protect the NodeBalancer, and none is
    /// changed.
    pub(super) may_list: bool,
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

    fn firewall(&mut self, id: u64) -> impl Iterator<Item = &mut Firewall> {
        let all = self.attached.iter_mut().chain(&mut self.loose);
        all.filter(move |firewall| firewall.id == id)
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
                self.firewall(*id).for_each(|one| one.take(spec));
            }
            Step::MarkFirewall { id, tags, .. } => {
                self.firewall(*id).for_each(|one| one.tags.clone_from(tags));
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
        let listing = permitted(self.firewalls.get(since).await)?;
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
        // One that nobody has marked yet may become any Service's, whose plan knows its own marks.
        let may_be_own = |firewall: &Firewall| {
            let marked = MARKS.owner(&firewall.tags);
            marked.is_some() && (marked == owner || owner.is_none())
        };
        let (attached, loose) = match &listing {
            Some(listing) => {
                let all = listing.all.iter().cloned();
                let (attached, mut loose): (Vec<_>, Vec<_>) =
                    all.partition(|one| one.protects(&listed.id));
                loose.retain(may_be_own);
                (attached, loose)
            }
            // That takes no right to firewalls.
            None => (self.cloud.all(&ATTACHED, &[&listed.id]).await?, Vec::new()),
        };
        let observed = Observed {
            balancer: listed.clone(),
            configs,
            attached,
            loose,
            may_list: listing.is_some(),
        };
        let listed = listing.map(|listing| listing.begun);
        Ok((observed, listed.map_or(begun, |listed| begun.min(listed))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cloud_api::Constants;
    use crate::cloud_api::testing::{Cloud, Reply};
    use crate::clouds::linode::api::node_balancers::FIREWALLS;
    use crate::clouds::linode::tests::linode;
    use crate::clouds::linode::{Flags, NAME};
    use crate::engine::listing::Listings;

    fn refused(status: u16, reason: &str) -> Reply {
        Reply::json(json!({"errors": [{"reason": reason}]})).status(status)
    }

    /// What is observed of NodeBalancer 1 where the two listings of firewalls are answered so.
    async fn observe(account: Reply, attached: Reply) -> Result<Observed, CloudError> {
        let cloud = Cloud::start(move |seen, _| match &seen.line {
            line if line.contains("/networking/firewalls?") => account.clone(),
            line if line.contains("/nodebalancers/1/firewalls?") => attached.clone(),
            _ => Reply::json(json!({"data": [], "page": 1, "pages": 1, "results": 0})),
        })
        .await;
        let linode = linode(&cloud.base, Flags::default());
        let all = NodeBalancers {
            firewalls: Listings::of(NAME, &linode, |linode| async move {
                linode.all(&FIREWALLS, &[]).await
            }),
            cloud: linode,
            backends: Constants::default(),
        };
        let balancer = serde_json::from_value(json!({"id": 1, "label": "web"})).unwrap();
        let observed = all.observe_parts(&balancer, Instant::now()).await;
        observed.map(|(observed, _)| observed)
    }

    /// The right to NodeBalancers is enough where a Service has to do with no firewall.
    #[tokio::test]
    async fn firewalls_are_seen_as_far_as_the_token_may() {
        let page = |rows: Value| {
            let results = rows.as_array().unwrap().len();
            Reply::json(json!({"data": rows, "page": 1, "pages": 1, "results": results}))
        };
        let all = || {
            let entity = json!({"type": "nodebalancer", "id": 1});
            page(json!([{"id": 7, "entities": [entity]}, {"id": 8, "entities": []}]))
        };
        // It does not say what they protect.
        let attached = || page(json!([{"id": 7}]));
        let no_scope = || {
            refused(
                401,
                "Your OAuth token is not authorized to use this endpoint.",
            )
        };
        let no_grant = || refused(403, "Unauthorized");
        for (account, of_balancer, may_list) in [
            (all(), no_grant(), true),
            (no_scope(), attached(), false),
            (no_grant(), attached(), false),
        ] {
            let observed = observe(account, of_balancer).await.unwrap();
            let seen: Vec<u64> = observed.attached.iter().map(|one| one.id).collect();
            assert_eq!((observed.may_list, &*seen), (may_list, &[7][..]));
        }
        // Whatever else goes wrong says nothing of firewalls.
        for (account, of_balancer) in [
            (refused(401, "Invalid Token"), attached()),
            (refused(500, "Internal Server Error"), attached()),
            (no_scope(), refused(401, "Invalid Token")),
            (no_scope(), no_grant()),
        ] {
            assert!(observe(account, of_balancer).await.is_err());
        }
    }
}
