//! Servers.

use serde::Deserialize;
use serde_json::Value;

use super::Api;
use crate::api_objects;
use crate::cloud_api::{CloudError, Entries, Request};
use crate::cloud_provider::twice;

api_objects! {
    /// One server.
    #[derive(Clone, Debug, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct Server {
        /// Its identifier, if it can be read; a reserved server keeps it when it is given back.
        pub id?: String,
        /// `powered-on`, `powered-off`, `reserved` and others.
        pub status?: Option<String>,
        /// Its name; several may have the same, and it may be changed without the machine's knowing.
        pub hostname?: Option<String>,
        /// Its type, such as `s2.c1.medium`.
        #[serde(rename = "type")]
        pub kind?: Option<String>,
        /// Where it stands: `PHX`.
        pub location?: Option<String>,
        /// Addresses in private networks; absent, null, or a list of texts.
        #[serde(default)]
        pub private_ip_addresses: Value,
        /// Addresses in its own block and in public networks, alike.
        #[serde(default)]
        pub public_ip_addresses: Value,
    }
}

impl Api {
    /// All servers of the account.
    pub async fn servers(&self) -> Result<Entries<Server>, CloudError> {
        let request = Request::get("list_servers", "bmc/v1/servers");
        let servers: Entries<Server> = self.client.fetch(&request).await?;
        let ids = servers.read.iter().map(|server| server.id.as_str());
        let mut ids: Vec<&str> = ids.filter(|id| !id.is_empty()).collect();
        match twice(&mut ids) {
            Some(id) => {
                let problem = format!("two servers have the identifier {id}");
                Err(self.client.malformed(&request, &problem))
            }
            None => Ok(servers),
        }
    }

    /// One server. The kinds `Forbidden` and `NotFound` both mean that there may be none.
    pub async fn server(&self, id: &str) -> Result<Server, CloudError> {
        let request = Request::get("get_server", format!("bmc/v1/servers/{id}"));
        self.same(&request, id, |server: &Server| &server.id).await
    }
}
