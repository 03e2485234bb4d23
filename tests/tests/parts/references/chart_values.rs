//! The comments of the chart's values are where its values are described: the schema and the page have them from
//! there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{check, check_file, path_of};

const VALUES: &str = "deploy/chart/mooring/values.yaml";
const SCHEMA: &str = "deploy/chart/mooring/values.schema.json";

fn read(name: &str) -> String {
    std::fs::read_to_string(path_of(name)).unwrap()
}

/// Keys that a file is indented below, with how far.
#[derive(Default)]
struct Place(Vec<(usize, String)>);

impl Place {
    /// The path of a key that begins a line so far in.
    fn enter(&mut self, indent: usize, key: &str) -> String {
        self.0.retain(|(outer, _)| *outer < indent);
        self.0.push((indent, key.to_owned()));
        let keys = self.0.iter().map(|(_, key)| key.as_str());
        keys.filter(|key| *key != "properties")
            .collect::<Vec<_>>()
            .join(".")
    }
}

/// Each value with the comment before it, in the order of the file. Examples at its end are left out.
fn comments(values: &str) -> Vec<(String, String)> {
    let (mut found, mut place, mut comment) = (Vec::new(), Place::default(), Vec::new());
    for line in values.lines() {
        let text = line.trim_start();
        if let Some(text) = text.strip_prefix('#') {
            if !text.starts_with("   ") {
                comment.push(text.trim());
            }
            continue;
        }
        let key = text.split_once(':').map(|(key, _)| key);
        if let Some(key) = key.filter(|key| key.chars().all(char::is_alphabetic)) {
            let path = place.enter(line.len() - text.len(), key);
            let mut comment = comment.join(" ");
            if comment.ends_with(':') {
                comment.pop();
                comment.push('.');
            }
            found.push((path, comment));
        }
        comment.clear();
    }
    found
}

/// The schema with each description as the comments have it. Each value has a line of its own there, and its
/// description stands on that or on the next.
fn described(schema: &str, comments: &BTreeMap<String, String>) -> String {
    let (mut place, mut path) = (Place::default(), String::new());
    let lines = schema.lines().map(|line| {
        let text = line.trim_start();
        if let Some((key, _)) = text
            .strip_prefix('"')
            .and_then(|text| text.split_once("\": {"))
        {
            path = place.enter(line.len() - text.len(), key);
        }
        let parts = line
            .split_once(r#""description": ""#)
            .zip(comments.get(&path));
        let Some(((before, rest), comment)) = parts else {
            return line.to_owned();
        };
        let escaped = rest
            .char_indices()
            .find(|(at, c)| *c == '"' && !rest[..*at].ends_with('\\'));
        let after = &rest[escaped.expect("the end of a description").0 + 1..];
        format!(
            r#"{before}"description": {}{after}"#,
            Value::from(comment.as_str())
        )
    });
    lines.fold(String::new(), |all, line| all + &line + "\n")
}

/// What the schema has for a value.
fn of_schema<'a>(schema: &'a Value, path: &str) -> &'a Value {
    path.split('.')
        .fold(schema, |schema, key| &schema["properties"][key])
}

#[test]
fn values_of_the_chart() {
    let values = read(VALUES);
    let comments = comments(&values);
    check_file(
        SCHEMA,
        &described(&read(SCHEMA), &comments.iter().cloned().collect()),
    );
    let schema: Value = serde_json::from_str(&read(SCHEMA)).unwrap();
    let defaults: Value = serde_norway::from_str(&values).unwrap();
    let mut page = String::from(
        "# Values of the chart\n\nThe comments of `deploy/chart/mooring/values.yaml`, which has examples besides. \
         A value that is not here is refused.\n",
    );
    let mut group = None;
    for (path, comment) in &comments {
        let of_schema = of_schema(&schema, path);
        if of_schema.get("description").is_none() {
            // Inside of a default, such as that of a security context.
            let (outer, _) = path
                .rsplit_once('.')
                .expect("a top-level value without a description");
            assert!(comment.is_empty(), "{path} has no description in {SCHEMA}");
            assert!(comments.iter().any(|(path, _)| path == outer), "{path}");
            continue;
        }
        assert!(!comment.is_empty(), "{path} has no comment in {VALUES}");
        assert_eq!(
            of_schema["description"],
            comment.as_str(),
            "{path} in {SCHEMA}"
        );
        let default = defaults
            .pointer(&format!("/{}", path.replace('.', "/")))
            .unwrap();
        let has_parts = of_schema["properties"]
            .as_object()
            .is_some_and(|parts| parts.values().any(|part| part.get("description").is_some()));
        let (top, _) = path.split_once('.').unwrap_or((path, ""));
        if has_parts && path == top {
            write!(
                page,
                "\n## `{top}`\n\n{}\n\n| Value | Default | |\n|---|---|---|\n",
                cell(comment)
            )
            .unwrap();
            group = Some(top.to_owned());
            continue;
        }
        if group.as_deref() != Some(top) && !path.contains('.') && group.as_deref() != Some("") {
            page.push_str("\n## General\n\n| Value | Default | |\n|---|---|---|\n");
            group = Some(String::new());
        }
        let default = if has_parts {
            String::new()
        } else {
            format!("`{default}`")
        };
        writeln!(
            page,
            "| `{path}` | {} | {} |",
            cell(&default),
            cell(comment)
        )
        .unwrap();
    }
    check("values.md", &page);
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// The pages of a folder and of those in it.
pub fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The values of a program of the chart that a page names in backticks, without what they are set to.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let spans = page
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let spans = spans.filter(|span| {
        let program = span.split_once('.').map(|(program, _)| program);
        program.is_some_and(|program| ["central", "nodeDaemon"].contains(&program))
    });
    spans.map(|span| {
        let end = span.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        span[..end.unwrap_or(span.len())].trim_end_matches('.')
    })
}

/// Whether the chart has a value. What has no parts of its own in the schema is as Kubernetes has it.
pub fn is_value(schema: &Value, path: &str) -> bool {
    let mut place = schema;
    for key in path.split('.') {
        let Some(parts) = place["properties"].as_object() else {
            return true;
        };
        match parts.get(key) {
            Some(part) => place = part,
            None => return false,
        }
    }
    true
}

#[test]
fn every_value_that_a_page_names_is_in_the_schema() {
    let schema: Value = serde_json::from_str(&read(SCHEMA)).unwrap();
    let mut all = vec![path_of("README.md")];
    pages(&path_of("docs"), &mut all);
    let (mut count, mut unknown) = (0, Vec::new());
    for page in all {
        let text = std::fs::read_to_string(&page).unwrap();
        for path in named(&text) {
            count += 1;
            if !is_value(&schema, path) {
                unknown.push(format!("{}: {path}", page.display()));
            }
        }
    }
    assert!(count > 100, "{count}");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(!is_value(&schema, "central.hostnetwork"));
    assert!(is_value(&schema, "central.resources.limits"));
}

#[test]
fn comments_are_found_with_their_paths() {
    let values =
        "# A:\n#    an example\na: 1\n\n# B,\n# long.\nb:\n  # C.\n  c: x\n# Lost.\n\nd: []\n";
    let expected = [("a", "A."), ("b", "B, long."), ("b.c", "C."), ("d", "")];
    let expected = expected.map(|(path, comment)| (path.to_owned(), comment.to_owned()));
    assert_eq!(comments(values), expected);
}
