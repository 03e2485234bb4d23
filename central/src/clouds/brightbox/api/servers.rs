//! Servers.

use serde::Deserialize;

use super::CloudIp;
use crate::api_objects;
use crate::cloud_api::short_name;

api_objects! {
    /// One server. Only its identifier is needed.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct Server {
        /// `srv-gdqms`.
        pub(crate) id: String,
        /// `active`, `inactive`, `deleted` and others.
        pub(crate) status?: Option<String>,
        /// Its host name.
        pub(crate) hostname?: Option<String>,
        /// Its name in the DNS.
        pub(crate) fqdn?: Option<String>,
        /// Its type: `2gb.ssd`.
        #[serde(default, deserialize_with = "short_name")]
        pub(crate) server_type: Option<String>,
        /// Its zone: `gb1-a`.
        #[serde(default, deserialize_with = "short_name")]
        pub(crate) zone: Option<String>,
        /// Its network interfaces.
        pub(crate) interfaces?: Option<Vec<Interface>>,
        /// The Cloud IPs that lead to it.
        pub(crate) cloud_ips?: Option<Vec<CloudIp>>,
    }

    /// A network interface.
    #[derive(Clone, Debug, Default, Deserialize)]
    pub(crate) struct Interface {
        /// Its private address.
        pub(crate) ipv4_address: Option<String>,
        /// Its public address.
        pub(crate) ipv6_address: Option<String>,
    }
}
