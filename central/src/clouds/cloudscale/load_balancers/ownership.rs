//! Which load balancer is a Service's own.
//!
//! ```text
//!   bears its UID ───────────────────────────────► Own, whatever else there is
//!   bears another's, or is named after another ──► never
//!   named after its UID ─────────────────────────► Own
//!   bears no mark, and has its name or is in its annotation:
//!       another Service has a better right ──────► Refused
//!       annotation or status point to it ────────► Adopted
//!       its name alone ──────────────────────────► ByName: its parts decide
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_common::names::{cloudscale_annotations as keys, cloudscale_tags as tags};

use super::super::api::balancers::Balancer;
use super::super::api::parts::{Listener, Pool};
use super::desired::Desired;
use crate::service_view::ServiceView;

/// What a Service has to do with load balancers, without what may be wrong about it.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    service: Arc<ServiceView>,
    /// The name that its load balancer has, or is to have.
    pub(super) name: String,
    /// The UUID in its annotation.
    pub(super) uuid: Option<String>,
}

impl Claim {
    /// What a Service claims.
    pub(super) fn of(service: &Arc<ServiceView>) -> Self {
        let uuid = service.annotation(keys::UUID).map(str::trim);
        let name = service.annotation(keys::NAME);
        Self {
            name: name.map_or_else(|| default_name(&service.uid), ToOwned::to_owned),
            uuid: uuid.filter(|uuid| !uuid.is_empty()).map(str::to_lowercase),
            service: service.clone(),
        }
    }

    fn points_to(&self, balancer: &Balancer) -> bool {
        self.uuid.as_deref() == Some(balancer.uuid.to_lowercase().as_str())
    }

    fn names(&self, balancer: &Balancer) -> bool {
        self.name == balancer.name()
    }

    fn shows(&self, balancer: &Balancer) -> bool {
        let vips = balancer.vip_addresses.iter().flatten();
        let mut vips = vips.filter_map(|vip| vip.address.parse::<IpAddr>().ok());
        vips.any(|vip| self.service.status.contains(&vip))
    }

    /// Whether it still asks for a load balancer that was found for it.
    pub(super) fn means(&self, balancer: &super::observed::Balancer) -> bool {
        let uuid = self.uuid.as_deref();
        self.name == balancer.name || uuid == Some(balancer.uuid.to_lowercase().as_str())
    }

    /// Whether the Service's status says that it has used a load balancer: nobody but a controller
    /// writes that.
    pub(super) fn has_used(&self, balancer: &Balancer) -> bool {
        let by_name = self.service.status_has_hostname && self.points_to(balancer);
        self.shows(balancer) || by_name
    }

    /// Whether this one has the better right to a load balancer that both claim.
    fn outranks(&self, other: &Self, balancer: &Balancer) -> bool {
        let age = |claim: &Self| (claim.service.created, claim.service.uid.clone());
        match (self.shows(balancer), other.shows(balancer)) {
            (true, false) => true,
            (false, true) => false,
            _ => age(self) < age(other),
        }
    }

    fn key(&self) -> String {
        self.service.key.to_string()
    }
}

/// What of a listing is a Service's own.
#[derive(Clone, Debug)]
pub(super) enum Selection<'a> {
    /// Nothing, and nothing stands in the way of a new one.
    Nothing,
    /// This one, by a mark that nobody else writes.
    Own {
        /// The one to keep.
        balancer: &'a Balancer,
        /// Others with the same mark.
        surplus: Vec<&'a Balancer>,
    },
    /// This one, which bears no mark yet.
    Adopted(&'a Balancer),
    /// This one if its parts are those of this Service: nothing but its name speaks for it.
    ByName(&'a Balancer),
    /// Nothing, and something stands in the way: what, and what to do about it.
    Refused(String),
}

/// What of a complete listing is the Service's own; `others`: those that may have a better right.
pub(super) fn select<'a>(all: &'a [Balancer], claim: &Claim, others: &[Claim]) -> Selection<'a> {
    let uid = claim.service.uid.as_str();
    let mut own: Vec<&Balancer> = all
        .iter()
        .filter(|balancer| balancer.tag(tags::SERVICE_UID) == Some(uid))
        .collect();
    own.sort_by_key(|balancer| {
        let age = (&balancer.created_at, &balancer.uuid);
        (!claim.points_to(balancer), !claim.shows(balancer), age)
    });
    if let Some((balancer, surplus)) = own.split_first() {
        let surplus = surplus.to_vec();
        return Selection::Own { balancer, surplus };
    }
    let (candidates, strange): (Vec<&Balancer>, Vec<&Balancer>) = all
        .iter()
        .filter(|balancer| {
            let is_made_for_it = balancer.name() == default_name(uid);
            is_made_for_it || claim.names(balancer) || claim.points_to(balancer)
        })
        .partition(|balancer| marked_for_another(balancer, uid).is_none());
    match (candidates.as_slice(), strange.first()) {
        ([], None) => Selection::Nothing,
        ([], Some(strange)) => Selection::Refused(belongs_to_another(strange, claim, others)),
        ([only], _) => of_one(only, claim, others),
        (several, _) => Selection::Refused(ambiguous(several)),
    }
}

/// The UID of another Service that it bears, as a tag or in its name.
fn marked_for_another<'a>(balancer: &'a Balancer, uid: &str) -> Option<&'a str> {
    let tag = balancer.tag(tags::SERVICE_UID);
    let name = || {
        let rest = balancer.name().strip_prefix("k8s-service-")?;
        uuid::Uuid::try_parse(rest).ok().map(|_| rest)
    };
    tag.or_else(name).filter(|marked| *marked != uid)
}

fn of_one<'a>(balancer: &'a Balancer, claim: &Claim, others: &[Claim]) -> Selection<'a> {
    if balancer.name() == default_name(&claim.service.uid) {
        let surplus = Vec::new();
        return Selection::Own { balancer, surplus };
    }
    let mut rivals = others.iter().filter(|other| {
        (other.names(balancer) || other.points_to(balancer)) && other.outranks(claim, balancer)
    });
    if let Some(rival) = rivals.next() {
        return Selection::Refused(format!(
            "the load balancer {} is used by the Service {}; {}",
            shown(balancer),
            rival.key(),
            remedy(balancer, claim),
        ));
    }
    if claim.points_to(balancer) || claim.shows(balancer) {
        return Selection::Adopted(balancer);
    }
    Selection::ByName(balancer)
}

fn belongs_to_another(balancer: &Balancer, claim: &Claim, others: &[Claim]) -> String {
    let uid = marked_for_another(balancer, &claim.service.uid).unwrap_or_default();
    let owner = others.iter().find(|other| other.service.uid == uid);
    let owner = owner.map_or_else(
        || format!("a Service with the UID {uid}, which this cluster does not have (any more)"),
        |owner| format!("the Service {}", owner.key()),
    );
    let shown = shown(balancer);
    let remedy = remedy(balancer, claim);
    format!("the load balancer {shown} belongs to {owner}; {remedy}")
}

fn ambiguous(several: &[&Balancer]) -> String {
    let shown: Vec<String> = several.iter().map(|balancer| shown(balancer)).collect();
    format!(
        "several load balancers may be meant: {}; rename all but one of them, or let the \
         annotations {} and {} mean the same one",
        shown.join(", "),
        keys::UUID,
        keys::NAME,
    )
}

fn remedy(balancer: &Balancer, claim: &Claim) -> String {
    if claim.points_to(balancer) {
        let key = keys::UUID;
        format!("take the annotation {key} off, so that this Service gets its own")
    } else {
        let key = keys::NAME;
        format!("give this Service another name in the annotation {key}")
    }
}

/// Why one is not adopted that has nothing but the right name.
pub(super) fn not_by_name(balancer: &Balancer) -> String {
    format!(
        "the load balancer {} has the name that this Service asks for, and nothing else says that \
         it is this Service's; if it is, write its UUID into the annotation {}, else give the \
         Service another name in the annotation {}",
        shown(balancer),
        keys::UUID,
        keys::NAME,
    )
}

/// The name of a load balancer whose Service gives it none.
pub(super) fn default_name(service_uid: &str) -> String {
    format!("k8s-service-{service_uid}")
}

fn shown(balancer: &Balancer) -> String {
    format!("{:?} ({})", balancer.name(), balancer.uuid)
}

/// Whether a load balancer has no parts but those that the Service wants.
pub(super) fn fits(
    balancer: &Balancer,
    pools: &[Pool],
    listeners: &[Listener],
    desired: &Desired,
) -> bool {
    let wanted_pools: BTreeSet<&str> = desired
        .pools
        .iter()
        .map(|pool| pool.spec.name.as_str())
        .collect();
    let wanted_places: BTreeSet<(&str, u16)> = desired
        .pools
        .iter()
        .map(|pool| pool.listener.place())
        .collect();
    let is_here = |reference: &Option<super::super::api::Reference>| {
        let uuid = reference.as_ref().map(|reference| &reference.uuid);
        uuid == Some(&balancer.uuid)
    };
    let pools = pools.iter().filter(|pool| is_here(&pool.load_balancer));
    let own: BTreeSet<&str> = pools.clone().map(|pool| pool.uuid.as_str()).collect();
    let mut listeners = listeners.iter().filter(|listener| {
        let pool = listener.pool.as_ref().map(|pool| pool.uuid.as_str());
        is_here(&listener.load_balancer) || pool.is_some_and(|pool| own.contains(pool))
    });
    let has_wanted_pools = pools
        .map(|pool| pool.name.as_deref())
        .all(|name| name.is_some_and(|name| wanted_pools.contains(name)));
    has_wanted_pools
        && listeners.all(|listener| {
            let place = listener.protocol.as_deref().zip(listener.protocol_port);
            place.is_some_and(|place| wanted_places.contains(&place))
        })
}

#[cfg(test)]
mod tests;
