//! The control plane file: an address for the API servers of a cluster, and who votes on where it is.
//!
//! It lies on each control-plane node, since there may be no API server yet that could be asked. `mooring-node
//! control-plane` announces the address by it; central compares it with what an L2Network says.

mod validate;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

pub use self::validate::{InvalidControlPlane, parse};

/// The version of the file's form.
pub const VERSION: u64 = 1;
/// The API server's port, unless the file says another.
pub const DEFAULT_PORT: u16 = 6443;
/// The UDP port of heartbeats, unless the file says another. It is not that of the DaemonSet's daemon, which may
/// run beside it.
pub const DEFAULT_HEARTBEAT_PORT: u16 = 10271;
/// The most that may vote, members and witness together.
pub const MOST_VOTERS: usize = 7;

/// The file, read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlaneFile {
    /// Goes up by one with each change of who votes.
    pub revision: u64,
    /// The control plane's address; of each family at most one, in the file's order.
    pub addresses: Vec<IpAddr>,
    /// The port of the API servers.
    pub port: u16,
    /// The interface that the address is announced on.
    pub interface: String,
    /// The control-plane nodes.
    pub members: Vec<Member>,
    /// A node that votes and never has the address.
    pub witness: Option<Member>,
    /// The secrets that heartbeats are signed with.
    pub key_file: PathBuf,
    /// The routers of the segment; of each family at most one.
    pub gateways: Vec<IpAddr>,
    /// The UDP port of heartbeats.
    pub heartbeat_port: u16,
    /// How the API server is asked whether it is ready.
    pub probe: Probe,
}

/// A node that votes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// The Node's name.
    pub name: String,
    /// Where it hears heartbeats on the node network.
    pub address: IpAddr,
}

/// How the API server is asked whether it is ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Where it is asked; `None`: at 127.0.0.1.
    pub address: Option<IpAddr>,
    /// What to show to it, where it answers nobody who is not known: a certificate, and its key.
    pub client: Option<ClientCertificate>,
}

/// The files of a client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, in PEM form.
    pub certificate: PathBuf,
    /// Its key, in PEM form.
    pub key: PathBuf,
}

/// The part that a node plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It votes, and may have the address.
    Member,
    /// It votes only.
    Witness,
    /// The file does not name it: it neither votes nor takes the address.
    Stranger,
}

impl ControlPlaneFile {
    /// What tells the segment from all others: no other cluster on it can have the same address.
    #[must_use]
    pub fn segment(&self) -> String {
        let first = self.addresses.first().map(ToString::to_string);
        format!("control-plane/{}", first.unwrap_or_default())
    }

    /// Where the API server of this node is asked.
    #[must_use]
    pub fn api_server(&self) -> SocketAddr {
        let address = self.probe.address;
        SocketAddr::new(address.unwrap_or(Ipv4Addr::LOCALHOST.into()), self.port)
    }

    /// The names of all that vote.
    #[must_use]
    pub fn voters(&self) -> BTreeSet<&str> {
        let voters = self.members.iter().chain(&self.witness);
        voters.map(|voter| voter.name.as_str()).collect()
    }

    /// The part that the node of this name plays.
    #[must_use]
    pub fn role_of(&self, node: &str) -> Role {
        if self.members.iter().any(|member| member.name == node) {
            Role::Member
        } else if self.witness.as_ref().is_some_and(|one| one.name == node) {
            Role::Witness
        } else {
            Role::Stranger
        }
    }

    /// What is allowed and seldom meant, in whole sentences.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let (members, voters) = (self.members.len(), self.voters().len());
        let mut warnings = Vec::new();
        if voters == 2 {
            warnings.push(
                "two nodes vote: when one of them dies, nobody has the address; add a third member, or a \
                 worker as witness"
                    .to_owned(),
            );
        } else if voters.is_multiple_of(2) {
            warnings.push(format!(
                "{voters} nodes vote, and {} of them must live: with one less it would be as safe; \
                 an even number is meant for the time between two changes",
                voters / 2 + 1
            ));
        }
        if self.witness.is_some() && members > 2 {
            warnings.push(format!(
                "{members} members need no witness; remove the key witness"
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
