//! What Services say to kube-vip.

use crate::run::import::finding::Findings;
use crate::run::import::objects::{Object, Objects};

/// The prefix of its annotations.
const PREFIX: &str = "kube-vip.io/";

/// The label by which its cloud provider marks Services.
const LABEL: (&str, &str) = ("implementation", "kube-vip");

/// Stands for an address that comes by DHCP.
const DHCP: &str = "0.0.0.0";

/// What it writes, or reads of how it runs itself: there is nothing to say.
const ITSELF: [&str; 10] = [
    "loadbalancerIPs",
    "vipHost",
    "active-endpoint",
    "active-endpoint-ipv6",
    "leaseName",
    "forcePerServiceElection",
    "ignore-service-security",
    "egress-nftables-table",
    "upnp-lease-duration",
    "flush-conntrack",
];

const BY_DHCP: &str =
    "the address comes by DHCP; central allocates from ranges: give it one of a range";
const EGRESS: &str =
    "Mooring changes no source address of Pods: leave the Service to kube-vip, by its class";

/// Those that no L2Network says, each with the remedy.
const FEATURES: [(&str, &str); 20] = [
    ("requestedIP", BY_DHCP),
    ("hwaddr", BY_DHCP),
    ("loadbalancerHostname", BY_DHCP),
    ("ddns", BY_DHCP),
    ("macvlanName", BY_DHCP),
    ("dhcp-broadcast", BY_DHCP),
    ("egress", EGRESS),
    ("egress-internal", EGRESS),
    ("egress-ipv6", EGRESS),
    ("egress-destination-ports", EGRESS),
    ("egress-source-ports", EGRESS),
    ("egress-allowed-networks", EGRESS),
    ("egress-denied-networks", EGRESS),
    ("egress-no-internal-traffic", EGRESS),
    ("egress-detect-api-server", EGRESS),
    (
        "serviceVLAN",
        "make an L2Network with spec.vlan, with a pool for the Service",
    ),
    (
        "ignore",
        "give the Service a loadBalancerClass that is not Mooring's",
    ),
    (
        "forwardUPNP",
        "Mooring forwards no ports on a router: do so on the router",
    ),
    ("rp_filter", "set the sysctl on the Nodes"),
    (
        "allow-reconcile-without-endpoints",
        "a Service without a ready endpoint is not announced",
    ),
];

/// An interface of the Service's own: it is told apart, since the ConfigMap writes it too.
const INTERFACE: &str = "serviceInterface";

/// Whether kube-vip serves it.
pub(super) fn is_served(service: &Object) -> bool {
    let marked = service
        .labels()
        .get(LABEL.0)
        .is_some_and(|value| value == LABEL.1);
    marked
        || service
            .annotations()
            .keys()
            .any(|key| key.starts_with(PREFIX))
}

/// Tells of annotations that central does not read, and of addresses by DHCP.
pub(in crate::run::import) fn told_of_services(
    objects: &Objects,
    interfaces: &[Option<String>],
    findings: &mut Findings,
) {
    for service in objects.of("Service") {
        let named = format!("Service {}/{}", service.namespace(), service.name());
        let annotations = service.annotations();
        for (key, value) in &annotations {
            let Some(name) = key.strip_prefix(PREFIX) else {
                continue;
            };
            let field = format!("{named}: {key}: {value:?}");
            let feature = FEATURES.iter().find(|(feature, _)| *feature == name);
            match feature {
                Some((_, remedy)) if value != "false" => findings.cannot_say(field, *remedy),
                Some(_) => {}
                None if name == INTERFACE => {
                    if !interfaces.contains(&Some(value.clone())) {
                        findings.cannot_say(
                            field,
                            "make an L2Network with this interface as parent, with a pool for the Service",
                        );
                    }
                }
                None if ITSELF.contains(&name) => {}
                None => findings.cannot_say(
                    field,
                    "Mooring does not read this annotation; see what kube-vip does by it",
                ),
            }
        }
        let asked = annotations
            .get("kube-vip.io/loadbalancerIPs")
            .map(String::as_str);
        if [asked, service.text("/spec/loadBalancerIP")].contains(&Some(DHCP)) {
            findings.cannot_say(format!("{named}: the address {DHCP}"), BY_DHCP);
        }
    }
}
