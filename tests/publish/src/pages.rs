//! The pages of the repository as chapters, and the links of built ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

/// Texts by their path in the repository.
pub type Pages = BTreeMap<PathBuf, String>;

/// Folders of pages, and what the table of contents calls them.
const PARTS: [(&str, &str); 4] = [
    ("docs/tutorial", "Tutorial"),
    ("docs/how-to", "How to"),
    ("docs/reference", "Reference"),
    ("docs/explanation", "Explanation"),
];

/// Pages outside of them, of which the first is what the site opens with.
pub const OTHERS: [&str; 5] = [
    "README.md",
    "SECURITY.md",
    "RELEASE_NOTES.md",
    "CONTRIBUTING.md",
    "deploy/README.md",
];

/// The table of contents: the pages of each folder by their titles, and below a folder's own page what is in it.
#[must_use]
pub fn summary(pages: &Pages) -> String {
    let mut summary = format!("# Summary\n\n[Mooring]({})\n", OTHERS[0]);
    for (folder, title) in PARTS {
        let _ = write!(summary, "\n# {title}\n\n");
        chapters(pages, Path::new(folder), 0, &mut summary);
    }
    let _ = write!(summary, "\n# Project\n\n");
    for path in &OTHERS[1..] {
        if let Some(text) = pages.get(Path::new(path)) {
            let _ = writeln!(summary, "* [{}]({path})", title(text));
        }
    }
    summary
}

fn chapters(pages: &Pages, folder: &Path, depth: usize, summary: &mut String) {
    // A folder below this one has its place by its own page.
    let mut here: Vec<_> = pages
        .iter()
        .filter(|(path, _)| {
            let own = path.ends_with("README.md");
            let parent = path.parent();
            let place = if own {
                parent.and_then(Path::parent)
            } else {
                parent
            };
            place == Some(folder)
        })
        .map(|(path, text)| (title(text), path))
        .collect();
    here.sort();
    for (title, path) in here {
        let indent = "    ".repeat(depth);
        let _ = writeln!(summary, "{indent}* [{title}]({})", path.display());
        if path.ends_with("README.md") {
            chapters(pages, path.parent().unwrap_or(folder), depth + 1, summary);
        }
    }
}

/// The first heading of a page.
fn title(text: &str) -> &str {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or("A page without a heading")
}

/// Where links of a page lead that stay in the repository, without anchors.
pub fn links(text: &str) -> impl Iterator<Item = &str> {
    let outside = text.split("```").step_by(2);
    let links = outside.flat_map(|text| text.split("](").skip(1));
    let links = links.filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
    let links = links.map(|link| link.split_once('#').map_or(link, |(file, _)| file));
    links.filter(|link| {
        !link.is_empty() && !link.contains(':') && !link.contains(char::is_whitespace)
    })
}

/// The path to which a link leads from a page, without `..`.
#[must_use]
pub fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// What is wrong with the links of built pages, which are given by their paths; `exists` knows other files.
pub fn broken(pages: &Pages, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let anchors: BTreeMap<_, BTreeSet<_>> = pages
        .iter()
        .map(|(path, text)| (path, attributes(text, "id").collect()))
        .collect();
    let mut broken = Vec::new();
    for (page, text) in pages {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if link.contains(':') || link.starts_with("//") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                resolve(page, file)
            };
            let found = match anchors.get(&target) {
                Some(known) => anchor.is_empty() || known.contains(anchor),
                None => exists(&target),
            };
            if !found {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    broken
}

/// The values of an attribute.
fn attributes<'a>(html: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    html.match_indices(name).filter_map(move |(at, _)| {
        let rest = html[at + name.len()..].strip_prefix("=\"")?;
        let begins = html[..at].ends_with(char::is_whitespace);
        let value = rest.split_once('"').map(|(value, _)| value);
        value.filter(|_| begins)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pages: &[(&str, &str)]) -> Pages {
        pages
            .iter()
            .map(|(path, text)| (path.into(), (*text).to_owned()))
            .collect()
    }

    #[test]
    fn every_page_is_in_the_table_of_contents_and_below_its_folders() {
        let pages = pages(&[
            ("README.md", "# M"),
            ("docs/how-to/b.md", "# Another"),
            ("docs/how-to/a.md", "# Zoo"),
            ("docs/how-to/alerts/README.md", "# Alerts"),
            ("docs/how-to/alerts/x.md", "# X"),
        ]);
        let expected = "# How to\n\n* [Alerts](docs/how-to/alerts/README.md)\n    \
            * [X](docs/how-to/alerts/x.md)\n* [Another](docs/how-to/b.md)\n* [Zoo](docs/how-to/a.md)\n";
        let summary = summary(&pages);
        assert!(summary.contains(expected), "{summary}");
    }

    #[test]
    fn a_link_leads_to_a_file_and_an_anchor_that_are_there() {
        let pages = pages(&[
            (
                "index.html",
                r#"<a href="a/b.html#one">1</a><a href="a/b.html#two">2</a><img src="x.svg">"#,
            ),
            (
                "a/b.html",
                r##"<h1 id="one"></h1><a href="../index.html">1</a><a href="../c.html">2</a><a href="#no">"##,
            ),
        ]);
        let broken = broken(&pages, |path| path == Path::new("x.svg"));
        assert_eq!(
            broken,
            [
                "a/b.html: ../c.html",
                "a/b.html: #no",
                "index.html: a/b.html#two"
            ]
        );
    }
}
