//! The API server, and whoever permits writes, without either.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use mooring_common::k8s::EventKind;
use mooring_common::node_view::NodeView;
use serde_json::Value;

use super::CLUSTER;
use crate::cloud_provider::load_balancers::{CollectorContext, Stop, WriteGuard};
use crate::engine::cluster::{Claim, Cluster, ClusterError, NodeAnnotations};
use crate::views::service_view::ServiceView;

/// What the API server keeps.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) services: Vec<ServiceView>,
    pub(crate) claim: Option<String>,
    pub(crate) version: u64,
    pub(crate) fails: bool,
    pub(crate) segments: Vec<(String, Value)>,
    pub(crate) annotated: Vec<(String, NodeAnnotations)>,
}

#[derive(Clone, Default)]
pub(crate) struct FakeCluster(pub(crate) Arc<Mutex<Kept>>);

#[async_trait]
impl Cluster for FakeCluster {
    async fn id(&self) -> Result<String, ClusterError> {
        Ok(CLUSTER.to_owned())
    }

    async fn services(&self) -> Result<Vec<ServiceView>, ClusterError> {
        let kept = self.0.lock().unwrap();
        if kept.fails {
            return Err(ClusterError("down".to_owned()));
        }
        Ok(kept.services.clone())
    }

    async fn apply_l2_network(&self, name: &str, spec: Value) -> Result<(), ClusterError> {
        let mut kept = self.0.lock().unwrap();
        kept.segments.push((name.to_owned(), spec));
        Ok(())
    }

    async fn annotate_node(
        &self,
        name: &str,
        annotations: &NodeAnnotations,
    ) -> Result<(), ClusterError> {
        let mut kept = self.0.lock().unwrap();
        kept.annotated.push((name.to_owned(), annotations.clone()));
        Ok(())
    }

    async fn claim(&self) -> Result<Claim, ClusterError> {
        let kept = self.0.lock().unwrap();
        Ok(Claim {
            text: kept.claim.clone(),
            version: kept.version.to_string(),
            has_annotations: true,
        })
    }

    async fn swap_claim(
        &self,
        before: &Claim,
        text: Option<String>,
    ) -> Result<Option<Claim>, ClusterError> {
        let mut kept = self.0.lock().unwrap();
        if before.version != kept.version.to_string() {
            return Ok(None);
        }
        kept.version += 1;
        kept.claim = text;
        Ok(Some(Claim {
            text: kept.claim.clone(),
            version: kept.version.to_string(),
            has_annotations: true,
        }))
    }
}

/// Lets everything through, unless it is shut.
#[derive(Default)]
pub(crate) struct OpenGuard {
    pub(crate) is_shut: bool,
    pub(crate) told: Mutex<Vec<(&'static str, String)>>,
    pub(crate) freed: Mutex<usize>,
    pub(crate) nodes: Vec<Arc<NodeView>>,
}

#[async_trait]
impl WriteGuard for OpenGuard {
    fn before_write(&self) -> Result<(), Stop> {
        match self.is_shut {
            true => Err(Stop::Changed),
            false => Ok(()),
        }
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        self.before_write()
    }

    fn written(&self) {}
}

#[async_trait]
impl CollectorContext for OpenGuard {
    async fn report(&self, _: EventKind, reason: &'static str, note: &str) {
        self.told.lock().unwrap().push((reason, note.to_owned()));
    }

    fn nodes(&self) -> Vec<Arc<NodeView>> {
        self.nodes.clone()
    }

    fn freed(&self) {
        *self.freed.lock().unwrap() += 1;
    }

    async fn ending(&self) {
        std::future::pending::<()>().await;
    }
}
