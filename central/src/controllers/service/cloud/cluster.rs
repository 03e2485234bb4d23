//! What of the cluster is read and written for load balancers.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use mooring_common::k8s::{Cache, EventKind, Events, ObjectKey};
use mooring_common::names::components;
use mooring_common::node_view::NodeView;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::cloud_provider::secrets::ReadSecret;
use crate::controllers::Context;
use crate::controllers::service::{Failure, Freshness, api, secret_api};
use crate::election::NotLeading;
use crate::views::service_view::ServiceView;

/// In whose name an Event is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reporter {
    /// The service controller's.
    Controller,
    /// The provider's.
    Provider,
}

/// How many changes there have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    /// Of Nodes.
    pub(super) nodes: u64,
    /// Of Services.
    pub(super) services: u64,
}

/// The cluster. What is not `fresh` is from the caches. Patches and Events record what was done, and
/// are still made while this process ends.
#[async_trait]
pub(super) trait Cluster: Send + Sync {
    fn service(&self, key: &ObjectKey) -> Option<Arc<ServiceView>>;
    fn services(&self) -> Vec<Arc<ServiceView>>;
    fn nodes(&self) -> Vec<Arc<NodeView>>;
    /// As long as this is the same, so are all Nodes and all Services, if this is asked first.
    fn changes(&self) -> Changes;
    /// Asked before every write in the cloud.
    fn leads(&self) -> Result<(), NotLeading>;
    /// Cancelled when this process is told to end.
    fn ending(&self) -> CancellationToken;
    async fn fresh(&self, key: &ObjectKey) -> Result<Option<ServiceView>, kube::Error>;
    async fn fresh_all(&self) -> Result<Vec<ServiceView>, kube::Error>;
    /// What a Secret says. The error, in words, may be over the next time.
    async fn secret(&self, key: &ObjectKey, freshness: Freshness) -> Result<ReadSecret, String>;
    async fn patch(&self, key: &ObjectKey, operations: Vec<Value>) -> Result<ServiceView, Failure>;
    /// Patches a Service itself, and not its status alone.
    async fn patch_itself(
        &self,
        key: &ObjectKey,
        operations: Vec<Value>,
    ) -> Result<ServiceView, Failure>;
    async fn report(
        &self,
        by: Reporter,
        about: &ObjectReference,
        kind: EventKind,
        reason: &'static str,
        note: &str,
    );
}

/// The one that the API server keeps.
pub(super) struct RealCluster {
    context: Context,
    services: Arc<Cache<ServiceView>>,
    controller: Events,
    provider: Events,
}

impl RealCluster {
    /// `component` is the name of the provider in Events.
    pub(super) fn new(
        context: Context,
        services: Arc<Cache<ServiceView>>,
        component: &str,
    ) -> Self {
        Self {
            controller: context.events(components::SERVICE),
            provider: context.events(component),
            context,
            services,
        }
    }
}

#[async_trait]
impl Cluster for RealCluster {
    fn service(&self, key: &ObjectKey) -> Option<Arc<ServiceView>> {
        self.services.get(key)
    }

    fn services(&self) -> Vec<Arc<ServiceView>> {
        let all = self.services.all().into_iter();
        all.map(|(_, service)| service).collect()
    }

    fn nodes(&self) -> Vec<Arc<NodeView>> {
        let all = self.context.nodes.all().into_iter();
        all.map(|(_, node)| node).collect()
    }

    fn changes(&self) -> Changes {
        Changes {
            nodes: self.context.nodes.changes(),
            services: self.services.changes(),
        }
    }

    fn leads(&self) -> Result<(), NotLeading> {
        self.context.leadership.check()
    }

    fn ending(&self) -> CancellationToken {
        self.context.leadership.ending()
    }

    async fn fresh(&self, key: &ObjectKey) -> Result<Option<ServiceView>, kube::Error> {
        api::fresh(&self.context.client, key).await
    }

    async fn fresh_all(&self) -> Result<Vec<ServiceView>, kube::Error> {
        api::fresh_all(&self.context.client).await
    }

    async fn secret(&self, key: &ObjectKey, freshness: Freshness) -> Result<ReadSecret, String> {
        secret_api::secret(&self.context.client, key, freshness).await
    }

    async fn patch(&self, key: &ObjectKey, operations: Vec<Value>) -> Result<ServiceView, Failure> {
        self.context.leadership.check_record()?;
        api::patch(&self.context.client, key, operations).await
    }

    async fn patch_itself(
        &self,
        key: &ObjectKey,
        operations: Vec<Value>,
    ) -> Result<ServiceView, Failure> {
        self.context.leadership.check_record()?;
        api::patch_itself(&self.context.client, key, operations).await
    }

    async fn report(
        &self,
        by: Reporter,
        about: &ObjectReference,
        kind: EventKind,
        reason: &'static str,
        note: &str,
    ) {
        let events = match by {
            Reporter::Controller => &self.controller,
            Reporter::Provider => &self.provider,
        };
        events.report(about, kind, reason, note).await;
    }
}
