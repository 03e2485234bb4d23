//! The controllers: each observes, plans and applies, in files of those names.

pub mod address_pool;
pub mod heartbeat_secret;
pub mod node_init;
pub mod node_ipam;
pub mod node_lifecycle;
mod provider_id_index;
pub mod routes;
pub mod service;

use std::sync::Arc;

use kube::Client;
use mooring_common::k8s::{Cache, Events};
use mooring_common::node_view::NodeView;
pub use provider_id_index::ProviderIdIndex;

use crate::cloud_provider::Instances;
use crate::election::Leadership;

/// What every controller is given.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// Asked before every write.
    pub leadership: Leadership,
    /// The cloud's machines.
    pub instances: Arc<dyn Instances>,
    /// All Nodes.
    pub nodes: Arc<Cache<NodeView>>,
    /// Which of them bear which provider ID.
    pub provider_ids: Arc<ProviderIdIndex>,
    /// This process' name, for Events.
    pub identity: String,
}

impl Context {
    /// A provider ID in the one form in which it can be compared.
    #[must_use]
    pub fn canonical(&self, provider_id: &str) -> String {
        canonical(&*self.instances, provider_id)
    }

    /// Reports Events as this component, as long as this process holds the Lease: an Event only records
    /// what was done.
    #[must_use]
    pub fn events(&self, component: &str) -> Events {
        let leadership = self.leadership.clone();
        Events::new(self.client.clone(), component, &self.identity)
            .only_while(move || leadership.check_record().is_ok())
    }
}

/// A provider ID in the one form in which it can be compared; another provider's as it is.
#[must_use]
pub fn canonical(instances: &dyn Instances, provider_id: &str) -> String {
    match instances.read_id(provider_id) {
        Some(Ok(id)) => id.to_string(),
        _ => provider_id.to_owned(),
    }
}
