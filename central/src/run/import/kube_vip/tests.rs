use serde_json::{Value, json};

use crate::run::import::finding::Findings;
use crate::run::import::flags::Source;
use crate::run::import::objects::Objects;
use crate::run::import::{Imported, import, subnets};

/// A cluster with this ConfigMap and environment, and these Services.
fn objects(data: &Value, environment: &[(&str, &str)], services: &[Value]) -> Objects {
    let mut objects = Objects::default();
    let names = json!({"name": "kubevip", "namespace": "kube-system"});
    objects.add("ConfigMap", json!({"metadata": names, "data": data}));
    let environment: Vec<_> = environment
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let container = json!({
        "image": "ghcr.io/kube-vip/kube-vip:v1.0.3", "args": ["manager"], "env": environment,
    });
    objects.add(
        "DaemonSet",
        json!({
            "metadata": {"name": "kube-vip-ds", "namespace": "kube-system"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }),
    );
    let node = json!({"type": "InternalIP", "address": "192.0.2.11"});
    objects.add(
        "Node",
        json!({"metadata": {"name": "n1"}, "status": {"addresses": [node]}}),
    );
    for service in services {
        objects.add("Service", service.clone());
    }
    objects
}

const USUAL: [(&str, &str); 3] = [
    ("vip_arp", "true"),
    ("svc_enable", "true"),
    ("vip_interface", "eth0"),
];

fn imported(objects: &Objects) -> Imported {
    let subnets = subnets::read(&["192.0.2.0/24".to_owned()]).unwrap();
    import(objects, Source::KubeVip, &subnets, Findings::default())
}

fn told(imported: &Imported) -> Vec<String> {
    imported
        .findings
        .sorted()
        .iter()
        .map(ToString::to_string)
        .collect()
}

fn service(name: &str, annotations: &Value, address: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
    })
}

#[test]
fn namespaces_have_their_own_ranges_and_the_rest_the_global_ones() {
    let data = json!({
        "cidr-global": "192.0.2.64/28", "cidr-shop": "192.0.2.96/28,192.0.2.200/32",
        "skip-end-ips-in-cidr": "true", "range-late": "192.0.2.130-192.0.2.139",
    });
    let imported = imported(&objects(&data, &USUAL, &[]));
    let [network] = imported.networks.as_slice() else {
        panic!("{imported:?}")
    };
    assert_eq!(network.spec.parent.as_deref(), Some("eth0"));
    assert!(network.spec.include_excluded_nodes);
    let pools = serde_json::to_value(&network.spec.pools).unwrap();
    let by_name = |operator: &str| {
        json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": operator, "values": ["shop"]}]})
    };
    let expected = json!([
        {"name": "shop", "ranges": ["192.0.2.96/28", "192.0.2.200/32"],
         "excludedRanges": ["192.0.2.96/32", "192.0.2.111/32"],
         "allowedNamespaces": by_name("In"), "avoidBuggyIPs": true},
        {"name": "global", "ranges": ["192.0.2.64/28"], "excludedRanges": ["192.0.2.64/32", "192.0.2.79/32"],
         "allowedNamespaces": by_name("NotIn"), "avoidBuggyIPs": true},
    ]);
    assert_eq!(pools, expected);
    let told = told(&imported);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("set elsewhere") && told[0].contains("range-late"),
        "{told:?}"
    );
}

#[test]
fn interfaces_of_namespaces_are_networks_of_their_own() {
    let data = json!({
        "range-global": "192.0.2.64-192.0.2.70", "range-shop": "192.0.2.96-192.0.2.99",
        "interface-shop": "eth1", "interface-other": "eth2",
    });
    let imported = imported(&objects(&data, &USUAL, &[]));
    let parents: Vec<_> = imported
        .networks
        .iter()
        .map(|one| one.spec.parent.clone().unwrap())
        .collect();
    assert_eq!(parents, ["eth1", "eth0"]);
    let told = told(&imported);
    assert!(
        told.len() == 1 && told[0].contains("interface-other"),
        "{told:?}"
    );
}

#[test]
fn addresses_in_no_range_are_a_pool_that_others_are_not_given() {
    let data = json!({"range-global": "192.0.2.64-192.0.2.70"});
    let asked = json!({"kube-vip.io/loadbalancerIPs": "192.0.2.150", "kube-vip.io/vipHost": "n1"});
    let services = [
        service("web", &asked, "192.0.2.150"),
        service("api", &asked, "192.0.2.64"),
    ];
    let imported = imported(&objects(&data, &USUAL, &services));
    let pools: Vec<_> = imported.networks[0]
        .spec
        .pools
        .iter()
        .map(|pool| (pool.name.as_str(), pool.ranges.join(" ")))
        .collect();
    assert_eq!(
        pools,
        [
            ("global", "192.0.2.64-192.0.2.70".to_owned()),
            ("static", "192.0.2.150/32".to_owned())
        ]
    );
    assert!(imported.findings.is_complete(), "{:?}", told(&imported));
    assert!(
        imported
            .rows
            .iter()
            .all(|row| matches!(row.after, crate::run::import::services::After::Kept { .. }))
    );
}

/// Each key, variable, argument and annotation that no L2Network says is told by its name.
#[test]
fn what_cannot_be_said_is_told() {
    let base = json!({"range-global": "192.0.2.64-192.0.2.70"});
    for (key, value) in [
        ("allow-share-global", "true"),
        ("search-order", "desc"),
        ("range-dhcp", "0.0.0.0/32"),
        ("range-wrong", "192.0.2.9"),
        ("loadbalancer-something", "x"),
    ] {
        let mut data = base.clone();
        data[key] = json!(value);
        let imported = imported(&objects(&data, &USUAL, &[]));
        assert!(
            told(&imported).iter().any(|told| told.contains(key)),
            "{key}"
        );
        assert!(!imported.findings.is_complete(), "{key}");
    }
    for variable in [
        "bgp_enable",
        "cp_enable",
        "vip_wireguard",
        "vip_routingtable",
        "vip_ddns",
        "enable_upnp",
        "lb_enable",
        "enable_service_security",
        "mirror_dest_interface",
        "config_file",
        "egress_enable",
        "new_feature",
    ] {
        for (value, is_told) in [("true", true), ("false", variable == "new_feature")] {
            let mut environment = USUAL.to_vec();
            environment.push((variable, value));
            let imported = imported(&objects(&base, &environment, &[]));
            assert_eq!(
                told(&imported).iter().any(|told| told.contains(variable)),
                is_told,
                "{variable}"
            );
        }
    }
    for annotation in [
        "egress",
        "serviceInterface",
        "serviceVLAN",
        "ignore",
        "loadbalancerHostname",
        "forwardUPNP",
        "rp_filter",
        "allow-reconcile-without-endpoints",
        "ddns",
        "newer",
    ] {
        let key = format!("kube-vip.io/{annotation}");
        let services = [service("web", &json!({&key: "x"}), "192.0.2.64")];
        let imported = imported(&objects(&base, &USUAL, &services));
        assert!(
            told(&imported).iter().any(|told| told.contains(&key)),
            "{annotation}"
        );
    }
    let dhcp = [service(
        "web",
        &json!({"kube-vip.io/loadbalancerIPs": "0.0.0.0"}),
        "192.0.2.64",
    )];
    assert!(
        !imported(&objects(&base, &USUAL, &dhcp))
            .findings
            .is_complete()
    );
}

#[test]
fn classes_and_interfaces_are_read_from_variables_and_arguments() {
    let base = json!({"range-global": "192.0.2.64-192.0.2.70"});
    let environment = [
        ("svc_enable", "true"),
        ("lb_class_only", "true"),
        ("vip_servicesinterface", "eth7"),
    ];
    let own = imported(&objects(&base, &environment, &[]));
    assert_eq!(own.networks[0].spec.parent.as_deref(), Some("eth7"));
    assert!(
        told(&own)[0].contains("central.loadBalancers.class=kube-vip.io/kube-vip-class"),
        "{:?}",
        told(&own)
    );
    let mut objects = objects(&base, &[], &[]);
    let changed = json!({
        "metadata": {"name": "kube-vip-ds", "namespace": "kube-system"},
        "spec": {"template": {"spec": {
            "nodeSelector": {"kubernetes.io/os": "linux", "edge": "yes"},
            "containers": [{"image": "kube-vip", "args": ["manager", "--interface", "eth3", "--services", "--new=1"]}],
        }}},
    });
    objects = {
        let mut other = Objects::default();
        for kind in ["ConfigMap", "Node"] {
            for object in objects.of(kind) {
                other.add(kind, object.0.clone());
            }
        }
        other.add("DaemonSet", changed);
        other
    };
    let imported = imported(&objects);
    let spec = &imported.networks[0].spec;
    assert_eq!(spec.parent.as_deref(), Some("eth3"));
    let labels = spec
        .node_selector
        .as_ref()
        .unwrap()
        .match_labels
        .as_ref()
        .unwrap();
    assert_eq!(
        labels.iter().collect::<Vec<_>>(),
        [(&"edge".to_owned(), &"yes".to_owned())]
    );
    let told = told(&imported);
    assert!(told.len() == 1 && told[0].contains("--new=1"), "{told:?}");
}
