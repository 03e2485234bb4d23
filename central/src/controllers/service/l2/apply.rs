//! Writes on a Service, and says so.

use std::net::IpAddr;
use std::time::Instant;

use mooring_common::engine::{Outcome, Plan};
use mooring_common::k8s::EventKind;
use mooring_common::names::{annotations, labels, reasons};

use super::L2Services;
use super::observe::{Obstacle, recorded};
use super::patch::operations;
use super::plan::{self, Decision, ServiceStep};
use crate::controllers::address_pool::Unavailable;
use crate::controllers::service::api::{fresh, patch};
use crate::controllers::service::{Failure, Reason};
use crate::views::service_view::ServiceView;

/// How often a Service that somebody else has changed is read and planned anew within one pass.
const ATTEMPTS: u32 = 5;

impl L2Services {
    pub(super) async fn apply(
        &self,
        mut service: ServiceView,
        mut decision: Decision,
    ) -> Outcome<Failure> {
        for _ in 0..ATTEMPTS {
            let outcome = match decision {
                Decision::Leave(why) => {
                    self.warn_of_other_load_balancer(&service).await;
                    if self.allocations.leave(&service.key, &service.status) {
                        self.address_came_back();
                    }
                    return Outcome::NotOurs(why.to_owned());
                }
                Decision::Refuse(obstacle) => return self.refuse(&service, obstacle).await,
                Decision::Withdraw(plan, obstacle) => {
                    match self.withdraw(&mut service, &plan).await {
                        Ok(()) => return self.refuse(&service, obstacle).await,
                        Err(error) => Err(error),
                    }
                }
                Decision::Provide(plan) if plan::restores(&service, &plan) => {
                    if let Some(delay) = self.restorations.wait(&service.key, Instant::now()) {
                        return Outcome::RetryAfter(delay);
                    }
                    let provided = self.provide(&mut service, &plan).await;
                    if provided.is_ok() {
                        self.restorations.note(&service.key, Instant::now());
                    }
                    provided
                }
                Decision::Provide(plan) => self.provide(&mut service, &plan).await,
                Decision::CleanUp(plan) => self.clean_up(&mut service, &plan).await,
            };
            match outcome {
                Ok(()) => return Outcome::Done,
                Err(Failure::Conflict) => {}
                Err(Failure::NotLeading(error)) => return Outcome::Backoff(error.into()),
                Err(error) => return self.failed(&service, error).await,
            }
            match fresh(&self.context.client, &service.key).await {
                Ok(Some(read)) => service = read,
                Ok(None) => return Outcome::Done,
                Err(error) => return self.failed(&service, error.into()).await,
            }
            let observed = self.observe(&service);
            decision = plan::plan(&service, &observed);
        }
        Outcome::Backoff(Failure::Conflict)
    }

    async fn provide(
        &self,
        service: &mut ServiceView,
        plan: &Plan<ServiceStep>,
    ) -> Result<(), Failure> {
        self.warn_of_conflicts(service).await;
        if plan.is_empty() {
            self.settle(service);
            return Ok(());
        }
        self.normal(
            service,
            reasons::ENSURING_LOAD_BALANCER,
            "Ensuring load balancer",
        )
        .await;
        for step in plan.steps() {
            self.take(service, step).await?;
        }
        self.settle(service);
        if let Some(note) = self.nobody_announces(service) {
            let reason = reasons::UNAVAILABLE_LOAD_BALANCER;
            self.warn(service, reason, &note).await;
        }
        (self.changed)();
        self.normal(
            service,
            reasons::ENSURED_LOAD_BALANCER,
            "Ensured load balancer",
        )
        .await;
        Ok(())
    }

    /// What is wrong with the addresses that the Service has or gets.
    async fn warn_of_conflicts(&self, service: &ServiceView) {
        if let Some((address, whose)) = self.allocations.conflict(&service.key) {
            let note = format!(
                "{address} is {whose} by now, and the daemons may not announce it for the Service; \
                 give that another address, or ask for another one for the Service in the annotation \
                 {}",
                annotations::ADDRESSES_REQUEST
            );
            self.warn(service, reasons::ADDRESS_RESERVED, &note).await;
        }
        self.warn_of_other_load_balancer(service).await;
        let reason = reasons::SHARING_CONFLICT;
        if let Some(collision) = self.allocations.collision(&service.key) {
            let held = self
                .allocations
                .held(&service.key)
                .map(|held| held.addresses);
            let note = format!(
                "{collision}, so that this one gets {} instead; to have the address again, give one of \
                 them another port, and ask for it in the annotation {}",
                list(&held.unwrap_or_default()),
                annotations::ADDRESSES_REQUEST
            );
            self.warn(service, reason, &note).await;
        }
        let irregular = self.allocations.irregular_sharing(&service.key);
        if !irregular.is_empty() {
            let all: Vec<String> = irregular
                .iter()
                .map(|(address, with)| format!("{address} with {with}"))
                .collect();
            let note = format!(
                "the Service shares {}; it keeps what it has, but could not get it again; change that, or \
                 give one of them another address in the annotation {}",
                all.join("; "),
                annotations::ADDRESSES_REQUEST
            );
            self.warn(service, reason, &note).await;
        }
    }

    /// That something else serves it with addresses of Nodes, as the load balancer of k3s does.
    async fn warn_of_other_load_balancer(&self, service: &ServiceView) {
        let is_ours = service.wants_load_balancer() && self.serves(service);
        if !is_ours || !self.allocations.are_of_nodes(&service.status) {
            return;
        }
        let note = format!(
            "another load balancer has written {} into the status, which are addresses of Nodes; if that is the \
             one of k3s, start its servers with --disable=servicelb, or give the Service a loadBalancerClass",
            list(&service.status)
        );
        self.warn(service, reasons::OTHER_LOAD_BALANCER, &note)
            .await;
    }

    /// Takes from a Service what another one has on the same port.
    async fn withdraw(
        &self,
        service: &mut ServiceView,
        plan: &Plan<ServiceStep>,
    ) -> Result<(), Failure> {
        for step in plan.steps() {
            self.take(service, step).await?;
        }
        self.settle(service);
        Ok(())
    }

    /// That no Node may announce what the Service holds, and why.
    fn nobody_announces(&self, service: &ServiceView) -> Option<String> {
        let held = self.allocations.held(&service.key)?;
        let all = self.context.nodes.all();
        let staying: Vec<_> = all.iter().filter(|(_, node)| !node.is_going()).collect();
        let includes_excluded = self.allocations.includes_excluded(&held.network);
        if staying
            .iter()
            .any(|(_, node)| includes_excluded || !node.is_excluded())
        {
            return None;
        }
        let note = "There are no available nodes for LoadBalancer";
        if staying.is_empty() {
            return Some(note.to_owned());
        }
        Some(format!(
            "{note}: all have the label {}, as kubeadm sets it on the control plane; take it off where Nodes are to \
             announce addresses, or set spec.includeExcludedNodes of the L2Network {}",
            labels::EXCLUDE_FROM_LOAD_BALANCERS,
            held.network
        ))
    }

    /// Its status says what it holds: what it had before can go to others.
    fn settle(&self, service: &ServiceView) {
        if self.allocations.settle(&service.key) {
            self.address_came_back();
        }
    }

    async fn clean_up(
        &self,
        service: &mut ServiceView,
        plan: &Plan<ServiceStep>,
    ) -> Result<(), Failure> {
        let held = self.allocations.held(&service.key).is_some() || recorded(service).is_some();
        if held {
            self.normal(
                service,
                reasons::DELETING_LOAD_BALANCER,
                "Deleting load balancer",
            )
            .await;
        }
        for step in plan.steps() {
            self.take(service, step).await?;
        }
        self.allocations.release(&service.key);
        self.address_came_back();
        if held {
            self.normal(
                service,
                reasons::DELETED_LOAD_BALANCER,
                "Deleted load balancer",
            )
            .await;
        }
        Ok(())
    }

    async fn take(&self, service: &mut ServiceView, step: &ServiceStep) -> Result<(), Failure> {
        self.context.leadership.check()?;
        match patch(
            &self.context.client,
            &service.key,
            operations(service, step),
        )
        .await
        {
            Ok(written) => {
                tracing::info!("{step}");
                *service = written;
                Ok(())
            }
            Err(Failure::Gone) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn refuse(&self, service: &ServiceView, obstacle: Obstacle) -> Outcome<Failure> {
        let unavailable = obstacle.unavailable().cloned();
        let reason = unavailable
            .as_ref()
            .map_or(Reason::Invalid, |why| Reason::Unavailable(why.label()));
        self.without_address.meets(&service.key, reason);
        if unavailable.as_ref().is_some_and(Unavailable::is_momentary) {
            return Outcome::WaitForChange(obstacle.to_string());
        }
        let note = format!("Error syncing load balancer: {obstacle}");
        self.warn(service, reasons::SYNC_LOAD_BALANCER_FAILED, &note)
            .await;
        match unavailable {
            Some(why) if why.may_pass() => Outcome::Backoff(why.into()),
            _ => Outcome::WaitForChange(obstacle.to_string()),
        }
    }

    async fn failed(&self, service: &ServiceView, error: Failure) -> Outcome<Failure> {
        let note = format!("Error syncing load balancer: {error}");
        self.warn(service, reasons::SYNC_LOAD_BALANCER_FAILED, &note)
            .await;
        Outcome::Backoff(error)
    }

    async fn normal(&self, service: &ServiceView, reason: &str, note: &str) {
        self.events
            .report(&service.reference(), EventKind::Normal, reason, note)
            .await;
    }

    async fn warn(&self, service: &ServiceView, reason: &str, note: &str) {
        self.events
            .report(&service.reference(), EventKind::Warning, reason, note)
            .await;
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    all.join(" and ")
}
