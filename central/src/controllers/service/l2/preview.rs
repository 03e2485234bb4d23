//! What a pass over all Services would come to, without a controller: for commands that show a plan. Nothing is
//! written.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_common::engine::Step as _;
use mooring_common::names::reasons;
use mooring_common::node_view::NodeView;

use super::observe::observe;
use super::plan::{Decision, plan};
use super::{claim_of, request};
use crate::cloud_provider::load_balancers::{Notice, PlanSummary, PlannedStep};
use crate::controllers::address_pool::{Allocations, Claim, Namespace};
use crate::controllers::service::routing::{Routing, Server};
use crate::views::service_view::ServiceView;

/// What the cluster says, and what there is to allocate from.
pub struct L2Snapshot<'a> {
    /// All Services, also those that get nothing here: what they have goes to nobody else.
    pub services: &'a [Arc<ServiceView>],
    /// All Nodes, whose addresses are no Service's.
    pub nodes: Vec<&'a NodeView>,
    /// The labels of all namespaces by name; `None`: they cannot be listed.
    pub namespaces: Option<&'a BTreeMap<String, BTreeMap<String, String>>>,
    /// What there is, with nothing held.
    pub allocations: Allocations,
    /// Who serves which Service.
    pub routing: &'a Routing,
}

/// Each Service that L2Networks serve with its plan, or why it gets no address; the oldest first, as addresses are
/// given out.
#[must_use]
pub fn preview(snapshot: &L2Snapshot<'_>) -> Vec<(Arc<ServiceView>, Result<PlanSummary, String>)> {
    let mut services = snapshot.services.to_vec();
    services.sort_by(|a, b| (a.created, &a.key).cmp(&(b.created, &b.key)));
    for node in &snapshot.nodes {
        let addresses = node.addresses.iter();
        let addresses = addresses.filter_map(|address| address.address.parse().ok());
        let addresses: Vec<IpAddr> = addresses.collect();
        snapshot
            .allocations
            .node_changed(&node.name, &[], &addresses);
    }
    let claims: Vec<Claim> = services
        .iter()
        .map(|service| {
            let serves = snapshot.serves(service);
            claim_of((**service).clone(), snapshot.namespace(service), serves)
        })
        .collect();
    snapshot.allocations.seed(&claims);
    services
        .into_iter()
        .filter(|service| snapshot.serves(service))
        .filter_map(|service| Some((service.clone(), snapshot.plan(&service)?)))
        .collect()
}

impl L2Snapshot<'_> {
    fn serves(&self, service: &ServiceView) -> bool {
        self.routing.server(service) == Some(Server::L2Networks)
    }

    fn namespace(&self, service: &ServiceView) -> Namespace {
        match self.namespaces {
            None => Namespace::NotListed,
            Some(all) => match all.get(&service.key.namespace) {
                Some(labels) => Namespace::Known(labels.clone()),
                None => Namespace::Absent,
            },
        }
    }

    /// `None`: there is nothing to say of it.
    fn plan(&self, service: &ServiceView) -> Option<Result<PlanSummary, String>> {
        let terms = request::terms(service);
        self.allocations.set_terms(&service.key, Some(terms));
        let allocated = observe(service, self.namespace(service), &self.allocations);
        match plan(service, &allocated) {
            Decision::Leave(why) if service.wants_load_balancer() => {
                let notice = Notice {
                    reason: reasons::OTHER_LOAD_BALANCER,
                    note: why.to_owned(),
                    by_provider: false,
                };
                Some(Ok(PlanSummary {
                    steps: Vec::new(),
                    notices: vec![notice],
                    refused: None,
                }))
            }
            Decision::Leave(_) => None,
            Decision::Refuse(obstacle) | Decision::Withdraw(_, obstacle) => {
                Some(Err(obstacle.to_string()))
            }
            Decision::Provide(plan) | Decision::CleanUp(plan) => {
                let steps = plan.steps().iter().map(|step| PlannedStep {
                    step: step.to_string(),
                    impact: step.impact(),
                });
                Some(Ok(PlanSummary {
                    steps: steps.collect(),
                    notices: Vec::new(),
                    refused: None,
                }))
            }
        }
    }
}
