//! What a person should know of any load balancer that is wanted.

use std::collections::BTreeSet;

use mooring_common::names::reasons;

use super::members::{Members, some_of};
use super::provider::{Desired as _, Listed, Observed as _, Provider, Vocabulary};
use super::selector::Selector;
use crate::cloud_provider::load_balancers::{LoadBalancerRequest, Notice};
use crate::views::service_view::ServiceView;

/// Everything that a person should know although it can be carried out. `observed`: the load balancer as it
/// is, if there is one.
pub fn of<P: Provider>(
    request: &LoadBalancerRequest,
    options: &P::Options,
    desired: &P::Desired,
    members: &Members,
    observed: Option<&P::Observed>,
) -> Vec<Notice> {
    let (selector, words) = (P::selector(options), P::WORDS);
    let is_selected = request.nodes.iter().any(|node| selector.matches(node));
    let no_nodes = (!is_selected).then(|| no_nodes(selector, words));
    let unmet = desired.unmet_address().zip(observed);
    let before = [no_nodes, no_addresses(members, P::subnets(options), words)];
    let after = [
        affinity(&request.service, words),
        unmet.and_then(|(address, observed)| unmet_address(address, observed.listed(), words)),
    ];
    let mut notices: Vec<Notice> = before.into_iter().flatten().collect();
    notices.extend(P::notices(request, options, desired, observed));
    notices.extend(after.into_iter().flatten());
    notices
}

/// No Node matches the selector.
fn no_nodes(selector: &Selector, words: &Vocabulary) -> Notice {
    let selector = selector.to_string();
    let note = match words.selector_key {
        None => "No Node can carry traffic, so that the load balancer has no members. See that a Node is \
                 neither excluded nor being deleted."
            .to_owned(),
        Some(key) if selector.trim().is_empty() => format!(
            "No Node can carry traffic, so that the load balancer has no members. Annotation {key} \
             is {selector:?}, which selects all; see that a Node is neither excluded nor being \
             deleted."
        ),
        Some(key) => format!(
            "No Node matches annotation {key}: {selector:?}, so that the load balancer has no \
             members. Correct the selector, or label Nodes."
        ),
    };
    Notice {
        by_provider: true,
        ..notice(reasons::NO_VALID_NODES, note)
    }
}

/// Machines have no address that may become a member. `subnets`: those that are asked for.
fn no_addresses(
    members: &Members,
    subnets: &BTreeSet<String>,
    words: &Vocabulary,
) -> Option<Notice> {
    let machines = members.found.iter();
    let without = machines.filter(|machine| machine.attachments.is_empty());
    let without: Vec<&str> = without.map(|machine| machine.node.as_str()).collect();
    let named = some_of(&without);
    let remedy = if subnets.is_empty() {
        "Attach their servers to a private network.".to_owned()
    } else {
        format!(
            "Attach their servers to one of the subnets in annotation {}, or add theirs to it.",
            words.subnets_key
        )
    };
    let note = format!(
        "The load balancer cannot reach these Nodes, which have no address in a private network that \
         it may use: {named}. {remedy}"
    );
    (!without.is_empty()).then(|| notice(reasons::NO_MEMBER_ADDRESS, note))
}

/// The Service asks for session affinity, and its annotations do not.
fn affinity(service: &ServiceView, words: &Vocabulary) -> Option<Notice> {
    let [key, value] = words.affinity;
    let is_unmet = service.wants_session_affinity && service.annotation(key) != Some(value);
    let note = format!(
        "The load balancer does not know spec.sessionAffinity ClientIP. For the same effect, set \
         annotation {key} to {value}."
    );
    is_unmet.then(|| notice(reasons::UNSUPPORTED_FIELD, note))
}

/// A load balancer that is there lacks the address that the Service's spec asks for.
fn unmet_address(address: &str, balancer: &impl Listed, words: &Vocabulary) -> Option<Notice> {
    let mut addresses = balancer.addresses().into_iter();
    let may_have_it = balancer.lacks_addresses() || addresses.any(|own| own.to_string() == address);
    let note = format!(
        "The load balancer does not have spec.loadBalancerIP {address:?}, and cannot get it. Remove \
         the field; a {} is asked for with annotation {}.",
        words.exclusive, words.exclusive_key
    );
    (!may_have_it).then(|| notice(reasons::UNSUPPORTED_FIELD, note))
}

/// One that central reports.
pub fn notice(reason: &'static str, note: String) -> Notice {
    Notice {
        reason,
        note,
        by_provider: false,
    }
}
