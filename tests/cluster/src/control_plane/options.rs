//! What can be chosen about a control plane.

use std::net::{IpAddr, Ipv4Addr};

/// The controllers of [`Options::with_controller_manager`]. None of them plays the kubelet's
/// counterpart: `node-lifecycle-controller` is left to tests that renew Leases.
const USUAL_CONTROLLERS: [&str; 6] = [
    "endpointslice-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "garbage-collector-controller",
    "namespace-controller",
];

/// What kind of control plane to start.
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) bind: IpAddr,
    pub(super) names: Vec<String>,
    pub(super) controllers: Vec<String>,
    pub(super) api_server_flags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            names: Vec::new(),
            controllers: Vec::new(),
            api_server_flags: Vec::new(),
        }
    }
}

impl Options {
    /// The address on which the API server listens (default: 127.0.0.1).
    #[must_use]
    pub fn bind(mut self, address: impl Into<IpAddr>) -> Self {
        self.bind = address.into();
        self
    }

    /// A further name or address for the server's certificate.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Starts kube-controller-manager with the controllers that suites usually need:
    /// EndpointSlices, ServiceAccounts and their CA, garbage collection, namespaces.
    #[must_use]
    pub fn with_controller_manager(self) -> Self {
        USUAL_CONTROLLERS.into_iter().fold(self, Self::controller)
    }

    /// Starts kube-controller-manager with this controller too, for example
    /// `node-lifecycle-controller`.
    #[must_use]
    pub fn controller(mut self, name: &str) -> Self {
        self.controllers.push(name.to_owned());
        self
    }

    /// A further flag for kube-apiserver. The last one of a name wins.
    #[must_use]
    pub fn api_server_flag(mut self, flag: impl Into<String>) -> Self {
        self.api_server_flags.push(flag.into());
        self
    }
}
