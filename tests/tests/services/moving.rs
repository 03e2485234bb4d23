//! Moving from MetalLB and from kube-vip: `mooring-central import`, and the guide's order of steps, on objects that the
//! real ones have left. Every Service keeps its address, and nothing else is ever written.

pub(crate) mod fixture;
mod record;

use std::process::Stdio;

use fixture::Fixture;
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use mooring_common::names::{annotations, finalizers};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{create_service_account, kubectl};
use mooring_test_cluster::shipped::{CENTRAL_USER, CentralFlags, Shipped};
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

/// What the command has printed, and how it ended.
struct Imported {
    code: Option<i32>,
    yaml: String,
    report: String,
}

async fn import(cp: &ControlPlane, arguments: &[&str]) -> Imported {
    let program = Program::Central.path().unwrap();
    let kubeconfig = format!("--kubeconfig={}", cp.admin_kubeconfig().display());
    let output = tokio::process::Command::new(program)
        .arg("import")
        .args(arguments)
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    Imported {
        code: output.status.code(),
        yaml: String::from_utf8(output.stdout).unwrap(),
        report: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Asserts that each Service is in the table, with the address that it keeps.
fn assert_kept(imported: &Imported, fixture: &Fixture) {
    for service in &fixture.services {
        let name = service.key();
        let line = imported
            .report
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} is missing: {}", imported.report));
        let addresses = service.addresses.join(",");
        assert_eq!(line.matches(&addresses).count(), 2, "{line}");
    }
}

/// The guide, on what a real implementation has left: its L2Networks are imported, central starts without Services that
/// have no class, then with them.
async fn every_service_keeps_its_address(fixture: Fixture, arguments: &[&str]) {
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    fixture.install(&cp).await;
    let seen = fixture.watch(&cp).await;
    let imported = import(&cp, arguments).await;
    assert_eq!(imported.code, Some(0), "{}", imported.report);
    assert_kept(&imported, &fixture);

    let shipped = Shipped::install_without_cloud(&cp).await.unwrap();
    let file = cp.folder().join("l2networks.yaml");
    std::fs::write(&file, &imported.yaml).unwrap();
    let file = file.display().to_string();
    kubectl(&cp, &["apply", "-f", &file]).await.unwrap();

    let flags = || CentralFlags::alone().with("--cloud-provider=none");
    let idle = flags().with("--serve-classless-services=false");
    let central = shipped.start_central(&cp, idle).await.unwrap();
    kubectl(
        &cp,
        &[
            "wait",
            "--for=condition=Ready",
            "--timeout=20s",
            "l2networks",
            "--all",
        ],
    )
    .await
    .unwrap();
    for service in &fixture.services {
        let now = service.api(&cp).get(&service.name).await.unwrap();
        assert!(!is_recorded(&now), "it is still the other's: {now:?}");
    }
    central.process.terminate().unwrap();
    central.process.wait_for_exit(SOON).await;

    let _central = shipped.start_central(&cp, flags()).await.unwrap();
    for service in &fixture.services {
        let api: Api<Service> = service.api(&cp);
        eventually(&format!("{} is adopted", service.key()), SOON, async || {
            let now = api.get(&service.name).await?;
            anyhow::ensure!(is_recorded(&now), "{now:?}");
            Ok(())
        })
        .await;
    }
    seen.assert_unchanged(&cp, &fixture).await;
    fixture.assert_no_other_address_written(&cp.audit_settled().await, CENTRAL_USER);
    shipped.assert_no_forbidden(&cp).await;
}

/// Whether central has put its record and finalizer on it.
pub(crate) fn is_recorded(service: &Service) -> bool {
    let metadata = &service.metadata;
    let records = metadata.annotations.iter().flatten();
    let recorded = records
        .filter(|(key, _)| *key == annotations::ALLOCATED_ADDRESSES)
        .count();
    let finalizers = metadata.finalizers.iter().flatten();
    recorded == 1
        && finalizers
            .filter(|name| *name == finalizers::SERVICE)
            .count()
            == 1
}

#[tokio::test]
async fn services_of_metallb_keep_their_addresses() {
    let subnets = [
        "metallb",
        "--subnet=192.0.2.0/24,192.0.2.1",
        "--subnet=2001:db8::/64",
    ];
    every_service_keeps_its_address(Fixture::read("metallb-0.16.1"), &subnets).await;
}

#[tokio::test]
async fn services_of_kube_vip_keep_their_addresses() {
    let subnets = [
        "kube-vip",
        "--subnet=192.0.2.0/24,192.0.2.1",
        "--subnet=2001:db8::/64",
    ];
    every_service_keeps_its_address(Fixture::read("kube-vip"), &subnets).await;
}

/// Without MetalLB's CRDs there is nothing to import, and without rights it says which are missing.
#[tokio::test]
async fn what_cannot_be_read_is_named() {
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    let told = import(&cp, &["metallb"]).await;
    assert_eq!(told.code, Some(1), "{}", told.report);
    for words in [
        "no ipaddresspools.metallb.io v1beta1",
        "no l2advertisements.metallb.io",
        "-f",
    ] {
        assert!(told.report.contains(words), "{words}: {}", told.report);
    }
    let admin = cp.admin();
    create_service_account(&admin, "default", "nobody")
        .await
        .unwrap();
    let nobody = cp.kubeconfig_for_service_account("default", "nobody", None);
    let nobody = nobody.await.unwrap();
    let kubeconfig = format!("--kubeconfig={}", nobody.display());
    let program = Program::Central.path().unwrap();
    let output = tokio::process::Command::new(program)
        .args(["import", "kube-vip", &kubeconfig])
        .output()
        .await
        .unwrap();
    let report = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{report}");
    for words in [
        "services may not be listed",
        "configmaps may not be listed",
        "ClusterRole",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
}
