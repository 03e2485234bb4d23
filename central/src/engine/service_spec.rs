//! What any load balancer reads of a Service's spec.

use std::collections::BTreeSet;

use mooring_common::names::annotations::SOURCE_RANGES;

use super::annotations::{Reader, either, parts};
use super::canonical::canonical_network;
use crate::cloud_provider::annotations::Annotation;
use crate::views::service_view::{ServicePort, ServiceView};

/// A port of the Service that a load balancer can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The port's name, if it has one.
    pub name: Option<String>,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The port that clients use.
    pub port: u16,
    /// The port on every Node.
    pub node_port: u16,
}

impl Port {
    /// The Node's port at which the service proxy is asked about the Service.
    #[must_use]
    pub fn health_port(&self, service: &ServiceView) -> u16 {
        let of_service = service.health_check_node_port.filter(|_| service.is_local);
        of_service.unwrap_or(self.node_port)
    }
}

impl Reader<'_> {
    /// The Service's ports, in order; `cloud` serves these protocols.
    pub fn ports(&mut self, cloud: &str, protocols: &[&str]) -> Vec<Port> {
        let ports = self.service.ports.iter().enumerate();
        ports
            .filter_map(|(index, port)| self.port(index, port, (cloud, protocols)))
            .collect()
    }

    /// [`Self::ports`], where there has to be one at least.
    pub fn some_ports(&mut self, cloud: &str, protocols: &[&str]) -> Vec<Port> {
        if self.service.ports.is_empty() {
            let remedy = "has none; write one at least";
            self.fault("spec.ports".to_owned(), "", remedy);
        }
        self.ports(cloud, protocols)
    }

    /// `spec.sessionAffinity` is a fault where load balancers of `cloud` are told of it by this word in an annotation.
    pub fn without_affinity(&mut self, cloud: &str, annotation: &Annotation, word: &str) {
        if self.service.wants_session_affinity {
            let key = annotation.key;
            let remedy = format!(
                "is not known to load balancers of {cloud}; write None, and {word} in annotation {key} for the same \
                 effect"
            );
            self.fault("spec.sessionAffinity".to_owned(), "ClientIP", remedy);
        }
    }

    /// No two of these may be the same: number, and whether it is UDP.
    pub fn each_once(&mut self, ports: &[(u16, bool)]) {
        for (index, port) in ports.iter().enumerate() {
            let mut earlier = ports.iter().take(index);
            if earlier.any(|other| other == port) {
                let (number, is_udp) = port;
                let protocol = if *is_udp { "UDP" } else { "TCP" };
                let remedy = format!(
                    "is served twice, by {protocol}; give one of them another number, or another protocol"
                );
                self.fault("spec.ports".to_owned(), &number.to_string(), remedy);
            }
        }
    }

    fn port(
        &mut self,
        index: usize,
        port: &ServicePort,
        (cloud, protocols): (&str, &[&str]),
    ) -> Option<Port> {
        let place = |field: &str| format!("spec.ports[{index}].{field}");
        let is_served = protocols.contains(&port.protocol.as_str());
        if !is_served {
            let remedy = format!(
                "is not served by load balancers of {cloud}; write {}, or remove the port",
                either(protocols)
            );
            self.fault(place("protocol"), &port.protocol, remedy);
        }
        let Some(node_port) = port.node_port else {
            let remedy = "is missing, and the load balancer reaches Nodes by it; set \
                          spec.allocateLoadBalancerNodePorts to true";
            self.fault(place("nodePort"), "", remedy);
            return None;
        };
        is_served.then(|| Port {
            name: port.name.clone(),
            protocol: port.protocol.to_lowercase(),
            port: port.port,
            node_port,
        })
    }

    /// Whether the Service has a port of this protocol.
    #[must_use]
    pub fn has_port_of(&self, protocol: &str) -> bool {
        let mut ports = self.service.ports.iter();
        ports.any(|port| port.protocol == protocol)
    }

    /// The networks of `spec.loadBalancerSourceRanges`, else of the annotation that is older than the field,
    /// in canonical form, each once.
    pub fn source_ranges(&mut self) -> Vec<String> {
        let ranges = &self.service.source_ranges;
        if !ranges.is_empty() {
            return self.canonical("spec.loadBalancerSourceRanges", ranges);
        }
        let legacy = self.service.annotation(SOURCE_RANGES).unwrap_or_default();
        let texts: Vec<String> = parts(legacy).map(ToOwned::to_owned).collect();
        self.canonical(&format!("annotation {SOURCE_RANGES}"), &texts)
    }
}

/// `spec.loadBalancerIP`, if it is none of the networks or addresses that are asked for otherwise: a new load
/// balancer would get another one.
pub fn unmet_address<'a>(
    service: &ServiceView,
    asked: impl Iterator<Item = &'a String>,
) -> Option<String> {
    let text = service.load_balancer_ip.as_ref()?;
    let asked: BTreeSet<_> = asked.filter_map(|asked| canonical_network(asked)).collect();
    let is_met = canonical_network(text).is_some_and(|wanted| asked.contains(&wanted));
    (!is_met).then(|| text.clone())
}
