//! What can be done to a NodeBalancer: each step is one request, but for what a new one needs first.
//!
//! A step's impact is what those notice who use what is still wanted.

use std::fmt;

use mooring_common::engine::{self, Impact};

use super::firewalls::FirewallSpec;
use super::model::{BalancerSpec, ConfigSpec, FirewallWish, NodeSpec};
use crate::engine::step::{self, Action, Effect, PartStep, PoolRef};

/// One request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Makes the NodeBalancer with all its parts, and before it the firewall that it is to have.
    CreateBalancer(Box<NewBalancer>),
    /// Changes what can be changed of it.
    ChangeBalancer {
        throttle: Option<u32>,
        tags: Option<Vec<String>>,
    },
    /// Takes it away with all its parts.
    DeleteBalancer {
        id: String,
        name: String,
        /// The reserved address that is given up with it.
        release: Option<String>,
        /// What marks the firewall that the Go controller has made for it, so that it goes too.
        marks: Vec<String>,
    },
    /// Lets it stay, without the marks of its Service.
    Release { id: String, tags: Vec<String> },
    /// Makes a config, which has no nodes yet.
    CreateConfig(Box<ConfigSpec>),
    /// Gives a new config all its nodes.
    FillConfig {
        pool: PoolRef,
        spec: Box<ConfigSpec>,
        nodes: Vec<NodeSpec>,
    },
    /// Changes a config; its nodes and their connections stay.
    ChangeConfig {
        id: String,
        spec: Box<ConfigSpec>,
        /// What changes, in words.
        what: String,
        impact: Impact,
    },
    /// Takes a config away with its nodes.
    DeleteConfig { id: String, place: String },
    /// About a node.
    Node(PartStep<NodeSpec>),
    /// Makes a firewall.
    CreateFirewall(FirewallSpec),
    /// Marks a firewall that the Go controller has made, before it is detached.
    MarkFirewall {
        id: u64,
        name: String,
        /// All that it has then.
        tags: Vec<String>,
    },
    /// Changes what a firewall lets through.
    ChangeRules {
        id: u64,
        spec: FirewallSpec,
        /// Whether it is switched on first.
        enables: bool,
    },
    /// Lets this firewall protect the NodeBalancer instead of any other. `None`: none.
    Attach {
        firewall: Option<PoolRef>,
        /// What protected it until now: its number and its name.
        former: Option<(u64, String)>,
    },
    /// Takes away a firewall that protects nothing.
    DeleteFirewall { id: u64, name: String },
}

/// A NodeBalancer that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewBalancer {
    /// It, with its marks.
    pub(super) spec: BalancerSpec,
    /// Its configs, with their nodes.
    pub(super) configs: Vec<(ConfigSpec, Vec<NodeSpec>)>,
    /// Its firewall.
    pub(super) firewall: FirewallWish,
}

impl engine::Step for Step {
    fn impact(&self) -> Impact {
        match self {
            Self::DeleteBalancer { .. } => Impact::Major,
            Self::ChangeConfig { impact, .. } => *impact,
            Self::Node(step) => step.impact(),
            _ => Impact::None,
        }
    }
}

impl step::Step for Step {
    fn effect(&self, planned: &[String]) -> Effect {
        match self {
            Self::CreateBalancer(_) => Effect::CreateBalancer,
            Self::DeleteBalancer { id, name, .. } => {
                Effect::DeleteBalancer(id.clone(), name.clone())
            }
            Self::Release { id, .. } => Effect::Release(id.clone()),
            Self::ChangeBalancer { .. } | Self::ChangeConfig { .. } => Effect::Change,
            Self::ChangeRules { .. } | Self::MarkFirewall { .. } => Effect::Change,
            Self::CreateConfig(_) | Self::CreateFirewall(_) => Effect::Create,
            Self::FillConfig { .. } | Self::Attach { .. } => Effect::ChangeUnseen,
            Self::DeleteConfig { .. } => Effect::DeletePool,
            Self::DeleteFirewall { .. } => Effect::Delete,
            Self::Node(step) => step.member_effect(planned),
        }
    }

    fn puts_back(&self, before: &Self) -> bool {
        match (before, self) {
            (Self::Node(before), Self::Node(step)) => step.puts_back(before),
            _ => false,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateBalancer(new) => write!(f, "{new}"),
            Self::ChangeBalancer { throttle, tags } => {
                f.write_str("set ")?;
                if let Some(throttle) = throttle {
                    write!(f, "the connection throttle to {throttle}")?;
                }
                if let Some(tags) = tags {
                    let and = if throttle.is_some() { " and " } else { "" };
                    write!(f, "{and}tags to {}", tags.join(", "))?;
                }
                f.write_str(" of the NodeBalancer")
            }
            Self::DeleteBalancer {
                id, name, release, ..
            } => {
                write!(f, "delete NodeBalancer {name} ({id}) with all its configs")?;
                match release {
                    Some(address) => write!(f, ", and give up its reserved address {address}"),
                    None => Ok(()),
                }
            }
            Self::Release { id, .. } => {
                write!(
                    f,
                    "keep NodeBalancer {id}, and take the marks of the Service off"
                )
            }
            Self::CreateConfig(spec) => write!(f, "create config {}", shown(spec)),
            Self::FillConfig { spec, nodes, .. } => {
                write!(f, "give config {} {} nodes", shown(spec), nodes.len())
            }
            Self::ChangeConfig { id, spec, what, .. } => {
                write!(f, "set {what} of config {} ({id})", shown(spec))
            }
            Self::DeleteConfig { id, place } => write!(f, "delete config {place} ({id})"),
            Self::Node(step) => node(step, f),
            Self::CreateFirewall(spec) => write!(f, "create firewall {}", spec.label),
            Self::MarkFirewall { id, name, .. } => {
                write!(f, "mark firewall {name} ({id}) as the Service's")
            }
            Self::ChangeRules { id, spec, enables } => {
                let enable = if *enables { "enable, and " } else { "" };
                let label = &spec.label;
                write!(f, "{enable}change the rules of firewall {label} ({id})")
            }
            Self::Attach { firewall, former } => attach(firewall.as_ref(), former.as_ref(), f),
            Self::DeleteFirewall { id, name } => write!(f, "delete firewall {name} ({id})"),
        }
    }
}

impl fmt::Display for NewBalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BalancerSpec {
            label,
            kind,
            region,
            ..
        } = &self.spec;
        let configs: Vec<String> = self.configs.iter().map(|(spec, _)| shown(spec)).collect();
        let nodes: usize = self.configs.iter().map(|(_, nodes)| nodes.len()).sum();
        write!(
            f,
            "create NodeBalancer {label} of type {kind} in region {region}: {}, {nodes} nodes",
            configs.join(", ")
        )?;
        match &self.firewall {
            FirewallWish::None => Ok(()),
            FirewallWish::Id(id) => write!(f, ", with firewall {id}"),
            FirewallWish::Own(spec) => write!(f, ", with a firewall {} of its own", spec.label),
        }
    }
}

/// `tcp/80`
pub(super) fn shown(spec: &ConfigSpec) -> String {
    format!("{}/{}", spec.protocol, spec.port)
}

fn attach(
    firewall: Option<&PoolRef>,
    former: Option<&(u64, String)>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match firewall {
        Some(PoolRef::Known(id)) => write!(f, "attach firewall {id}")?,
        Some(_) => f.write_str("attach the new firewall")?,
        None => f.write_str("have no firewall")?,
    }
    match former {
        Some((id, name)) => write!(f, " instead of firewall {name} ({id})"),
        None => Ok(()),
    }
}

fn node(step: &PartStep<NodeSpec>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let of = match &step.pool {
        PoolRef::Known(id) => format!("config {id}"),
        other => other.to_string(),
    };
    match &step.action {
        Action::Create(spec) => write!(f, "add node {} ({}) to {of}", spec.label, spec.address),
        Action::Change(part, change) => {
            let NodeSpec { label, address, .. } = &part.spec;
            write!(f, "set {change} of node {label} ({address}) of {of}")
        }
        Action::Delete(part, _) => write!(
            f,
            "take node {} ({}) out of {of}",
            part.spec.label, part.spec.address
        ),
    }
}
