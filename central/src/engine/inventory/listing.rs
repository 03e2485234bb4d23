//! One listing, and how a Node's machine is found in it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use mooring_common::node_addresses::AddressType;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;

use super::joined;
use crate::cloud_provider::{Attachment, Lookup, Machine};

/// Of how many machines at most an empty listing can be believed that they are gone.
const MOST_VANISHED: usize = 10;

/// All machines of a cloud at one time.
#[derive(Debug)]
pub(super) struct Listing {
    /// When it was asked for: it shows nothing older.
    pub(super) begun: Instant,
    machines: HashMap<ProviderId, Machine>,
    by_name: HashMap<String, Vec<ProviderId>>,
    by_address: HashMap<IpAddr, Vec<ProviderId>>,
    /// What is wrong with machines that are left out of it.
    unread: Vec<String>,
    /// With which credentials it was made, by [`MachineSource::credentials`]; `None`: with several.
    ///
    /// [`MachineSource::credentials`]: crate::cloud_provider::MachineSource::credentials
    pub(super) credentials: Option<u64>,
    /// If it is empty: what was listed before that with the same credentials, unless that is more
    /// than can be asked for one by one.
    pub(super) vanished: HashSet<ProviderId>,
}

impl Listing {
    /// A listing that follows another one, if there is one.
    pub(super) fn new(
        begun: Instant,
        machines: Vec<Machine>,
        unread: Vec<String>,
        credentials: Option<u64>,
        before: Option<&Self>,
    ) -> Self {
        let before = before.filter(|before| {
            let is_empty = machines.is_empty() && unread.is_empty();
            is_empty && credentials.is_some() && before.credentials == credentials
        });
        let listed = |before: &Self| {
            let ids = before.machines.keys().chain(&before.vanished);
            ids.cloned().collect()
        };
        let mut vanished: HashSet<_> = before.map(listed).unwrap_or_default();
        if vanished.len() > MOST_VANISHED {
            vanished.clear();
        }
        let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
        let mut by_address: HashMap<_, Vec<_>> = HashMap::new();
        for machine in &machines {
            for name in machine.names.iter().collect::<HashSet<_>>() {
                by_name
                    .entry(name.clone())
                    .or_default()
                    .push(machine.id.clone());
            }
            for address in machine.found_by.iter().collect::<HashSet<_>>() {
                by_address
                    .entry(*address)
                    .or_default()
                    .push(machine.id.clone());
            }
        }
        Self {
            begun,
            machines: machines.into_iter().map(|m| (m.id.clone(), m)).collect(),
            by_name,
            by_address,
            unread,
            credentials,
            vanished,
        }
    }

    pub(super) fn says_the_same_as(&self, other: &Self) -> bool {
        self.machines == other.machines && self.unread == other.unread
    }

    /// What is wrong with machines that are left out, as far as the listing before did not say it.
    pub(super) fn newly_unread(&self, before: Option<&Self>) -> Vec<&String> {
        let is_new = |why: &&String| before.is_none_or(|before| !before.unread.contains(why));
        self.unread.iter().filter(is_new).collect()
    }

    /// What follows for a Node whose machine is not here.
    fn missing(&self, provider: &str) -> Lookup {
        match self.unread.as_slice() {
            [] => Lookup::Missing,
            unread => Lookup::Unlisted(format!(
                "The machine of this Node may be one that {provider} lists and that cannot be read: {}. Ask \
                 the support of {provider} about it.",
                unread.join("; ")
            )),
        }
    }

    /// The addresses of a machine that load balancers reach.
    pub(super) fn attachments(&self, id: &ProviderId) -> Vec<Attachment> {
        let machine = self.machines.get(id);
        machine
            .map(|machine| machine.attachments.clone())
            .unwrap_or_default()
    }

    /// The machine with this ID, if the Node bears one; else that of its name; else that of its
    /// addresses. Of several, none.
    pub(super) fn look_up(
        &self,
        node: &NodeView,
        id: Option<&ProviderId>,
        provider: &str,
    ) -> Lookup {
        if self.machines.is_empty() && self.unread.is_empty() {
            if id.is_some_and(|id| self.vanished.contains(id)) {
                return Lookup::Missing;
            }
            return Lookup::Unlisted(format!(
                "{provider} lists no machine at all, which proves nothing: do the credentials \
                 belong to the project of this cluster?"
            ));
        }
        if let Some(id) = id {
            return self.known(id, node, provider);
        }
        let mut candidates = self.by_name.get(&node.name).cloned().unwrap_or_default();
        if candidates.is_empty() {
            candidates = self.at_addresses_of(node);
        }
        match candidates.as_slice() {
            [] => self.missing(provider),
            [only] => self.known(only, node, provider),
            several => Lookup::Ambiguous(format!(
                "Several machines of {provider} match this Node: {}. Start the kubelet with \
                 --provider-id to say which one it is, or rename all but one of them.",
                joined(several.iter())
            )),
        }
    }

    fn at_addresses_of(&self, node: &NodeView) -> Vec<ProviderId> {
        let outside = |kind| matches!(kind, AddressType::ExternalIP | AddressType::InternalIP);
        let addresses = node.addresses.iter().filter(|a| outside(a.kind));
        let provided = node.provided_node_ip().unwrap_or_default().split(',');
        let found: HashSet<_> = addresses
            .map(|a| a.address.as_str())
            .chain(provided.map(str::trim))
            .filter_map(|text| text.parse::<IpAddr>().ok())
            .filter_map(|ip| self.by_address.get(&ip))
            .flatten()
            .collect();
        found.into_iter().cloned().collect()
    }

    fn known(&self, id: &ProviderId, node: &NodeView, provider: &str) -> Lookup {
        let machine = self.machines.get(id);
        machine.map_or_else(|| self.missing(provider), |machine| known(machine, node))
    }
}

/// What is known of a machine. Provider IDs may be written in several ways; the Node's own way is no
/// contradiction.
pub(super) fn known(machine: &Machine, node: &NodeView) -> Lookup {
    let mut facts = machine.facts.clone();
    facts.provider_id = match node.provider_id.as_deref() {
        Some(own) => own.parse().ok(),
        None => Some(machine.id.clone()),
    };
    Lookup::Known {
        facts,
        presence: machine.presence,
    }
}
