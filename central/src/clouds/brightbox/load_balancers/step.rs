//! What can be done to what a Service has: each step is one request.
//!
//! A step's impact is what those notice who use what is still wanted.

use std::collections::BTreeSet;
use std::fmt;

use mooring_common::engine::{self, Impact};
use reqwest::Method;
use serde_json::json;

use super::super::api::{
    BALANCERS, CLOUD_IPS, CloudIp, GROUPS, Group, POLICIES, RULES, Rule, RuleSpec, each,
};
use super::model::{BalancerChange, listed};
use crate::cloud_api::{ErrorKind, Kind, Request, body};
use crate::engine::port_rules::Edit;
use crate::engine::step::{self, Effect, PoolRef};

/// One request that changes something. What a plan makes is referred to by its place among all that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Makes the server group, whose description is the mark.
    CreateGroup(Group),
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
    /// Lets more through, or less.
    Rule(PoolRef, Edit<RuleSpec>),
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
    CreateBalancer(Box<BalancerChange>),
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
    /// Whether all is well if the cloud does not do it: it may insist on the last server of a load balancer.
    pub(super) fn may_be_refused_as(&self, kind: ErrorKind) -> bool {
        let is_refusal = matches!(kind, ErrorKind::Invalid | ErrorKind::Busy);
        is_refusal && matches!(self, Self::RemoveNodes { .. })
    }

    /// The request. `planned`: what was made in this plan. None: it needs something that was not made.
    pub(super) fn request(&self, planned: &[String]) -> Option<Request> {
        Some(match self {
            Self::CreateGroup(Group {
                name, description, ..
            }) => GROUPS.create(&[], json!({"name": name, "description": description})),
            Self::AddServers { group, servers } => {
                let request = post(&GROUPS, group.id(planned)?, "add_servers", "add_servers");
                request.json(json!({"servers": each("server", servers)}))
            }
            Self::RemoveServers { group, servers } | Self::EmptyGroup { group, servers } => {
                let request = post(&GROUPS, group, "remove_servers", "remove_servers");
                request.json(json!({"servers": each("server", servers)}))
            }
            Self::CreatePolicy { name, group } => {
                let group = group.id(planned)?;
                POLICIES.create(&[], json!({"name": name, "server_group": group}))
            }
            Self::ApplyPolicy { policy, group } => {
                let request = post(&POLICIES, policy, "apply_to", "apply_firewall_policy");
                request.json(json!({"server_group": group.id(planned)?}))
            }
            Self::Rule(policy, edit) => {
                edit.request(&RULES, &json!({"firewall_policy": policy.id(planned)?}))
            }
            Self::CreateCloudIp { name } => CLOUD_IPS.create(&[], json!({"name": name})),
            Self::MapCloudIp { ip, balancer, .. } => {
                let request = post(&CLOUD_IPS, ip.id(planned)?, "map", "map_cloud_ip");
                request.json(json!({"destination": balancer.id(planned)?}))
            }
            Self::UnmapCloudIp { ip, .. } => post(&CLOUD_IPS, &ip.id, "unmap", "unmap_cloud_ip"),
            Self::DeleteCloudIp { ip } => CLOUD_IPS.delete(&[], &ip.id),
            Self::CreateBalancer(new) => BALANCERS.create(&[], body(new)),
            Self::ChangeBalancer { id, change, .. } => BALANCERS.change(&[], id, body(change)),
            Self::RemoveNodes { id, nodes } => {
                post(&BALANCERS, id, "remove_nodes", "remove_nodes").json(each("node", nodes))
            }
            Self::DeleteBalancer { id, .. } => BALANCERS.delete(&[], id),
            Self::DeletePolicy { id, .. } => POLICIES.delete(&[], id),
            Self::DeleteGroup { id, .. } => GROUPS.delete(&[], id),
        })
    }
}

fn post(kind: &Kind, id: &str, verb: &str, called: &'static str) -> Request {
    kind.act((&[], id), (Method::POST, verb), called)
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::DeleteBalancer { .. } => Impact::Major,
            Self::ChangeBalancer { impact, .. } => *impact,
            Self::Rule(_, edit) => edit.impact(),
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
            Self::Rule(_, edit) => edit.effect(),
            Self::CreateGroup(_) | Self::CreatePolicy { .. } | Self::CreateCloudIp { .. } => {
                Effect::Create
            }
            Self::DeletePolicy { .. } | Self::DeleteGroup { .. } | Self::DeleteCloudIp { .. } => {
                Effect::Delete
            }
            Self::MapCloudIp { asked, .. } | Self::UnmapCloudIp { asked, .. } => {
                asked.clone().map_or(Effect::Change, Effect::Assign)
            }
            _ => Effect::Change,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateGroup(Group { name, .. }) => write!(f, "create server group {name}"),
            Self::AddServers { servers, .. } => {
                write!(f, "put {} into the server group", listed(servers))
            }
            Self::RemoveServers { servers, .. } | Self::EmptyGroup { servers, .. } => {
                write!(f, "take {} out of the server group", listed(servers))
            }
            Self::CreatePolicy { name, .. } => write!(f, "create firewall policy {name}"),
            Self::ApplyPolicy { policy, .. } => {
                write!(f, "apply firewall policy {policy} to the server group")
            }
            Self::Rule(_, Edit::Create(rule)) => write!(f, "permit {rule}"),
            Self::Rule(_, Edit::Change(id, rule, _)) => {
                write!(f, "let firewall rule {id} permit {rule}")
            }
            Self::Rule(_, Edit::Delete(Rule { id, spec })) => {
                write!(f, "delete firewall rule {id} ({spec})")
            }
            Self::CreateCloudIp { name } => write!(f, "create Cloud IP {name}"),
            Self::MapCloudIp {
                ip: PoolRef::Known(id),
                ..
            } => write!(f, "map Cloud IP {id} to the load balancer"),
            Self::MapCloudIp { .. } => f.write_str("map the new Cloud IP to the load balancer"),
            Self::UnmapCloudIp { ip, .. } => write!(f, "unmap Cloud IP {}", ip.shown()),
            Self::DeleteCloudIp { ip } => write!(f, "delete Cloud IP {}", ip.shown()),
            Self::CreateBalancer(new) => {
                let name = new.name.as_deref().unwrap_or_default();
                write!(f, "create load balancer {name}")
            }
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
