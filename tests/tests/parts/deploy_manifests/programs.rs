//! The programs know every flag that the manifests give them.

use std::process::Command;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::Api;
use mooring_common::names::NAMESPACE;
use mooring_test_support::program::Program;

use super::deployed::deployed;

/// Runs the program with the flags of its container and one that no program knows. A program names
/// every fault at once: so if that one is the only fault, the others are known.
fn assert_knows_its_flags(program: Program, template: PodTemplateSpec) {
    let container = template.spec.unwrap().containers.remove(0);
    let output = Command::new(program.path().unwrap())
        .args(container.args.unwrap())
        .arg("--no-such-flag")
        .env("NODE_NAME", "n1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let faults: Vec<_> = told
        .lines()
        .filter(|line| line.starts_with("  - "))
        .collect();
    assert!(
        !output.status.success() && faults.len() == 1 && told.contains("no-such-flag"),
        "{told}"
    );
}

#[tokio::test]
async fn pr_11_the_programs_know_every_flag_of_the_manifests() {
    let admin = deployed().await.admin();
    let central = Api::<Deployment>::namespaced(admin.clone(), NAMESPACE)
        .get("mooring-central")
        .await
        .unwrap();
    assert_knows_its_flags(Program::Central, central.spec.unwrap().template);
    let node = Api::<DaemonSet>::namespaced(admin, NAMESPACE)
        .get("mooring-node")
        .await
        .unwrap();
    assert_knows_its_flags(Program::Node, node.spec.unwrap().template);
}
