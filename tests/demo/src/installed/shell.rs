//! The shell of whoever administers the cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use mooring_test_cluster::control_plane::{ControlPlane, assets};
use mooring_test_support::scratch::Scratch;

use super::guide;

/// A folder with the repository's `deploy`, and helm and kubectl for the cluster.
#[derive(Debug)]
pub(super) struct Shell {
    scratch: Scratch,
    kubeconfig: PathBuf,
    path: String,
}

impl Shell {
    /// For the administrator of this cluster.
    pub(super) fn open(control_plane: &ControlPlane) -> Result<Self> {
        let scratch = Scratch::new("shell")?;
        let helm = std::env::var("HELM").context("the variable HELM is not set")?;
        let repository = guide::repository().canonicalize()?;
        std::os::unix::fs::symlink(repository.join("deploy"), scratch.join("deploy"))?;
        let mut path = String::new();
        for folder in [
            assets()?,
            Path::new(&helm).parent().unwrap_or(Path::new("/")),
        ] {
            path += &format!("{}:", folder.display());
        }
        path += &std::env::var("PATH").unwrap_or_default();
        Ok(Self {
            scratch,
            kubeconfig: control_plane.admin_kubeconfig().to_owned(),
            path,
        })
    }

    /// The folder in which commands run.
    pub(super) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// Writes a file there.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.scratch.join(name);
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Runs commands, and gives what they print.
    ///
    /// # Errors
    /// If one of them fails.
    pub(super) async fn run(&self, commands: &str) -> Result<String> {
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", commands])
            .current_dir(self.folder())
            .env("PATH", &self.path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.scratch.join("kubectl"))
            .env("HELM_CACHE_HOME", self.scratch.join("helm/cache"))
            .env("HELM_CONFIG_HOME", self.scratch.join("helm/config"))
            .env("HELM_DATA_HOME", self.scratch.join("helm/data"))
            .stdin(Stdio::null());
        output_of(command).await
    }
}

/// Runs a command, and gives what it prints. If nobody waits any more, it is killed.
///
/// # Errors
/// If it fails: with all that it said.
pub(super) async fn output_of(command: Command) -> Result<String> {
    let last = command.get_args().last().unwrap_or_default();
    let last = last.to_string_lossy().trim().to_owned();
    let mut command = tokio::process::Command::from(command);
    let output = command.kill_on_drop(true).output().await;
    let output = output.with_context(|| format!("running {last}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{last} ({}):\n{printed}{errors}", output.status);
    }
    Ok(printed)
}
