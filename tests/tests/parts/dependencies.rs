//! `make deny`: licences, duplicates and sources of dependencies are as `deny.toml` permits, by what
//! `cargo tree` tells without the network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct Policy {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Krate>,
    skip: Vec<Krate>,
}

/// A crate, and the beginning of its version; without one, each version of it.
#[derive(Deserialize)]
struct Krate {
    name: String,
    #[serde(default)]
    version: String,
}

/// A package as `cargo tree` tells of it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
    /// Where it is from, unless it is of the registry.
    elsewhere: Option<String>,
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn policy() -> Policy {
    let text = std::fs::read_to_string(workspace().join("deny.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

/// What is built for any of the targets, tests included.
fn packages(policy: &Policy) -> BTreeSet<Package> {
    let mut all = BTreeSet::new();
    for target in &policy.graph.targets {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--workspace", "--locked", "--prefix=none"])
            .args(["--format={p}|{l}", "--target", target])
            .current_dir(workspace())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().filter(|line| !line.is_empty());
        all.extend(lines.map(package));
    }
    all
}

/// Reads `name v1.2.3 (proc-macro) (/where/it/is)|licence (*)`.
fn package(line: &str) -> Package {
    let (package, license) = line.split_once('|').expect("a line of this form");
    let mut words = package.split(' ').filter(|word| *word != "(proc-macro)");
    let (name, version) = (words.next().unwrap(), words.next().unwrap());
    Package {
        name: name.to_owned(),
        version: version.trim_start_matches('v').to_owned(),
        license: license.trim_end_matches(" (*)").to_owned(),
        elsewhere: words.next().map(str::to_owned),
    }
}

impl Krate {
    fn is(&self, package: &Package) -> bool {
        let rest = package.version.strip_prefix(&self.version);
        let whole =
            |rest: &str| self.version.is_empty() || rest.is_empty() || rest.starts_with('.');
        self.name == package.name && rest.is_some_and(whole)
    }
}

/// A licence expression of SPDX, or of the older form with a slash for "or", as it is read.
struct Expression<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
    allowed: &'a BTreeSet<String>,
    /// Licences that are allowed and named.
    used: BTreeSet<String>,
}

impl<'a> Expression<'a> {
    /// Whether it permits use under allowed licences alone, and which of them it names.
    fn holds(text: &str, allowed: &BTreeSet<String>) -> (bool, BTreeSet<String>) {
        let text = text.replace('/', " OR ");
        let text = text.replace('(', " ( ").replace(')', " ) ");
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.into_iter().peekable();
        let used = BTreeSet::new();
        let mut expression = Expression {
            words,
            allowed,
            used,
        };
        let holds = expression.any();
        assert_eq!(expression.words.next(), None, "not understood: {text}");
        (holds, expression.used)
    }

    fn any(&mut self) -> bool {
        let mut holds = self.all();
        while self.words.next_if_eq(&"OR").is_some() {
            holds |= self.all();
        }
        holds
    }

    fn all(&mut self) -> bool {
        let mut holds = self.one();
        while self.words.next_if_eq(&"AND").is_some() {
            holds &= self.one();
        }
        holds
    }

    fn one(&mut self) -> bool {
        if self.words.next_if_eq(&"(").is_some() {
            let holds = self.any();
            assert_eq!(self.words.next(), Some(")"), "a bracket is not closed");
            return holds;
        }
        let mut name = self.words.next().unwrap_or_default().to_owned();
        if self.words.next_if_eq(&"WITH").is_some() {
            name = format!("{name} WITH {}", self.words.next().unwrap_or_default());
        }
        let allowed = self.allowed.contains(&name);
        if allowed {
            self.used.insert(name);
        }
        allowed
    }
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let allowed =
        BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned));
    for (text, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("GPL-3.0 OR MIT AND ISC", true),
        ("(GPL-3.0 OR MIT) AND BSL-1.0", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("Apache-2.0", false),
        ("", false),
    ] {
        assert_eq!(Expression::holds(text, &allowed).0, expected, "{text}");
    }
}

#[test]
fn every_licence_is_allowed_and_every_allowed_one_is_needed() {
    let policy = policy();
    let (mut refused, mut used) = (Vec::new(), BTreeSet::new());
    for package in packages(&policy) {
        let (holds, names) = Expression::holds(&package.license, &policy.licenses.allow);
        used.extend(names);
        if !holds {
            refused.push(format!(
                "{} {}: {}",
                package.name, package.version, package.license
            ));
        }
    }
    assert!(refused.is_empty(), "not allowed by deny.toml: {refused:#?}");
    assert_eq!(
        used, policy.licenses.allow,
        "an allowed licence that nothing uses"
    );
}

#[test]
fn no_crate_is_there_twice_or_banned() {
    let policy = policy();
    let (mut banned, mut versions) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    let mut skips: Vec<&Krate> = policy.bans.skip.iter().collect();
    for package in packages(&policy) {
        if policy.bans.deny.iter().any(|krate| krate.is(&package)) {
            banned.push(package.name.clone());
        }
        if policy.bans.skip.iter().any(|krate| krate.is(&package)) {
            skips.retain(|krate| !krate.is(&package));
        } else {
            versions
                .entry(package.name)
                .or_default()
                .push(package.version);
        }
    }
    assert!(banned.is_empty(), "banned by deny.toml: {banned:?}");
    versions.retain(|_, versions| versions.len() > 1);
    assert!(versions.is_empty(), "several versions: {versions:#?}");
    let skips: Vec<&str> = skips.iter().map(|krate| krate.name.as_str()).collect();
    assert!(
        skips.is_empty(),
        "skipped in deny.toml, but not there: {skips:?}"
    );
}

#[test]
fn every_crate_is_of_the_registry_or_our_own() {
    let here = format!("({}/", workspace().canonicalize().unwrap().display());
    let mut foreign = Vec::new();
    for package in packages(&policy()) {
        let elsewhere = package.elsewhere.unwrap_or_default();
        if !elsewhere.is_empty() && !elsewhere.starts_with(&here) {
            foreign.push(format!("{} of {elsewhere}", package.name));
        }
    }
    assert!(foreign.is_empty(), "{foreign:#?}");
}

#[test]
fn every_dependency_names_its_version() {
    let text = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&text).unwrap();
    let named = manifest["workspace"]["dependencies"].as_table().unwrap();
    for (name, wish) in named {
        let version = wish.get("version").unwrap_or(wish).as_str();
        assert_ne!(version, Some("*"), "{name}");
    }
}
