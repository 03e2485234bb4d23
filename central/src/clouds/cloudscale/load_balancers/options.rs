//! What a Service asks of its load balancer, in annotations and elsewhere.

mod read;

use std::collections::BTreeSet;

use super::model::{MonitorSpec, VipRequest};
use crate::cloud_provider::load_balancers::{InvalidField, Notice};
use crate::engine::selector::Selector;
use crate::views::service_view::ServiceView;

/// All that is asked for, defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// The UUID of the load balancer, as it was noted when it was made.
    pub(super) uuid: Option<String>,
    /// The load balancer's name.
    pub(super) name: String,
    /// Its flavor.
    pub(super) flavor: String,
    /// Its zone.
    pub(super) zone: Option<String>,
    /// Its virtual addresses; none: any public ones.
    pub(super) vips: Vec<VipRequest>,
    /// Networks of floating IPs, in canonical form.
    pub(super) floating_ips: BTreeSet<String>,
    /// The host name for the status, instead of addresses.
    pub(super) force_hostname: Option<String>,
    /// `ipMode` of the addresses in the status.
    pub(super) ip_mode: &'static str,
    /// How pools distribute.
    pub(super) pool_algorithm: String,
    /// What pools of TCP ports speak.
    pub(super) pool_protocol: String,
    /// What is asked of health monitors; `http` only if the Service says it.
    pub(super) monitor: MonitorSpec,
    /// What is asked of listeners.
    pub(super) listener: ListenerOptions,
    /// UUIDs of the subnets that members are taken from; none: all.
    pub(super) allowed_subnets: BTreeSet<String>,
    /// Which Nodes carry traffic.
    pub(super) node_selector: Selector,
    /// The Service's ports, in order.
    pub(super) ports: Vec<Port>,
    /// What is taken as it is, and means little.
    pub(super) notices: Vec<Notice>,
}

/// What is asked of listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListenerOptions {
    /// What those of TCP ports speak.
    pub(super) protocol: String,
    /// Who may connect, in canonical form, in order; none: everybody.
    pub(super) allowed_cidrs: Vec<String>,
    /// Milliseconds that a client may be silent. `None`, here and below: whatever the cloud has.
    pub(super) timeout_client_data_ms: Option<u32>,
    /// Milliseconds that connecting to a member may take.
    pub(super) timeout_member_connect_ms: Option<u32>,
    /// Milliseconds that a member may be silent.
    pub(super) timeout_member_data_ms: Option<u32>,
}

/// A port of the Service that a load balancer can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// The port's name, if it has one.
    pub(super) name: Option<String>,
    /// TCP or UDP.
    pub(super) is_udp: bool,
    /// The port that clients use.
    pub(super) port: u16,
    /// The port on every Node.
    pub(super) node_port: u16,
}

impl Options {
    /// Reads everything that a Service asks for.
    ///
    /// # Errors
    /// All that cannot be understood, or that no load balancer can do, together.
    pub(super) fn read(service: &ServiceView) -> Result<Self, Vec<InvalidField>> {
        read::options(service)
    }
}

#[cfg(test)]
pub(super) mod tests;
