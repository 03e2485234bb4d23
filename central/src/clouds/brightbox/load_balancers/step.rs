//! What can be done to what a Service has: each step is one request.
//!
//! A step's impact is what those notice who use what is still wanted.

use std::collections::BTreeSet;
use std::fmt;

use mooring_common::engine::{self, Impact};
use serde_json::{Value, json};

use super::super::api::balancers::BALANCERS;
use super::super::api::cloud_ips::{self, CLOUD_IPS, CloudIp};
use super::super::api::firewall::{
    GROUPS, POLICIES, RULES, RuleSpec, add_servers, apply_policy, remove_nodes, remove_servers,
};
use super::model::{BalancerChange, NewBalancer};
use crate::cloud_api::{Request, body};
use crate::engine::step::{self, Effect, PoolRef};

/// One request that changes something. What a plan makes is referred to by its place among all that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Makes the server group, whose description is the mark.
    CreateGroup { name: String, description: String },
    /// Puts servers into it.
    AddServers {
        group: PoolRef,
        servers: BTreeSet<String>,
    },
    /// Takes servers out of it that carry no traffic any more.
    RemoveServers {
        group: String,
        servers: BTreeSet<String>,
    },
    /// Takes out all of them, so that it can go.
    EmptyGroup {
        group: String,
        servers: BTreeSet<String>,
    },
    /// Makes the firewall policy of the group.
    CreatePolicy { name: String, group: PoolRef },
    /// Applies it to the group.
    ApplyPolicy { policy: String, group: PoolRef },
    /// Lets more through.
    CreateRule { policy: PoolRef, rule: RuleSpec },
    /// Lets other ports through.
    ChangeRule {
        id: String,
        rule: RuleSpec,
        impact: Impact,
    },
    /// Lets less through.
    DeleteRule { id: String, rule: RuleSpec },
    /// Makes a Cloud IP of the Service's own.
    CreateCloudIp { name: String },
    /// Lets a Cloud IP lead to the load balancer. `asked`: its identifier, if the Service names it.
    MapCloudIp {
        ip: PoolRef,
        balancer: PoolRef,
        asked: Option<String>,
    },
    /// Lets one lead nowhere, so that it can lead here or go. `asked`: as above.
    UnmapCloudIp { ip: CloudIp, asked: Option<String> },
    /// Gives one back.
    DeleteCloudIp { ip: CloudIp },
    /// Makes the load balancer.
    CreateBalancer(Box<NewBalancer>),
    /// Changes it.
    ChangeBalancer {
        id: String,
        change: Box<BalancerChange>,
        impact: Impact,
    },
    /// Takes all servers from it.
    RemoveNodes { id: String, nodes: BTreeSet<String> },
    /// Deletes a load balancer.
    DeleteBalancer { id: String, name: String },
    /// Deletes the firewall policy with its rules.
    DeletePolicy { id: String, name: String },
    /// Deletes the server group.
    DeleteGroup { id: String, name: String },
}

impl Step {
    /// The request. `planned`: what was made in this plan. None: it needs something that was not made.
    pub(super) fn request(&self, planned: &[String]) -> Option<Request> {
        Some(match self {
            Self::CreateGroup { name, description } => {
                GROUPS.create(&[], json!({"name": name, "description": description}))
            }
            Self::AddServers { group, servers } => add_servers(group.id(planned)?, servers),
            Self::RemoveServers { group, servers } | Self::EmptyGroup { group, servers } => {
                remove_servers(group, servers)
            }
            Self::CreatePolicy { name, group } => POLICIES.create(
                &[],
                json!({"name": name, "server_group": group.id(planned)?}),
            ),
            Self::ApplyPolicy { policy, group } => apply_policy(policy, group.id(planned)?),
            Self::CreateRule { policy, rule } => {
                let policy = policy.id(planned)?;
                RULES.create(&[], with(body(rule), "firewall_policy", policy))
            }
            Self::ChangeRule { id, rule, .. } => RULES.change(&[], id, body(rule)),
            Self::DeleteRule { id, .. } => RULES.delete(&[], id),
            Self::CreateCloudIp { name } => CLOUD_IPS.create(&[], json!({"name": name})),
            Self::MapCloudIp { ip, balancer, .. } => {
                cloud_ips::map(ip.id(planned)?, balancer.id(planned)?)
            }
            Self::UnmapCloudIp { ip, .. } => cloud_ips::unmap(&ip.id),
            Self::DeleteCloudIp { ip } => CLOUD_IPS.delete(&[], &ip.id),
            Self::CreateBalancer(new) => BALANCERS.create(&[], body(new)),
            Self::ChangeBalancer { id, change, .. } => BALANCERS.change(&[], id, body(change)),
            Self::RemoveNodes { id, nodes } => remove_nodes(id, nodes),
            Self::DeleteBalancer { id, .. } => BALANCERS.delete(&[], id),
            Self::DeletePolicy { id, .. } => POLICIES.delete(&[], id),
            Self::DeleteGroup { id, .. } => GROUPS.delete(&[], id),
        })
    }
}

fn with(mut body: Value, key: &str, value: &str) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.insert(key.to_owned(), json!(value));
    }
    body
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::DeleteBalancer { .. } => Impact::Major,
            Self::ChangeBalancer { impact, .. } | Self::ChangeRule { impact, .. } => *impact,
            // Whoever uses its address loses the connection.
            Self::UnmapCloudIp { .. } => Impact::Considerable,
            _ => Impact::None,
        }
    }
}

impl step::Step for Step {
    fn effect(&self, _planned: &[String]) -> Effect {
        match self {
            Self::CreateBalancer(_) => Effect::CreateBalancer,
            Self::DeleteBalancer { name, .. } => Effect::DeleteBalancer(name.clone(), name.clone()),
            Self::CreateGroup { .. }
            | Self::CreatePolicy { .. }
            | Self::CreateRule { .. }
            | Self::CreateCloudIp { .. } => Effect::Create,
            Self::MapCloudIp { asked, .. } | Self::UnmapCloudIp { asked, .. } => {
                asked.clone().map_or(Effect::Change, Effect::Assign)
            }
            Self::DeleteRule { .. }
            | Self::DeleteCloudIp { .. }
            | Self::DeletePolicy { .. }
            | Self::DeleteGroup { .. } => Effect::Delete,
            _ => Effect::Change,
        }
    }

    fn puts_back(&self, _before: &Self) -> bool {
        false
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some =
            |servers: &BTreeSet<String>| servers.iter().cloned().collect::<Vec<_>>().join(", ");
        match self {
            Self::CreateGroup { name, .. } => write!(f, "create server group {name}"),
            Self::AddServers { servers, .. } => {
                write!(f, "put {} into the server group", some(servers))
            }
            Self::RemoveServers { servers, .. } | Self::EmptyGroup { servers, .. } => {
                write!(f, "take {} out of the server group", some(servers))
            }
            Self::CreatePolicy { name, .. } => write!(f, "create firewall policy {name}"),
            Self::ApplyPolicy { policy, .. } => {
                write!(f, "apply firewall policy {policy} to the server group")
            }
            Self::CreateRule { rule, .. } => write!(f, "permit {}", permitted(rule)),
            Self::ChangeRule { id, rule, .. } => {
                write!(f, "let firewall rule {id} permit {}", permitted(rule))
            }
            Self::DeleteRule { id, rule } => {
                write!(f, "delete firewall rule {id} ({})", permitted(rule))
            }
            Self::CreateCloudIp { name } => write!(f, "create Cloud IP {name}"),
            Self::MapCloudIp {
                ip: PoolRef::Known(ip),
                ..
            } => {
                write!(f, "map Cloud IP {ip} to the load balancer")
            }
            Self::MapCloudIp { .. } => f.write_str("map the new Cloud IP to the load balancer"),
            Self::UnmapCloudIp { ip, .. } => write!(f, "unmap Cloud IP {}", ip.shown()),
            Self::DeleteCloudIp { ip } => write!(f, "delete Cloud IP {}", ip.shown()),
            Self::CreateBalancer(new) => write!(f, "create load balancer {}", new.name),
            Self::ChangeBalancer { id, change, .. } => {
                write!(f, "set {} of load balancer {id}", change.words())
            }
            Self::RemoveNodes { id, .. } => write!(f, "take all servers from load balancer {id}"),
            Self::DeleteBalancer { id, name } => write!(f, "delete load balancer {name} ({id})"),
            Self::DeletePolicy { id, name } => write!(f, "delete firewall policy {name} ({id})"),
            Self::DeleteGroup { id, name } => write!(f, "delete server group {name} ({id})"),
        }
    }
}

fn permitted(rule: &RuleSpec) -> String {
    format!("{} to ports {}", rule.source, rule.destination_port)
}
