//! What there is, as the engine has to know it, and as it is once a step was carried out: so that nobody has to ask.

use std::collections::BTreeSet;

use super::super::super::api::{Balancer, Group};
use super::Bundle;
use crate::engine::members::Members;
use crate::engine::pool::NoMember;
use crate::engine::provider;
use crate::engine::resource_step::ResourceStep;

impl provider::Observed for Bundle {
    type Listed = Self;
    type Step = ResourceStep;
    type Member = NoMember;

    fn listed(&self) -> &Self {
        self
    }

    fn listed_mut(&mut self) -> &mut Self {
        self
    }

    /// No load balancer, no servers, and Cloud IPs at most that lead nowhere.
    fn is_unused(&self) -> bool {
        let has_servers = |group: &Group| !group.servers.is_empty();
        self.balancers.is_empty() && !self.groups.iter().any(has_servers)
    }

    fn lacks_parts(&self) -> bool {
        self.balancer().is_none() || self.groups.is_empty() || self.policies.is_empty()
    }

    fn cost(&self) -> usize {
        usize::from(self.balancer().is_some_and(Balancer::has_https))
    }

    /// By its load balancers, or else by the servers of its groups. What has neither is worth something only
    /// if it has a Cloud IP.
    fn leads_to(&self, ports: &BTreeSet<u16>, members: &Members) -> bool {
        let machines: BTreeSet<&str> = members.found.iter().map(|one| one.id.as_str()).collect();
        let is_here = |servers: &BTreeSet<String>| {
            let mut servers = servers.iter();
            servers.any(|server| machines.contains(server.as_str()))
        };
        let mut listeners = self.balancers.iter().flat_map(|one| &one.spec.listeners);
        let nodes = self.balancers.iter().map(|balancer| &balancer.spec.nodes);
        let servers = nodes.chain(self.groups.iter().map(|group| &group.servers));
        let mut servers = servers.filter(|servers| !servers.is_empty()).peekable();
        if servers.peek().is_none() {
            return self.balancers.is_empty() && self.cloud_ips.is_empty();
        }
        listeners.all(|listener| ports.contains(&listener.target)) && servers.any(is_here)
    }

    fn exclusives(&self) -> &BTreeSet<String> {
        &self.held
    }

    fn loses(&mut self, id: &str) {
        self.held.remove(id);
        for balancer in &mut self.balancers {
            balancer.cloud_ips.retain(|ip| ip.id != id);
        }
        let name = self.name.clone();
        self.cloud_ips.retain(|ip| ip.id != id || ip.name == name);
    }

    fn created(step: &ResourceStep, _id: &str) -> Option<Self> {
        let new = step.creates::<Group>()?;
        Some(Self::named(new.get("name")?.as_str()?))
    }

    fn take(&mut self, step: &ResourceStep, made: &str, planned: &mut Vec<String>) {
        if let Some(policy) = self.policies.first_mut() {
            step.take(&mut policy.rules, made, planned);
        }
        let is_referred_to = step.take(&mut self.groups, made, planned)
            || step.take(&mut self.policies, made, planned)
            || step.take(&mut self.cloud_ips, made, planned)
            || step.take(&mut self.balancers, made, planned);
        if is_referred_to {
            planned.push(made.to_owned());
        }
        self.settle();
    }
}
