//! Starts the program as a user.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::apply_manifests;
use mooring_test_cluster::test_namespace::{SOON, TestNamespace};
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

/// Who has all that the example grants.
pub(super) const VIEWER: &str = "mooring-viewer";

/// What the program has said.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) code: Option<i32>,
    pub(super) text: String,
    pub(super) complaint: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            text: String::from_utf8(output.stdout).unwrap(),
            complaint: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(super) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.text);
        read.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The finding of this name.
    pub(super) fn finding(&self, check: &str) -> Value {
        let all = self.json()["findings"].as_array().cloned();
        let found = all
            .iter()
            .flatten()
            .find(|finding| finding["check"] == check);
        found
            .unwrap_or_else(|| panic!("no {check}: {self:?}"))
            .clone()
    }
}

/// Runs the plugin, or another program, with these arguments.
pub(super) async fn run(program: Program, kubeconfig: &Path, arguments: &[&str]) -> Said {
    let output = tokio::process::Command::new(program.path().unwrap())
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    Said::of(output)
}

/// Runs the plugin as whom the kubeconfig names.
pub(super) async fn mooring(kubeconfig: &Path, arguments: &[&str]) -> Said {
    run(Program::Kubectl, kubeconfig, arguments).await
}

/// A user with what `deploy/examples/kubectl-mooring.yaml` grants.
pub(super) async fn viewer(cluster: &Cluster) -> PathBuf {
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/examples/kubectl-mooring.yaml");
    apply_manifests(cluster, &example).await.unwrap();
    let kubeconfig = cluster
        .kubeconfig_for_user(VIEWER, Some("mooring-viewers"))
        .unwrap();
    eventually("the rights are in force", SOON, async || {
        let said = mooring(&kubeconfig, &["status", "-o", "json"]).await;
        match said.json()["missingRights"].as_array().map(Vec::len) {
            Some(0) => Ok(()),
            _ => Err(said),
        }
    })
    .await;
    kubeconfig
}

/// Writes what daemons of these nodes would say: the first speaks for the address.
pub(super) async fn nodes_say(namespace: &TestNamespace, address: &str, nodes: &[&str]) {
    let entries = nodes.iter().enumerate().map(|(index, node)| {
        let spoken = json!({
            "address": address,
            "since": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string(),
            "reason": "Unclaimed",
        });
        let addresses = if index == 0 { json!([spoken]) } else { json!([]) };
        json!({"name": node, "ready": true, "reason": "Ready", "mac": "02:00:00:00:00:01", "addresses": addresses})
    });
    let status = json!({"status": {
        "voters": {"generation": 1, "nodes": nodes},
        "nodes": entries.collect::<Vec<_>>(),
    }});
    let patched = namespace
        .networks()
        .patch_status(
            &namespace.network,
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await;
    patched.unwrap();
}
