//! Cloud IPs.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::api_objects;
use crate::cloud_api::{Reference, said};

api_objects! {
    /// A Cloud IP. Only its identifier is needed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default)]
    pub(crate) struct CloudIp {
        /// `cip-vsalc`.
        pub(crate) id: String,
        /// Its name; several may have the same.
        pub(crate) name?: String,
        /// `mapped` or `unmapped`.
        pub(crate) status?: Option<String>,
        /// Its IPv4 address.
        pub(crate) public_ip?: Option<IpAddr>,
        /// The same.
        pub(crate) public_ipv4?: Option<IpAddr>,
        /// Its IPv6 address.
        pub(crate) public_ipv6?: Option<IpAddr>,
        /// Its name in the DNS.
        #[serde(deserialize_with = "said")]
        pub(crate) fqdn: Option<String>,
        /// The name that its addresses have in the DNS.
        #[serde(deserialize_with = "said")]
        pub(crate) reverse_dns: Option<String>,
        /// What it leads to, if that is a load balancer.
        pub(crate) load_balancer?: Option<Reference>,
        /// If that is a server.
        pub(crate) server?: Option<Reference>,
        /// If that is a server's interface.
        pub(crate) interface?: Option<Reference>,
        /// If that is a server group.
        pub(crate) server_group?: Option<Reference>,
        /// If that is a database server.
        pub(crate) database_server?: Option<Reference>,
        /// Whether the cloud was asked to let it lead elsewhere, and has not done so yet.
        pub(crate) is_moving: bool,
    }
}

impl CloudIp {
    /// The identifier of what it leads to, if the cloud says that.
    pub(crate) fn known_target(&self) -> Option<&str> {
        let all = [
            &self.load_balancer,
            &self.server,
            &self.interface,
            &self.server_group,
            &self.database_server,
        ];
        let known = all.into_iter().flatten().next();
        known.map(|target| target.id.as_str())
    }

    /// The identifier of what it leads to.
    pub(crate) fn target(&self) -> Option<&str> {
        let is_mapped = self.status.as_deref() == Some("mapped");
        self.known_target()
            .or(is_mapped.then_some("something unknown"))
    }

    /// Its addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let all = [self.public_ip, self.public_ipv4, self.public_ipv6];
        all.into_iter().flatten()
    }

    /// Its names in the DNS, in the order in which a Service's status has them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.reverse_dns.iter().chain(&self.fqdn)
    }

    /// For people: `cip-vsalc (109.107.39.92)`.
    pub(crate) fn shown(&self) -> String {
        let address = self.addresses().next();
        address.map_or_else(
            || self.id.clone(),
            |address| format!("{} ({address})", self.id),
        )
    }
}
