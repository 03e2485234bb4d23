//! The images that Pods are started from: Mooring's as `make image` has built them, and one with busybox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::guide::Page;
use super::machine::{IMAGES as ON_MACHINES, Machine};
use super::shell::output_of;
use mooring_test_support::scratch::Scratch;

/// The image with busybox. It is what Pods are made of before their containers start, too: it waits.
pub(super) const SANDBOX: &str = "localhost/busybox:1";

/// The tag under which the nodes have Mooring's images a second time.
pub(super) const NEXT_TAG: &str = "next";

/// What containerd takes names without a registry for.
pub(super) const REGISTRY: &str = "docker.io/library";

/// What buildah says where the kernel has refused to seal its copy of itself, which happens now and then.
const NOT_SEALED: &str = "sealing memfd copy";

/// Images as files, in a folder.
pub(super) struct Images {
    folder: Scratch,
    /// Mooring's version, which is the images' tag.
    pub(super) version: &'static str,
}

impl Images {
    /// Takes Mooring's images out of the store of `make image`, as the page says, and makes the other.
    pub(super) async fn take_out(page: &Page) -> Result<Self> {
        let images = Self {
            folder: Scratch::new("images")?,
            version: env!("CARGO_PKG_VERSION"),
        };
        let block = page.block("docker-archive:")?;
        images.push(&block).await?;
        images.make_sandbox().await?;
        Ok(images)
    }

    /// One build at a time has the store: this waits for it.
    async fn push(&self, block: &str) -> Result<()> {
        let cache = cache()?;
        let block = block.replace("~/.cache/mooring", &cache.display().to_string());
        for _ in 0..5 {
            let mut command = Command::new("flock");
            command
                .arg(cache.join("image/lock"))
                .args(["bash", "-euo", "pipefail", "-c", &block])
                .current_dir(self.folder.path());
            match output_of(command).await {
                Err(error) if error.to_string().contains(NOT_SEALED) => {}
                outcome => return outcome.map(drop).context("run make image first"),
            }
        }
        bail!("buildah did not start in five attempts");
    }

    /// busybox alone, as `docker save` writes images.
    async fn make_sandbox(&self) -> Result<()> {
        let folder = self.folder.join("busybox");
        fs::create_dir_all(folder.join("root/bin"))?;
        fs::copy("/bin/busybox", folder.join("root/bin/busybox"))
            .context("reading /bin/busybox")?;
        let shell = |commands: &str| {
            let mut command = Command::new("bash");
            command
                .args(["-euo", "pipefail", "-c", commands])
                .current_dir(&folder);
            output_of(command)
        };
        let tar = "tar --owner=0 --group=0 --directory=root --create --file=layer.tar .";
        let sum = shell(&format!("{tar}; sha256sum layer.tar | cut -d' ' -f1")).await?;
        let config = json!({
            "architecture": std::env::consts::ARCH.replace("x86_64", "amd64").replace("aarch64", "arm64"),
            "os": "linux",
            "config": { "Cmd": ["/bin/busybox", "sleep", "infinity"] },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sum.trim())] },
        });
        let manifest = json!([
            { "Config": "config.json", "RepoTags": [SANDBOX], "Layers": ["layer.tar"] }
        ]);
        fs::write(folder.join("config.json"), config.to_string())?;
        fs::write(folder.join("manifest.json"), manifest.to_string())?;
        shell("tar --create --file=../busybox.tar manifest.json config.json layer.tar").await?;
        Ok(())
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Imports them on a machine, Mooring's with the command of the page.
    pub(super) async fn import(&self, page: &Page, machine: &Machine) -> Result<()> {
        let mut commands = format!("cd {ON_MACHINES}\n");
        let import = page.command("images import mooring-$program.tar")?;
        let of_busybox = import.replace("mooring-$program", "busybox");
        commands += &format!("for program in central node; do\n{import}\ndone\n{of_busybox}\n");
        for program in ["central", "node"] {
            let name = format!("{REGISTRY}/mooring-{program}");
            let (version, next) = (self.version, NEXT_TAG);
            commands +=
                &format!("ctr --namespace k8s.io images tag {name}:{version} {name}:{next}\n");
        }
        machine.run(&commands).await.map(drop)
    }
}

fn cache() -> Result<PathBuf> {
    if let Some(cache) = std::env::var_os("MOORING_CACHE") {
        return Ok(cache.into());
    }
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let base = base
        .or_else(home)
        .context("neither HOME nor XDG_CACHE_HOME is set")?;
    Ok(base.join("mooring"))
}
