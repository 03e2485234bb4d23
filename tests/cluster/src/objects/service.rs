//! Services, as a user writes them.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, PostParams};

use super::named;

/// Describes a Service and makes it.
#[derive(Clone, Debug)]
pub struct ServiceBuilder {
    service: Service,
}

impl ServiceBuilder {
    /// A Service of `type: LoadBalancer` without ports.
    pub fn load_balancer(namespace: &str, name: &str) -> Self {
        Self::new(namespace, name).kind("LoadBalancer")
    }

    /// A Service of the default type, without ports.
    pub fn new(namespace: &str, name: &str) -> Self {
        let mut metadata = named(name);
        metadata.namespace = Some(namespace.to_owned());
        Self {
            service: Service {
                metadata,
                spec: Some(ServiceSpec::default()),
                status: None,
            },
        }
    }

    fn spec(&mut self) -> &mut ServiceSpec {
        self.service.spec.get_or_insert_default()
    }

    /// Sets the type.
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.spec().type_ = Some(kind.to_owned());
        self
    }

    /// Adds a TCP port.
    #[must_use]
    pub fn port(self, port: u16, target: u16) -> Self {
        self.port_of("TCP", port, target)
    }

    /// Adds a port of a protocol.
    #[must_use]
    pub fn port_of(mut self, protocol: &str, port: u16, target: u16) -> Self {
        let port = ServicePort {
            name: Some(format!("{}-{port}", protocol.to_lowercase())),
            protocol: Some(protocol.to_owned()),
            port: port.into(),
            target_port: Some(IntOrString::Int(target.into())),
            ..ServicePort::default()
        };
        self.spec().ports.get_or_insert_default().push(port);
        self
    }

    /// Adds a TCP port without a name, which only one port may be.
    #[must_use]
    pub fn unnamed_port(self, port: u16, target: u16) -> Self {
        let mut this = self.port(port, target);
        let ports = this.spec().ports.as_mut();
        if let Some(port) = ports.and_then(|ports| ports.last_mut()) {
            port.name = None;
        }
        this
    }

    /// Selects Pods by a label.
    #[must_use]
    pub fn selector(mut self, key: &str, value: &str) -> Self {
        let selector = self.spec().selector.get_or_insert_default();
        selector.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.service.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets `spec.loadBalancerClass`.
    #[must_use]
    pub fn class(mut self, class: &str) -> Self {
        self.spec().load_balancer_class = Some(class.to_owned());
        self
    }

    /// Requests an address by `spec.loadBalancerIP`.
    #[must_use]
    pub fn requested_address(mut self, address: &str) -> Self {
        self.spec().load_balancer_ip = Some(address.to_owned());
        self
    }

    /// `spec.externalTrafficPolicy: Local`.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.spec().external_traffic_policy = Some("Local".to_owned());
        self
    }

    /// Without node ports (`allocateLoadBalancerNodePorts: false`).
    #[must_use]
    pub fn without_node_ports(mut self) -> Self {
        self.spec().allocate_load_balancer_node_ports = Some(false);
        self
    }

    /// The IP families, for example `["IPv4", "IPv6"]`, with the policy that requires them all.
    #[must_use]
    pub fn families(mut self, families: &[&str]) -> Self {
        let policy = if families.len() > 1 {
            "RequireDualStack"
        } else {
            "SingleStack"
        };
        let spec = self.spec();
        spec.ip_families = Some(families.iter().map(|family| (*family).to_owned()).collect());
        spec.ip_family_policy = Some(policy.to_owned());
        self
    }

    /// Makes the Service.
    pub async fn create(self, client: &kube::Client) -> Result<Service> {
        let namespace = self.service.metadata.namespace.clone().unwrap_or_default();
        Api::<Service>::namespaced(client.clone(), &namespace)
            .create(&PostParams::default(), &self.service)
            .await
            .with_context(|| format!("creating a Service in {namespace}"))
    }
}
