//! The folder with what outlives the process (`--state-dir`): what is known of segments and of health.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where a Node's daemon keeps what outlives it: several daemons may run on one machine, each in
/// a network namespace of its own.
#[must_use]
pub fn folder(state_dir: &Path, node: &str) -> PathBuf {
    let namespace = std::fs::metadata("/proc/self/ns/net").map_or(0, |meta| meta.ino());
    // Names of Nodes are DNS names, so that they are names of files as well.
    let node = node.replace('/', "_");
    state_dir.join(format!("{node}.{namespace}"))
}

/// Makes the folder, which nobody else may look into.
///
/// # Errors
/// If it cannot be made.
fn make_folder(folder: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

/// Replaces a file in the folder as a whole: a reader finds either the old or the new one.
///
/// # Errors
/// If it cannot be written.
pub fn replace(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    make_folder(folder)?;
    let draft = folder.join(format!(".{name}"));
    let mut file = std::fs::File::create(&draft)?;
    file.write_all(content)?;
    drop(file);
    std::fs::rename(draft, folder.join(name))
}
