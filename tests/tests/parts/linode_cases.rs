//! The acceptance cases of the drop-in replacement for Linode's Go controller, each with the tests that show it:
//! `linode_cases.md`. It is checked that there are such tests. What they show, they say themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const CASES: &str = include_str!("linode_cases.md");

/// The names of all functions in the files of a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1);
            let names = names.filter_map(|rest| rest.split_once("()"));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

#[test]
fn each_case_of_linodes_go_controller_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut known = BTreeSet::new();
    for folder in ["central/src", "tests/tests"] {
        functions(&root.join(folder), &mut known);
    }
    let rows = CASES.lines().filter_map(|line| line.strip_prefix("| "));
    let rows = rows.filter_map(|row| row.split_once(" | "));
    let rows: Vec<_> = rows.filter(|(case, _)| *case != "Case").collect();
    for (case, tests) in &rows {
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{case} has no test");
        for test in named {
            assert!(known.contains(test), "{case}: there is no test {test}");
        }
    }
    assert!(!rows.is_empty());
}
