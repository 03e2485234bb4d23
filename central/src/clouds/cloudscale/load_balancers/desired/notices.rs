//! What a person should know of a load balancer that is wanted.

use mooring_common::names::cloudscale_annotations as keys;
use mooring_common::names::reasons;

use super::super::options::Options;
use super::Desired;
use crate::cloud_provider::load_balancers::{HealthTarget, LoadBalancerRequest, Notice};
use crate::engine::notices::notice;

/// What of this cloud's a person should know although it can be carried out.
pub(in super::super) fn notices(
    request: &LoadBalancerRequest,
    options: &Options,
    desired: &Desired,
) -> Vec<Notice> {
    let of_local = || unfit_for_local(request.service.is_local, options, request.health);
    unfit_for_udp(desired)
        .into_iter()
        .chain(of_local())
        .collect()
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
