//! Which Services are ours, and who provides what they ask for.

use crate::service_view::ServiceView;

/// Who provides a Service's load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// It gets addresses of an L2Network.
    L2Networks,
    /// It gets a load balancer of a cloud.
    Cloud,
}

/// What the flags say about it.
#[derive(Clone, Debug)]
pub struct Routing {
    /// `--load-balancer-class`: the `spec.loadBalancerClass` that is ours.
    pub own_class: Option<String>,
    /// `--serve-classless-services`: whether Services without a class are ours.
    pub serves_classless: bool,
    /// Whether there are L2Networks.
    pub l2_networks: bool,
    /// Whether a cloud has load balancers.
    pub cloud: bool,
}

impl Routing {
    /// Whether the Service is for us at all.
    #[must_use]
    pub fn is_ours(&self, service: &ServiceView) -> bool {
        match &service.class {
            None => self.serves_classless,
            class @ Some(_) => *class == self.own_class,
        }
    }

    /// Who provides it; `None`: somebody else. With a cloud, a Service comes to an L2Network by its
    /// annotations; one that names our class is the cloud's.
    #[must_use]
    pub fn server(&self, service: &ServiceView) -> Option<Server> {
        if !self.is_ours(service) {
            return None;
        }
        let has = service.allocated_network.is_some() && service.public_network.is_none();
        let asks = service.network_request.is_some() || has;
        if self.cloud && (!self.l2_networks || !asks || service.class.is_some()) {
            return Some(Server::Cloud);
        }
        self.l2_networks.then_some(Server::L2Networks)
    }

    /// Whether a cloud is to give it a load balancer.
    #[must_use]
    pub fn wants_of_cloud(&self, service: &ServiceView) -> bool {
        let wants = service.is_load_balancer && !service.deleting;
        wants && self.server(service) == Some(Server::Cloud)
    }

    /// Whether a cloud may have to clean up after it.
    #[must_use]
    pub fn leaves_to_cloud(&self, service: &ServiceView) -> bool {
        !self.wants_of_cloud(service) && service.has_finalizer() && self.is_ours(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_view::tests::service;

    const BOTH: Routing = Routing {
        own_class: None,
        serves_classless: true,
        l2_networks: true,
        cloud: true,
    };

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
    fn an_l2_network_serves_who_asks_for_it_or_has_it_and_the_cloud_the_rest() {
        let recorded = ServiceView {
            allocated_network: Some("lan".to_owned()),
            ..service()
        };
        assert_eq!(BOTH.server(&service()), Some(Server::Cloud));
        assert_eq!(BOTH.server(&asking()), Some(Server::L2Networks));
        assert_eq!(BOTH.server(&recorded), Some(Server::L2Networks));
        let l2 = Routing {
            cloud: false,
            ..BOTH
        };
        assert_eq!(l2.server(&service()), Some(Server::L2Networks));
        let cloud = Routing {
            l2_networks: false,
            ..BOTH
        };
        assert_eq!(cloud.server(&asking()), Some(Server::Cloud));
    }

    #[test]
    fn sv_40_ns_14_only_the_classes_that_the_flags_name_are_ours() {
        assert_eq!(BOTH.server(&of_class("example.com/x")), None);
        let named = Routing {
            own_class: Some("example.com/x".to_owned()),
            serves_classless: false,
            ..BOTH
        };
        assert_eq!(
            named.server(&of_class("example.com/x")),
            Some(Server::Cloud)
        );
        assert_eq!(named.server(&of_class("example.com/y")), None);
        assert_eq!(named.server(&service()), None);
    }
}
