//! What to do about one Service. Pure.

use std::fmt;

use mooring_common::engine::{Impact, Plan, Step};

use super::observe::{Allocated, Obstacle, recorded};
use crate::controllers::address_pool::Held;
use crate::views::service_view::ServiceView;

/// One write to a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServiceStep {
    /// Put our finalizer on it.
    AddFinalizer,
    /// Write the addresses into its status, and our record beside them.
    WriteStatus {
        held: Held,
        /// What the status said before.
        before: usize,
    },
    /// Take addresses and their record off it.
    Withdraw,
    /// Take addresses, record and finalizer off it.
    Release,
}

impl fmt::Display for ServiceStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddFinalizer => f.write_str("put the finalizer on"),
            Self::WriteStatus { held, .. } => {
                let all: Vec<_> = held.addresses.iter().map(ToString::to_string).collect();
                write!(f, "give it {} of {}", all.join(" and "), held.network)
            }
            Self::Withdraw => f.write_str("take its addresses back"),
            Self::Release => f.write_str("take its addresses back and the finalizer off"),
        }
    }
}

impl Step for ServiceStep {
    fn impact(&self) -> Impact {
        match self {
            Self::AddFinalizer | Self::WriteStatus { before: 0, .. } => Impact::None,
            Self::WriteStatus { .. } | Self::Withdraw | Self::Release => Impact::Major,
        }
    }
}

/// What a pass comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is not for us.
    Leave(&'static str),
    /// Provide it, by these steps; none: all is well.
    Provide(Plan<ServiceStep>),
    /// It cannot be provided as asked.
    Refuse(Obstacle),
    /// The same, and it may not keep what it has: take that by these steps.
    Withdraw(Plan<ServiceStep>, Obstacle),
    /// Clean up after it, by these steps.
    CleanUp(Plan<ServiceStep>),
}

pub(super) fn plan(service: &ServiceView, allocated: &Allocated) -> Decision {
    if *allocated == Err(Obstacle::NotOurs) {
        return Decision::Leave("it is another's by its loadBalancerClass");
    }
    if *allocated == Err(Obstacle::ServedByAnother) {
        return Decision::Leave("somebody else has given it an address");
    }
    if !service.wants_load_balancer() {
        return if service.has_finalizer() {
            Decision::CleanUp([ServiceStep::Release].into_iter().collect())
        } else {
            Decision::Leave("it wants no load balancer")
        };
    }
    let held = match allocated {
        Ok(held) => held,
        Err(obstacle @ Obstacle::Collided { .. }) => {
            let has_any = !service.status.is_empty() || service.allocated_addresses.is_some();
            let steps = has_any.then_some(ServiceStep::Withdraw);
            return Decision::Withdraw(steps.into_iter().collect(), obstacle.clone());
        }
        Err(obstacle) => return Decision::Refuse(obstacle.clone()),
    };
    let mut plan = Plan::default();
    if !service.has_finalizer() {
        plan.push(ServiceStep::AddFinalizer);
    }
    if service.status != held.addresses || recorded(service).as_ref() != Some(held) {
        let before = service
            .status
            .iter()
            .filter(|a| !held.addresses.contains(a))
            .count();
        plan.push(ServiceStep::WriteStatus {
            held: held.clone(),
            before,
        });
    }
    Decision::Provide(plan)
}

/// Whether somebody else has overwritten a status that we wrote, and these steps write it again.
pub(super) fn restores(service: &ServiceView, plan: &Plan<ServiceStep>) -> bool {
    let again = |step: &ServiceStep| match step {
        ServiceStep::WriteStatus { held, .. } => recorded(service).as_ref() == Some(held),
        _ => false,
    };
    !service.status.is_empty() && plan.steps().iter().any(again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::address_pool::{Collision, Unavailable};
    use crate::views::service_view::tests::service;
    use mooring_common::k8s::ObjectKey;
    use mooring_common::names::finalizers;

    fn held() -> Held {
        Held {
            network: "lan".into(),
            addresses: vec!["192.0.2.1".parse().unwrap()],
        }
    }

    fn allocated() -> Allocated {
        Ok(held())
    }

    fn provided() -> ServiceView {
        ServiceView {
            finalizers: Some(vec![finalizers::SERVICE.into()]),
            allocated_network: Some("lan".into()),
            allocated_addresses: Some("192.0.2.1".into()),
            status: held().addresses,
            ..service()
        }
    }

    #[test]
    fn finalizer_precedes_address() {
        let Decision::Provide(plan) = plan(&service(), &allocated()) else {
            panic!()
        };
        assert!(matches!(
            plan.steps(),
            [
                ServiceStep::AddFinalizer,
                ServiceStep::WriteStatus { before: 0, .. }
            ]
        ));
        assert_eq!(plan.impact(), Impact::None);
    }

    #[test]
    fn restores_wiped_status_and_leaves_the_rest() {
        assert_eq!(
            plan(&provided(), &allocated()),
            Decision::Provide(Plan::default())
        );
        let wiped = ServiceView {
            status: vec![],
            ..provided()
        };
        let Decision::Provide(plan) = plan(&wiped, &allocated()) else {
            panic!()
        };
        assert_eq!(plan.steps().len(), 1);
    }

    #[test]
    fn withdrawing_an_address_has_major_impact() {
        let other = Held {
            addresses: vec!["192.0.2.2".parse().unwrap()],
            ..held()
        };
        let Decision::Provide(plan) = plan(&provided(), &Ok(other)) else {
            panic!()
        };
        assert_eq!(plan.impact(), Impact::Major);
    }

    #[test]
    fn leaves_what_is_not_ours() {
        let plain = ServiceView {
            is_load_balancer: false,
            ..service()
        };
        let leaves = plan(&plain, &allocated());
        assert!(matches!(leaves, Decision::Leave(_)), "{leaves:?}");
        let deleted = ServiceView {
            deleting: true,
            ..provided()
        };
        let leaves = plan(&deleted, &Err(Obstacle::NotOurs));
        assert!(matches!(leaves, Decision::Leave(_)), "{leaves:?}");
        let others = plan(&service(), &Err(Obstacle::ServedByAnother));
        assert!(matches!(others, Decision::Leave(_)));
    }

    #[test]
    fn deletion_and_type_change_release_everything() {
        for service in [
            ServiceView {
                deleting: true,
                ..provided()
            },
            ServiceView {
                is_load_balancer: false,
                ..provided()
            },
        ] {
            let Decision::CleanUp(plan) = plan(&service, &allocated()) else {
                panic!()
            };
            assert_eq!(plan.steps(), [ServiceStep::Release]);
        }
    }

    /// Its finalizer may be another controller's, which has a load balancer to delete first.
    #[test]
    fn leaves_deleted_service_of_another_implementation() {
        let deleted = ServiceView {
            deleting: true,
            ..provided()
        };
        let decision = plan(&deleted, &Err(Obstacle::ServedByAnother));
        assert!(matches!(decision, Decision::Leave(_)), "{decision:?}");
    }

    /// Two Services with one port of one address would get each other's traffic.
    #[test]
    fn colliding_service_loses_its_address() {
        let collided = || Obstacle::Collided {
            collision: Collision {
                address: held().addresses[0],
                with: ObjectKey::new("default", "older"),
                common: Vec::new(),
            },
            instead: Box::new(Unavailable::NoPools.into()),
        };
        let Decision::Withdraw(plan, obstacle) = plan(&provided(), &Err(collided())) else {
            panic!()
        };
        assert_eq!(plan.steps(), [ServiceStep::Withdraw]);
        assert_eq!((plan.impact(), obstacle), (Impact::Major, collided()));
        let withdrawn = ServiceView {
            status: vec![],
            allocated_addresses: None,
            ..provided()
        };
        let Decision::Withdraw(plan, _) = super::plan(&withdrawn, &Err(collided())) else {
            panic!()
        };
        assert!(plan.is_empty());
    }

    #[test]
    fn refuses_unavailable_address_without_write() {
        let unavailable = Err(Unavailable::NoPools.into());
        assert!(matches!(
            plan(&provided(), &unavailable),
            Decision::Refuse(_)
        ));
    }
}
