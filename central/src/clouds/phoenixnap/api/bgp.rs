//! BGP peer groups: in one location, the routers that any block of the account can be announced to.

use std::fmt;

use serde::Deserialize;

use super::{Api, plain};
use crate::cloud_api::{CloudError, Request, lenient};

/// One peer group. Only its identifier is needed.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerGroup {
    /// Its identifier.
    pub id: String,
    /// Where it is: `PHX`.
    #[serde(default, deserialize_with = "lenient")]
    pub location: Option<String>,
    /// `PENDING`, `READY` and others.
    #[serde(default, deserialize_with = "lenient")]
    status: Option<String>,
    /// The blocks that may be announced.
    #[serde(default, deserialize_with = "lenient")]
    pub ip_prefixes: Option<Vec<Prefix>>,
    /// The number that is asked for.
    #[serde(default, deserialize_with = "lenient")]
    target_asn_details: Option<Asn>,
    /// The number in use.
    #[serde(default, deserialize_with = "lenient")]
    active_asn_details: Option<Asn>,
    /// For the sessions. Nothing shows it.
    #[serde(default, deserialize_with = "lenient")]
    pub password: Option<String>,
    /// How many hops the routers are away at most.
    #[serde(default, deserialize_with = "lenient")]
    pub e_bgp_multi_hop: Option<u8>,
    /// The routers.
    #[serde(default, deserialize_with = "lenient")]
    pub peering_loopbacks_v4: Option<Vec<String>>,
}

/// A block that may be announced.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prefix {
    /// Which block.
    pub ip_allocation_id: String,
    /// `203.0.113.8/29`.
    #[serde(default, deserialize_with = "lenient")]
    pub cidr: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Asn {
    asn: u32,
}

impl fmt::Debug for PeerGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerGroup")
            .field("id", &self.id)
            .field("location", &self.location)
            .field("status", &self.status)
            .field("asn", &self.asn())
            .finish_non_exhaustive()
    }
}

impl PeerGroup {
    /// Whether sessions can be opened.
    pub fn is_ready(&self) -> bool {
        self.status.as_deref().map(plain).as_deref() == Some("ready")
    }

    /// Its status in the cloud's own words.
    pub fn status_word(&self) -> &str {
        self.status.as_deref().unwrap_or("unknown")
    }

    /// The number of the side that servers are on.
    pub fn asn(&self) -> Option<u32> {
        let details = self.active_asn_details.as_ref();
        let details = details.or(self.target_asn_details.as_ref());
        details.map(|details| details.asn)
    }
}

const GROUPS: &str = "networks/v1/bgp-peer-groups";
/// The number that servers speak with if nobody has chosen another one.
pub const DEFAULT_ASN: u32 = 65401;

impl Api {
    /// The peer groups of a location; there is one at most.
    pub async fn peer_groups(&self, location: &str) -> Result<Vec<PeerGroup>, CloudError> {
        let request = Request::get("list_bgp_peer_groups", GROUPS).query("location", location);
        let mut groups: Vec<PeerGroup> = self.client.fetch(&request).await?;
        groups.retain(|group| {
            let own = group.location.as_deref();
            own.is_some_and(|own| own.eq_ignore_ascii_case(location))
        });
        Ok(groups)
    }

    /// One peer group. The kinds `Forbidden` and `NotFound` both mean that there may be none.
    pub async fn peer_group(&self, id: &str) -> Result<PeerGroup, CloudError> {
        let request = Request::get("get_bgp_peer_group", format!("{GROUPS}/{id}"));
        self.client.fetch(&request).await
    }
}
