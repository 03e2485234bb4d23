//! Servers.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Api, Reference};
use crate::cloud_api::{CloudError, Request, lenient};

/// One server. Only its identifier is needed.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Its identifier; a reserved server keeps it when it is given back.
    pub id: String,
    /// `powered-on`, `powered-off`, `reserved` and others.
    #[serde(default, deserialize_with = "lenient")]
    pub status: Option<String>,
    /// Its name; several may have the same, and it may be changed without the machine's knowing.
    #[serde(default, deserialize_with = "lenient")]
    pub hostname: Option<String>,
    /// Its type, such as `s2.c1.medium`.
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    pub kind: Option<String>,
    /// Where it stands: `PHX`.
    #[serde(default, deserialize_with = "lenient")]
    pub location: Option<String>,
    /// Addresses in private networks; absent, null, or a list of texts.
    #[serde(default)]
    pub private_ip_addresses: Value,
    /// Addresses in its own block and in public networks, alike.
    #[serde(default)]
    pub public_ip_addresses: Value,
    /// Which networks it is in.
    #[serde(default, deserialize_with = "lenient")]
    pub network_configuration: Option<NetworkConfiguration>,
}

/// Which networks a server is in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfiguration {
    /// The public ones.
    #[serde(default, deserialize_with = "lenient")]
    pub public_network_configuration: Option<PublicNetworks>,
}

/// The public networks that a server is in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublicNetworks {
    /// All of them.
    #[serde(default, deserialize_with = "lenient")]
    pub public_networks: Option<Vec<Membership>>,
}

/// One public network that a server is in.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Membership {
    /// The network.
    pub id: String,
    /// `in-progress`, `assigned`.
    #[serde(default, deserialize_with = "lenient")]
    pub status_description: Option<String>,
}

impl Server {
    /// Whether the fabric brings this public network to the server; None: not (yet) asked for.
    pub fn is_in(&self, network: &str) -> Option<bool> {
        let configuration = self.network_configuration.as_ref()?;
        let networks = configuration.public_network_configuration.as_ref()?;
        let mut all = networks.public_networks.iter().flatten();
        let status = &all.find(|own| own.id == network)?.status_description;
        Some(
            status
                .as_deref()
                .is_none_or(|status| super::plain(status) == "assigned"),
        )
    }
}

impl Api {
    /// All servers of the account.
    pub async fn servers(&self) -> Result<Vec<Server>, CloudError> {
        let request = Request::get("list_servers", "bmc/v1/servers");
        let servers: Vec<Server> = self.client.fetch(&request).await?;
        let mut ids: Vec<&str> = servers.iter().map(|server| server.id.as_str()).collect();
        ids.sort_unstable();
        let mut pairs = ids.iter().zip(ids.iter().skip(1));
        match pairs.find(|(one, next)| one == next) {
            Some((id, _)) => {
                let problem = format!("two servers have the identifier {id}");
                Err(self.client.malformed(&request, &problem))
            }
            None => Ok(servers),
        }
    }

    /// One server. The kinds `Forbidden` and `NotFound` both mean that there may be none.
    pub async fn server(&self, id: &str) -> Result<Server, CloudError> {
        let request = Request::get("get_server", format!("bmc/v1/servers/{id}"));
        let server: Server = self.client.fetch(&request).await?;
        if server.id == id {
            Ok(server)
        } else {
            Err(self.client.malformed(&request, "another server was given"))
        }
    }

    /// Has the fabric bring a public network to a server, without giving it addresses there. Inside
    /// of the machine nothing changes. The cloud answers before it is done.
    pub async fn attach_server(&self, id: &str, network: &str) -> Result<(), CloudError> {
        let configuration = "network-configuration/public-network-configuration";
        let path = format!("bmc/v1/servers/{id}/{configuration}/public-networks");
        let request = Request::new("attach_server", reqwest::Method::POST, path)
            // Without addresses only by force.
            .query("force", "true")
            .json(json!({"id": network, "ips": []}));
        self.client.fetch::<Reference>(&request).await.map(|_| ())
    }
}
