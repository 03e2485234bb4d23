//! Links between the pages lead somewhere: to a file that is there, and to a heading in it. `make site` checks those of
//! the built pages, which needs mdBook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn links_between_pages_lead_somewhere() {
    let root = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let mut pages = BTreeMap::new();
    collect(&root, &mut pages);
    assert!(pages.len() > 50, "only {} pages were found", pages.len());
    let headings: BTreeMap<_, _> = pages
        .iter()
        .map(|(path, text)| (path, anchors(text)))
        .collect();
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for link in links(text) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => Ok(page.clone()),
                file => fs::canonicalize(page.with_file_name(file)),
            };
            let found = target.is_ok_and(|target| {
                let headings = headings.get(&target);
                // The site has no page for a folder.
                let has_anchor = || headings.is_none_or(|known| known.contains(anchor));
                target.is_file() && (anchor.is_empty() || has_anchor())
            });
            if !found {
                let page = page.strip_prefix(&root).unwrap_or(page);
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// All pages, without code blocks.
fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, pages);
            }
        } else if name.ends_with(".md") {
            let text = fs::read_to_string(&path).unwrap();
            let outside = text.split("```").step_by(2).collect();
            pages.insert(path, outside);
        }
    }
}

/// Where links inside of the repository lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1);
    let links = links.filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
    links.filter(|link| !link.contains(':') && !link.contains(char::is_whitespace))
}

/// The anchors that GitHub gives a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let mut often = BTreeMap::<String, usize>::new();
    let mut anchors = BTreeSet::new();
    for heading in headings {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.replace(' ', "-");
        let kept: String = kept
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect();
        let before = often.entry(kept.clone()).or_default();
        anchors.insert(match *before {
            0 => kept,
            number => format!("{kept}-{number}"),
        });
        *before += 1;
    }
    anchors
}
