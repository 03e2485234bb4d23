//! What must be installed for the lab.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Programs and the Debian packages that have them.
const NEEDED: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("bridge", "iproute2"),
    ("nft", "nftables"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
];

/// Checks that the programs of the lab are there; otherwise says in one line what to install.
pub fn check_packages() -> Result<()> {
    let folders = search_path();
    let is_there =
        |name: &str| env::split_paths(&folders).any(|folder| folder.join(name).is_file());
    let mut missing: Vec<&str> = NEEDED
        .into_iter()
        .filter(|(name, _)| !is_there(name))
        .map(|(_, package)| package)
        .collect();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "missing packages: {0}; run tests/install-packages.sh as an administrator once (or: apt-get install {0})",
        missing.join(" ")
    )
}

/// `PATH` with the folders of administrators' programs, which ordinary users often lack.
pub fn search_path() -> OsString {
    let own = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&own).collect();
    for folder in ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(Path::new) {
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
    }
    env::join_paths(folders).unwrap_or(own)
}
