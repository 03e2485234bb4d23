//! What a person should know of a load balancer that is wanted.

use mooring_common::names::cloudscale_annotations as keys;
use mooring_common::names::reasons;

use super::super::observed::Observed;
use super::super::options::Options;
use super::{Desired, reachable, selected};
use crate::cloud_provider::load_balancers::{HealthTarget, LoadBalancerRequest, Notice};
use crate::engine::members::{Members, some_of};

/// Everything that a person should know although it can be carried out. `observed`: the load
/// balancer as it is, if there is one.
pub(in super::super) fn notices(
    request: &LoadBalancerRequest,
    options: &Options,
    desired: &Desired,
    machines: &Members,
    observed: Option<&Observed>,
) -> Vec<Notice> {
    let service = &request.service;
    let all = [
        no_nodes(request, options),
        no_addresses(options, machines),
        unfit_for_udp(desired),
        unfit_for_local(service.is_local, options, request.health),
        service
            .wants_session_affinity
            .then(|| affinity(options))
            .flatten(),
        unmet_address(desired, observed),
    ];
    all.into_iter().flatten().collect()
}

fn no_nodes(request: &LoadBalancerRequest, options: &Options) -> Option<Notice> {
    if !selected(&request.nodes, options).is_empty() {
        return None;
    }
    let key = keys::NODE_SELECTOR;
    let selector = options.node_selector.to_string();
    let note = if selector.trim().is_empty() {
        format!(
            "No Node can carry traffic, so that the load balancer has no members. Annotation {key} \
             is {selector:?}, which selects all; see that a Node is neither excluded nor being \
             deleted."
        )
    } else {
        format!(
            "No Node matches annotation {key}: {selector:?}, so that the load balancer has no \
             members. Correct the selector, or label Nodes."
        )
    };
    Some(Notice {
        reason: reasons::NO_VALID_NODES,
        note,
        by_provider: true,
    })
}

fn no_addresses(options: &Options, machines: &Members) -> Option<Notice> {
    let without: Vec<&str> = machines
        .found
        .iter()
        .filter(|machine| reachable(machine, options).next().is_none())
        .map(|machine| machine.node.as_str())
        .collect();
    let named = some_of(&without);
    let remedy = if options.allowed_subnets.is_empty() {
        "Attach their servers to a private network.".to_owned()
    } else {
        format!(
            "Attach their servers to one of the subnets in annotation {}, or add theirs to it.",
            keys::ALLOWED_SUBNETS
        )
    };
    (!without.is_empty()).then(|| {
        notice(
            reasons::NO_MEMBER_ADDRESS,
            format!(
                "The load balancer cannot reach these Nodes, which have no address in a private \
                 network that it may use: {named}. {remedy}"
            ),
        )
    })
}

fn unfit_for_udp(desired: &Desired) -> Option<Notice> {
    let is_unfit = desired
        .pools
        .iter()
        .any(|pool| pool.spec.protocol == "udp" && pool.monitor.kind == "tcp");
    is_unfit.then(|| {
        notice(
            reasons::HEALTH_MONITOR_UNFIT,
            format!(
                "The health monitors of UDP ports ask over TCP, and take Nodes on which nothing \
                 answers there for bad ones. Set annotation {} to udp-connect, {} to 3 and {} to 2.",
                keys::MONITOR_TYPE,
                keys::MONITOR_DELAY_S,
                keys::MONITOR_TIMEOUT_S
            ),
        )
    })
}

fn unfit_for_local(is_local: bool, options: &Options, health: HealthTarget) -> Option<Notice> {
    let is_custom = is_local && options.monitor.http.is_some();
    is_custom.then(|| {
        if health != HealthTarget::ServiceProxy {
            let key = keys::MONITOR_HTTP;
            let note = format!(
                "The health monitors ask mooring-node about the Service (--health-target), and the \
                 options of annotation {key} are not used. Remove the annotation."
            );
            return notice(reasons::HEALTH_MONITOR_UNFIT, note);
        }
        notice(
            reasons::HEALTH_MONITOR_UNFIT,
            format!(
                "With spec.externalTrafficPolicy Local, the health monitors ask the Service's \
                 healthCheckNodePort, with the options of annotation {} instead of those that fit. \
                 Remove the annotation, unless something else than kube-proxy answers there.",
                keys::MONITOR_HTTP
            ),
        )
    })
}

fn affinity(options: &Options) -> Option<Notice> {
    let algorithm = "source_ip";
    (options.pool_algorithm != algorithm).then(|| {
        notice(
            reasons::UNSUPPORTED_FIELD,
            format!(
                "The load balancer does not know spec.sessionAffinity ClientIP. For the same \
                 effect, set annotation {} to {algorithm}.",
                keys::POOL_ALGORITHM
            ),
        )
    })
}

fn unmet_address(desired: &Desired, observed: Option<&Observed>) -> Option<Notice> {
    let address = desired.unmet_address.as_ref()?;
    let vips = observed.map(|observed| &observed.balancer.vips)?;
    let has_it = vips.iter().any(|vip| vip.address == *address);
    (!has_it).then(|| {
        notice(
            reasons::UNSUPPORTED_FIELD,
            format!(
                "The load balancer does not have spec.loadBalancerIP {address:?}, and cannot get \
                 it. Remove the field; a floating IP is asked for with annotation {}.",
                keys::FLOATING_IPS
            ),
        )
    })
}

fn notice(reason: &'static str, note: String) -> Notice {
    Notice {
        reason,
        note,
        by_provider: false,
    }
}
