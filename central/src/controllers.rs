//! The controllers: each observes, plans and applies, in files of those names.

pub mod address_pool;
pub mod node_init;
pub mod node_lifecycle;
pub mod service;

use std::sync::Arc;

use kube::Client;
use mooring_common::k8s::{Cache, Events};
use mooring_common::node_view::NodeView;

use crate::clouds::Instances;
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
    /// This process' name, for Events.
    pub identity: String,
}

impl Context {
    /// Reports Events as this component, as long as this process leads.
    #[must_use]
    pub fn events(&self, component: &str) -> Events {
        let leadership = self.leadership.clone();
        Events::new(self.client.clone(), component, &self.identity)
            .only_while(move || leadership.leads())
    }
}
