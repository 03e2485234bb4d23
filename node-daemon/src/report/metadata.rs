//! Where the daemon learns about the machine it runs on: without any cloud credentials.
//!
//! ```text
//!   169.254.169.254 ──► linode, cloudscale, brightbox ──┐
//!   /run/cloud-init ──► cloud_init ─────────────────────┤
//!   /sys, /etc/machine-id ──► dmi ──┐                   ├──► facts, and what they lack
//!                                   ├──► file ──────────┤
//!   the machines file ──────────────┘                   │
//!   whichever of them it is ──► search ─────────────────┘
//! ```
//!
//! **Guarantee.** An answer is whole only if it has all that the cloud's Go controller had set by
//! the time that it took the taint off. Else central takes it off.

pub mod brightbox;
pub mod choice;
pub mod cloud_init;
pub mod cloudscale;
pub mod dmi;
pub mod errors;
pub mod file;
pub mod http;
pub mod linode;
#[cfg(test)]
mod scripted;
pub mod search;
mod values;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use async_trait::async_trait;
use mooring_common::machines::Identity;
use mooring_common::node_facts::NodeFacts;

pub use choice::{Options, Selected, SourceChoice, UnknownSource, select};
pub use errors::{MetadataError, Problem};
pub use http::Endpoint;

/// One place to learn about the machine from.
#[async_trait]
pub trait MetadataSource: Send + Sync + fmt::Debug {
    /// What the source is called, in logs and as a value of `--metadata-source`.
    fn name(&self) -> &'static str;

    /// What the source says of the machine, whose own Node object says `node`.
    ///
    /// # Errors
    /// [`MetadataError`] if it can say nothing that may be acted on.
    async fn facts(&self, node: &Identity) -> Result<SourceAnswer, MetadataError>;
}

/// A source that can tell whether the machine is one of those that it knows.
#[async_trait]
pub trait Probe: MetadataSource {
    /// Whether this machine is.
    ///
    /// # Errors
    /// [`MetadataError`] if there is no clear answer, which may come later.
    async fn recognises(&self) -> Result<bool, MetadataError>;
}

/// What a source says of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceAnswer {
    /// What it knows.
    pub facts: NodeFacts,
    /// Whether that is enough to initialise the Node.
    pub completeness: Completeness,
}

/// Whether facts are enough to initialise a Node with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// They are.
    Whole,
    /// They are not: the daemon leaves the Node to central.
    Partial {
        /// What is missing, in words.
        missing: Vec<&'static str>,
    },
}

/// What an answer can lack, in words.
pub(crate) mod missing {
    pub(crate) const PROVIDER_ID: &str = "the provider ID";
    pub(crate) const INSTANCE_TYPE: &str = "the instance type";
    pub(crate) const REGION: &str = "the region";
    pub(crate) const ZONE: &str = "the zone";
    pub(crate) const HOST_NAME: &str = "the host name";
    pub(crate) const OTHER_NAME: &str = "the host name, which is not the Node's name";
    pub(crate) const ADDRESSES: &str = "the addresses";
    pub(crate) const IPV4: &str = "the IPv4 addresses";
    pub(crate) const IPV6: &str = "the IPv6 address";
    pub(crate) const VPC: &str = "the VPC addresses";
    pub(crate) const CLOUD_IPS: &str = "the Cloud IPs and their names";
}

impl SourceAnswer {
    /// An answer of these facts. They suffice if there is a provider ID and an IP address among
    /// them; all else a Node can be without.
    #[must_use]
    pub fn of(facts: NodeFacts) -> Self {
        let mut missing = Vec::new();
        if facts.provider_id.is_none() {
            missing.push("a provider ID");
        }
        let is_ip = |text: &String| text.parse::<IpAddr>().is_ok();
        if !facts.addresses.iter().any(|a| is_ip(&a.address)) {
            missing.push("an IP address");
        }
        Self::lacking(facts, missing)
    }

    /// An answer of these facts, where a Node needs these.
    #[must_use]
    pub(crate) fn measured(facts: NodeFacts, needed: &[&'static str]) -> Self {
        let lacking = absent(&facts, needed);
        Self::lacking(facts, lacking)
    }

    /// An answer of these facts, which lacks this much.
    #[must_use]
    pub fn lacking(facts: NodeFacts, missing: impl Into<Vec<&'static str>>) -> Self {
        let missing = missing.into();
        let completeness = if missing.is_empty() {
            Completeness::Whole
        } else {
            Completeness::Partial { missing }
        };
        Self {
            facts,
            completeness,
        }
    }
}

/// Of what is needed, that which is not among the facts.
pub(crate) fn absent(facts: &NodeFacts, needed: &[&'static str]) -> Vec<&'static str> {
    let there = [
        (missing::PROVIDER_ID, facts.provider_id.is_some()),
        (missing::INSTANCE_TYPE, facts.instance_type.is_some()),
        (missing::REGION, facts.region.is_some()),
        (missing::ZONE, facts.zone.is_some()),
    ];
    let is_there = |what: &str| there.iter().any(|(known, is)| *known == what && *is);
    needed
        .iter()
        .copied()
        .filter(|what| !is_there(what))
        .collect()
}

/// Where the host's files are: in a container, wherever they are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// The host's `/sys`.
    pub sys: PathBuf,
    /// The host's `/etc`.
    pub etc: PathBuf,
    /// The host's `/proc`.
    pub proc: PathBuf,
    /// The host's `/run`.
    pub run: PathBuf,
}

impl Default for HostPaths {
    fn default() -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            etc: PathBuf::from("/etc"),
            proc: PathBuf::from("/proc"),
            run: PathBuf::from("/run"),
        }
    }
}
