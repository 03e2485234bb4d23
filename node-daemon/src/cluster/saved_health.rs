//! What health checks were answered from before the API server was heard of: the content of a file that
//! outlives the process.

use std::collections::BTreeMap;

use mooring_common::k8s::ObjectKey;
use serde::{Deserialize, Serialize};

/// The version of the file. Another is not read.
const VERSION: u32 = 1;

/// What there was to answer from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedHealth {
    version: u32,
    node: String,
    /// Whether the Node was there.
    pub present: bool,
    /// Whether it was to carry no more traffic.
    pub draining: bool,
    services: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    namespace: String,
    name: String,
    #[serde(flatten)]
    known: SavedService,
}

/// What was known of a Service of type LoadBalancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedService {
    /// Its ready endpoints on this Node.
    pub endpoints: usize,
    /// Where load balancers ask about it, if it takes traffic only where its endpoints are.
    pub health_check_node_port: Option<u16>,
}

impl SavedHealth {
    /// What is known of a Node and its Services, in the order of their keys.
    #[must_use]
    pub fn new(
        node: &str,
        present: bool,
        draining: bool,
        services: impl Iterator<Item = (ObjectKey, SavedService)>,
    ) -> Self {
        let entry = |(key, known): (ObjectKey, SavedService)| Entry {
            namespace: key.namespace,
            name: key.name,
            known,
        };
        Self {
            version: VERSION,
            node: node.to_owned(),
            present,
            draining,
            services: services.map(entry).collect(),
        }
    }

    /// Whether it is of this Node, and of the version that is read.
    #[must_use]
    pub fn is_of(&self, node: &str) -> bool {
        self.version == VERSION && self.node == node
    }

    /// What was known of a Service. They are in the order of their keys.
    #[must_use]
    pub fn service(&self, key: &ObjectKey) -> Option<SavedService> {
        let wanted = (key.namespace.as_str(), key.name.as_str());
        let order = |entry: &Entry| (entry.namespace.as_str(), entry.name.as_str()).cmp(&wanted);
        let index = self.services.binary_search_by(order).ok()?;
        self.services.get(index).map(|entry| entry.known)
    }

    /// All Services.
    #[must_use]
    pub fn services(&self) -> BTreeMap<ObjectKey, SavedService> {
        let entries = self.services.iter();
        entries
            .map(|entry| {
                let key = ObjectKey::new(entry.namespace.as_str(), entry.name.as_str());
                (key, entry.known)
            })
            .collect()
    }
}
