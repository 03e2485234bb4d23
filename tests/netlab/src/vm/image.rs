//! The kernel of the VM and what it starts from.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

/// The folder with `vmlinux`, `initrd` and `lib/modules`: made by `tests/vm/build.sh`, once.
pub(super) fn image() -> Result<&'static Path> {
    static IMAGE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    IMAGE
        .get_or_init(|| build().map_err(|error| format!("{error:#}")))
        .as_ref()
        .map(PathBuf::as_path)
        .map_err(|error| anyhow!("{error}"))
}

fn build() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vm/build.sh");
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed, see above", script.display());
    }
    let text = String::from_utf8(output.stdout)?;
    let folder = text.lines().last().context("the script named no folder")?;
    Ok(folder.into())
}
