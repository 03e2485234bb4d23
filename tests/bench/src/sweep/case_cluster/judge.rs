//! How a case ended.

use std::sync::PoisonError;

use anyhow::{Result, anyhow, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;

use super::{CaseCluster, LIMIT, MARKER};
use crate::clouds::to_serve;
use crate::sweep::reference::Reference;
use crate::sweep::swept_cloud::SweptCloud;
use mooring_cloud_sim::CloudState;
use mooring_test_support::wait::try_eventually;

impl<C: SweptCloud> CaseCluster<C> {
    /// What there is in the cloud, but for the marker's.
    pub(in crate::sweep) fn end(&self) -> CloudState {
        let wanted = self.wanted().clone();
        let marker = wanted.get(MARKER);
        let state = self.cloud.end();
        let state = match marker.and_then(|marker| self.cloud.name_of(marker)) {
            Some(name) => state.without(&name),
            None => state,
        };
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let mut words = words.clone();
        for service in wanted.values() {
            words.extend(self.cloud.words(service));
        }
        state.renamed(&words)
    }

    /// What is not as it is undisturbed.
    pub(in crate::sweep) async fn wrong(&self, reference: &Reference) -> Result<Vec<String>> {
        let wrong = reference.end.diff(&self.end());
        if wrong.is_empty() {
            self.wrong_services().await
        } else {
            Ok(wrong)
        }
    }

    /// A Service as it is wanted.
    pub(in crate::sweep) fn wanted_of(&self, name: &str) -> Option<Service> {
        self.wanted().get(name).cloned()
    }

    /// What a Service's load balancer does not serve as it should, before so many Nodes.
    pub(in crate::sweep) fn unserved(&self, nodes: usize) -> Option<String> {
        let services: Vec<Service> = self.wanted().values().cloned().collect();
        let found = self.cloud.served(&services);
        let nodes: Vec<usize> = (1..=nodes).collect();
        let mut unserved = services.iter().zip(found).filter_map(|(service, found)| {
            let wanted = to_serve::<C>(service, &nodes);
            (wanted != found).then(|| format!("{found:?} is served instead of {wanted:?}"))
        });
        unserved.next()
    }

    /// Waits until so many of the Nodes serve each Service.
    pub(in crate::sweep) async fn serve(&self, nodes: usize) -> Result<()> {
        let served = try_eventually(LIMIT, async || self.unserved(nodes).map_or(Ok(()), Err));
        served.await.map_err(|reason| anyhow!("{reason}"))
    }

    /// Waits until each Service says what it has.
    pub(in crate::sweep) async fn are_served(&self) -> Result<()> {
        let served = try_eventually(LIMIT, async || -> Result<()> {
            let all = self.wanted().len();
            let found = self.cloud.balancers();
            ensure!(found >= all, "{found} load balancers for {all} Services");
            let wrong = self.wrong_services().await?;
            ensure!(wrong.is_empty(), "{}", wrong.join("; "));
            Ok(())
        });
        served.await.map_err(|reason| anyhow!("{reason}"))
    }

    /// What the Services do not say as they should.
    pub(in crate::sweep) async fn wrong_services(&self) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let found = self.api().list(&ListParams::default()).await?;
        let wanted: Vec<String> = self.wanted().keys().cloned().collect();
        for service in &found {
            let name = service.metadata.name.clone().unwrap_or_default();
            if !wanted.contains(&name) {
                wrong.push(format!("{name} is still there"));
                continue;
            }
            let faults = self.cloud.faults_of(service);
            wrong.extend(faults.into_iter().map(|fault| format!("{name} {fault}")));
        }
        if found.items.len() < wanted.len() {
            wrong.push("a Service is gone".to_owned());
        }
        Ok(wrong)
    }
}
