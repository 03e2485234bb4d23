//! The clouds of one cluster: each Node is asked of its own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use mooring_common::node_facts::Presence;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Instances, Lookup};

/// All clouds that a cluster has machines of.
pub struct Clouds {
    all: Vec<Arc<dyn Instances>>,
    changes: watch::Sender<u64>,
}

impl Clouds {
    /// These clouds.
    #[must_use]
    pub fn new(all: Vec<Arc<dyn Instances>>) -> Self {
        Self {
            all,
            changes: watch::Sender::new(0),
        }
    }

    /// The cloud whose provider ID a Node bears.
    fn of(&self, provider_id: &str) -> Option<&Arc<dyn Instances>> {
        self.all
            .iter()
            .find(|cloud| cloud.read_id(provider_id).is_some())
    }

    fn foreign(&self, provider_id: &str) -> Lookup {
        let providers: Vec<_> = self.all.iter().map(|cloud| cloud.provider()).collect();
        Lookup::Foreign(format!(
            "The provider ID {provider_id} belongs to none of the providers in use ({}), so this \
             Node is left alone. If it is a machine of another cloud, add that to --cloud-provider.",
            providers.join(", ")
        ))
    }

    /// A cloud that cannot be asked just now answers from its last listing, however old: that is
    /// enough to tell that a Node is none of its.
    async fn ask_for_a_namesake(
        cloud: &dyn Instances,
        node: &NodeView,
        since: Option<Instant>,
    ) -> (&'static str, Lookup) {
        let answer = match cloud.look_up(node, since).await {
            Lookup::Unavailable { why, retry_after } => match cloud.look_up(node, None).await {
                known @ (Lookup::Missing | Lookup::Unlisted(_)) => known,
                _ => Lookup::Unavailable { why, retry_after },
            },
            answer => answer,
        };
        (cloud.provider(), answer)
    }
}

/// Which answer counts for a Node that names no provider ID, if every cloud was asked for a
/// machine of its name.
fn decide(answers: Vec<(&'static str, Lookup)>) -> Lookup {
    let mut certain = Vec::new();
    let mut derived = Vec::new();
    let mut others = Vec::new();
    let mut none = Lookup::Missing;
    for (provider, answer) in answers {
        match answer {
            Lookup::Missing => {}
            Lookup::Unlisted(_) => none = answer,
            Lookup::Known {
                presence: Presence::Unsure,
                ..
            } => derived.push((provider, answer)),
            Lookup::Known { .. } => certain.push((provider, answer)),
            other => others.push((provider, other)),
        }
    }
    let known = if certain.is_empty() { derived } else { certain };
    if let Some((_, other)) = others.into_iter().next() {
        return other;
    }
    if let [_, _, ..] = known.as_slice() {
        let machines: Vec<_> = known
            .iter()
            .map(|(cloud, answer)| id(cloud, answer))
            .collect();
        return Lookup::Ambiguous(format!(
            "Several clouds have a machine of this Node's name ({}), so none is chosen. Start the \
             kubelet with --provider-id, or rename one of the machines.",
            machines.join(", ")
        ));
    }
    known.into_iter().next().map_or(none, |(_, answer)| answer)
}

/// The machine's provider ID, or at least its cloud.
fn id(provider: &str, answer: &Lookup) -> String {
    match answer {
        Lookup::Known { facts, .. } => facts.provider_id.as_ref().map(ToString::to_string),
        _ => None,
    }
    .unwrap_or_else(|| provider.to_owned())
}

#[async_trait]
impl Instances for Clouds {
    fn provider(&self) -> &'static str {
        match self.all.as_slice() {
            [only] => only.provider(),
            _ => "several clouds",
        }
    }

    fn read_id(&self, provider_id: &str) -> Option<Result<ProviderId, String>> {
        self.all.iter().find_map(|cloud| cloud.read_id(provider_id))
    }

    async fn look_up(&self, node: &NodeView, since: Option<Instant>) -> Lookup {
        match (self.all.as_slice(), node.provider_id.as_deref()) {
            ([only], _) => only.look_up(node, since).await,
            (_, Some(id)) => match self.of(id) {
                Some(cloud) => cloud.look_up(node, since).await,
                None => self.foreign(id),
            },
            (all, None) => {
                let ask = |cloud| Self::ask_for_a_namesake(cloud, node, since);
                decide(join_all(all.iter().map(|cloud| ask(&**cloud))).await)
            }
        }
    }

    async fn confirm(&self, node: &NodeView) -> Presence {
        match node.provider_id.as_deref().and_then(|id| self.of(id)) {
            Some(cloud) => cloud.confirm(node).await,
            None => Presence::Unsure,
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn keep_fresh(&self, interval: Duration) {
        let each = self.all.iter().map(async |cloud| {
            let mut changes = cloud.changes();
            let told = async {
                while changes.changed().await.is_ok() {
                    self.changes.send_modify(|generation| *generation += 1);
                }
            };
            tokio::join!(cloud.keep_fresh(interval), told);
        });
        join_all(each).await;
    }
}

#[cfg(test)]
mod tests;
