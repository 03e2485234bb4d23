use mooring_common::flags::Parsed;

use super::*;
use crate::cloud_api::Limits;

fn read(line: &str) -> Result<Flags, FlagFaults> {
    let arguments = line.split_whitespace().map(ToOwned::to_owned);
    match TABLE.parse(arguments, |_| None)? {
        Parsed::Run(values) => Flags::read(
            &values,
            ProcessEnv {
                program: "mooring-central",
                env: &|_| None,
            },
        ),
        Parsed::Print(text) => panic!("{text}"),
    }
}

/// The flags of the manifests in the field, the oldest of Cloudlycke among them.
#[test]
fn pr_11_accepts_flags_of_common_manifests() {
    for line in [
        "--cloud-provider=cloudlycke --leader-elect=false --use-service-account-credentials \
         --address=127.0.0.1 --cluster-name=kubernetes-2 --v=5 --allow-untagged-cloud",
        "--cloud-provider=cloudlycke --kubeconfig=/etc/kubernetes/cm.conf --bind_address=:: \
         --leader-elect --concurrent-service-syncs 4 --route-reconciliation-period=30s \
         --allocate-node-cidrs=false --cluster-cidr= --webhook-secure-port=0 --feature-gates= \
         --authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics --secure-port=10258 \
         --tls-cipher-suites=TLS_A,TLS_B --min-resync-period=12h0m0s --logging-format=json",
    ] {
        read(line).unwrap();
    }
}

fn underscored(word: &str) -> String {
    match word.strip_prefix("--") {
        Some(name) => format!("--{}", name.replace('-', "_")),
        None => word.to_owned(),
    }
}

/// The Go controller of cloudscale.ch knows these flags. Some have to be given together.
#[test]
fn pr_11_accepts_flags_of_cloudscale_controller() {
    let lines = include_str!("tests/cloudscale-flags.txt").lines();
    for line in lines.filter(|line| !line.is_empty()) {
        let line = format!("--cloud-provider=cloudscale {line}");
        read(&line).unwrap_or_else(|faults| panic!("{line}: {faults}"));
        let words = line.split(' ').map(|word| match word.split_once('=') {
            Some((name, value)) => format!("{}={value}", underscored(name)),
            None => underscored(word),
        });
        let line = words.collect::<Vec<_>>().join(" ");
        read(&line).unwrap_or_else(|faults| panic!("{line}: {faults}"));
    }
}

#[test]
fn unknown_flag_is_fatal_with_closest_name() {
    for (misspelt, known) in [
        ("--concurent-service-syncs=2", "--concurrent-service-syncs"),
        ("--allow-untaged-cloud", "--allow-untagged-cloud"),
        ("--webhooks-secure-port=0", "--webhook-secure-port"),
    ] {
        let told = read(&format!("--cloud-provider=cloudscale {misspelt}")).unwrap_err();
        assert!(
            told.to_string().contains(&format!("did you mean {known}?")),
            "{told}"
        );
    }
}

#[test]
fn flags_override_limits_of_cloud() {
    let default = crate::clouds::cloudscale::LIMITS;
    let limits = |line: &str| {
        read(&format!("--cloud-provider=cloudscale {line}"))
            .unwrap()
            .limits
            .or(default)
    };
    assert_eq!(limits(""), default);
    assert_eq!(limits("--cloud-api-qps= --cloud-api-burst="), default);
    assert_eq!(
        limits("--cloud-api-qps=0.5"),
        Limits {
            qps: 0.5,
            ..default
        }
    );
    assert_eq!(
        limits("--cloud-api-burst=7"),
        Limits {
            burst: 7,
            ..default
        }
    );
    let wrong = "--cloud-provider=cloudscale --cloud-api-qps=0 --cloud-api-burst=0";
    assert_eq!(read(wrong).unwrap_err().faults.len(), 2);
}

#[test]
fn empty_provider_is_absent() {
    let told = read("--cloud-provider=").unwrap_err().to_string();
    assert!(told.contains("--cloud-provider is missing"), "{told}");
}

#[test]
fn pr_10_accepts_both_controller_names() {
    let flags = read("--cloud-provider=cloudlycke --controllers=*,-service").unwrap();
    assert_eq!(
        flags.controllers,
        Controllers {
            node: true,
            node_lifecycle: true,
            service: false,
            route: true
        }
    );
    let flags = read("--cloud-provider=cloudlycke --controllers=cloud-node-controller").unwrap();
    assert_eq!(
        flags.controllers,
        Controllers {
            node: true,
            node_lifecycle: false,
            service: false,
            route: false
        }
    );
}

#[test]
fn pr_21_reports_several_errors_at_once() {
    let error = read(
        "--leader-elect-lease-duration=5s --secure-port=99999 --bind-address=here \
         --controllers=nodes --tls-cert-file=x --v=-1 --max-node-deletions-percent=101",
    )
    .unwrap_err();
    assert_eq!(error.faults.len(), 8, "{error}");
}

#[test]
fn service_without_ports_serves_nothing() {
    assert!(
        read("--cloud-provider=cloudlycke --secure-port=0")
            .unwrap()
            .serving
            .is_none()
    );
    assert!(
        read("--cloud-provider=cloudlycke --leader-elect=false")
            .unwrap()
            .leader
            .is_none()
    );
}

#[test]
fn rejects_periods_of_zero() {
    let error = read(
        "--cloud-provider=cloudlycke --node-status-update-frequency=0 --node-monitor-period=0s \
         --leader-elect-retry-period=0",
    )
    .unwrap_err();
    assert_eq!(error.faults.len(), 3, "{error}");
    assert!(error.to_string().contains("at least 50ms"), "{error}");
}

#[test]
fn sv_40_classes_choose_services() {
    let flags = read("--cloud-provider=cloudscale").unwrap().services;
    assert!(flags.serves_classless && flags.own_classes.is_empty() && !flags.delete_orphans);
    assert_eq!(flags.resync_period, Some(Duration::from_secs(600)));
    let line = "--cloud-provider=cloudscale --load-balancer-class=example.com/x,example.com/y \
                --serve-classless-services=false --load-balancer-resync-period=0 --delete-orphans";
    let flags = read(line).unwrap().services;
    assert_eq!(flags.own_classes, ["example.com/x", "example.com/y"]);
    assert!(!flags.serves_classless && flags.delete_orphans && flags.resync_period.is_none());
}

#[test]
fn health_target_defaults_to_service_proxy() {
    let target = |line: &str| {
        let line = format!("--cloud-provider=cloudscale {line}");
        read(&line).map(|flags| flags.services.health)
    };
    assert_eq!(target("").unwrap(), HealthTarget::ServiceProxy);
    let daemon = HealthTarget::NodeDaemon { port: 10266 };
    assert_eq!(target("--health-target=node-daemon").unwrap(), daemon);
    let elsewhere = target("--health-target=node-daemon --health-target-port=80");
    assert_eq!(elsewhere.unwrap(), HealthTarget::NodeDaemon { port: 80 });
    let error = target("--health-target=kubelet --health-target-port=0").unwrap_err();
    assert_eq!(error.faults.len(), 2, "{error}");
}

#[test]
fn rejects_polling_period_of_zero() {
    let error = read(
        "--cloud-provider=cloudscale --serve-classless-services=false \
         --load-balancer-resync-period=500ms",
    )
    .unwrap_err();
    assert_eq!(error.faults.len(), 1, "{error}");
}

#[test]
fn cluster_cidr_has_at_most_one_range_of_each_family() {
    let read_cidrs = |text: &str| {
        let line = format!("--cloud-provider=linode --cluster-cidr={text}");
        read(&line).map(|flags| flags.pod_network.cluster_cidrs)
    };
    let cidrs = read_cidrs("10.1.2.3/8,fd00::/48").unwrap();
    let texts: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["10.0.0.0/8", "fd00::/48"]);
    assert_eq!(read_cidrs("").unwrap(), []);
    for wrong in ["10.0.0.0/8,172.16.0.0/12", "10.0.0.0", "10.0.0.0/33"] {
        let told = read_cidrs(wrong).unwrap_err().to_string();
        assert!(told.contains("--cluster-cidr="), "{told}");
    }
}

#[test]
fn routes_of_linode_need_a_vpc() {
    let line = "--cloud-provider=linode --enable-route-controller --cluster-cidr=10.0.0.0/8";
    let told = read(line).unwrap_err().to_string();
    assert!(
        told.contains("cannot enable route controller as vpc-names is empty"),
        "{told}"
    );
    read(&format!("{line} --vpc-names=net")).unwrap();
    read(&format!("{line} --vpc-ids=1 --subnet-ids=2")).unwrap();
}

#[test]
fn masks_of_pod_cidrs_are_lengths_of_prefixes() {
    let line =
        "--cloud-provider=linode --node-cidr-mask-size-ipv4=33 --node-cidr-mask-size-ipv6=129";
    assert_eq!(read(line).unwrap_err().faults.len(), 2);
    read("--cloud-provider=linode --node-cidr-mask-size-ipv4=0 --node-cidr-mask-size-ipv6=64")
        .unwrap();
}
