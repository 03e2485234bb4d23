//! Which Services are ours, and who provides what they ask for.

use mooring_common::names::{CLASS_PREFIX, L2_CLASS, annotations};

use crate::views::service_view::ServiceView;

/// Who provides a Service's load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It gets addresses of an L2Network.
    L2Networks,
    /// It gets a load balancer of the cloud of this provider.
    Cloud(&'static str),
}

/// What the flags say about it.
#[derive(Clone, Debug)]
pub struct Routing {
    /// `--load-balancer-class`: each `spec.loadBalancerClass` that is served like none.
    pub own_classes: Vec<String>,
    /// `--serve-classless-services`: whether Services without a class are ours.
    pub serves_classless: bool,
    /// Whether there are L2Networks.
    pub l2_networks: bool,
    /// The providers whose clouds have load balancers. The first serves Services that name none.
    pub clouds: Vec<&'static str>,
}

impl Routing {
    /// Whether the Service is for us at all.
    #[must_use]
    pub fn is_ours(&self, service: &ServiceView) -> bool {
        match &service.class {
            None => self.serves_classless,
            Some(name) => self.own_classes.contains(name) || self.named(name).is_some(),
        }
    }

    /// Who is named by a class: `mooring.dev/cloudscale`, `mooring.dev/l2`.
    fn named(&self, class: &str) -> Option<Server> {
        let name = class.strip_prefix(CLASS_PREFIX)?;
        if name == L2_CLASS {
            return self.l2_networks.then_some(Server::L2Networks);
        }
        let mut clouds = self.clouds.iter().copied();
        clouds.find(|cloud| *cloud == name).map(Server::Cloud)
    }

    /// Who provides it; `None`: somebody else. With a cloud, a Service comes to an L2Network by its
    /// class or by its annotations; one of a class of the operator's is the cloud's.
    #[must_use]
    pub fn server(&self, service: &ServiceView) -> Option<Server> {
        if !self.is_ours(service) {
            return None;
        }
        let class = service.class.as_deref();
        if let Some(named) = class.and_then(|class| self.named(class)) {
            return Some(named);
        }
        let has = service.allocated_network.is_some() && service.public_network.is_none();
        // Those of other implementations choose nothing: they may be left over on a Service of the cloud.
        let mut pools = service.pool_requests.iter();
        let asks_for_pool = pools.any(|asked| asked.key == annotations::ADDRESS_POOL_REQUEST);
        let asks = service.network_request.is_some() || asks_for_pool || has;
        match self.clouds.first().copied() {
            Some(cloud) if !self.l2_networks || !asks || class.is_some() => {
                Some(Server::Cloud(cloud))
            }
            _ => self.l2_networks.then_some(Server::L2Networks),
        }
    }

    /// Whether a cloud is to give it a load balancer, and which.
    #[must_use]
    pub fn wanted_of(&self, service: &ServiceView) -> Option<&'static str> {
        let wants = service.is_load_balancer && !service.deleting;
        match self.server(service).filter(|_| wants)? {
            Server::Cloud(cloud) => Some(cloud),
            Server::L2Networks => None,
        }
    }

    /// Whether a cloud may have to clean up after it that is not to give it a load balancer.
    #[must_use]
    pub fn may_leave_something(&self, service: &ServiceView, cloud: &str) -> bool {
        self.wanted_of(service) != Some(cloud) && service.has_finalizer() && self.is_ours(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::service_view::tests::service;

    const CLOUD: Server = Server::Cloud("one");

    fn both() -> Routing {
        Routing {
            own_classes: Vec::new(),
            serves_classless: true,
            l2_networks: true,
            clouds: vec!["one", "two"],
        }
    }

    fn of_class(class: &str) -> ServiceView {
        ServiceView {
            class: Some(class.to_owned()),
            ..service()
        }
    }

    fn asking() -> ServiceView {
        ServiceView {
            network_request: Some("lan".to_owned()),
            ..service()
        }
    }

    #[test]
    fn routes_to_l2_network_by_request_or_holding_else_to_cloud() {
        let recorded = ServiceView {
            allocated_network: Some("lan".to_owned()),
            ..service()
        };
        assert_eq!(both().server(&service()), Some(CLOUD));
        assert_eq!(both().server(&asking()), Some(Server::L2Networks));
        assert_eq!(both().server(&recorded), Some(Server::L2Networks));
        let l2 = Routing {
            clouds: Vec::new(),
            ..both()
        };
        assert_eq!(l2.server(&service()), Some(Server::L2Networks));
        let cloud = Routing {
            l2_networks: false,
            ..both()
        };
        assert_eq!(cloud.server(&asking()), Some(CLOUD));
    }

    #[test]
    fn sv_40_ns_14_serves_only_configured_classes() {
        assert_eq!(both().server(&of_class("example.com/x")), None);
        let named = Routing {
            own_classes: vec!["example.com/x".to_owned(), "example.com/z".to_owned()],
            serves_classless: false,
            ..both()
        };
        assert_eq!(named.server(&of_class("example.com/x")), Some(CLOUD));
        assert_eq!(named.server(&of_class("example.com/z")), Some(CLOUD));
        assert_eq!(named.server(&of_class("example.com/y")), None);
        let l2 = Routing {
            clouds: Vec::new(),
            ..named.clone()
        };
        let of = |class: &str| l2.server(&of_class(class));
        assert_eq!(of("example.com/x"), Some(Server::L2Networks));
        assert_eq!(of("example.com/y"), None);
        assert_eq!(l2.server(&asking()), None, "it has no class");
        assert_eq!(named.server(&service()), None);
    }

    #[test]
    fn class_selects_cloud_and_first_cloud_is_default() {
        let of = |class: &str| both().server(&of_class(class));
        assert_eq!(of("mooring.dev/two"), Some(Server::Cloud("two")));
        assert_eq!(of("mooring.dev/one"), Some(CLOUD));
        assert_eq!(of("mooring.dev/three"), None);
        assert_eq!(of("mooring.dev/l2"), Some(Server::L2Networks));
        let cloud = Routing {
            l2_networks: false,
            ..both()
        };
        assert_eq!(cloud.server(&of_class("mooring.dev/l2")), None);
        assert_eq!(both().server(&service()), Some(CLOUD));
        let named_alone = Routing {
            serves_classless: false,
            ..both()
        };
        assert_eq!(
            named_alone.server(&of_class("mooring.dev/two")),
            Some(Server::Cloud("two"))
        );
        assert_eq!(named_alone.server(&service()), None);
    }
}
