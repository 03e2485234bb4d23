//! What the sweep needs of a cloud.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use http::StatusCode;
use k8s_openapi::api::core::v1::Service;

use super::case_cluster::CaseCluster;
use super::disturbance::Disturbance;
use super::reference::Reference;
use crate::clouds::SimulatedCloud;
use mooring_cloud_sim::{Calls, CloudState};
use mooring_test_cluster::objects::ServiceBuilder;

/// The Service that all is about.
pub(super) const WEB: &str = "web";

/// What a user does, which takes central several calls.
pub trait Operation: Copy + Ord + fmt::Debug + Send + Sync + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// As in `CASE=`.
    fn name(self) -> &'static str;

    /// Whether Nodes come or go. All centrals look again then, which would hide what they have forgotten: such
    /// cases are done one after the other, when all others are.
    fn moves_nodes(self) -> bool;

    /// The one of this name.
    ///
    /// # Errors
    /// If there is none.
    fn named(name: &str) -> Result<Self> {
        let mut all = Self::ALL.iter().copied();
        let found = all.find(|operation| operation.name() == name);
        found.with_context(|| format!("there is no operation {name:?}"))
    }
}

/// A cloud that is swept.
pub(crate) trait SweptCloud: SimulatedCloud {
    /// What users do.
    type Operation: Operation;

    /// What goes wrong.
    const DISTURBANCES: &'static [Disturbance];

    /// Central's flags besides.
    const FLAGS: &'static [&'static str];

    /// Puts there what is there besides machines.
    fn furnish(&self);

    /// A Service as it is to be, whose Nodes have this label.
    fn choosing_nodes(service: ServiceBuilder, _selector: &str) -> ServiceBuilder {
        service
    }

    /// Makes what has to be there before.
    async fn prepare(case: &CaseCluster<Self>, operation: Self::Operation) -> Result<()>;

    /// Does it.
    async fn begin(case: &CaseCluster<Self>, operation: Self::Operation) -> Result<()>;

    /// What is missing in the cloud until it is over.
    fn missing(case: &CaseCluster<Self>, operation: Self::Operation) -> Option<String>;

    /// What there is in the end.
    fn end(&self) -> CloudState;

    /// The name of a Service's load balancer.
    fn name_of(&self, service: &Service) -> Option<String>;

    /// What is named after the UID of a Service, and how to call it instead.
    fn words(&self, _service: &Service) -> Vec<(String, String)> {
        Vec::new()
    }

    /// How many load balancers there are of Services.
    fn balancers(&self) -> usize;

    /// What a Service does not say of its load balancer as it should.
    fn faults_of(&self, service: &Service) -> Vec<String>;

    /// How many writes there have been for a Service.
    fn writes_for(&self, service: &Service) -> u64;

    /// Central must never have written twice at once, what the cloud refuses, or too much.
    ///
    /// # Errors
    /// Whatever it should not have done. `reference`: what it does undisturbed.
    fn was_careful(
        &self,
        operation: Self::Operation,
        disturbance: Disturbance,
        reference: Option<&Reference>,
    ) -> Result<()>;
}

/// The cloud must have taken all that was written.
///
/// # Errors
/// If it has refused something of its own accord.
pub(super) fn none_refused(writes: &Calls) -> Result<()> {
    let is_error = |status: StatusCode| status.is_client_error() || status.is_server_error();
    let refused = writes.filter(|call| !call.faulty && call.status.is_some_and(is_error));
    let refused = refused.summary();
    ensure!(refused.is_empty(), "the cloud refused:\n{refused}");
    Ok(())
}
