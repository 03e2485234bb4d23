//! What the chart renders, by the Helm that renders the shipped manifests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use mooring_common::names::NAMESPACE;
use serde::Deserialize as _;
use serde_json::Value;

use super::deployed::deploy;

/// The pinned Helm, which is built where nobody has built it yet.
pub fn helm() -> &'static Path {
    static HELM: OnceLock<PathBuf> = OnceLock::new();
    HELM.get_or_init(|| {
        let provided = Command::new(deploy("render.sh"))
            .arg("--helm")
            .output()
            .unwrap();
        assert!(provided.status.success(), "{provided:?}");
        String::from_utf8(provided.stdout).unwrap().trim().into()
    })
}

/// Runs Helm with the chart, as release `mooring` in Mooring's namespace: what it prints, or why it refuses.
pub fn run(command: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(helm())
        .args([command, "mooring"])
        .arg(deploy("chart/mooring"))
        .args(["--namespace", NAMESPACE])
        .args(args)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// What the chart renders with these arguments.
#[track_caller]
pub fn template(args: &[&str]) -> String {
    run("template", args).unwrap_or_else(|told| panic!("{args:?}: {told}"))
}

/// The objects of manifests.
pub fn objects(manifests: &str) -> Vec<Value> {
    serde_norway::Deserializer::from_str(manifests)
        .map(|document| Value::deserialize(document).unwrap())
        .filter(|object| !object.is_null())
        .collect()
}

/// A file of `ci/`, with values that stand for many.
pub fn values(name: &str) -> String {
    let path = deploy(&format!("chart/mooring/ci/{name}-values.yaml"));
    path.to_str().unwrap().to_owned()
}
