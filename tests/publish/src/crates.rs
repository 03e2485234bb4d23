//! The crates that the published programs are made of, as cargo resolves them for a release.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The programs that are published.
pub const PROGRAMS: [&str; 3] = ["kubectl-mooring", "mooring-central", "mooring-node"];

/// For what they are built.
pub const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// A crate at one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Krate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// Where its source is.
    pub folder: PathBuf,
    /// The licence file that its manifest names.
    pub licence_file: Option<PathBuf>,
    /// The SHA-256 of what the registry has; Mooring's own crates have none.
    pub checksum: Option<String>,
}

impl Krate {
    /// Whether it is Mooring's own.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.checksum.is_none()
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    license_file: Option<PathBuf>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

type Id = (String, String);

/// The crates of each program, itself among them.
pub fn of_programs(workspace: &Path) -> Result<BTreeMap<&'static str, BTreeSet<Krate>>> {
    let known = known(workspace)?;
    let mut programs = BTreeMap::<_, BTreeSet<Krate>>::new();
    for target in TARGETS {
        let tree = tree(workspace, target)?;
        for program in PROGRAMS {
            let start = tree.keys().find(|(name, _)| name == program);
            let mut left = vec![start.with_context(|| format!("no crate {program}"))?];
            let mut seen = BTreeSet::new();
            while let Some(id) = left.pop() {
                if seen.insert(id) {
                    left.extend(tree.get(id).into_iter().flatten());
                }
            }
            let crates = seen.into_iter().map(|id| {
                let found = known.get(id).cloned();
                found.with_context(|| format!("cargo metadata has no {} {}", id.0, id.1))
            });
            let crates = crates.collect::<Result<BTreeSet<_>>>()?;
            programs.entry(program).or_default().extend(crates);
        }
    }
    Ok(programs)
}

fn cargo(workspace: &Path, arguments: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(workspace)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "cargo {}: {errors}",
        arguments.join(" ")
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// What each crate of the build depends on, without what only builds or tests it.
fn tree(workspace: &Path, target: &str) -> Result<BTreeMap<Id, BTreeSet<Id>>> {
    let mut arguments = vec!["tree", "--locked", "--edges=normal", "--prefix=depth"];
    arguments.extend(["--format={p}", "--target", target]);
    arguments.extend(PROGRAMS.iter().flat_map(|program| ["--package", program]));
    read_tree(&cargo(workspace, &arguments)?)
}

/// Reads lines such as `2serde v1.0.0 (*)`; what follows with a greater number, it depends on.
fn read_tree(text: &str) -> Result<BTreeMap<Id, BTreeSet<Id>>> {
    let mut tree = BTreeMap::<Id, BTreeSet<Id>>::new();
    let mut above: Vec<Id> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let name = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let depth: usize = line[..line.len() - name.len()].parse()?;
        let mut words = name.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            anyhow::bail!("not a line of a tree: {line}");
        };
        let id = (name.to_owned(), version.trim_start_matches('v').to_owned());
        above.truncate(depth);
        if let Some(parent) = above.last() {
            tree.entry(parent.clone()).or_default().insert(id.clone());
        }
        tree.entry(id.clone()).or_default();
        above.push(id);
    }
    Ok(tree)
}

/// All crates of the lock file that have been fetched.
fn known(workspace: &Path) -> Result<BTreeMap<Id, Krate>> {
    let mut arguments = vec!["metadata", "--locked", "--format-version=1"];
    arguments.extend(
        TARGETS
            .iter()
            .flat_map(|target| ["--filter-platform", target]),
    );
    let metadata: Metadata = serde_json::from_str(&cargo(workspace, &arguments)?)?;
    let lock = std::fs::read_to_string(workspace.join("Cargo.lock"))?;
    let lock: Lock = toml::from_str(&lock)?;
    let mut checksums: BTreeMap<Id, Option<String>> = lock
        .package
        .into_iter()
        .map(|locked| ((locked.name, locked.version), locked.checksum))
        .collect();
    let crates = metadata.packages.into_iter().map(|package| {
        let id = (package.name.clone(), package.version.clone());
        let krate = Krate {
            name: package.name,
            version: package.version,
            // The older form has a slash for "or".
            licence: package.license.unwrap_or_default().replace('/', " OR "),
            folder: package.manifest_path.parent().unwrap_or(workspace).into(),
            licence_file: package.license_file,
            checksum: checksums.remove(&id).flatten(),
        };
        (id, krate)
    });
    Ok(crates.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_with_what_it_tells_only_once() {
        let text = "0ours v0.1.0 (/here)\n1a v1.0.0\n2b v2.0.0 (proc-macro)\n1c v3.0.0\n2a v1.0.0 (*)\n\n0other v0.1.0\n1c v3.0.0 (*)\n";
        let tree = read_tree(text).unwrap();
        let names = |name: &str| {
            let (_, under) = tree.iter().find(|(id, _)| id.0 == name).unwrap();
            under.iter().map(|id| id.0.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names("ours"), ["a", "c"]);
        assert_eq!(names("a"), ["b"]);
        assert_eq!(names("c"), ["a"]);
        assert_eq!(names("other"), ["c"]);
    }
}
