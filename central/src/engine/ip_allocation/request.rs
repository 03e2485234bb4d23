//! A Service that is to have an address: what it has, and what it asks for.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use mooring_common::k8s::ObjectKey;
use mooring_common::names::annotations;

use crate::cloud_provider::load_balancers::{InvalidField, OwnedFields};
use crate::views::service_view::ServiceView;

/// A Service that is to have an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpRequest {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// In seconds since 1970.
    pub created: i64,
    /// What this process has allocated to it.
    pub given: Option<Ipv4Addr>,
    /// What the record on it says. Whoever may write the Service may have written it: alone it is worth
    /// no more than a wish for an address of our blocks.
    pub recorded: Option<Ipv4Addr>,
    /// What its status says.
    pub published: Option<Ipv4Addr>,
    /// `spec.loadBalancerIP`.
    pub asked: Option<Ipv4Addr>,
    /// The public network that its address was last published for, by our record.
    pub home: Option<String>,
    /// Two complete listings have not had the block of its address.
    pub lost: bool,
    /// Whether it may have an address of a block that bears no mark of this cluster, although only its
    /// annotations say that it is its own.
    pub may_take_over: bool,
}

impl IpRequest {
    /// By its own word, and by what this process has allocated to it. What cannot be read counts as not
    /// said: [`invalid`] tells of it.
    #[must_use]
    pub fn of(service: &ServiceView, given: Option<Ipv4Addr>) -> Self {
        let read = |text: Option<&String>| text?.trim().parse::<Ipv4Addr>().ok();
        let mut ingress = service.ingress.iter();
        let mut request = Self {
            key: service.key.clone(),
            uid: service.uid.clone(),
            created: service.created,
            given,
            recorded: read(service.allocated_addresses.as_ref()),
            published: ingress.find_map(|entry| read(entry.ip.as_ref())),
            asked: read(service.load_balancer_ip.as_ref()),
            home: None,
            lost: false,
            may_take_over: false,
        };
        // It is recorded together with the address, and as much worth.
        let is_proven = request.proven().is_some();
        request.home = service.public_network.clone().filter(|_| is_proven);
        request
    }

    /// Whether one of its addresses is in this block.
    #[must_use]
    pub fn has_of(&self, block: Ipv4Net) -> bool {
        let had = [self.given, self.recorded, self.published];
        let mut had = had.into_iter().flatten();
        had.any(|address| block.contains(&address))
    }

    /// What it has by our own word.
    pub fn ours(&self) -> Option<Ipv4Addr> {
        self.given.or(self.recorded)
    }

    /// What is provably its own: this process has allocated it, or its status shows it as our record
    /// does. Whoever may write a Service writes its annotations, and not its status.
    pub fn proven(&self) -> Option<Ipv4Addr> {
        let confirmed = self.recorded.filter(|_| self.recorded == self.published);
        self.given.or(confirmed)
    }

    /// What traffic may come to: its status shows it, or is about to.
    pub fn in_use(&self) -> [Option<Ipv4Addr>; 2] {
        [self.given, self.published]
    }

    /// What its user asks for, and we have not written.
    pub fn wish(&self) -> Option<Ipv4Addr> {
        let ours = [self.given, self.recorded];
        self.asked.filter(|asked| !ours.contains(&Some(*asked)))
    }

    /// How well founded its hold on an address is; the lowest is the best.
    pub fn rank(&self) -> u8 {
        match (self.given, self.recorded, self.published) {
            (Some(_), _, _) => 0,
            (None, Some(recorded), Some(published)) if recorded == published => 1,
            (None, None, None) => 3,
            _ => 2,
        }
    }
}

/// Whether a Service says by our record that it has an address of a block: an L2Network's is recorded
/// together with that network, and with no public one.
#[must_use]
pub fn may_have(service: &ServiceView) -> bool {
    let of_l2_network = service.allocated_network.is_some();
    let is_recorded = service.allocated_addresses.is_some() && !of_l2_network;
    service.public_network.is_some() || is_recorded
}

/// What of a Service cannot be understood.
#[must_use]
pub fn invalid(service: &ServiceView) -> Vec<InvalidField> {
    let mut faults = Vec::new();
    let mut fault = |place: &str, value: &str, remedy: &str| {
        faults.push(InvalidField::new(place, value, remedy));
    };
    if let Some(text) = &service.load_balancer_ip
        && text.trim().parse::<Ipv4Addr>().is_err()
    {
        let remedy = "is no IPv4 address; write one like 203.0.113.10, or none";
        fault("spec.loadBalancerIP", text, remedy);
    }
    if !service.ip_families.is_empty() && !service.ip_families.iter().any(|name| name == "IPv4") {
        let remedy = "has no IPv4, and IP blocks of other families are not bought; add IPv4";
        fault("spec.ipFamilies", &service.ip_families.join(","), remedy);
    }
    faults
}

/// What of a Service's own fields goes with its address.
#[must_use]
pub fn owned_fields(service: &ServiceView) -> OwnedFields {
    let ours = [
        annotations::ALLOCATED_ADDRESSES,
        annotations::ALLOCATED_NETWORK,
        annotations::PUBLIC_NETWORK,
    ];
    let there = ours
        .into_iter()
        .filter(|key| service.annotation(key).is_some());
    let is_ours = service.load_balancer_ip.is_some()
        && service.load_balancer_ip == service.allocated_addresses;
    OwnedFields {
        annotations: there.collect(),
        load_balancer_ip: is_ours && !service.deleting,
    }
}

/// Whether the status of a Service shows an address of this block.
#[must_use]
pub fn is_shown_of(service: &ServiceView, block: Ipv4Net) -> bool {
    let is_in = |address: &IpAddr| matches!(address, IpAddr::V4(v4) if block.contains(v4));
    service.status.iter().any(is_in)
}

/// Whether a Service says already that it has this address.
#[must_use]
pub fn is_published(service: &ServiceView, address: Ipv4Addr) -> bool {
    let text = address.to_string();
    let mut published = service.ingress.iter();
    published.any(|entry| entry.ip.as_ref() == Some(&text))
}

/// Whether it says all that it is to say of it: its status and our record are written together.
#[must_use]
pub fn is_written(service: &ServiceView, address: Ipv4Addr) -> bool {
    let recorded = service.allocated_addresses.as_deref();
    is_published(service, address) && recorded == Some(&*address.to_string())
}
