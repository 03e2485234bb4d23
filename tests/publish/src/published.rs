//! Where releases are published: `deploy/published-at` is the only place that decides.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// The file that says it.
pub const FILE: &str = "deploy/published-at";

/// The registry and path below which the images and the chart are.
pub fn registry(workspace: &Path) -> Result<String> {
    let text =
        std::fs::read_to_string(workspace.join(FILE)).with_context(|| format!("reading {FILE}"))?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let registry = lines.next().unwrap_or_default().trim().to_owned();
    ensure!(
        !registry.is_empty() && !registry.ends_with('/') && !registry.contains("://"),
        "{FILE} names no registry, but '{registry}': a host and a path such as registry.example/mooring"
    );
    Ok(registry)
}
