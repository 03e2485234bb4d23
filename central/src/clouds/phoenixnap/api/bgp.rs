//! BGP peer groups: in one location, the routers that any block of the account can be announced to.

use std::net::Ipv4Addr;

use serde::Deserialize;

use crate::api_objects;
use crate::cloud_api::plain;

/// The number that servers speak with if nobody has chosen another one.
const DEFAULT_ASN: u32 = 65401;

/// A peer group, as far as Nodes are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The number of the side that Nodes are on.
    pub asn: u32,
    /// The routers.
    pub routers: Vec<Ipv4Addr>,
    /// Whether they are more than one hop away.
    pub is_multi_hop: bool,
    /// Whether sessions can be opened.
    pub is_ready: bool,
    /// Where it is: `PHX`.
    pub location: Option<String>,
}

api_objects! {
    /// A peer group as it is answered; its password is not read.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct PeerGroup {
        location?: Option<String>,
        /// `PENDING`, `READY` and others.
        status?: Option<String>,
        /// The number that is asked for.
        target_asn_details?: Option<Asn>,
        /// The number in use.
        active_asn_details?: Option<Asn>,
        e_bgp_multi_hop?: Option<u8>,
        peering_loopbacks_v4?: Option<Vec<String>>,
    }
}

#[derive(Deserialize)]
struct Asn {
    asn: u32,
}

impl PeerGroup {
    /// Whether it is that of this location.
    pub(super) fn is_in(&self, location: &str) -> bool {
        let own = self.location.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(location))
    }

    pub(super) fn read(self) -> Peers {
        let asn = self.active_asn_details.or(self.target_asn_details);
        let routers = self.peering_loopbacks_v4.into_iter().flatten();
        Peers {
            asn: asn.map_or(DEFAULT_ASN, |details| details.asn),
            routers: routers.filter_map(|text| text.parse().ok()).collect(),
            is_multi_hop: self.e_bgp_multi_hop.is_none_or(|hops| hops > 1),
            is_ready: self.status.as_deref().map(plain).as_deref() == Some("ready"),
            location: self.location,
        }
    }
}
