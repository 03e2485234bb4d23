//! Folders that are gone after the test, however the test ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::Builder;

/// Waits until its stdin closes, which happens when the test program ends for whatever reason,
/// then removes the folder. A server that is just being killed may still write: so it repeats.
const JANITOR: &str = r#"trap '' INT TERM HUP
while read -r _; do :; done
until rm -rf -- "$1"; do sleep 0.1; done"#;

/// Whether `KEEP=1` asks to leave things standing for a look.
pub fn keep() -> bool {
    std::env::var("KEEP").is_ok_and(|value| !value.is_empty() && value != "0")
}

/// A temporary folder. With `KEEP=1` it stays, and its path is printed.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    janitor: Option<Child>,
}

impl Scratch {
    /// Makes an empty folder whose name tells what it is for.
    pub fn new(purpose: &str) -> Result<Self> {
        let path = Builder::new()
            .prefix(&format!("mooring-{purpose}-"))
            .tempdir()
            .context("making a temporary folder")?
            .keep();
        let janitor = if keep() {
            eprintln!("KEEP: {purpose} leaves its files in {}", path.display());
            None
        } else {
            Some(hire_janitor(&path).context("starting sh to clean up later")?)
        };
        Ok(Self { path, janitor })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a file in the folder.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(janitor) = &mut self.janitor {
            drop(janitor.stdin.take());
            // It cannot fail in a way that anybody could mend here.
            let _ = janitor.wait();
        }
    }
}

// Not tied to this program's life like other children: its work begins when that ends.
fn hire_janitor(path: &Path) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", JANITOR, "janitor"])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
