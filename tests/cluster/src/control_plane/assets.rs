//! Where the programs of the control plane come from.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The folder with etcd, kube-apiserver, kube-controller-manager, kube-proxy and kubectl.
///
/// `tests/control-plane/build.sh` finds it: `KUBEBUILDER_ASSETS` where that has them, otherwise
/// a build of its own that is done once per machine and shows its progress.
pub fn assets() -> Result<&'static Path> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match FOUND.get_or_init(|| find().map_err(|error| format!("{error:#}"))) {
        Ok(folder) => Ok(folder),
        Err(message) => bail!("{message}"),
    }
}

/// Path of one of the programs, such as `kubectl`.
pub fn program(name: &str) -> Result<PathBuf> {
    Ok(assets()?.join(name))
}

fn find() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../control-plane/build.sh");
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("the programs of the control plane could not be provided: see the lines above");
    }
    let printed = String::from_utf8(output.stdout).context("the folder's name is not UTF-8")?;
    let folder = printed.lines().last().map(str::trim).unwrap_or_default();
    if folder.is_empty() {
        bail!("{} printed no folder", script.display());
    }
    Ok(PathBuf::from(folder))
}
