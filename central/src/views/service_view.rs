//! The part of a Service that is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{PoisonError, RwLock};

use k8s_openapi::api::core::v1::{
    LoadBalancerIngress, ObjectReference, Service, ServicePort as ApiPort,
};
use mooring_common::clouds;
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::names::{annotations, finalizers};

/// What is kept of a Service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceView {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`: what every write is guarded with.
    pub resource_version: String,
    /// `metadata.creationTimestamp`, in seconds since 1970.
    pub created: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether `spec.type` is LoadBalancer.
    pub is_load_balancer: bool,
    /// `spec.loadBalancerClass`.
    pub class: Option<String>,
    /// `metadata.finalizers`; `None` if there is no such list.
    pub finalizers: Option<Vec<String>>,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// Whether there is a map of annotations.
    pub has_annotations: bool,
    /// The annotation that asks for a network, empty counting as absent.
    pub network_request: Option<String>,
    /// The annotations that ask for a pool of a network, empty ones counting as absent.
    pub pool_requests: Vec<Asked>,
    /// The annotations that ask for addresses, empty ones counting as absent.
    pub addresses_requests: Vec<Asked>,
    /// The annotations with its sharing key, empty ones counting as absent.
    pub sharing_keys: Vec<Asked>,
    /// The annotation that records the network.
    pub allocated_network: Option<String>,
    /// The annotation that records the addresses.
    pub allocated_addresses: Option<String>,
    /// The annotation that says when a load balancer was asked for that it does not say to have yet, and of which cloud
    /// (`creation_asked.rs`).
    pub creation_asked: Option<String>,
    /// The annotation that records the public network that its addresses are in.
    pub public_network: Option<String>,
    /// `spec.loadBalancerIP`, empty counting as absent.
    pub load_balancer_ip: Option<String>,
    /// `spec.ipFamilies`.
    pub ip_families: Vec<String>,
    /// Whether `spec.ipFamilyPolicy` is RequireDualStack.
    pub requires_dual_stack: bool,
    /// `status.loadBalancer.ingress`: the addresses, host names left out.
    pub status: Vec<IpAddr>,
    /// Whether an ingress has a host name.
    pub status_has_hostname: bool,
    /// `status.loadBalancer.ingress`, as it is.
    pub ingress: Vec<Ingress>,
    /// Those of `metadata.annotations` that a cloud may read
    /// ([`clouds::is_read_on_services`], [`read_annotation`]).
    pub annotations: BTreeMap<String, String>,
    /// `spec.ports`, in order.
    pub ports: Vec<ServicePort>,
    /// `spec.selector`.
    pub selector: BTreeMap<String, String>,
    /// Whether `spec.externalTrafficPolicy` is Local.
    pub is_local: bool,
    /// `spec.healthCheckNodePort`, 0 counting as absent.
    pub health_check_node_port: Option<u16>,
    /// `spec.loadBalancerSourceRanges`.
    pub source_ranges: Vec<String>,
    /// Whether `spec.sessionAffinity` is ClientIP.
    pub wants_session_affinity: bool,
}

/// What one of several annotations with the same meaning asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The annotation's key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
}

/// One of `spec.ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// `appProtocol`: no load balancer goes by it; a change of it is told like any other.
    pub app_protocol: Option<String>,
    /// Its name, empty counting as absent.
    pub name: Option<String>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The port that clients use.
    pub port: u16,
    /// The port on every Node; `None` if there is none.
    pub node_port: Option<u16>,
}

/// One of `status.loadBalancer.ingress`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// Its address.
    pub ip: Option<String>,
    /// Its host name.
    pub hostname: Option<String>,
    /// `VIP` or `Proxy` (KEP-1860). `None`: not said, or the API server is older than the field.
    pub ip_mode: Option<String>,
}

impl Ingress {
    /// A host name alone.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        Self {
            hostname: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// An address that reaches the Node with its packets unchanged (KEP-1860).
    #[must_use]
    pub fn vip(ip: String) -> Self {
        Self {
            ip: Some(ip),
            hostname: None,
            ip_mode: Some("VIP".to_owned()),
        }
    }
}

impl ServiceView {
    /// Whether it is to have a load balancer, whoever provides it.
    #[must_use]
    pub fn wants_load_balancer(&self) -> bool {
        self.is_load_balancer && !self.deleting
    }

    /// Whether our finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers
            .iter()
            .flatten()
            .any(|name| name == finalizers::SERVICE)
    }

    /// The value of an annotation that a cloud may read or write.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let value = match key {
            annotations::ALLOCATED_NETWORK => self.allocated_network.as_ref(),
            annotations::ALLOCATED_ADDRESSES => self.allocated_addresses.as_ref(),
            annotations::CREATION_ASKED => self.creation_asked.as_ref(),
            annotations::PUBLIC_NETWORK => self.public_network.as_ref(),
            key => self.annotations.get(key),
        };
        value.map(String::as_str)
    }

    /// How Events refer to it.
    #[must_use]
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            namespace: Some(self.key.namespace.clone()),
            name: Some(self.key.name.clone()),
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
            ..ObjectReference::default()
        }
    }
}

/// Annotations that the configuration names.
static CONFIGURED: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// From now on this annotation is kept of each Service, whatever its key begins with: the configuration
/// of a cloud names it. Said before Services are watched.
pub fn read_annotation(key: &str) {
    let mut configured = CONFIGURED.write().unwrap_or_else(PoisonError::into_inner);
    configured.insert(key.to_owned());
}

impl Slim for ServiceView {
    type Object = Service;

    fn slim(service: Service) -> Self {
        let meta = service.metadata;
        let spec = service.spec.unwrap_or_default();
        let ingress = service
            .status
            .and_then(|status| status.load_balancer)
            .and_then(|load_balancer| load_balancer.ingress)
            .unwrap_or_default();
        let has_annotations = meta.annotations.is_some();
        let mut given = meta.annotations.unwrap_or_default();
        // Templates leave empty values behind.
        let request = |key| {
            given
                .get(key)
                .filter(|text| !text.trim().is_empty())
                .cloned()
        };
        let requests = |keys: &[&'static str]| {
            let asked = |key| {
                Some(Asked {
                    key,
                    value: request(key)?,
                })
            };
            keys.iter().copied().filter_map(asked).collect()
        };
        let network_request = request(annotations::L2_NETWORK_REQUEST);
        let pool_requests = requests(&annotations::ADDRESS_POOL_REQUESTS);
        let addresses_requests = requests(&annotations::ADDRESSES_REQUESTS);
        let sharing_keys = requests(&annotations::SHARING_KEYS);
        Self {
            key: ObjectKey::new(
                meta.namespace.unwrap_or_default(),
                meta.name.unwrap_or_default(),
            ),
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version.unwrap_or_default(),
            created: meta
                .creation_timestamp
                .map(|t| t.0.as_second())
                .unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            is_load_balancer: spec.type_.as_deref() == Some("LoadBalancer"),
            class: spec.load_balancer_class,
            finalizers: meta.finalizers,
            has_annotations,
            labels: meta.labels.unwrap_or_default(),
            network_request,
            pool_requests,
            addresses_requests,
            sharing_keys,
            allocated_network: given.remove(annotations::ALLOCATED_NETWORK),
            allocated_addresses: given.remove(annotations::ALLOCATED_ADDRESSES),
            creation_asked: given.remove(annotations::CREATION_ASKED),
            public_network: given.remove(annotations::PUBLIC_NETWORK),
            annotations: of_clouds(given),
            ports: spec
                .ports
                .unwrap_or_default()
                .into_iter()
                .map(port)
                .collect(),
            selector: spec.selector.unwrap_or_default(),
            is_local: spec.external_traffic_policy.as_deref() == Some("Local"),
            health_check_node_port: spec.health_check_node_port.and_then(as_port),
            source_ranges: spec.load_balancer_source_ranges.unwrap_or_default(),
            wants_session_affinity: spec.session_affinity.as_deref() == Some("ClientIP"),
            load_balancer_ip: spec.load_balancer_ip.filter(|ip| !ip.is_empty()),
            ip_families: spec.ip_families.unwrap_or_default(),
            requires_dual_stack: spec.ip_family_policy.as_deref() == Some("RequireDualStack"),
            status: ingress
                .iter()
                .filter_map(|entry| entry.ip.as_ref()?.parse().ok())
                .collect(),
            status_has_hostname: ingress.iter().any(|entry| entry.hostname.is_some()),
            ingress: ingress.into_iter().map(entry).collect(),
        }
    }
}

fn of_clouds(all: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let configured = CONFIGURED.read().unwrap_or_else(PoisonError::into_inner);
    let is_read = |key: &String| clouds::is_read_on_services(key) || configured.contains(key);
    all.into_iter().filter(|(key, _)| is_read(key)).collect()
}

fn as_port(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port != 0)
}

fn port(port: ApiPort) -> ServicePort {
    ServicePort {
        app_protocol: port.app_protocol,
        name: port.name.filter(|name| !name.is_empty()),
        protocol: port.protocol.unwrap_or_else(|| "TCP".to_owned()),
        port: as_port(port.port).unwrap_or_default(),
        node_port: port.node_port.and_then(as_port),
    }
}

fn entry(entry: LoadBalancerIngress) -> Ingress {
    Ingress {
        ip: entry.ip,
        hostname: entry.hostname,
        ip_mode: entry.ip_mode,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A Service of type LoadBalancer that has just been created.
    pub(crate) fn service() -> ServiceView {
        let service: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"]},
        }))
        .unwrap();
        ServiceView::slim(service)
    }

    #[test]
    fn keeps_configured_annotation_of_any_prefix() {
        let read = || {
            let service: Service = serde_json::from_value(serde_json::json!({
                "metadata": {"annotations": {"where.example/location": "ASH"}},
            }))
            .unwrap();
            let view = ServiceView::slim(service);
            view.annotation("where.example/location")
                .map(ToOwned::to_owned)
        };
        assert_eq!(read(), None);
        read_annotation("where.example/location");
        assert_eq!(read().as_deref(), Some("ASH"));
    }

    #[test]
    fn keeps_only_annotations_of_clouds() {
        let service: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"annotations": {"k8s.cloudscale.ch/x": "1", "example.com/y": "2"}},
            "spec": {"ports": [{"port": 80, "nodePort": 0}]},
        }))
        .unwrap();
        let view = ServiceView::slim(service);
        assert_eq!(view.annotations.len(), 1);
        assert_eq!(view.ports[0].node_port, None);
    }
}
