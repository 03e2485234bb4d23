//! The environment and the arguments of kube-vip's Pods.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Nodes;
use crate::run::import::finding::Findings;
use crate::run::import::objects::{Object, Objects};
use crate::run::import::workload;

/// The class that it serves with `lb_class_only`, if none is named.
const DEFAULT_CLASS: &str = "kube-vip.io/kube-vip-class";

/// What of them L2Networks say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) interface: Option<String>,
    pub(super) nodes: Nodes,
}

/// What becomes of a variable.
#[derive(Clone, Copy)]
enum Use {
    /// It is how kube-vip itself runs: there is nothing to say.
    Itself,
    /// It is read together with others.
    Read,
    /// It switches something on that no L2Network says; the remedy.
    Feature(&'static str),
}

use Use::{Feature, Itself, Read};

const BGP: Use =
    Feature("Mooring speaks no BGP: leave these Services to kube-vip, by lb_class_name");
const ROUTES: Use = Feature("Mooring writes no routes for addresses: announce them on the segment");
const EGRESS: Use =
    Feature("Mooring changes no source address of Pods: leave these Services to kube-vip");
const CONTROL_PLANE: Use = Feature(
    "Mooring has no address for the control plane: keep kube-vip for it, with svc_enable=false",
);

/// Every variable that kube-vip reads.
const VARIABLES: [(&str, Use); 75] = [
    ("vip_interface", Read),
    ("vip_servicesinterface", Read),
    ("svc_enable", Read),
    ("lb_class_only", Read),
    ("lb_class_name", Read),
    ("vip_arp", Itself),
    ("vip_arpRate", Itself),
    ("vip_leaderelection", Itself),
    ("vip_leasename", Itself),
    ("vip_leaseduration", Itself),
    ("vip_renewdeadline", Itself),
    ("vip_retryperiod", Itself),
    ("vip_leaseannotations", Itself),
    ("vip_loglevel", Itself),
    ("vip_interfaceloglobal", Itself),
    ("vip_subnet", Itself),
    ("vip_cidr", Itself),
    ("vip_nodename", Itself),
    ("vip_singlenode", Itself),
    ("vip_startleader", Itself),
    ("svc_namespace", Itself),
    ("svc_election", Itself),
    ("svc_leasename", Itself),
    ("lb_class_legacy_handling", Itself),
    ("enable_node_labeling", Itself),
    ("prometheus_server", Itself),
    ("k8s_config_file", Itself),
    (
        "config_file",
        Feature("what is in the file is not read: set the same by variables, and import again"),
    ),
    ("dns_mode", Itself),
    ("disable_service_updates", Itself),
    ("enable_endpoints", Itself),
    ("iptables_backend", Itself),
    ("backend_health_check_interval", Itself),
    ("health_check_port", Itself),
    ("annotation", Itself),
    ("port", Itself),
    ("cp_namespace", Itself),
    ("cp_detect", Itself),
    ("kubernetes_addr", Itself),
    ("egress_clean", Itself),
    ("egress_podcidr", Itself),
    ("egress_servicecidr", Itself),
    ("egress_withnftables", Itself),
    ("lb_port", Itself),
    ("lb_fwdmethod", Itself),
    ("cp_enable", CONTROL_PLANE),
    ("lb_enable", CONTROL_PLANE),
    ("address", CONTROL_PLANE),
    ("vip_address", CONTROL_PLANE),
    (
        "vip_ddns",
        Feature("addresses come by DHCP; central allocates from ranges"),
    ),
    (
        "enable_upnp",
        Feature("Mooring forwards no ports on a router: do so on the router"),
    ),
    (
        "mirror_dest_interface",
        Feature("Mooring mirrors no traffic"),
    ),
    (
        "enable_service_security",
        Feature("which ports a Node lets through is for a NetworkPolicy, or nftables"),
    ),
    (
        "vip_wireguard",
        Feature("Mooring announces no addresses on WireGuard interfaces"),
    ),
    ("vip_routingtable", ROUTES),
    ("vip_routingtableid", Itself),
    ("vip_routingtabletype", Itself),
    ("vip_routingprotocol", Itself),
    ("vip_cleanroutingtable", Itself),
    ("bgp_enable", BGP),
    ("bgp_routerid", Itself),
    ("bgp_routerinterface", Itself),
    ("bgp_as", Itself),
    ("bgp_peeraddress", Itself),
    ("bgp_peers", Itself),
    ("bgp_peeras", Itself),
    ("bgp_peerpass", Itself),
    ("bgp_multihop", Itself),
    ("bgp_sourceif", Itself),
    ("bgp_sourceip", Itself),
    ("bgp_hold_time", Itself),
    ("bgp_keepalive_interval", Itself),
    ("zebra_enable", BGP),
    ("mpbgp_nexthop", BGP),
    ("egress_enable", EGRESS),
];

/// Begin the names of parameters that matter only with what switches them on.
const PARAMETERS: [&str; 2] = ["zebra_", "mpbgp_"];

/// Arguments that are short for variables.
const ARGUMENTS: [(&str, &str); 12] = [
    ("interface", "vip_interface"),
    ("serviceInterface", "vip_servicesinterface"),
    ("services", "svc_enable"),
    ("controlplane", "cp_enable"),
    ("arp", "vip_arp"),
    ("bgp", "bgp_enable"),
    ("wireguard", "vip_wireguard"),
    ("table", "vip_routingtable"),
    ("leaderElection", "vip_leaderelection"),
    ("lbClassOnly", "lb_class_only"),
    ("lbClassName", "lb_class_name"),
    ("address", "address"),
];

/// Reads kube-vip's DaemonSet, else the first Pod of it, as there is on control plane Nodes without a DaemonSet.
pub(super) fn read(objects: &Objects, findings: &mut Findings) -> Settings {
    let workloads =
        ["DaemonSet", "Pod"].map(|kind| objects.of(kind).into_iter().map(move |one| (kind, one)));
    let mut workloads = workloads.into_iter().flatten();
    let found = workloads.find_map(|(kind, object)| Some((kind, object, container(object)?)));
    let Some((kind, object, container)) = found else {
        findings.assume(
            "kube-vip's DaemonSet: none has an image of this name",
            "on which interface and Nodes it announces is not known: the daemon takes the interface with an \
             address in the subnet",
        );
        return Settings::default();
    };
    let named = format!("{kind} {}/{}", object.namespace(), object.name());
    let values = values(&named, container, findings);
    told_of(&named, &values, findings);
    let text = |name: &str| values.get(name).filter(|value| !value.is_empty()).cloned();
    if !is_true(values.get("svc_enable")) {
        findings.elsewhere(
            format!("{named}: svc_enable is not true"),
            "it announces no addresses of Services",
        );
    }
    if is_true(values.get("lb_class_only")) {
        let class = text("lb_class_name").unwrap_or_else(|| DEFAULT_CLASS.to_owned());
        workload::told_of_class(&named, &class, findings);
    }
    Settings {
        interface: text("vip_servicesinterface").or_else(|| text("vip_interface")),
        nodes: workload::nodes(object, &named, findings),
    }
}

/// The image of its cloud provider is called alike.
fn container(object: &Object) -> Option<&Value> {
    let found = workload::container(object, "kube-vip")?;
    let image = found
        .get("image")
        .and_then(Value::as_str)
        .unwrap_or_default();
    (!image.contains("cloud-provider")).then_some(found)
}

/// Its variables, and its arguments by the variables that they are short for.
fn values(named: &str, container: &Value, findings: &mut Findings) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for one in container
        .get("env")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let text = |field: &str| {
            one.get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        values.insert(text("name"), text("value"));
    }
    let mut arguments = workload::arguments(container).into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let Some(name) = argument.strip_prefix("--") else {
            continue;
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => {
                let next = arguments.next_if(|next| !next.starts_with("--"));
                (name.to_owned(), next.unwrap_or_else(|| "true".to_owned()))
            }
        };
        match ARGUMENTS.iter().find(|(argument, _)| *argument == name) {
            Some((_, variable)) => {
                values.insert((*variable).to_owned(), value);
            }
            None => findings.cannot_say(
                format!("{named}: --{name}={value}"),
                "this version does not know the argument; see what kube-vip does by it",
            ),
        }
    }
    values
}

fn told_of(named: &str, values: &BTreeMap<String, String>, findings: &mut Findings) {
    for (name, value) in values {
        let known = VARIABLES.iter().find(|(variable, _)| variable == name);
        match known.map(|(_, purpose)| *purpose) {
            Some(Feature(remedy)) if !is_off(value) => {
                findings.cannot_say(format!("{named}: {name}={value}"), remedy);
            }
            Some(_) => {}
            None if PARAMETERS.iter().any(|prefix| name.starts_with(prefix)) => {}
            None => findings.cannot_say(
                format!("{named}: {name}={value}"),
                "this version does not know the variable; see what kube-vip does by it",
            ),
        }
    }
}

fn is_off(value: &str) -> bool {
    value.is_empty() || value == "false"
}

fn is_true(value: Option<&String>) -> bool {
    value.is_some_and(|value| value == "true")
}
