//! What the machines file says, once it has been found valid.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use globset::GlobMatcher;
use ipnet::IpNet;

use super::hardware::{MacAddress, MachineId, SystemUuid};
use crate::address_range::AddressRange;
use crate::node_addresses::NodeAddress;
use crate::node_facts::Presence;
use crate::provider_id::ProviderId;

/// The version of the file's form that this program reads.
pub const VERSION: u64 = 1;

/// The scheme of provider IDs where the file names none.
pub const DEFAULT_SCHEME: &str = "cloudlycke";

/// The share of machines, in percent, that one reload may take away where the file names none.
pub const DEFAULT_MAX_REMOVED_PERCENT: u8 = 20;

/// A whole machines file. Made only by [`parse`](super::validate::parse), hence always valid.
#[derive(Clone, Debug)]
pub struct Machines {
    pub(super) scheme: String,
    pub(super) defaults: Settings,
    pub(super) policy: Policy,
    pub(super) rules: Vec<Rule>,
    pub(super) nodes: Vec<NodeEntry>,
    pub(super) load_balancer: LoadBalancer,
}

impl Machines {
    /// The scheme of every provider ID in the file.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What applies where neither a machine's entry nor a rule says anything.
    #[must_use]
    pub const fn defaults(&self) -> &Settings {
        &self.defaults
    }

    /// How to treat what the file does not say.
    #[must_use]
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// The rules, in the order in which they are tried.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The machines, in the file's order.
    #[must_use]
    pub fn nodes(&self) -> &[NodeEntry] {
        &self.nodes
    }

    /// Where addresses of load balancers come from.
    #[must_use]
    pub const fn load_balancer(&self) -> &LoadBalancer {
        &self.load_balancer
    }

    /// The entry whose provider ID this is.
    #[must_use]
    pub fn by_provider_id(&self, id: &ProviderId) -> Option<&NodeEntry> {
        self.nodes
            .iter()
            .find(|entry| entry.provider_id() == Some(id))
    }
}

/// Region, zone and type: of a machine, of a rule, or by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The region, a valid label value.
    pub region: Option<String>,
    /// The failure domain within the region, a valid label value.
    pub zone: Option<String>,
    /// The machine's type, a valid label value.
    pub instance_type: Option<String>,
}

/// How to treat what the file does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What a machine is that no entry matches.
    pub unknown_node: UnknownNode,
    /// The share of the machines, in percent, that one reload may remove or call terminated.
    pub max_removed_percent: u8,
}

/// What a machine is that no entry matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownNode {
    /// Nothing is known of it: it is neither initialised nor deleted.
    #[default]
    Error,
    /// It is described from what its Node says of itself. It is never deleted.
    Derive,
    /// It does not exist: its Node is deleted once it is not ready.
    Missing,
}

/// Settings for all machines of a kind.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which machines it applies to.
    pub matching: RuleMatch,
    /// What it sets.
    pub set: Settings,
    /// The labels it sets.
    pub labels: BTreeMap<String, String>,
}

/// The conditions of a rule; all that are given must hold.
#[derive(Clone, Debug, Default)]
pub struct RuleMatch {
    /// One of the machine's addresses is in this block.
    pub cidr: Option<IpNet>,
    /// The Node's name is of this form.
    pub name_glob: Option<GlobMatcher>,
    /// The tag on the chassis, in any case of letters.
    pub asset_tag: Option<String>,
    /// The machine's vendor, in any case of letters.
    pub vendor: Option<String>,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    /// How the machine's Node is known.
    pub matching: NodeMatch,
    /// The provider ID that the file gives it, by `id` or by `match.providerID`.
    pub declared_id: Option<ProviderId>,
    /// The provider ID that follows from `match.systemUUID` where the file gives none.
    pub derived_id: Option<ProviderId>,
    /// Region, zone and type.
    pub set: Settings,
    /// The machine's addresses, by type in the order of [`AddressType`]; empty: those of the Node.
    ///
    /// [`AddressType`]: crate::node_addresses::AddressType
    pub addresses: Vec<NodeAddress>,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
    /// Whether it runs.
    pub state: MachineState,
}

impl NodeEntry {
    /// The provider ID, as far as the file alone tells it.
    #[must_use]
    pub fn provider_id(&self) -> Option<&ProviderId> {
        self.declared_id.as_ref().or(self.derived_id.as_ref())
    }
}

impl fmt::Display for NodeEntry {
    /// What people call the machine: its name, else whatever else it is known by.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = &self.matching;
        if let Some(name) = &known.name {
            return f.write_str(name);
        }
        if let Some(id) = self.provider_id() {
            return id.fmt(f);
        }
        match (&known.machine_id, &known.mac, known.ip) {
            (Some(id), _, _) => id.fmt(f),
            (None, Some(mac), _) => mac.fmt(f),
            (None, None, Some(ip)) => ip.fmt(f),
            (None, None, None) => f.write_str("unnamed"),
        }
    }
}

/// How a machine's Node is known; all that are given must agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeMatch {
    /// The Node's name.
    pub name: Option<String>,
    /// `spec.providerID` of the Node, as its kubelet has set it.
    pub provider_id: Option<ProviderId>,
    /// `status.nodeInfo.systemUUID` of the Node.
    pub system_uuid: Option<SystemUuid>,
    /// `status.nodeInfo.machineID` of the Node.
    pub machine_id: Option<MachineId>,
    /// The MAC address of one of the machine's network cards; known on the node only.
    pub mac: Option<MacAddress>,
    /// One of the Node's addresses.
    pub ip: Option<IpAddr>,
}

/// Whether a machine runs, as the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineState {
    /// It runs.
    #[default]
    Running,
    /// It exists, but is switched off.
    Shutdown,
    /// It does not exist any more.
    Terminated,
}

impl MachineState {
    /// The same, in the words in which clouds are asked.
    #[must_use]
    pub const fn presence(self) -> Presence {
        match self {
            Self::Running => Presence::Running,
            Self::Shutdown => Presence::Stopped,
            Self::Terminated => Presence::Gone,
        }
    }
}

/// Where addresses of load balancers come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LoadBalancer {
    /// From nowhere: load balancers are not provided.
    #[default]
    None,
    /// From these ranges, which do not overlap.
    Pool(Vec<AddressRange>),
}
