//! What there is once a step was carried out: so that nobody has to ask.

use std::collections::BTreeSet;

use super::super::super::api::Reference;
use super::super::super::api::cloud_ips::CloudIp;
use super::super::super::api::firewall::{Group, Policy, Rule};
use super::super::step::Step;
use super::Bundle;

impl Bundle {
    /// A step was carried out. `made`: the identifier of what it has made; `planned`: of all that was made before.
    pub(super) fn takes(&mut self, step: &Step, made: &str, planned: &mut Vec<String>) {
        let id = made.to_owned();
        match step {
            Step::CreateGroup { name, description } => {
                planned.push(id.clone());
                self.groups.push(Group {
                    id,
                    name: name.clone(),
                    description: description.clone(),
                    servers: BTreeSet::new(),
                });
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
                let group = group.id(planned).map(|id| Reference {
                    id: id.to_owned(),
                    name: name.clone(),
                });
                planned.push(id.clone());
                self.policies.push(Policy {
                    id,
                    name: name.clone(),
                    server_group: group,
                    rules: Vec::new(),
                });
            }
            Step::ApplyPolicy { policy, group } => {
                let group = group.id(planned).map(|id| Reference {
                    id: id.to_owned(),
                    name: String::new(),
                });
                if let Some(policy) = self.policy(policy) {
                    policy.server_group = group;
                }
            }
            Step::CreateRule { policy, rule } => {
                if let Some(policy) = policy.id(planned).and_then(|id| self.policy(id)) {
                    let spec = rule.clone();
                    policy.rules.push(Rule { id, spec });
                }
            }
            Step::ChangeRule { id, rule, .. } => {
                for known in self.rules().filter(|known| known.id == *id) {
                    known.spec = rule.clone();
                }
            }
            Step::DeleteRule { id, .. } => {
                for policy in &mut self.policies {
                    policy.rules.retain(|rule| rule.id != *id);
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
