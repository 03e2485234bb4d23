//! The API's objects as one watch shows them, and what they mean to a machine.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use mooring_node::protocol::{Candidates, Contact, Key, NodeId, View, VoterSet, Wanted};

use super::api::KeyState;
use super::network::{MOST_NODES, Nodes, has};

/// Some addresses of the simulation, one bit each. Where a machine runs alone, a key is one.
pub type Spots = u64;

/// How many addresses a Service may have in turn, where whole daemons run.
pub const SPOTS_OF_A_SERVICE: usize = 3;

/// The L2Network's name, in each cluster.
pub const NETWORK: &str = "lan";

/// The addresses of a set, by number.
pub fn each_spot(spots: Spots) -> impl Iterator<Item = usize> {
    (0..64).filter(move |spot| spots & (1 << spot) != 0)
}

/// The service address of this number.
#[must_use]
pub fn address(spot: usize) -> IpAddr {
    let last = u8::try_from(spot + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 0, 100, last).into()
}

/// The number of a service address.
#[must_use]
pub fn spot_of(address: IpAddr) -> Option<usize> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [10, 0, 100, last] => usize::from(last).checked_sub(1),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

/// What one cluster's API server shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Which L2Network it is; `None`: there is none.
    pub uid: Option<u64>,
    /// The Services, by number.
    pub services: Vec<KeyState>,
    /// Who votes; generation 0: nobody.
    pub voters: VoterSet,
    /// The next voters that each approves.
    pub approvals: BTreeMap<NodeId, VoterSet>,
    /// The Nodes, with how each is reached.
    pub known: BTreeMap<NodeId, Contact>,
    /// The Nodes by number.
    pub nodes: Vec<NodeId>,
}

impl Objects {
    /// The Services that are there, with their numbers.
    pub fn there(&self) -> impl Iterator<Item = (usize, &KeyState)> {
        let services = self.services.iter().enumerate();
        services.filter(|(_, service)| service.absent == 0)
    }

    /// The nodes of a set.
    pub fn named(&self, nodes: Nodes) -> impl Iterator<Item = usize> {
        (0..self.nodes.len().min(MOST_NODES)).filter(move |node| has(nodes, *node))
    }

    /// What a machine is told, where each Service is one key.
    #[must_use]
    pub fn view(&self, keys: &[Key]) -> View {
        let keys = self.there().map(|(service, state)| {
            let candidates = match state.candidates {
                None => Candidates::All,
                Some(nodes) => {
                    let named = self.named(nodes);
                    Candidates::Only(named.map(|node| self.nodes[node]).collect())
                }
            };
            (keys[service], Wanted::alone(keys[service], candidates))
        });
        View {
            keys: keys.collect(),
            voters: (self.voters.generation > 0).then(|| self.voters.clone()),
            approvals: self.approvals.clone(),
            voters_from_file: false,
            accepted: None,
            known: self.known.clone(),
        }
    }
}
