//! What a Service asks for, and what can be had.

use super::request::{InvalidRequest, request};
use super::view::ServiceView;
use crate::controllers::address_pool::{Allocations, Held, Unavailable};

/// Why a Service cannot be given what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    #[error(transparent)]
    Invalid(#[from] InvalidRequest),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What a pass goes by, beside the Service itself: what it shall have. From here on the addresses
/// are reserved for it.
pub(super) type Allotted = Result<Held, Obstacle>;

pub(super) fn observe(service: &ServiceView, allocations: &Allocations) -> Allotted {
    if !service.wants_load_balancer() || is_served_by_another(service) {
        return Err(Unavailable::NoPools.into());
    }
    let request = request(service)?;
    Ok(allocations.allocate(&service.key, &request, service.recorded().as_ref())?)
}

/// Whether somebody else has filled its status: there is something in it, and no record of ours.
pub(super) fn is_served_by_another(service: &ServiceView) -> bool {
    let filled = !service.status.is_empty() || service.status_has_hostname;
    filled && service.allocated_network.is_none()
}
