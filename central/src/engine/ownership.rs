//! Which load balancer is a Service's own.
//!
//! ```text
//!   bears its UID ───────────────────────────────► Own, whatever else there is
//!   bears another's, or is named after another ──► never
//!   named after its UID ─────────────────────────► Own
//!   bears no mark, and has its name or is in its annotation:
//!       another Service's status proves its right ► Refused
//!       its own status does ─────────────────────► Adopted
//!       neither, or both ────────────────────────► Unproven: what it is used for decides
//! ```
//!
//! Whoever may write a Service writes its annotations: name and UUID there are wishes, and prove
//! nothing; that a Service is older counts only for what nobody uses. The status is written by controllers
//! alone. A private address in it proves something only as long as no other Service means the same load
//! balancer: another network may have the same address.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::members::Members;
use super::provider::{IdBy, Listed, Observed, Vocabulary};
use crate::cloud_provider::load_balancers::TakeOver;
use crate::views::service_view::ServiceView;

/// What a Service has to do with load balancers, without what may be wrong about it.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    service: Arc<ServiceView>,
    words: &'static Vocabulary,
    /// The name of a load balancer that was made for it, unless it says another.
    default_name: String,
    /// The name that its load balancer has, or is to have.
    pub(super) name: String,
    /// The ID in its annotation.
    pub(super) id: Option<String>,
}

impl Claim {
    /// What a Service claims.
    pub(super) fn of(
        service: &Arc<ServiceView>,
        words: &'static Vocabulary,
        default_name: String,
    ) -> Self {
        let id = service.annotation(words.id_key).map(str::trim);
        let name = words.name_key.and_then(|key| service.annotation(key));
        Self {
            name: name.map_or_else(|| default_name.clone(), ToOwned::to_owned),
            id: id.filter(|id| !id.is_empty()).map(str::to_lowercase),
            service: service.clone(),
            words,
            default_name,
        }
    }

    /// The ID of the load balancer that a person wants the Service to have.
    pub(super) fn wish(&self) -> Option<&str> {
        self.id
            .as_deref()
            .filter(|_| self.words.id_by == IdBy::Person)
    }

    /// Whether a load balancer was made for it, by its name.
    fn is_named_after(&self, balancer: &impl Listed) -> bool {
        balancer.name() == self.default_name
    }

    /// Whether the Service's status says that it has a load balancer.
    pub(super) fn is_published(&self) -> bool {
        !self.service.status.is_empty() || self.service.status_has_hostname
    }

    fn points_to(&self, balancer: &impl Listed) -> bool {
        self.id.as_deref() == Some(balancer.id().to_lowercase().as_str())
    }

    /// Whether this is the ID of the load balancer that the Service has, by its annotation or its name.
    pub(super) fn is_of_id(&self, id: &str) -> bool {
        let is_name = self.words.id_by == IdBy::Name && self.default_name == id;
        is_name || self.id.as_deref() == Some(id)
    }

    fn names(&self, balancer: &impl Listed) -> bool {
        self.name == balancer.name()
    }

    /// Whether its status shows a load balancer. What is found by its name alone is told by nothing else: one of
    /// another name may have got the same address since.
    pub(super) fn shows(&self, balancer: &impl Listed) -> bool {
        let may_be_it = self.words.id_by != IdBy::Name || self.is_named_after(balancer);
        may_be_it && balancer.is_shown_by(&self.service)
    }

    /// Whether its status proves that it has a load balancer, whoever else means the same.
    fn proves(&self, balancer: &impl Listed) -> bool {
        let is_private = |address: &IpAddr| match address {
            IpAddr::V4(address) => address.is_private(),
            IpAddr::V6(address) => address.is_unique_local(),
        };
        self.shows(balancer) && !balancer.addresses().iter().any(is_private)
    }

    /// Whether its name proves that a load balancer is its own.
    fn is_own_by_name(&self, balancer: &impl Listed) -> bool {
        self.words.id_by != IdBy::Name && self.is_named_after(balancer)
    }

    /// Whether its status alone tells which load balancer it has.
    fn has_by_status(&self, balancer: &impl Listed) -> bool {
        self.words.id_by == IdBy::Person && self.shows(balancer)
    }

    /// Whether it is the same that it had, or still asks for it.
    pub(super) fn may_be_meant(&self, balancer: &impl Listed) -> bool {
        self.is_named_after(balancer) || self.means(balancer)
    }

    /// Whether it still asks for a load balancer that was found for it.
    pub(super) fn means(&self, balancer: &impl Listed) -> bool {
        self.names(balancer) || self.points_to(balancer) || self.has_by_status(balancer)
    }

    /// Whether the Service says no more of a load balancer of its own than which it is: its status has a
    /// host name instead of addresses.
    pub(super) fn has_used_by_name(&self, balancer: &impl Listed) -> bool {
        self.service.status_has_hostname && self.points_to(balancer)
    }

    /// Whether where a load balancer leads may prove that it was the Service's.
    pub(super) fn may_be_led_to(&self, balancer: &impl Listed) -> bool {
        let is_named = self.words.id_by == IdBy::Name && self.is_named_after(balancer);
        is_named || self.has_used_by_name(balancer) || self.shows(balancer)
    }

    /// Whether a load balancer that was just read may be deleted for this Service's sake: by its mark, by
    /// the UID in its name, or since the Service's status says that it has used it.
    pub(super) fn may_delete(&self, balancer: &impl Listed, cluster: Option<&str>) -> bool {
        let uid = self.service.uid.as_str();
        let words = self.words;
        if is_of_another_cluster(balancer, cluster)
            || marked_for_another(balancer, uid, words).is_some()
        {
            return false;
        }
        balancer.owner().is_some()
            || self.is_own_by_name(balancer)
            || self.shows(balancer)
            || self.has_used_by_name(balancer)
    }

    /// Whether a load balancer that this process knows as the Service's may go although nothing shows any more
    /// that it is: the API server empties the status of a Service that wants none.
    pub(super) fn had(&self, balancer: &impl Listed, cluster: Option<&str>) -> bool {
        self.words.id_by != IdBy::Central && self.is_unmarked(balancer, cluster)
    }

    /// The same where the Service's status has shown it to this process. By the annotation alone it does not go:
    /// a person may have written that since.
    pub(super) fn had_by_status(&self, balancer: &impl Listed, cluster: Option<&str>) -> bool {
        self.words.id_by == IdBy::Central && self.is_unmarked(balancer, cluster)
    }

    fn is_unmarked(&self, balancer: &impl Listed, cluster: Option<&str>) -> bool {
        let uid = self.service.uid.as_str();
        balancer.owner().is_none()
            && !is_of_another_cluster(balancer, cluster)
            && marked_for_another(balancer, uid, self.words).is_none()
    }

    /// Whether all that a load balancer distributes goes to node ports of this Service, which no other
    /// one of the cluster has, and some of it to these members.
    pub(super) fn is_led_to(&self, observed: &impl Observed, members: &Members) -> bool {
        let ports = self.service.ports.iter();
        let ports: BTreeSet<u16> = ports.filter_map(|port| port.node_port).collect();
        observed.leads_to(&ports, members)
    }

    /// Whether this one has the better right to a load balancer that both claim and that leads to neither.
    fn outranks(&self, other: &Self, balancer: &impl Listed) -> bool {
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
pub(super) enum Selection<'a, L> {
    /// Nothing, and nothing stands in the way of a new one.
    Nothing,
    /// This one, by a mark that nobody else writes.
    Own {
        /// The one to keep.
        balancer: &'a L,
        /// Others with the same mark.
        surplus: Vec<&'a L>,
    },
    /// This one, which bears no mark yet: the Service's status proves it.
    Adopted {
        /// It.
        balancer: &'a L,
        /// What the Service had before, by a mark or by its status.
        surplus: Vec<&'a L>,
    },
    /// This one, which bears no mark, if it is unused or turns out to be the Service's: nothing but an
    /// annotation speaks for it, or as much speaks for another Service.
    Unproven {
        /// It.
        balancer: &'a L,
        /// What the Service had before, by a mark or by its status.
        surplus: Vec<&'a L>,
        /// Why it does not become the Service's unless it leads there: another one has the better right.
        rival: Option<String>,
    },
    /// Nothing, and something stands in the way: what, and what to do about it.
    Refused(String),
}

/// What of a complete listing is the Service's own; `others`: those that may have a better right.
pub(super) fn select<'a, L: Listed>(
    all: &'a [L],
    claim: &Claim,
    others: &[Claim],
) -> Selection<'a, L> {
    let uid = claim.service.uid.as_str();
    let wish = || all.iter().find(|balancer| claim.points_to(*balancer));
    if let Some(wish) = claim.wish().and_then(|_| wish()) {
        return with_surplus(of_wish(wish, claim, others), all, claim);
    }
    let mut own: Vec<&L> = all
        .iter()
        .filter(|balancer| balancer.owner() == Some(uid))
        .collect();
    own.sort_by_key(|balancer| {
        let age = (balancer.created(), balancer.id());
        (!claim.points_to(*balancer), !claim.shows(*balancer), age)
    });
    if let Some((balancer, surplus)) = own.split_first() {
        let surplus = surplus.to_vec();
        return Selection::Own { balancer, surplus };
    }
    let (candidates, strange): (Vec<&L>, Vec<&L>) = all
        .iter()
        .filter(|balancer| claim.is_named_after(*balancer) || claim.means(*balancer))
        .partition(|balancer| marked_for_another(*balancer, uid, claim.words).is_none());
    match (candidates.as_slice(), strange.first()) {
        ([], None) => Selection::Nothing,
        ([], Some(strange)) => Selection::Refused(belongs_to_another(*strange, claim, others)),
        ([only], _) => of_one(*only, claim, others),
        (several, _) => Selection::Refused(ambiguous(several, claim.words)),
    }
}

/// The UID of another Service that it bears, as a mark or in its name.
fn marked_for_another<'a>(
    balancer: &'a impl Listed,
    uid: &str,
    words: &Vocabulary,
) -> Option<&'a str> {
    let name = || {
        let rest = balancer.name().strip_prefix(words.name_prefix?)?;
        uuid::Uuid::try_parse(rest).ok().map(|_| rest)
    };
    let marked = balancer.owner().or_else(name);
    marked.filter(|marked| *marked != uid)
}

/// The one that a person wants the Service to have.
fn of_wish<'a, L: Listed>(wish: &'a L, claim: &Claim, others: &[Claim]) -> Selection<'a, L> {
    let uid = claim.service.uid.as_str();
    if wish.owner() == Some(uid) {
        let surplus = Vec::new();
        return Selection::Own {
            balancer: wish,
            surplus,
        };
    }
    match marked_for_another(wish, uid, claim.words) {
        Some(_) => Selection::Refused(belongs_to_another(wish, claim, others)),
        None => of_one(wish, claim, others),
    }
}

/// With what the Service had before.
fn with_surplus<'a, L: Listed>(
    selection: Selection<'a, L>,
    all: &'a [L],
    claim: &Claim,
) -> Selection<'a, L> {
    let uid = claim.service.uid.as_str();
    let before = |chosen: &L| {
        // A status shows one. Another that it seems to show has the same private address elsewhere.
        let is_shown = claim.shows(chosen);
        let others = all.iter().filter(|other| other.id() != chosen.id());
        let had = others.filter(|other| {
            let is_unmarked = marked_for_another(*other, uid, claim.words).is_none();
            other.owner() == Some(uid) || is_unmarked && !is_shown && claim.has_by_status(*other)
        });
        had.collect()
    };
    match selection {
        Selection::Own { balancer, .. } => Selection::Own {
            balancer,
            surplus: before(balancer),
        },
        Selection::Adopted { balancer, .. } => Selection::Adopted {
            balancer,
            surplus: before(balancer),
        },
        Selection::Unproven {
            balancer, rival, ..
        } => Selection::Unproven {
            balancer,
            surplus: before(balancer),
            rival,
        },
        other => other,
    }
}

fn of_one<'a, L: Listed>(balancer: &'a L, claim: &Claim, others: &[Claim]) -> Selection<'a, L> {
    let surplus = Vec::new();
    if claim.is_own_by_name(balancer) {
        return Selection::Own { balancer, surplus };
    }
    let rivals: Vec<&Claim> = others
        .iter()
        .filter(|other| other.means(balancer))
        .collect();
    let used_by = |rival: &&Claim| {
        let (shown, remedy) = (shown(balancer), remedy(balancer, claim));
        let key = rival.key();
        format!("the load balancer {shown} is used by the Service {key}; {remedy}")
    };
    let prover = rivals.iter().find(|rival| rival.proves(balancer));
    match (claim.proves(balancer), prover) {
        (true, None) => return Selection::Adopted { balancer, surplus },
        (false, Some(prover)) => return Selection::Refused(used_by(prover)),
        _ if rivals.is_empty() && claim.shows(balancer) => {
            return Selection::Adopted { balancer, surplus };
        }
        _ => {}
    }
    let mut rivals = rivals.iter();
    let rival = rivals.find(|rival| rival.outranks(claim, balancer));
    Selection::Unproven {
        balancer,
        surplus,
        rival: rival.map(used_by),
    }
}

/// Whether a load balancer bears the mark of another cluster than this one.
pub(super) fn is_of_another_cluster(balancer: &impl Listed, cluster: Option<&str>) -> bool {
    let marked = balancer.cluster();
    marked
        .zip(cluster)
        .is_some_and(|(marked, own)| marked != own)
}

/// The UID of the Service that a load balancer was made for, by its mark or its name.
pub(super) fn made_for<'a>(balancer: &'a impl Listed, words: &Vocabulary) -> Option<&'a str> {
    let by_name = || balancer.name().strip_prefix(words.name_prefix?);
    balancer.owner().or_else(by_name)
}

fn belongs_to_another(balancer: &impl Listed, claim: &Claim, others: &[Claim]) -> String {
    let uid = marked_for_another(balancer, &claim.service.uid, claim.words).unwrap_or_default();
    let owner = others.iter().find(|other| other.service.uid == uid);
    let owner = owner.map_or_else(
        || format!("a Service with the UID {uid}, which this cluster does not have (any more)"),
        |owner| format!("the Service {}", owner.key()),
    );
    let shown = shown(balancer);
    let remedy = remedy(balancer, claim);
    format!("the load balancer {shown} belongs to {owner}; {remedy}")
}

fn ambiguous<L: Listed>(several: &[&L], words: &Vocabulary) -> String {
    let shown: Vec<String> = several.iter().map(|balancer| shown(*balancer)).collect();
    format!(
        "several load balancers may be meant: {}; {}",
        shown.join(", "),
        match words.name_key {
            Some(name_key) => format!(
                "rename all but one of them, or let the annotations {} and {name_key} mean the same one",
                words.id_key
            ),
            None => format!("name one of them in the annotation {}", words.id_key),
        }
    )
}

fn remedy(balancer: &impl Listed, claim: &Claim) -> String {
    if claim.words.id_by == IdBy::Name {
        return "if another cluster uses it, give this one another --cluster-name; if nobody does, delete it \
                by hand, or let --delete-orphans do it, if it was made for this cluster"
            .to_owned();
    }
    match claim.words.name_key {
        Some(key) if !claim.points_to(balancer) => {
            format!("give this Service another name in the annotation {key}")
        }
        _ => {
            let key = claim.words.id_key;
            format!("take the annotation {key} off, so that this Service gets its own")
        }
    }
}

/// Why one is not adopted that nothing but an annotation speaks for.
pub(super) fn unproven(balancer: &impl Listed, claim: &Claim) -> String {
    if claim.words.id_by == IdBy::Name {
        return format!(
            "there is {} already, which is in use and leads elsewhere than to this Service; {}, or {}",
            balancer.name(),
            remedy(balancer, claim),
            TakeOver::remedy(&claim.service.key.namespace),
        );
    }
    let by_name = claim.words.name_key.filter(|_| !claim.points_to(balancer));
    let key = by_name.unwrap_or(claim.words.id_key);
    format!(
        "the annotation {key} asks for the load balancer {}, which is in use, bears no mark, and is not \
         provably this Service's; {}, or {}",
        shown(balancer),
        remedy(balancer, claim),
        TakeOver::remedy(&claim.service.key.namespace),
    )
}

/// Why nothing is done for a Service whose wish is not there.
pub(super) fn missing(id: &str, claim: &Claim) -> String {
    let (key, id_key) = (claim.key(), claim.words.id_key);
    format!(
        "LoadBalancer ({id}) not found for service ({key}); correct the annotation {id_key}, or take it off, \
         so that the Service gets one of its own"
    )
}

/// Why one stays that may have been a Service's.
pub(super) fn kept(balancer: &impl Listed) -> String {
    format!(
        "the load balancer {} bears no mark, and neither its name nor the status of the Service proves \
         that it was the Service's; delete it by hand if it was",
        shown(balancer)
    )
}

/// Why one stays that bears the Service's mark.
pub(super) fn given_away(balancer: &impl Listed) -> String {
    format!(
        "the load balancer {} bears the mark of another cluster; delete it by hand if it is nobody's",
        shown(balancer)
    )
}

fn shown(balancer: &impl Listed) -> String {
    format!("{} ({})", balancer.name(), balancer.id())
}

#[cfg(test)]
mod tests;
