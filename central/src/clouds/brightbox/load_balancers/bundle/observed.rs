//! What there is, as the engine has to know it, and as it is once a step was carried out: so that nobody has to ask.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::super::super::api::{Balancer, CloudIp, Group, Policy, Reference};
use super::super::step::Step;
use super::Bundle;
use crate::engine::members::Members;
use crate::engine::pool::NoMember;
use crate::engine::provider;

impl provider::Observed for Bundle {
    type Listed = Self;
    type Step = Step;
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
        let mut listeners = self.balancers.iter().flat_map(|one| &one.listeners);
        let nodes = self.balancers.iter().map(|balancer| &balancer.nodes);
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

    fn created(step: &Step, _id: &str) -> Option<Self> {
        match step {
            Step::CreateGroup(new) => Some(Self::named(&new.name, Instant::now())),
            _ => None,
        }
    }

    fn take(&mut self, step: &Step, made: &str, planned: &mut Vec<String>) {
        let id = made.to_owned();
        match step {
            Step::CreateGroup(new) => {
                planned.push(id.clone());
                self.groups.push(Group { id, ..new.clone() });
                self.settle();
            }
            Step::AddServers { group, servers } => {
                if let Some(group) = group.id(planned).and_then(|id| self.group(id)) {
                    group.servers.extend(servers.iter().cloned());
                }
            }
            Step::RemoveServers { group, servers } => {
                if let Some(group) = self.group(group) {
                    group.servers.retain(|server| !servers.contains(server));
                }
            }
            Step::CreatePolicy { name, group } => {
                let group = group.id(planned).map(Reference::of);
                planned.push(id.clone());
                self.policies.push(Policy {
                    id,
                    name: name.clone(),
                    server_group: group,
                    ..Policy::default()
                });
            }
            Step::ApplyPolicy { policy, group } => {
                let group = group.id(planned).map(Reference::of);
                if let Some(policy) = self.policy(policy) {
                    policy.server_group = group;
                }
            }
            Step::Rule(policy, edit) => {
                if let Some(policy) = policy.id(planned).and_then(|id| self.policy(id)) {
                    edit.take(&mut policy.rules, id);
                }
            }
            Step::CreateCloudIp { name } => {
                planned.push(id.clone());
                self.cloud_ips.push(CloudIp {
                    id,
                    name: name.clone(),
                    ..CloudIp::default()
                });
            }
            Step::MapCloudIp { ip, .. } => {
                if let Some(id) = ip.id(planned) {
                    self.moves(id);
                }
            }
            Step::UnmapCloudIp { ip, .. } => self.moves(&ip.id),
            Step::DeleteCloudIp { ip } => self.cloud_ips.retain(|own| own.id != ip.id),
            Step::CreateBalancer(new) => {
                planned.push(id.clone());
                self.balancers.push(new.as_it_is(id));
                self.settle();
            }
            Step::ChangeBalancer { change, .. } => {
                if let Some(balancer) = self.balancer_mut() {
                    change.take(balancer);
                }
            }
            Step::RemoveNodes { nodes, .. } => {
                if let Some(balancer) = self.balancer_mut() {
                    balancer.nodes.retain(|node| !nodes.contains(node));
                }
            }
            // Removals look anew.
            Step::EmptyGroup { .. }
            | Step::DeleteBalancer { .. }
            | Step::DeletePolicy { .. }
            | Step::DeleteGroup { .. } => {}
        }
    }
}
