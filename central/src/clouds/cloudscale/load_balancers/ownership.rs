//! Which load balancer is a Service's own.
//!
//! ```text
//!   bears its UID ───────────────────────────────► Own, whatever else there is
//!   bears another's, or is named after another ──► never
//!   named after its UID ─────────────────────────► Own
//!   bears no mark, and has its name or is in its annotation:
//!       another Service has a better right ──────► Refused
//!       its status shows an address of it ───────► Adopted
//!       no more than that ───────────────────────► Unproven: what it is used for decides
//! ```
//!
//! Whoever may write a Service writes its annotations: name and UUID there are wishes, and prove
//! nothing. The status is written by controllers alone.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use mooring_common::names::{cloudscale_annotations as keys, cloudscale_tags as tags};

use super::super::api::balancers::Balancer;
use super::desired::Machines;
use super::observed::Observed;
use crate::clouds::load_balancers::TakeOver;
use crate::service_view::ServiceView;

/// What the names of load balancers begin with whose Services give them none.
const DEFAULT_PREFIX: &str = "k8s-service-";

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

    /// Whether the Service's status says that it has a load balancer.
    pub(super) fn is_published(&self) -> bool {
        !self.service.status.is_empty() || self.service.status_has_hostname
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

    /// Whether the Service says no more of a load balancer of its own than which it is: its status has a
    /// host name instead of addresses.
    pub(super) fn has_used_by_name(&self, balancer: &Balancer) -> bool {
        self.service.status_has_hostname && self.points_to(balancer)
    }

    /// Whether a load balancer that was just read may be deleted for this Service's sake: by its mark, by
    /// the UID in its name, or since the Service's status says that it has used it.
    pub(super) fn may_delete(&self, balancer: &Balancer, cluster: Option<&str>) -> bool {
        let uid = self.service.uid.as_str();
        if is_of_another_cluster(balancer, cluster) || marked_for_another(balancer, uid).is_some() {
            return false;
        }
        balancer.tag(tags::SERVICE_UID).is_some()
            || balancer.name() == default_name(uid)
            || self.shows(balancer)
            || self.has_used_by_name(balancer)
    }

    /// Whether all that a load balancer distributes goes to node ports of this Service, which no other
    /// one of the cluster has, and some of it to these machines.
    pub(super) fn is_led_to(&self, observed: &Observed, machines: &Machines) -> bool {
        let ports: BTreeSet<u16> = self
            .service
            .ports
            .iter()
            .filter_map(|port| port.node_port)
            .collect();
        let machines = machines
            .found
            .iter()
            .flat_map(|machine| &machine.attachments);
        let here: BTreeSet<String> = machines
            .map(|attachment| attachment.address.to_string())
            .collect();
        let members = || observed.pools.iter().flat_map(|pool| &pool.members);
        members().all(|member| ports.contains(&member.spec.protocol_port))
            && members().any(|member| here.contains(&member.spec.address))
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

    pub(super) fn key(&self) -> String {
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
    /// This one, which bears no mark yet: the Service's status shows it.
    Adopted(&'a Balancer),
    /// This one, which bears no mark, if it is unused or turns out to be the Service's: nothing but an
    /// annotation speaks for it.
    Unproven(&'a Balancer),
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
        let rest = balancer.name().strip_prefix(DEFAULT_PREFIX)?;
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
    if claim.shows(balancer) {
        return Selection::Adopted(balancer);
    }
    Selection::Unproven(balancer)
}

/// Whether a load balancer bears the mark of another cluster than this one.
pub(super) fn is_of_another_cluster(balancer: &Balancer, cluster: Option<&str>) -> bool {
    let marked = balancer.tag(tags::CLUSTER);
    marked
        .zip(cluster)
        .is_some_and(|(marked, own)| marked != own)
}

/// The UID of the Service that a load balancer was made for, by its tag or its name.
pub(super) fn made_for(balancer: &Balancer) -> Option<&str> {
    let by_name = || balancer.name().strip_prefix(DEFAULT_PREFIX);
    balancer.tag(tags::SERVICE_UID).or_else(by_name)
}

/// Whether nobody uses a load balancer: it distributes nothing.
pub(super) fn is_unused(observed: &Observed) -> bool {
    observed.pools.is_empty()
        && observed.loose_listeners.is_empty()
        && observed.floating_ips.is_empty()
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

/// Why one is not adopted that nothing but an annotation speaks for.
pub(super) fn unproven(balancer: &Balancer, claim: &Claim) -> String {
    let key = if claim.points_to(balancer) {
        keys::UUID
    } else {
        keys::NAME
    };
    format!(
        "the annotation {key} asks for the load balancer {}, which is in use, bears no mark, and is not \
         provably this Service's; {}, or {}",
        shown(balancer),
        remedy(balancer, claim),
        TakeOver::remedy(&claim.service.key.namespace),
    )
}

/// Why one stays that may have been a Service's.
pub(super) fn kept(balancer: &Balancer) -> String {
    format!(
        "the load balancer {} bears no mark, and neither its name nor the status of the Service proves \
         that it was the Service's; delete it by hand if it was",
        shown(balancer)
    )
}

/// Why one stays that bears the Service's mark.
pub(super) fn given_away(balancer: &Balancer) -> String {
    format!(
        "the load balancer {} bears the mark of another cluster; delete it by hand if it is nobody's",
        shown(balancer)
    )
}

/// The name of a load balancer whose Service gives it none.
pub(super) fn default_name(service_uid: &str) -> String {
    format!("{DEFAULT_PREFIX}{service_uid}")
}

fn shown(balancer: &Balancer) -> String {
    format!("{} ({})", balancer.name(), balancer.uuid)
}

#[cfg(test)]
mod tests;
