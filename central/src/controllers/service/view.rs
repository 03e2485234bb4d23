//! The part of a Service that is looked at.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::names::{annotations, finalizers};

use crate::controllers::address_pool::Held;

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
    /// Whether there is a map of annotations.
    pub has_annotations: bool,
    /// The annotation that asks for a network, empty counting as absent.
    pub network_request: Option<String>,
    /// The annotation that asks for addresses, empty counting as absent.
    pub addresses_request: Option<String>,
    /// The annotation that records the network.
    pub allocated_network: Option<String>,
    /// The annotation that records the addresses.
    pub allocated_addresses: Option<String>,
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
}

impl ServiceView {
    /// Whether it is for us to provide its load balancer.
    #[must_use]
    pub fn wants_load_balancer(&self) -> bool {
        self.is_load_balancer && self.class.is_none() && !self.deleting
    }

    /// Whether our finalizer is on it.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.finalizers
            .iter()
            .flatten()
            .any(|name| name == finalizers::SERVICE)
    }

    /// What our record on it says that it holds.
    #[must_use]
    pub fn recorded(&self) -> Option<Held> {
        let addresses = self.allocated_addresses.as_ref()?;
        let addresses: Vec<IpAddr> = addresses
            .split(',')
            .map(str::trim)
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        Some(Held {
            pool: self.allocated_network.clone()?,
            addresses,
        })
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
        let mut request = |key| given.remove(key).filter(|text| !text.trim().is_empty());
        let (network_request, addresses_request) = (
            request(annotations::L2_NETWORK_REQUEST),
            request(annotations::ADDRESSES_REQUEST),
        );
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
            network_request,
            addresses_request,
            allocated_network: given.remove(annotations::ALLOCATED_NETWORK),
            allocated_addresses: given.remove(annotations::ALLOCATED_ADDRESSES),
            load_balancer_ip: spec.load_balancer_ip.filter(|ip| !ip.is_empty()),
            ip_families: spec.ip_families.unwrap_or_default(),
            requires_dual_stack: spec.ip_family_policy.as_deref() == Some("RequireDualStack"),
            status: ingress
                .iter()
                .filter_map(|entry| entry.ip.as_ref()?.parse().ok())
                .collect(),
            status_has_hostname: ingress.iter().any(|entry| entry.hostname.is_some()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A Service of type LoadBalancer that has just been created.
    pub(in super::super) fn service() -> ServiceView {
        let service: Service = serde_json::from_value(serde_json::json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "u", "resourceVersion": "7"},
            "spec": {"type": "LoadBalancer", "ipFamilies": ["IPv4"]},
        }))
        .unwrap();
        ServiceView::slim(service)
    }

    #[test]
    fn a_record_is_read_only_whole() {
        let mut recorded = service();
        recorded.allocated_network = Some("lan".into());
        recorded.allocated_addresses = Some("192.0.2.1, 2001:db8::1".into());
        assert_eq!(recorded.recorded().unwrap().addresses.len(), 2);
        recorded.allocated_addresses = Some("192.0.2.1,x".into());
        assert_eq!(recorded.recorded(), None);
    }
}
