//! Writes the files of a release; `deploy/release.sh` calls it, and has built the programs before.

use std::path::PathBuf;

use anyhow::{Context, Result};
use mooring_publish::published;
use mooring_publish::release::Release;

fn main() -> Result<()> {
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let workspace = PathBuf::from(variable("WORKSPACE")?);
    let version = variable("VERSION")?;
    let release = Release {
        programs: workspace.join("target/release-programs"),
        folder: workspace.join("target/release-artifacts").join(&version),
        architectures: variable("ARCHES")?
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        version,
        commit: variable("COMMIT")?,
        second: variable("SOURCE_DATE_EPOCH")?.parse()?,
        registry: published::registry(&workspace)?,
        source: variable("RELEASE_SOURCE")?,
        builder: variable("RELEASE_BUILDER")?,
        helm: variable("HELM")?.into(),
        workspace,
    };
    release.write()
}
