//! What can be seen of a release without building one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::*;
use crate::archive::{Entry, read_folder};
use crate::{crates, licences, notes, site};

fn workspace() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::canonicalize(root).unwrap()
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

#[test]
fn images_and_charts_are_found_in_texts() {
    let text = "x localhost/mooring-node:1 \"*=a.example/b/mooring-central:0.1.0\" /usr/bin/mooring-node: \
        oci://c.example/mooring --version target/mooring-node docker://d.example/mooring-node:1";
    let found = places(text).into_iter().map(|range| &text[range]);
    assert_eq!(
        found.collect::<Vec<_>>(),
        ["a.example/b", "c.example", "d.example"]
    );
}

/// The pages name images where `deploy/published-at` says. `make references` writes it into them.
#[test]
fn the_pages_say_where_it_is_published() {
    let registry = registry(&workspace()).unwrap();
    let mut other = Vec::new();
    for (path, text) in site::source_pages(&workspace()).unwrap() {
        let mut written = text.clone();
        for place in places(&text).into_iter().rev() {
            if text[place.clone()] != registry {
                other.push(format!("{}: {}", path.display(), &text[place.clone()]));
                written.replace_range(place, &registry);
            }
        }
        if std::env::var_os("WRITE_REFERENCES").is_some() {
            fs::write(workspace().join(path), written).unwrap();
        }
    }
    if std::env::var_os("WRITE_REFERENCES").is_none() {
        assert!(
            other.is_empty(),
            "{FILE} says {registry}: make references\n{}",
            other.join("\n")
        );
    }
}

#[test]
fn this_version_has_release_notes_and_the_chart_has_this_version() {
    let read = |name: &str| fs::read_to_string(workspace().join(name)).unwrap();
    notes::section(&read("RELEASE_NOTES.md"), version()).unwrap();
    let chart = read("deploy/chart/mooring/Chart.yaml");
    for line in [
        format!("version: {}", version()),
        format!("appVersion: {}", version()),
    ] {
        assert!(
            chart.lines().any(|there| there == line),
            "Chart.yaml has no line '{line}'"
        );
    }
}

#[test]
fn every_crate_of_the_programs_comes_with_its_licence() {
    let programs = crates::of_programs(&workspace()).unwrap();
    assert_eq!(
        programs.keys().copied().collect::<Vec<_>>(),
        crates::PROGRAMS
    );
    for (program, crates) in &programs {
        let has = |name: &str| crates.iter().any(|krate| krate.name == name);
        assert!(has("kube") && has("mooring-common"), "{program}");
        // What only tests stand on is not published.
        assert!(!has("stateright") && !has("proptest"), "{program}");
    }
    let all = programs.into_values().flatten().collect();
    let whole =
        licences::third_party(&all, &BTreeMap::new(), &workspace().join("LICENSE")).unwrap();
    assert!(whole.contains("Permission is hereby granted"));
    assert!(!whole.contains(env!("CARGO_MANIFEST_DIR")));
}

/// A tag of an action can be moved, the hash of a commit cannot.
#[test]
fn every_action_of_the_workflows_is_named_by_its_commit() {
    let (mut seen, mut loose) = (0, Vec::new());
    for entry in fs::read_dir(workspace().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let line = line.trim_start().trim_start_matches("- ");
            let Some(action) = line.strip_prefix("uses: ") else {
                continue;
            };
            seen += 1;
            if !is_pinned(action) {
                loose.push(format!("{}: {action}", path.display()));
            }
        }
    }
    assert!(seen > 10, "only {seen} actions were found");
    assert!(
        loose.is_empty(),
        "not `owner/name@<40 digits> # version`: {loose:#?}"
    );
}

fn is_pinned(action: &str) -> bool {
    let Some((_, rest)) = action.split_once('@') else {
        return false;
    };
    let Some((commit, version)) = rest.split_once(" # v") else {
        return false;
    };
    let digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    commit.len() == 40
        && commit.chars().all(digit)
        && version.starts_with(|c: char| c.is_ascii_digit())
}

#[test]
fn a_tag_is_no_commit() {
    assert!(is_pinned(
        "a/b@0057852bfaa89a56745cba8c7296529d2fc39830 # v4.3.0"
    ));
    for loose in [
        "a/b@v4",
        "a/b",
        "a/b@0057852 # v4",
        "a/b@0057852bfaa89a56745cba8c7296529d2fc39830",
    ] {
        assert!(!is_pinned(loose), "{loose}");
    }
}

/// Each page is a chapter, and has a title that the table of contents can show.
#[test]
fn every_page_is_a_chapter_of_the_site() {
    let pages = site::source_pages(&workspace()).unwrap();
    let summary = crate::pages::summary(&pages);
    for (path, text) in &pages {
        let entry = format!("({})", path.display());
        assert_eq!(summary.matches(&entry).count(), 1, "{}", path.display());
        assert!(
            text.starts_with("# "),
            "{} does not begin with its title",
            path.display()
        );
    }
}

/// What an image contains is enough for its program, here this test, and nothing of it is a machine's own.
#[test]
fn a_program_runs_with_what_its_image_contains() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let status = Command::new(workspace().join("deploy/image-root.sh"))
        .args([
            "central".as_ref(),
            std::env::current_exe().unwrap().as_os_str(),
        ])
        .args(["cc".as_ref(), root.as_os_str()])
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let entries = read_folder(&root).unwrap();
    let files = entries.iter().filter(|(_, entry)| **entry != Entry::Folder);
    let paths: Vec<_> = files.map(|(path, _)| path.as_path()).collect();
    let named = |name: &str| {
        let found = paths
            .iter()
            .find(|path| path.to_string_lossy().contains(name));
        root.join(found.unwrap_or_else(|| panic!("no {name} in {paths:?}")))
    };
    let (loader, library) = (named("ld-linux"), named("libc.so.6"));
    for path in [
        "etc/passwd",
        "etc/group",
        "etc/nsswitch.conf",
        "etc/ssl/certs/ca-certificates.crt",
    ] {
        assert!(paths.contains(&Path::new(path)), "no {path} in {paths:?}");
    }
    for name in [
        "usr/bin/mooring-central",
        "usr/bin/cloudscale-cloud-controller-manager",
        "cloud-provider-phoenixnap",
    ] {
        let output = Command::new(&loader)
            .arg("--inhibit-cache")
            .arg("--library-path")
            .arg(library.parent().unwrap())
            .args([root.join(name).as_os_str(), "--list".as_ref()])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("a_program_runs"), "{name}: {told} {output:?}");
    }
}
