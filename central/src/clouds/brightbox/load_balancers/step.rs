//! What can be done to what a Service has: each step is one request.
//!
//! A step's impact is what those notice who use what is still wanted.

use std::collections::BTreeSet;
use std::fmt;

use mooring_common::engine::{self, Impact};
use reqwest::Method;
use serde_json::{Value, json};

use super::super::api::balancers::BALANCERS;
use super::super::api::cloud_ips::{CLOUD_IPS, CloudIp};
use super::super::api::firewall::{GROUPS, Group, POLICIES, RULES, RuleSpec, each};
use super::model::{BalancerChange, NewBalancer};
use crate::cloud_api::{ErrorKind, Kind, Request, body};
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
    /// What it is called, and what it does as far as the engine has to know.
    fn described(&self) -> (String, Effect) {
        let some = |ids: &BTreeSet<String>| ids.iter().cloned().collect::<Vec<_>>().join(", ");
        let permitted =
            |rule: &RuleSpec| format!("{} to ports {}", rule.source, rule.destination_port);
        let assign = |asked: &Option<String>| asked.clone().map_or(Effect::Change, Effect::Assign);
        match self {
            Self::CreateGroup(group) => (
                format!("create server group {}", group.name),
                Effect::Create,
            ),
            Self::AddServers { servers, .. } => (
                format!("put {} into the server group", some(servers)),
                Effect::Change,
            ),
            Self::RemoveServers { servers, .. } | Self::EmptyGroup { servers, .. } => (
                format!("take {} out of the server group", some(servers)),
                Effect::Change,
            ),
            Self::CreatePolicy { name, .. } => {
                (format!("create firewall policy {name}"), Effect::Create)
            }
            Self::ApplyPolicy { policy, .. } => (
                format!("apply firewall policy {policy} to the server group"),
                Effect::Change,
            ),
            Self::CreateRule { rule, .. } => {
                (format!("permit {}", permitted(rule)), Effect::Create)
            }
            Self::ChangeRule { id, rule, .. } => (
                format!("let firewall rule {id} permit {}", permitted(rule)),
                Effect::Change,
            ),
            Self::DeleteRule { id, rule } => (
                format!("delete firewall rule {id} ({})", permitted(rule)),
                Effect::Delete,
            ),
            Self::CreateCloudIp { name } => (format!("create Cloud IP {name}"), Effect::Create),
            Self::MapCloudIp { ip, asked, .. } => {
                let ip = match ip {
                    PoolRef::Known(id) => format!("Cloud IP {id}"),
                    _ => "the new Cloud IP".to_owned(),
                };
                (format!("map {ip} to the load balancer"), assign(asked))
            }
            Self::UnmapCloudIp { ip, asked } => {
                (format!("unmap Cloud IP {}", ip.shown()), assign(asked))
            }
            Self::DeleteCloudIp { ip } => {
                (format!("delete Cloud IP {}", ip.shown()), Effect::Delete)
            }
            Self::CreateBalancer(new) => (
                format!("create load balancer {}", new.name),
                Effect::CreateBalancer,
            ),
            Self::ChangeBalancer { id, change, .. } => (
                format!("set {} of load balancer {id}", change.words()),
                Effect::Change,
            ),
            Self::RemoveNodes { id, .. } => (
                format!("take all servers from load balancer {id}"),
                Effect::Change,
            ),
            Self::DeleteBalancer { id, name } => (
                format!("delete load balancer {name} ({id})"),
                Effect::DeleteBalancer(name.clone(), name.clone()),
            ),
            Self::DeletePolicy { id, name } => (
                format!("delete firewall policy {name} ({id})"),
                Effect::Delete,
            ),
            Self::DeleteGroup { id, name } => {
                (format!("delete server group {name} ({id})"), Effect::Delete)
            }
        }
    }

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
            Self::CreateRule { policy, rule } => {
                let policy = policy.id(planned)?;
                RULES.create(&[], with(body(rule), "firewall_policy", policy))
            }
            Self::ChangeRule { id, rule, .. } => RULES.change(&[], id, body(rule)),
            Self::DeleteRule { id, .. } => RULES.delete(&[], id),
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
        self.described().1
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.described().0)
    }
}
