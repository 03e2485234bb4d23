//! What a Service asks of its load balancer, in annotations and elsewhere.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::cloud_provider::annotations::Annotation;
use crate::clouds::brightbox::annotations as keys;
use crate::clouds::brightbox::api::{CloudIp, HealthCheck, Listener, is_id};
use crate::engine::annotations::Reader;
use crate::engine::service_spec::Port;
use crate::views::service_view::ServiceView;

/// The milliseconds that a connection may be without traffic, as the API takes them.
const IDLE_TIMEOUT: RangeInclusive<u32> = 5_000..=86_400_000;
const HTTPS_PORT: u16 = 443;

/// All that is asked for. What is `None` is left to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// The name of all that is the Service's.
    pub(super) name: String,
    /// One for each port of the Service, in order.
    pub(super) listeners: Vec<Listener>,
    /// How connections are distributed.
    pub(super) policy: Option<&'static str>,
    /// The domains of the certificate besides the names of the Cloud IP.
    pub(super) domains: BTreeSet<String>,
    /// The Cloud IP that leads to it.
    pub(super) cloud_ip: CloudIpWish,
    /// How Nodes are asked whether they are healthy, but for the port. No type: none is asked for; an empty
    /// path: there is to be none.
    pub(super) check: HealthCheck,
    /// Whether the Service says who may connect, which no load balancer here can see to.
    pub(super) has_sources: bool,
}

/// Which Cloud IP is to lead to a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CloudIpWish {
    /// One of its own.
    Own,
    /// The one of this identifier.
    Id(String),
    /// The one with this address.
    Address(IpAddr),
}

impl CloudIpWish {
    /// What a Service asks for; its own where that cannot be understood.
    pub(super) fn of(service: &ServiceView) -> Self {
        Self::read(&mut Reader::new(service))
    }

    /// Whether it names this one.
    pub(super) fn is_met_by(&self, ip: &CloudIp) -> bool {
        match self {
            Self::Own => false,
            Self::Id(id) => ip.id == *id,
            Self::Address(address) => ip.addresses().any(|own| own == *address),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Self {
        let key = &keys::CLOUD_IP;
        let address = reader.service.load_balancer_ip.clone();
        match (reader.value(key), address) {
            (Some(text), None) if is_id(text, "cip-", 5) => return Self::Id(text.to_owned()),
            (Some(text), address) => {
                let remedy = match address {
                    Some(_) => "stands beside spec.loadBalancerIP; keep one of them",
                    None => "is the identifier of no Cloud IP; write it like cip-vsalc",
                };
                reader.fault_in(key, text, remedy);
            }
            (None, Some(text)) => {
                if let Ok(address) = text.trim().parse() {
                    return Self::Address(address);
                }
                let remedy = "is no address; write that of a Cloud IP, like 192.0.2.1";
                reader.fault("spec.loadBalancerIP".to_owned(), &text, remedy);
            }
            (None, None) => {}
        }
        Self::Own
    }
}

impl Options {
    /// Reads everything that a Service asks for; `name`: of all that is its own.
    pub(super) fn read(reader: &mut Reader<'_>, name: String) -> Self {
        reader.without_affinity("Brightbox", &keys::POLICY, "source-address");
        let ports = reader.some_ports("Brightbox", &["TCP"]);
        let protocol = reader.word(&keys::PROTOCOL).unwrap_or("http");
        check_https(reader, protocol);
        let ssl_ports = ssl_ports(reader);
        if let Some(text) = reader.value(&keys::BUFFER_SIZE) {
            let what = "has no effect: load balancers have no such size any more; take it off";
            reader.question(&keys::BUFFER_SIZE, text, what);
        }
        let policy = reader.word(&keys::POLICY);
        let timeout = reader.first_of(&keys::IDLE_TIMEOUT, &keys::OLD_IDLE_TIMEOUT);
        let timeout = reader.unsigned_within(timeout, IDLE_TIMEOUT, 50_000);
        let proxy_protocol = reader.word(&keys::PROXY_PROTOCOL);
        let listener = |port: Port| {
            let number = port.port.to_string();
            let mut names = [Some(&number), port.name.as_ref()].into_iter().flatten();
            let is_listed = names.any(|name| ssl_ports.contains(name));
            let is_https = protocol != "tcp" && (port.port == HTTPS_PORT || is_listed);
            Listener {
                protocol: if is_https { "https" } else { protocol }.to_owned(),
                port: port.port,
                target: port.node_port,
                timeout,
                proxy_protocol: proxy_protocol.map(ToOwned::to_owned),
            }
        };
        Self {
            name,
            listeners: ports.into_iter().map(listener).collect(),
            policy,
            domains: listed(reader, &keys::SSL_DOMAINS),
            cloud_ip: CloudIpWish::read(reader),
            check: check(reader),
            has_sources: !reader.source_ranges().is_empty(),
        }
    }
}

fn check(reader: &mut Reader<'_>) -> HealthCheck {
    let interval = reader.first_of(&keys::CHECK_INTERVAL, &keys::AWS_INTERVAL);
    let kind = reader.word(&keys::CHECK_PROTOCOL).unwrap_or_default();
    let remedy = "is no path; write it like /healthz, without ?, # and %";
    HealthCheck {
        kind: kind.to_owned(),
        port: 0,
        request: reader.path(&keys::CHECK_REQUEST, &['?', '#', '%'], remedy),
        interval: reader.unsigned(interval),
        timeout: reader.unsigned(&keys::CHECK_TIMEOUT),
        threshold_up: reader.unsigned(&keys::HEALTHY),
        threshold_down: reader.unsigned(&keys::UNHEALTHY),
    }
}

fn listed(reader: &Reader<'_>, key: &Annotation) -> BTreeSet<String> {
    reader.parts(key).map(ToOwned::to_owned).collect()
}

/// What is said of HTTPS must have ports and domains that it is about. Without port 443 nothing is HTTPS by itself,
/// as the Go controller sees it.
fn check_https(reader: &mut Reader<'_>, protocol: &str) {
    let has_domains = reader.value(&keys::SSL_DOMAINS).is_some();
    let mut ports = reader.service.ports.iter();
    let lacks_443 = protocol == "http" && !ports.any(|port| port.port == HTTPS_PORT);
    let mut is_first = true;
    for key in [&keys::SSL_PORTS, &keys::SSL_DOMAINS] {
        let Some(text) = reader.value(key) else {
            continue;
        };
        let of_protocol = keys::PROTOCOL.key;
        if protocol == "tcp" {
            let remedy =
                format!("is of no use with {of_protocol}: tcp; take it off, or write http there");
            reader.fault_in(key, text, remedy);
        } else if !has_domains {
            let domains = keys::SSL_DOMAINS.key;
            let remedy = format!("needs the annotation {domains} too; write it");
            reader.fault_in(key, text, remedy);
        }
        if lacks_443 && is_first {
            let remedy = format!(
                "needs a port 443 of the Service, or {of_protocol}: https; add one of them, or take it off"
            );
            reader.fault_in(key, text, remedy);
        }
        is_first = false;
    }
}

/// The numbers and names of ports with HTTPS besides 443.
fn ssl_ports(reader: &mut Reader<'_>) -> BTreeSet<String> {
    let key = &keys::SSL_PORTS;
    let mut listed = listed(reader, key);
    listed.remove("*");
    let service = reader.service;
    let is_known = |listed: &&String| {
        let mut ports = service.ports.iter();
        ports.any(|port| port.name.as_ref() == Some(listed) || port.port.to_string() == **listed)
    };
    if let Some(strange) = listed.iter().find(|port| !is_known(port)) {
        let what = format!("names {strange}, which is no port of the Service; correct it");
        reader.question(key, reader.value(key).unwrap_or_default(), &what);
    }
    listed
}

#[cfg(test)]
pub(super) mod tests;
