//! What a Service asks for, and what can be had.

use std::collections::HashSet;
use std::net::IpAddr;

use super::request::{InvalidRequest, request};
use crate::controllers::address_pool::{
    Allocations, Collision, Family, Held, Namespace, Request, Unavailable,
};
use crate::views::service_view::ServiceView;

/// Why a Service cannot be given what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    #[error("its loadBalancerClass is another's, or it has none and those are another's")]
    NotOurs,
    #[error("it wants no load balancer")]
    NotWanted,
    #[error("somebody else has given it an address")]
    ServedByAnother,
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(
        "{collision}, so that this one has lost it; give one of them another port. It gets no other \
         address: {instead}"
    )]
    Collided {
        collision: Collision,
        /// Why there is no other.
        instead: Box<Self>,
    },
}

impl Obstacle {
    /// Why there is no address, if that is so.
    pub(super) fn unavailable(&self) -> Option<&Unavailable> {
        match self {
            Self::Unavailable(why) => Some(why),
            Self::Collided { instead, .. } => instead.unavailable(),
            _ => None,
        }
    }
}

/// What a pass goes by, beside the Service itself: what it shall have. From here on the addresses
/// are reserved for it.
pub(super) type Allocated = Result<Held, Obstacle>;

pub(super) fn observe(
    service: &ServiceView,
    namespace: Namespace,
    allocations: &Allocations,
) -> Allocated {
    let claim = claim(service, allocations)?;
    if !service.wants_load_balancer() {
        return Err(Obstacle::NotWanted);
    }
    let collision = allocations.lose_collided(&service.key);
    let allocated = allocate(service, namespace, claim.as_ref(), allocations);
    match (allocated, collision) {
        (Err(why), Some(collision)) => Err(Obstacle::Collided {
            collision,
            instead: Box::new(why),
        }),
        (allocated, _) => allocated,
    }
}

fn allocate(
    service: &ServiceView,
    namespace: Namespace,
    claim: Option<&Held>,
    allocations: &Allocations,
) -> Allocated {
    let request = Request {
        namespace,
        ..request(service)?
    };
    Ok(allocations.allocate(&service.key, &request, claim)?)
}

/// What the record on a Service says that it holds, at most one address of each family. It is read
/// only whole. Whoever may write the Service can have written it: [`Allocations`] checks it.
pub(super) fn recorded(service: &ServiceView) -> Option<Held> {
    let addresses = service.allocated_addresses.as_ref()?;
    let addresses: Vec<IpAddr> = addresses
        .split(',')
        .map(str::trim)
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let families: HashSet<Family> = addresses.iter().map(|a| Family::of(*a)).collect();
    if families.len() != addresses.len() {
        return None;
    }
    Some(Held {
        network: service.allocated_network.clone()?,
        addresses,
    })
}

/// What it has already, by the record on it or by its status.
fn claim(service: &ServiceView, allocations: &Allocations) -> Result<Option<Held>, Obstacle> {
    let recorded = recorded(service);
    let is_filled = !service.status.is_empty() || service.status_has_hostname;
    if recorded.is_some() || !is_filled {
        return Ok(recorded);
    }
    let known = allocations.held(&service.key);
    let own = match known.filter(|held| held.addresses == service.status) {
        _ if service.status_has_hostname => None,
        Some(known) => Some(known),
        None => allocations.adopt(&service.key, &service.status),
    };
    if own.is_none() && service.allocated_network.is_none() {
        return Err(Obstacle::ServedByAnother);
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::address_pool::Pool;
    use crate::views::service_view::tests::service;
    use std::collections::HashMap;

    fn allocations() -> Allocations {
        let all = Allocations::default();
        let pool = Pool::new("lan", vec!["192.0.2.8/30".parse().unwrap()]);
        all.set_pools(vec![pool], HashSet::new(), HashMap::new());
        all
    }

    fn observe(service: &ServiceView, allocations: &Allocations) -> Allocated {
        super::observe(service, Namespace::NotListed, allocations)
    }

    fn filled(address: &str) -> ServiceView {
        ServiceView {
            status: vec![address.parse().unwrap()],
            ..service()
        }
    }

    /// As of one that moves from another implementation, before namespaces are listed.
    #[test]
    fn adopts_what_status_has_whatever_namespaces_the_pool_allows() {
        let all = Allocations::default();
        let ranges = |range: &str| vec![range.parse().unwrap()];
        let chosen = Pool {
            allowed_namespaces: vec![[("team", "shop")].into_iter().collect()],
            ..Pool::new("lan", ranges("192.0.2.8/30"))
        };
        let free = Pool::new("lan", ranges("192.0.2.16/30"));
        all.set_pools(vec![chosen, free], HashSet::new(), HashMap::new());
        let kept = observe(&filled("192.0.2.10"), &all).unwrap();
        assert_eq!(kept.addresses, filled("192.0.2.10").status);
    }

    #[test]
    fn keeps_own_status_and_leaves_foreign_one() {
        let all = allocations();
        let kept = observe(&filled("192.0.2.10"), &all).unwrap();
        assert_eq!(kept.addresses, filled("192.0.2.10").status);
        let others = observe(&filled("203.0.113.1"), &all);
        assert_eq!(others, Err(Obstacle::ServedByAnother));
        let named = ServiceView {
            status_has_hostname: true,
            ..service()
        };
        assert_eq!(observe(&named, &all), Err(Obstacle::ServedByAnother));
    }

    #[test]
    fn reads_complete_record_only() {
        let mut noted = service();
        noted.allocated_network = Some("lan".into());
        noted.allocated_addresses = Some("192.0.2.1, 2001:db8::1".into());
        assert_eq!(recorded(&noted).unwrap().addresses.len(), 2);
        for wrong in ["192.0.2.1,x", "192.0.2.1,192.0.2.2", ""] {
            noted.allocated_addresses = Some(wrong.into());
            assert_eq!(recorded(&noted), None, "{wrong:?}");
        }
    }

    #[test]
    fn unreadable_record_loses_no_address() {
        let broken = ServiceView {
            allocated_network: Some("lan".into()),
            allocated_addresses: Some("garbage".into()),
            ..filled("192.0.2.11")
        };
        let kept = observe(&broken, &allocations()).unwrap();
        assert_eq!(kept.addresses, broken.status);
    }
}
