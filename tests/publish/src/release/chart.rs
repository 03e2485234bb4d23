//! The chart and the plain manifests of a release, which name its images by their digests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Release;
use crate::archive::{Entry, gzip, read_folder, repack, tar};

/// Writes both archives.
pub(super) fn write(release: &Release, digests: &BTreeMap<&str, String>) -> Result<()> {
    let work = release.programs.join("chart");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let chart = work.join("mooring");
    copy(&release.workspace.join("deploy/chart/mooring"), &chart)?;
    let values = chart.join("values.yaml");
    let text = fs::read_to_string(&values)?;
    fs::write(&values, released_values(&text, &release.registry, digests)?)?;

    run(Command::new(&release.helm)
        .arg("package")
        .arg(&chart)
        .arg("--destination")
        .arg(&work))?;
    let name = format!("mooring-{}.tgz", release.version);
    let packed = fs::read(work.join(&name)).context("the chart's version is not the release's")?;
    release.put(&name, &repack(&packed, release.second)?)?;

    let manifests = work.join("manifests");
    fs::create_dir_all(&manifests)?;
    let render = release.workspace.join("deploy/render.sh");
    run(Command::new(render)
        .arg("--release")
        .arg(&chart)
        .arg(&manifests))?;
    let name = format!("mooring-manifests-{}.tar.gz", release.version);
    release.put(
        &name,
        &gzip(&tar(&read_folder(&manifests)?, release.second)?)?,
    )
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("running {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for (path, entry) in read_folder(from)? {
        let target = to.join(path);
        match entry {
            Entry::Folder => fs::create_dir_all(target)?,
            Entry::File(bytes) | Entry::Program(bytes) => fs::write(target, bytes)?,
            Entry::Link(_) => anyhow::bail!("{} is a link", target.display()),
        }
    }
    Ok(())
}

/// The chart's values, with the images of the release.
fn released_values(text: &str, registry: &str, digests: &BTreeMap<&str, String>) -> Result<String> {
    let mut text = text.to_owned();
    for (image, section) in [("central", "central"), ("node", "nodeDaemon")] {
        let name = format!("{registry}/mooring-{image}");
        text = set(&text, &["images", image], &name)?;
        let digest = digests.get(image).context("an image without a digest")?;
        text = set(&text, &[section, "image", "digest"], digest)?;
    }
    Ok(text)
}

/// The text of YAML with another value at a path. Comments and order stay.
fn set(text: &str, path: &[&str], value: &str) -> Result<String> {
    let (mut depth, mut done) = (0, false);
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let key = line.trim_start().split(':').next().unwrap_or_default();
        let is_entry = !key.is_empty() && !key.starts_with(['#', '-']);
        // A line further left ends the sections that it is not in.
        if is_entry && indent < depth * 2 {
            depth = indent / 2;
        }
        if !done && is_entry && indent == depth * 2 && path.get(depth) == Some(&key) {
            depth += 1;
            if depth == path.len() {
                done = true;
                lines.push(format!("{}{key}: {value}", " ".repeat(indent)));
                continue;
            }
        }
        lines.push(line.to_owned());
    }
    ensure!(done, "the chart has no value {}", path.join("."));
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_own_values_get_the_images_of_the_release() {
        let values = include_str!("../../../../deploy/chart/mooring/values.yaml");
        let digests = BTreeMap::from([
            ("central", "sha256:1".to_owned()),
            ("node", "sha256:2".to_owned()),
        ]);
        let released = released_values(values, "registry.example/a", &digests).unwrap();
        let changed: Vec<_> = values
            .lines()
            .zip(released.lines())
            .filter(|(before, after)| before != after)
            .map(|(_, after)| after)
            .collect();
        let expected = [
            "  central: registry.example/a/mooring-central",
            "  node: registry.example/a/mooring-node",
            "    digest: sha256:1",
            "    digest: sha256:2",
        ];
        assert_eq!(changed, expected);
    }

    #[test]
    fn a_value_is_found_only_at_its_whole_path() {
        let text = "a:\n  x: 1\n  # b: no\nb:\n  c:\n    x: 2\n  x: 3\n";
        let after = set(text, &["b", "x"], "4").unwrap();
        assert_eq!(after, text.replace("x: 3", "x: 4"));
        assert!(set(text, &["b", "y"], "4").is_err());
        assert!(set(text, &["c", "x"], "4").is_err());
    }
}
