//! NodeBalancers, their configs and nodes, as they are wanted, as they are, and as the cloud is told of them.

use std::net::SocketAddr;
use std::sync::Arc;

use mooring_common::engine::Impact;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::super::vpcs::Subnet;
use super::firewalls::FirewallSpec;
use crate::api_objects;
use crate::cloud_api::said;
use crate::cloud_provider::secrets::TlsSecret;
use crate::engine::change::{Change, Field};
use crate::engine::pool::Member;

/// The weight of every node, as the Go controller gives it.
const WEIGHT: u32 = 100;

/// A NodeBalancer. Nothing of it can be changed but its throttle and its tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BalancerSpec {
    /// Its name.
    pub(super) label: String,
    /// Where it stands.
    pub(super) region: String,
    /// `common`, `premium` or `premium_40gb`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// New connections of one client in a second; 0: any number.
    #[serde(rename = "client_conn_throttle")]
    pub(super) throttle: u32,
    /// Those that are asked for, and the marks of cluster and Service.
    pub(super) tags: Vec<String>,
    /// A reserved address that it is to have.
    pub(super) ipv4: Option<String>,
    /// How it reaches its nodes, if that is by a VPC.
    #[serde(skip)]
    pub(super) backend: Option<VpcUse>,
    /// Where it has its address, if that is in a VPC.
    #[serde(skip)]
    pub(super) frontend: Option<VpcUse>,
}

/// What a NodeBalancer has of a VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct VpcUse {
    /// In this subnet.
    #[serde(skip)]
    pub(super) subnet: Subnet,
    /// From this block.
    pub(super) ipv4_range: Option<String>,
    /// From this block.
    pub(super) ipv6_range: Option<String>,
    /// Whether any of that block will do.
    #[serde(rename = "ipv4_range_auto_assign")]
    pub(super) is_any_of_range: Option<bool>,
}

api_objects! {
    /// A config: what a NodeBalancer does with one port. What is `None` is not said, and no difference then.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(default)]
    pub(super) struct ConfigSpec {
        /// The port that clients use.
        pub(super) port: u16,
        /// `tcp`, `udp`, `http` or `https`.
        pub(super) protocol?: String,
        /// `none`, `v1` or `v2`.
        pub(super) proxy_protocol?: Option<String>,
        /// How connections are distributed.
        pub(super) algorithm?: Option<String>,
        /// How a client stays with one node.
        pub(super) stickiness?: Option<String>,
        /// `none`, `connection`, `http` or `http_body`.
        pub(super) check?: Option<String>,
        /// Seconds between two questions.
        pub(super) check_interval?: Option<u32>,
        /// Seconds that an answer may take.
        pub(super) check_timeout?: Option<u32>,
        /// Bad answers in a row that make a node unhealthy.
        pub(super) check_attempts?: Option<u32>,
        /// What is asked for by HTTP.
        pub(super) check_path?: Option<String>,
        /// What the answer must contain.
        pub(super) check_body?: Option<String>,
        /// Whether what clients meet counts too.
        pub(super) check_passive?: Option<bool>,
        /// The port that is asked for UDP.
        pub(super) udp_check_port?: Option<u16>,
        /// What it presents to clients; sent apart.
        #[serde(skip)]
        pub(super) tls: Option<Arc<TlsSecret>>,
    }
}

impl ConfigSpec {
    /// What no two configs of one NodeBalancer share: the port, and whether it is UDP.
    pub(super) fn place(&self) -> (u16, bool) {
        (self.port, self.protocol == "udp")
    }

    /// Without what makes no difference where this is.
    pub(super) fn over(&self, actual: &Self) -> Self {
        let mut spec = self.clone();
        if actual.protocol.is_empty() {
            spec.protocol.clear();
        }
        if self.checks("none") {
            (spec.check_interval, spec.check_timeout, spec.check_attempts) = (None, None, None);
        }
        spec
    }

    /// Whether its check is called so, or begins so: `http_body` is by HTTP too.
    pub(super) fn checks(&self, how: &str) -> bool {
        let check = self.check.as_ref();
        check.is_some_and(|check| check.starts_with(how))
    }
}

/// What of a config can be changed. The first two end connections.
pub(super) const OF_CONFIGS: &[Field] = &[
    Field::new(&["protocol"], "protocol", "").with_impact(Impact::Considerable),
    Field::new(&["proxy_protocol"], "proxy protocol", "").with_impact(Impact::Considerable),
    Field::new(&["algorithm"], "algorithm", ""),
    Field::new(&["stickiness"], "stickiness", ""),
    Field::new(&["check"], "check", ""),
    Field::new(&["check_interval"], "check interval", ""),
    Field::new(&["check_timeout"], "check timeout", ""),
    Field::new(&["check_attempts"], "check attempts", ""),
    Field::new(&["check_path"], "check path", ""),
    Field::new(&["check_body"], "check body", ""),
    Field::new(&["check_passive"], "passive check", ""),
    Field::new(&["udp_check_port"], "UDP check port", ""),
];

api_objects! {
    /// A node: what a config sends traffic to.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
    pub(super) struct NodeSpec {
        /// The Node's name, cut.
        pub(super) label?: String,
        /// Its address and the port that traffic goes to: `192.0.2.1:30080`, `[2001:db8::1]:30080`.
        #[serde(deserialize_with = "address")]
        pub(super) address: String,
        /// Its share of the traffic.
        pub(super) weight?: u32,
        /// `accept`, `drain` and others. `None`: nodes of UDP have none.
        #[serde(default, deserialize_with = "mode_of")]
        pub(super) mode: Option<String>,
        /// The subnet by which it is reached; sent apart.
        #[serde(skip)]
        pub(super) subnet: Option<Subnet>,
    }
}

/// In canonical form.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let address: Result<SocketAddr, _> = text.parse();
    let address = address.map_err(|_| D::Error::custom(format!("{text:?} is no address")))?;
    Ok(address.to_string())
}

/// Of UDP there is none to set.
fn mode_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(said(deserializer)?.filter(|mode| mode != "none"))
}

impl NodeSpec {
    pub(super) fn new(label: String, address: SocketAddr) -> Self {
        Self {
            label,
            address: address.to_string(),
            weight: WEIGHT,
            mode: Some(mode(true).to_owned()),
            subnet: None,
        }
    }
}

impl Member for NodeSpec {
    fn target(&self) -> (&str, u16) {
        let (ip, port) = self.address.rsplit_once(':').unwrap_or_default();
        let ip = ip.trim_start_matches('[').trim_end_matches(']');
        (ip, port.parse().unwrap_or_default())
    }

    fn name(&self) -> &str {
        &self.address
    }

    fn is_enabled(&self) -> bool {
        self.mode.as_deref().is_none_or(|mode| mode == "accept")
    }

    fn can_be_disabled(&self) -> bool {
        self.mode.is_some()
    }

    fn enable(&mut self, enabled: bool) {
        if self.mode.is_some() {
            self.mode = Some(mode(enabled).to_owned());
        }
    }

    fn switch(enabled: bool) -> Change {
        Change::new(&MODE, mode(enabled))
    }

    /// Connections live on as long as a node keeps its ID: its label and its weight are left as they are.
    fn is_as(&self, wanted: &Self) -> bool {
        self.address == wanted.address
    }
}

const fn mode(enabled: bool) -> &'static str {
    if enabled { "accept" } else { "drain" }
}

const MODE: Field = Field::new(&["mode"], "mode", "");

/// The firewall that a NodeBalancer is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum FirewallWish {
    /// None that the Service asks for.
    None,
    /// This one, which somebody else has made.
    Id(u64),
    /// One of the Service's own.
    Own(FirewallSpec),
}
