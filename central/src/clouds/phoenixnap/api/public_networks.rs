//! Public networks: each is one VLAN, with blocks of public addresses on it.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::Deserialize;

use super::ip_blocks::NO_ADDRESSES;
use super::malformed;
use crate::api_objects;
use crate::cloud_api::{CloudError, Entries, plain};

/// A public network, as far as decisions are made by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The cloud's own name for it.
    pub id: String,
    /// Where it is: `PHX`.
    pub location: String,
    /// The VLAN that its servers receive it on, 2 to 4094. `None`: the cloud does not say.
    pub vlan: Option<u16>,
    /// The IPv4 blocks that it has, ours and others': id and addresses.
    pub blocks: Vec<(String, Ipv4Net)>,
    /// The servers that its VLAN is led to, by their ids. `None`: the cloud does not say.
    pub servers: Option<Vec<String>>,
    /// Whether the cloud says that it takes changes now.
    pub is_ready: bool,
    /// The addresses that its members have there, each as the first and the last of a range.
    pub used: Vec<(Ipv4Addr, Ipv4Addr)>,
    /// What is wrong with blocks and members of it that cannot be read.
    pub unread: Vec<String>,
}

impl Network {
    /// The block of it that has this address, whoever's it is.
    #[must_use]
    pub fn block_of(&self, address: Ipv4Addr) -> Option<&str> {
        let found = self.blocks.iter().find(|(_, cidr)| cidr.contains(&address));
        found.map(|(id, _)| id.as_str())
    }

    /// Whether this block is on it.
    #[must_use]
    pub fn has(&self, block: &str) -> bool {
        self.blocks.iter().any(|(id, _)| id == block)
    }

    /// Whether a member has this address.
    #[must_use]
    pub fn uses(&self, address: Ipv4Addr) -> bool {
        let mut used = self.used.iter();
        used.any(|(first, last)| (*first..=*last).contains(&address))
    }
}

api_objects! {
    /// A network as it is answered. Only its identifier is needed to read it.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct PublicNetwork {
        pub(super) id: String,
        location?: Option<String>,
        vlan_id?: Option<u16>,
        /// `BUSY`, `READY`, `DELETING`, `ERROR`.
        status?: Option<String>,
        ip_blocks?: Option<Entries<OnNetwork>>,
        memberships?: Option<Entries<Membership>>,
    }

    #[derive(Deserialize)]
    struct OnNetwork {
        id: String,
        cidr?: Option<String>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Membership {
        resource_id: String,
        /// `server`, `storage`, `virtual`.
        resource_type?: Option<String>,
        /// Addresses, and ranges of them: `10.0.0.11 - 10.0.0.15`.
        ips?: Option<Vec<String>>,
    }
}

/// An address or a range of them, as the first and the last. `None`: of another family, or unreadable.
fn range(text: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let read = |text: &str| text.trim().parse().ok();
    Some((read(first)?, read(last)?))
}

impl PublicNetwork {
    /// Blocks that cannot be read, or whose addresses cannot, are of no other use than to be counted; those of
    /// IPv6 are not. If a member cannot be read, it is not known which servers are members.
    pub(super) fn read(self) -> Result<Network, CloudError> {
        let id = self.id;
        let missing =
            |what: &str| malformed(format!("the public network {id} comes without {what}"));
        let location = self.location.ok_or_else(|| missing("location"))?;
        let listed = self.ip_blocks.ok_or_else(|| missing("IP blocks"))?;
        let blocks = listed.read.into_iter().filter_map(|block| {
            let text = block.cidr.unwrap_or_default();
            let cidr = text.parse().unwrap_or(NO_ADDRESSES);
            (!text.contains(':')).then_some((block.id, cidr))
        });
        let odd = listed.unread.iter().map(|_| (String::new(), NO_ADDRESSES));
        let blocks = blocks.chain(odd).collect();
        let shows_members = self.memberships.as_ref();
        let shows_members = shows_members.is_some_and(|members| members.unread.is_empty());
        let members = self.memberships.unwrap_or_default();
        let used = members.read.iter().flat_map(|it| it.ips.iter().flatten());
        let used = used.filter_map(|text| range(text)).collect();
        let status = self.status.as_deref().map(plain);
        let is_server = |member: &Membership| {
            let kind = member.resource_type.as_deref().unwrap_or("server");
            kind.eq_ignore_ascii_case("server")
        };
        let servers = members.read.into_iter().filter(is_server);
        let servers = servers.map(|member| member.resource_id).collect();
        Ok(Network {
            blocks,
            location,
            vlan: self.vlan_id,
            servers: shows_members.then_some(servers),
            is_ready: status.as_deref() == Some("ready"),
            used,
            unread: [listed.unread, members.unread].concat(),
            id,
        })
    }
}
