//! Servers.

use serde::Deserialize;

use crate::cloud_api::{lenient, referred, short_name};
use crate::resources;

resources! {
    /// Servers.
    pub(crate) SERVERS: Server, "server", "server", "servers", "servers";
}

/// One server. Only its UUID is needed.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Server {
    /// Its UUID.
    #[serde(rename = "uuid")]
    pub(crate) id: String,
    /// Its name; several may have the same.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) name: Option<String>,
    /// `running`, `stopped` or `changing`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) status: Option<String>,
    /// Where it stands.
    #[serde(default, deserialize_with = "short_name")]
    pub(crate) zone: Option<String>,
    /// Its size.
    #[serde(default, deserialize_with = "short_name")]
    pub(crate) flavor: Option<String>,
    /// Its network cards.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) interfaces: Option<Vec<Interface>>,
}

/// One network card.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Interface {
    /// `public` or `private`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Its addresses.
    pub(crate) addresses: Vec<Address>,
}

/// One address of a network card.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Address {
    /// The address.
    pub(crate) address: String,
    /// The UUID of the subnet that it is in; absent for a public one.
    #[serde(default, deserialize_with = "referred")]
    pub(crate) subnet: Option<String>,
}
