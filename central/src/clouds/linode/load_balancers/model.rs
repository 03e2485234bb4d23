//! NodeBalancers, their configs and nodes, as they are wanted, as they are, and as the cloud is told of them.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::firewalls::FirewallSpec;
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ipv4: Option<String>,
    /// How it reaches its nodes, if that is by a VPC.
    #[serde(skip)]
    pub(super) backend: Option<VpcUse>,
    /// Where it has its address, if that is in a VPC.
    #[serde(skip)]
    pub(super) frontend: Option<VpcUse>,
}

/// A subnet of a VPC.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub(super) enum Subnet {
    /// By number.
    Id(u64),
    /// By its label, in a VPC.
    Named { vpc: Vpc, subnet: String },
}

/// A VPC.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub(super) enum Vpc {
    /// By number.
    Id(u64),
    /// By label.
    Label(String),
}

/// What a NodeBalancer has of a VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct VpcUse {
    /// In this subnet.
    pub(super) subnet: Subnet,
    /// From this block.
    pub(super) ipv4_range: Option<String>,
    /// From this block.
    pub(super) ipv6_range: Option<String>,
    /// Whether any of that block will do.
    pub(super) is_any_of_range: bool,
}

/// A config: what a NodeBalancer does with one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ConfigSpec {
    /// The port that clients use.
    pub(super) port: u16,
    /// `tcp`, `udp`, `http` or `https`.
    pub(super) protocol: String,
    /// `none`, `v1` or `v2`.
    pub(super) proxy_protocol: String,
    /// How connections are distributed.
    pub(super) algorithm: String,
    /// How a client stays with one node. `None`: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stickiness: Option<String>,
    /// `none`, `connection`, `http` or `http_body`.
    pub(super) check: String,
    /// Seconds between two questions.
    pub(super) check_interval: u32,
    /// Seconds that an answer may take.
    pub(super) check_timeout: u32,
    /// Bad answers in a row that make a node unhealthy.
    pub(super) check_attempts: u32,
    /// What is asked for by HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check_path: Option<String>,
    /// What the answer must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) check_body: Option<String>,
    /// Whether what clients meet counts too.
    pub(super) check_passive: bool,
    /// The port that is asked for UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) udp_check_port: Option<u16>,
    /// What it presents to clients; sent apart.
    #[serde(skip)]
    pub(super) tls: Option<Arc<TlsSecret>>,
}

impl ConfigSpec {
    /// What no two configs of one NodeBalancer share: the port, and whether it is UDP.
    pub(super) fn place(&self) -> (u16, bool) {
        (self.port, self.protocol == "udp")
    }
}

/// A node: what a config sends traffic to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub(super) struct NodeSpec {
    /// The Node's name, cut.
    pub(super) label: String,
    /// Its address, in canonical form.
    pub(super) ip: String,
    /// The port that traffic goes to.
    pub(super) port: u16,
    /// Its share of the traffic.
    pub(super) weight: u32,
    /// `accept`, `drain` and others. `None`: nodes of UDP have none.
    pub(super) mode: Option<String>,
    /// The subnet by which it is reached.
    pub(super) subnet: Option<Subnet>,
}

impl NodeSpec {
    pub(super) fn new(label: String, ip: IpAddr, port: u16) -> Self {
        Self {
            label,
            ip: ip.to_string(),
            port,
            weight: WEIGHT,
            mode: Some("accept".to_owned()),
            subnet: None,
        }
    }

    /// `192.0.2.1:30080`, `[2001:db8::1]:30080`.
    pub(super) fn address(&self) -> String {
        if self.ip.contains(':') {
            format!("[{}]:{}", self.ip, self.port)
        } else {
            format!("{}:{}", self.ip, self.port)
        }
    }
}

impl Member for NodeSpec {
    fn target(&self) -> (&str, u16) {
        (&self.ip, self.port)
    }

    fn is_enabled(&self) -> bool {
        self.mode.as_deref().is_none_or(|mode| mode == "accept")
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
        self.target() == wanted.target()
    }
}

const fn mode(enabled: bool) -> &'static str {
    if enabled { "accept" } else { "drain" }
}

const MODE: Field = Field::new(&["mode"], "mode", "");

/// The firewall that a NodeBalancer is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum FirewallWish {
    /// None that we would make.
    None,
    /// This one, which somebody else has made.
    Id(u64),
    /// One of the Service's own.
    Own(FirewallSpec),
}
