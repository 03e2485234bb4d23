//! Where releases are published: `deploy/published-at` is the only place that decides.

use std::ops::Range;
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

/// Where a text names a registry and path before an image or chart of a release.
#[must_use]
pub fn places(text: &str) -> Vec<Range<usize>> {
    let names_host = |c: char| c.is_ascii_alphanumeric() || ".-_/:".contains(c);
    let mut places = Vec::new();
    for name in ["/mooring-central:", "/mooring-node:", "/mooring"] {
        for (end, _) in text.match_indices(name) {
            let start = text[..end].rfind(|c| !names_host(c)).map_or(0, |at| at + 1);
            let scheme = text[start..end]
                .find("://")
                .map_or(0, |at| at + "://".len());
            let place = start + scheme..end;
            let is_chart = name == "/mooring" && text[start..].starts_with("oci://");
            let is_image = name.ends_with(':')
                && text[place.clone()].contains('.')
                && !text[place.clone()].starts_with(['/', '.'])
                && text[end + name.len()..].starts_with(|c: char| c.is_ascii_digit() || c == '$');
            if is_chart || is_image {
                places.push(place);
            }
        }
    }
    places.sort_by_key(|place| place.start);
    places
}

#[cfg(test)]
mod tests;
