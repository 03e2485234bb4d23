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

impl Step {
    /// What it is called, and what it does as far as the engine has to know. `planned`: what was made in this plan.
    fn described(&self, planned: &[String]) -> (String, Effect) {
        match self {
            Self::CreateBalancer(new) => (new.to_string(), Effect::CreateBalancer),
            Self::ChangeBalancer { throttle, tags } => {
                let throttle = throttle.map(|most| format!("the connection throttle to {most}"));
                let tags = tags
                    .as_ref()
                    .map(|tags| format!("tags to {}", tags.join(", ")));
                let both: Vec<String> = throttle.into_iter().chain(tags).collect();
                let what = both.join(" and ");
                (format!("set {what} of the NodeBalancer"), Effect::Change)
            }
            Self::DeleteBalancer {
                id, name, release, ..
            } => {
                let address = release.as_ref();
                let release = address
                    .map(|address| format!(", and give up its reserved address {address}"))
                    .unwrap_or_default();
                (
                    format!("delete NodeBalancer {name} ({id}) with all its configs{release}"),
                    Effect::DeleteBalancer(id.clone(), name.clone()),
                )
            }
            Self::Release { id, .. } => (
                format!("keep NodeBalancer {id}, and take the marks of the Service off"),
                Effect::Release(id.clone()),
            ),
            Self::CreateConfig(spec) => (
                format!("create config {}", shown(spec)),
                Effect::CreateUnseen,
            ),
            Self::FillConfig { spec, nodes, .. } => (
                format!("give config {} {} nodes", shown(spec), nodes.len()),
                Effect::ChangeUnseen,
            ),
            Self::ChangeConfig { id, spec, what, .. } => (
                format!("set {what} of config {} ({id})", shown(spec)),
                Effect::Change,
            ),
            Self::DeleteConfig { id, place } => {
                (format!("delete config {place} ({id})"), Effect::DeletePool)
            }
            Self::Node(step) => (node(step), step.member_effect(planned)),
            Self::CreateFirewall(spec) => (
                format!("create firewall {}", spec.label),
                Effect::CreateUnseen,
            ),
            Self::MarkFirewall { id, name, .. } => (
                format!("mark firewall {name} ({id}) as the Service's"),
                Effect::Change,
            ),
            Self::ChangeRules { id, spec, enables } => {
                let enable = if *enables { "enable, and " } else { "" };
                let label = &spec.label;
                let words = format!("{enable}change the rules of firewall {label} ({id})");
                (words, Effect::Change)
            }
            Self::Attach { firewall, former } => {
                let words = attach(firewall.as_ref(), former.as_ref());
                (words, Effect::ChangeUnseen)
            }
            Self::DeleteFirewall { id, name } => {
                (format!("delete firewall {name} ({id})"), Effect::Delete)
            }
        }
    }
}

impl step::Step for Step {
    fn effect(&self, planned: &[String]) -> Effect {
        self.described(planned).1
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
        f.write_str(&self.described(&[]).0)
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

fn attach(firewall: Option<&PoolRef>, former: Option<&(u64, String)>) -> String {
    let now = match firewall {
        Some(PoolRef::Known(id)) => format!("attach firewall {id}"),
        Some(_) => "attach the new firewall".to_owned(),
        None => "have no firewall".to_owned(),
    };
    match former {
        Some((id, name)) => format!("{now} instead of firewall {name} ({id})"),
        None => now,
    }
}

fn node(step: &PartStep<NodeSpec>) -> String {
    let of = match &step.pool {
        PoolRef::Known(id) => format!("config {id}"),
        other => other.to_string(),
    };
    let shown = |spec: &NodeSpec| format!("node {} ({})", spec.label, spec.address);
    match &step.action {
        Action::Create(spec) => format!("add {} to {of}", shown(spec)),
        Action::Change(part, change) => format!("set {change} of {} of {of}", shown(&part.spec)),
        Action::Delete(part, _) => format!("take {} out of {of}", shown(&part.spec)),
    }
}
