//! Public networks: each is one VLAN, with blocks of addresses on it.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::{Api, Reference, plain};
use crate::cloud_api::{CloudError, Request, lenient};

/// At most so many IPv4 blocks are on one network.
pub const MOST_BLOCKS: usize = 10;

/// One public network. Only its identifier is needed.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublicNetwork {
    /// Its identifier.
    pub id: String,
    /// Its name.
    #[serde(default, deserialize_with = "lenient")]
    pub name: Option<String>,
    /// Where it is: `PHX`.
    #[serde(default, deserialize_with = "lenient")]
    pub location: Option<String>,
    /// The VLAN that its servers receive it on, tagged.
    #[serde(default, deserialize_with = "lenient")]
    pub vlan_id: Option<u16>,
    /// `BUSY`, `READY`, `DELETING`, `ERROR`.
    #[serde(default, deserialize_with = "lenient")]
    status: Option<String>,
    /// The blocks on it. None: they cannot be read.
    #[serde(default, deserialize_with = "lenient")]
    pub ip_blocks: Option<Vec<NetworkBlock>>,
    /// What is in it. None: that cannot be read.
    #[serde(default, deserialize_with = "lenient")]
    pub memberships: Option<Vec<Member>>,
}

/// A block on a public network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkBlock {
    /// Its identifier.
    pub id: String,
    /// `203.0.113.8/29`.
    #[serde(default, deserialize_with = "lenient")]
    pub cidr: Option<String>,
}

/// Something in a public network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// Its identifier.
    pub resource_id: String,
    /// `server`, `storage`, `virtual`.
    #[serde(default, deserialize_with = "lenient")]
    pub resource_type: Option<String>,
    /// Its addresses there; each may also be a range.
    #[serde(default, deserialize_with = "lenient")]
    pub ips: Option<Vec<String>>,
}

impl PublicNetwork {
    /// Whether it takes no change just now.
    pub fn is_busy(&self) -> bool {
        self.status.as_deref().map(plain).as_deref() == Some("busy")
    }

    /// Its status in the cloud's own words.
    pub fn status_word(&self) -> &str {
        self.status.as_deref().unwrap_or("unknown")
    }
}

const NETWORKS: &str = "networks/v1/public-networks";

impl Api {
    /// One network. The kinds `Forbidden` and `NotFound` both mean that there may be none.
    pub async fn public_network(&self, id: &str) -> Result<PublicNetwork, CloudError> {
        let request = Request::get("get_public_network", format!("{NETWORKS}/{id}"));
        let network: PublicNetwork = self.client.fetch(&request).await?;
        if network.id == id {
            Ok(network)
        } else {
            Err(self.client.malformed(&request, "another network was given"))
        }
    }

    /// Has a block assigned to a network. The cloud answers before it is done; the kind `Busy`: ask
    /// again in some seconds.
    pub async fn attach_ip_block(&self, network: &str, block: &str) -> Result<(), CloudError> {
        let path = format!("{NETWORKS}/{network}/ip-blocks");
        let request =
            Request::new("attach_ip_block", Method::POST, path).json(json!({"id": block}));
        self.client.fetch::<Reference>(&request).await.map(|_| ())
    }

    /// Has a block taken off a network, unless something in it uses one of its addresses. The cloud
    /// answers before it is done.
    pub async fn detach_ip_block(&self, network: &str, block: &str) -> Result<(), CloudError> {
        let path = format!("{NETWORKS}/{network}/ip-blocks/{block}");
        let request = Request::new("detach_ip_block", Method::DELETE, path);
        self.client.tell(&request).await
    }
}
