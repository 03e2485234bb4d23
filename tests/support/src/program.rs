//! Mooring's own programs, started as users start them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use crate::process::{Process, Spec};

/// The folders of two profiles: of what is shipped, and of what is soon built.
const RELEASE: &str = "release";
const TOOLS: &str = "tools";

/// One of the programs that this workspace builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The Deployment's program.
    Central,
    /// The DaemonSet's program.
    Node,
    /// The kubectl plugin.
    Kubectl,
    /// The rig's own helper inside network namespaces.
    NetlabTool,
    /// A simulated cloud as a program of its own.
    CloudSim,
}

impl Program {
    /// The file's name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Central => "mooring-central",
            Self::Node => "mooring-node",
            Self::Kubectl => "kubectl-mooring",
            Self::NetlabTool => "netlab-tool",
            Self::CloudSim => "cloud-sim",
        }
    }

    /// The file, in the folder of the build that this test program comes from. A bench, which has a
    /// profile of its own, measures what is shipped: release builds.
    pub fn path(self) -> Result<PathBuf> {
        let path = self.beside(profile_folder()?);
        if !path.is_file() {
            bail!(
                "{} is missing: run `cargo build --workspace` first, or the recipe of the bench",
                path.display()
            );
        }
        Ok(path)
    }

    /// The file for a program in this folder of a profile.
    fn beside(self, mut folder: PathBuf) -> PathBuf {
        if folder.ends_with(TOOLS) && matches!(self, Self::Central | Self::Node) {
            folder.set_file_name(RELEASE);
        }
        folder.join(self.file_name())
    }

    /// The release build where there is one, otherwise the file of [`Self::path`], and which it is:
    /// for figures.
    pub fn release_or_own(self) -> Result<(&'static str, PathBuf)> {
        let own = self.path()?;
        let target = profile_folder()?;
        let release = target.with_file_name(RELEASE).join(self.file_name());
        Ok(if release.is_file() {
            (RELEASE, release)
        } else {
            ("debug", own)
        })
    }

    /// Describes a run of the program with these flags; its log goes into `log_folder`.
    pub fn spec<S: Into<String>>(
        self,
        log_folder: &Path,
        flags: impl IntoIterator<Item = S>,
    ) -> Result<Spec> {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let log = log_folder.join(format!("{}-{run}.log", self.file_name()));
        Ok(Spec::new(self.file_name(), self.path()?, log).args(flags))
    }

    /// Starts the program with these flags; its log goes into `log_folder`.
    pub fn start<S: Into<String>>(
        self,
        log_folder: &Path,
        flags: impl IntoIterator<Item = S>,
    ) -> Result<Process> {
        Process::start(&self.spec(log_folder, flags)?)
    }
}

// Test programs are in target/<profile>/deps, the workspace's programs one level up.
fn profile_folder() -> Result<PathBuf> {
    let myself = std::env::current_exe().context("finding this test program")?;
    let folder = myself
        .parent()
        .context("this test program is in no folder")?;
    let folder = if folder.ends_with("deps") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Program;

    #[test]
    fn a_bench_starts_what_is_shipped_and_its_own_tools() {
        for (program, folder, expected) in [
            (Program::Node, "target/tools", "target/release/mooring-node"),
            (Program::Node, "target/debug", "target/debug/mooring-node"),
            (
                Program::NetlabTool,
                "target/tools",
                "target/tools/netlab-tool",
            ),
        ] {
            assert_eq!(
                program.beside(folder.into()),
                std::path::Path::new(expected)
            );
        }
    }
}
