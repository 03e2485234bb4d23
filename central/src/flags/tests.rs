use mooring_common::flags::Parsed;

use super::*;

fn read(line: &str) -> Result<Flags, FlagFaults> {
    let arguments = line.split_whitespace().map(ToOwned::to_owned);
    match TABLE.parse(arguments, |_| None)? {
        Parsed::Run(values) => Flags::read(&values),
        Parsed::Print(text) => panic!("{text}"),
    }
}

/// The flags of the manifests in the field, the oldest of Cloudlycke among them.
#[test]
fn pr_11_every_flag_line_of_the_common_manifests_is_taken() {
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

#[test]
fn pr_10_controllers_are_chosen_by_either_name() {
    let flags = read("--cloud-provider=cloudlycke --controllers=*,-service").unwrap();
    assert_eq!(
        flags.controllers,
        Controllers {
            node: true,
            node_lifecycle: true,
            service: false
        }
    );
    let flags = read("--cloud-provider=cloudlycke --controllers=cloud-node-controller").unwrap();
    assert_eq!(
        flags.controllers,
        Controllers {
            node: true,
            node_lifecycle: false,
            service: false
        }
    );
}

#[test]
fn pr_21_several_errors_are_told_at_once() {
    let error = read(
        "--leader-elect-lease-duration=5s --secure-port=99999 --bind-address=here \
         --controllers=nodes --tls-cert-file=x --v=-1 --max-node-deletions-percent=101",
    )
    .unwrap_err();
    assert_eq!(error.faults.len(), 8, "{error}");
}

#[test]
fn without_a_port_nothing_is_served() {
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
fn periods_of_nothing_are_refused() {
    let error = read(
        "--cloud-provider=cloudlycke --node-status-update-frequency=0 --node-monitor-period=0s \
         --leader-elect-retry-period=0",
    )
    .unwrap_err();
    assert_eq!(error.faults.len(), 3, "{error}");
    assert!(error.to_string().contains("at least 50ms"), "{error}");
}

#[test]
fn sv_40_whose_services_are_served_can_be_chosen() {
    let flags = read("--cloud-provider=cloudscale").unwrap().services;
    assert!(flags.serves_classless && flags.own_class.is_none() && !flags.delete_orphans);
    assert_eq!(flags.resync_period, Some(Duration::from_secs(600)));
    let line = "--cloud-provider=cloudscale --load-balancer-class=example.com/x \
                --serve-classless-services=false --load-balancer-resync-period=0 --delete-orphans";
    let flags = read(line).unwrap().services;
    assert_eq!(flags.own_class.as_deref(), Some("example.com/x"));
    assert!(!flags.serves_classless && flags.delete_orphans && flags.resync_period.is_none());
}

#[test]
fn serving_nobody_and_asking_all_the_time_are_refused() {
    let error = read(
        "--cloud-provider=cloudscale --serve-classless-services=false \
         --load-balancer-resync-period=500ms",
    )
    .unwrap_err();
    assert_eq!(error.faults.len(), 2, "{error}");
}
