//! What a person should know of a NodeBalancer that is wanted.

use mooring_common::names::{labels, reasons};

use super::super::model::ConfigSpec;
use super::super::observed::Observed;
use super::super::options::Options;
use super::super::places::{Misplaced, Side};
use super::super::step::shown;
use super::Desired;
use crate::cloud_provider::load_balancers::Notice;
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::api::node_balancers::NodeBalancer;
use crate::engine::notices::notice;
use crate::views::service_view::ServiceView;

/// What a person should know although it can be carried out.
pub(in super::super) fn notices(
    service: &ServiceView,
    options: &Options,
    desired: &Desired,
    observed: Option<&Observed>,
) -> Vec<Notice> {
    let unchecked = unchecked(service, options);
    let Some(Observed { balancer, .. }) = observed else {
        return unchecked.into_iter().collect();
    };
    let id = &balancer.id;
    let misplaced = desired.misplaced.iter();
    let misplaced = misplaced.map(|place| elsewhere(balancer, place));
    let configs = desired.configs.iter();
    let unusable = configs.filter_map(|config| config.fault.as_ref());
    let unusable = unusable.map(|fault| {
        let note =
            format!("{fault}. NodeBalancer {id} presents the former certificate until then.");
        notice(reasons::TLS_SECRET_UNUSABLE, note)
    });
    let of_all = [
        another_address(balancer, options),
        another_type(balancer, options),
        nameless(balancer, options),
        unchecked,
    ];
    let of_all = of_all.into_iter().flatten();
    of_all.chain(misplaced).chain(unusable).collect()
}

/// With `externalTrafficPolicy: Local`, Nodes without endpoints get traffic that they drop unless a check finds
/// them. Checks are made at the port that gets traffic, but for UDP at another one.
fn unchecked(service: &ServiceView, options: &Options) -> Option<Notice> {
    let health_port = service.health_check_node_port;
    let is_checked = |config: &ConfigSpec| match config.place() {
        (_, false) => !config.checks("none") || config.check_passive == Some(true),
        (_, true) => config.checks("http") && config.udp_check_port == health_port,
    };
    let configs = options.ports.iter().map(|port| &port.config);
    let unchecked = configs.filter(|config| service.is_local && !is_checked(config));
    let unchecked: Vec<String> = unchecked.map(shown).collect();
    let by_check = health_port.map(|port| {
        let (kind, of_udp) = (keys::CHECK_TYPE.key, keys::UDP_CHECK_PORT.key);
        format!(
            ", or let the checks of UDP ports ask kube-proxy by {kind} http and {of_udp} {port}"
        )
    });
    let note = format!(
        "externalTrafficPolicy is Local, and no check finds out which Nodes have an endpoint of {}: those without \
         drop what they get. Run a Pod on each Node, or exclude the others by the label {}{}.",
        unchecked.join(", "),
        labels::EXCLUDE_FROM_LOAD_BALANCERS,
        by_check.unwrap_or_default(),
    );
    (!unchecked.is_empty()).then(|| notice(reasons::HEALTH_MONITOR_UNFIT, note))
}

fn another_address(balancer: &NodeBalancer, options: &Options) -> Option<Notice> {
    let wanted = options.balancer.ipv4.as_deref()?;
    let (id, actual) = (&balancer.id, balancer.ipv4.as_deref().unwrap_or_default());
    let note = format!(
        "IPv4 annotation changed to {wanted}, but NodeBalancer ({id}) IP cannot be updated after creation. It \
         will remain {actual}"
    );
    (wanted != actual).then(|| Notice {
        by_provider: true,
        ..notice(reasons::NODE_BALANCER_IP_CHANGE_IGNORED, note)
    })
}

fn another_type(balancer: &NodeBalancer, options: &Options) -> Option<Notice> {
    let (id, wanted) = (&balancer.id, &options.balancer.kind);
    let kind = balancer.kind.as_ref().filter(|kind| *kind != wanted)?;
    let note = format!(
        "NodeBalancer {id} is of type {kind}, and its type cannot be changed to {wanted}. Create the Service anew \
         for that."
    );
    Some(notice(reasons::UNSUPPORTED_FIELD, note))
}

fn elsewhere(balancer: &NodeBalancer, place: &Misplaced) -> Notice {
    let (what, keys) = match place.side {
        Side::Frontend => (
            "has its address",
            [&keys::FRONTEND_SUBNET_ID, &keys::FRONTEND_SUBNET_NAME],
        ),
        Side::Backend => (
            "reaches its nodes",
            [&keys::BACKEND_SUBNET_ID, &keys::BACKEND_SUBNET_NAME],
        ),
    };
    let is = match place.is {
        Some(subnet) => format!("in the subnet {subnet}"),
        None => "outside of VPCs".to_owned(),
    };
    let note = format!(
        "NodeBalancer {} {what} {is}, and that cannot be changed to the subnet {} that is asked for ({}, {}, or \
         flags). Take the change back, or create the Service anew for it.",
        balancer.id, place.wanted, keys[0].key, keys[1].key,
    );
    notice(reasons::UNSUPPORTED_FIELD, note)
}

fn nameless(balancer: &NodeBalancer, options: &Options) -> Option<Notice> {
    let note = format!(
        "NodeBalancer {} has no host name, so that the status has its address in spite of {}.",
        balancer.id,
        keys::HOSTNAME_ONLY.key
    );
    let hides = options.hostname_only && balancer.hostname.is_none();
    hides.then(|| notice(reasons::UNSUPPORTED_FIELD, note))
}

#[cfg(test)]
mod tests {
    use super::super::super::options::tests::{read, service, settings};
    use super::*;

    /// What is told of ports that no check follows, with `externalTrafficPolicy: Local`.
    fn told(ports: &str, annotations: &[(&str, &str)]) -> Option<String> {
        let local = ServiceView {
            is_local: true,
            health_check_node_port: Some(32080),
            ..service(ports, annotations)
        };
        let (options, _) = read(&local, &settings()).unwrap();
        let cluster = ServiceView {
            is_local: false,
            ..local.clone()
        };
        assert!(unchecked(&cluster, &options).is_none());
        unchecked(&local, &options).map(|notice| notice.note)
    }

    #[test]
    fn ports_that_no_check_follows_are_told_with_traffic_policy_local() {
        let udp = told("tcp/80 udp/53", &[]).unwrap();
        for part in [
            "endpoint of udp/53:",
            "exclude-from-external-load-balancers",
            "udp-check-port 32080",
        ] {
            assert!(udp.contains(part), "{part}: {udp}");
        }
        let none = [("check-type", "none"), ("check-passive", "false")];
        assert!(
            told("tcp/80 tcp/81", &none)
                .unwrap()
                .contains("tcp/80, tcp/81")
        );
        let by_kube_proxy = [("check-type", "http"), ("udp-check-port", "32080")];
        let other_port = [("check-type", "http"), ("udp-check-port", "32081")];
        let other_check = [("check-type", "connection"), ("udp-check-port", "32080")];
        assert_eq!(told("udp/53", &by_kube_proxy), None);
        assert!(told("udp/53", &other_port).is_some());
        // kube-proxy answers, with or without an endpoint.
        assert!(told("udp/53", &other_check).is_some());
        assert_eq!(told("tcp/80", &[]), None);
        assert_eq!(told("tcp/80", &[("check-type", "none")]), None, "passive");
    }
}
