//! A Service that is to have an address: what is looked at for it, and what it then says.

use std::net::Ipv4Addr;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::k8s::ObjectKey;
use mooring_common::names::annotations;

use super::super::setting::Setting;
use super::allocate::allocate;
use super::ownership::Owner;
use super::plan::{Next, buyer, instead_of_another, next, removal};
use super::state::{Blocks, FRESH};
use super::step::Step;
use super::{POLL, l2_network, notices, ownership};
use crate::cloud_provider::load_balancers::{InvalidField, LoadBalancerStatus, ReconcileError};
use crate::engine::address_blocks::{Observe as _, Serve, list};
use crate::engine::ip_allocation::IpRequest;
use crate::views::service_view::{Ingress, ServiceView};

/// How old the knowledge of a network is at most by which an address of it is given to a Service: a server
/// may have got the address.
const MEMBERS: Duration = Duration::from_secs(30);

#[async_trait]
impl Serve for Blocks {
    async fn prepare(&mut self) -> Result<(), ReconcileError> {
        self.look_at_location().await
    }

    fn next(&self, requests: &[IpRequest], own: &IpRequest) -> Next {
        let observed = self.observed(requests);
        next(&observed, own, &allocate(&observed))
    }

    async fn look_again(&mut self, found: &Next) -> Result<bool, ReconcileError> {
        let before = self.state.as_of;
        list(self, self.state.recent(self.oldest(found))).await?;
        // A network that was at work may be so no more.
        list(self, self.state.recent(self.oldest(found))).await?;
        let age = match found {
            Next::Take(Step::Attach { network, .. }) => (!self.is_at_work(network)).then_some(POLL),
            Next::Take(Step::Buy { .. }) => Some(POLL),
            Next::Provide { .. } => Some(MEMBERS),
            _ => None,
        };
        if let Some(age) = age {
            self.look_at_network(self.state.recent(age)).await?;
        }
        Ok(age.is_some() || self.state.as_of != before)
    }

    fn with_needs(&self, step: Step) -> Vec<Step> {
        let names = ownership::names(self.settings.flags.shares_blocks);
        let needs_tags = matches!(step, Step::Buy { .. }) && !self.knows_tags(names);
        let tags = needs_tags.then_some(Step::EnsureTags(names));
        tags.into_iter().chain([step]).collect()
    }

    fn removal(&self, others: &[IpRequest], going: &IpRequest) -> Vec<Step> {
        removal(&self.observed(others), going)
    }

    fn buyer(&self, service: &ObjectKey) -> Owner {
        buyer(&self.observed(&[]), service)
    }

    fn hinders(&self, owner: &Owner) -> bool {
        instead_of_another(&self.observed(&[]), owner).is_some()
    }

    /// Another location than that of the blocks. A location in the configuration wins over it, as the Go
    /// controller's README has it.
    fn faults(&self, service: &ServiceView) -> Vec<InvalidField> {
        let key = &self.settings.location_annotation;
        let asked = service.annotation(key).map(str::trim).unwrap_or_default();
        let there = self.observed(&[]).location;
        let is_fit = asked.is_empty() || asked.eq_ignore_ascii_case(there);
        if is_fit || self.settings.location.is_some() {
            return Vec::new();
        }
        let remedy = format!(
            "is not where the public network is, and a block cannot be assigned to a network of another \
             location; write {there}, or nothing"
        );
        vec![InvalidField::new(
            format!("annotation {key}"),
            asked,
            remedy,
        )]
    }

    fn notice(&self, service: &ServiceView, step: &Step) -> Option<(&'static str, String)> {
        notices::of(self, service, step)
    }

    fn status(&self, address: Ipv4Addr) -> LoadBalancerStatus {
        let text = address.to_string();
        let setting = &self.settings.setting;
        let mut annotations = vec![(annotations::ALLOCATED_ADDRESSES, text.clone())];
        if let Some((network, _)) = &self.network {
            annotations.push((annotations::PUBLIC_NETWORK, network.id.clone()));
            if matches!(setting, Setting::L2(_)) {
                let name = l2_network::name(&network.id);
                annotations.push((annotations::ALLOCATED_NETWORK, name));
            }
        }
        LoadBalancerStatus {
            // Whoever speaks BGP goes by the status.
            load_balancer_ip: matches!(setting, Setting::KubeVip(_)).then(|| text.clone()),
            ingress: vec![Ingress::vip(text)],
            annotations,
            ..LoadBalancerStatus::default()
        }
    }
}

impl Blocks {
    /// How old the listing may be at most by which this is done.
    fn oldest(&self, found: &Next) -> Duration {
        match found {
            Next::Take(Step::Attach { block, .. }) if self.state.has_just_bought(block, POLL) => {
                POLL
            }
            Next::Take(Step::Attach { network, .. } | Step::Detach { network, .. })
                if !self.is_at_work(network) =>
            {
                FRESH
            }
            _ => POLL,
        }
    }
}
