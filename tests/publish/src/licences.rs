//! The licence texts of what is published: of every crate, from its own files, and of the system's packages
//! that have files in the images.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::crates::Krate;

/// What begins the name of a file with a licence, or with what a licence asks to be kept.
const BEGINNINGS: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// All texts as one file: each text once, below the names of those that it is of.
pub fn third_party(
    crates: &BTreeSet<Krate>,
    others: &BTreeMap<String, Vec<PathBuf>>,
    apache: &Path,
) -> Result<String> {
    let mut names_of = BTreeMap::<String, BTreeSet<String>>::new();
    let mut contents = String::new();
    for krate in crates.iter().filter(|krate| !krate.is_ours()) {
        let name = format!("{} {}", krate.name, krate.version);
        writeln!(contents, "* {name}: {}", krate.licence)?;
        for text in texts(krate, apache)? {
            names_of.entry(text).or_default().insert(name.clone());
        }
    }
    for (name, files) in others {
        writeln!(contents, "* {name}")?;
        for file in files {
            let text = read(file)?;
            names_of.entry(text).or_default().insert(name.clone());
        }
    }
    let mut whole = format!(
        "Mooring is licensed under the Apache License 2.0. Its programs and images contain the\n\
         following, under their own licences. The texts are below, each once.\n\n{contents}"
    );
    let mut by_names: Vec<_> = names_of.iter().map(|(text, names)| (names, text)).collect();
    by_names.sort();
    for (names, text) in by_names {
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        write!(
            whole,
            "\n{:=<80}\n{}\n{:-<80}\n\n{text}\n",
            "",
            names.join(", "),
            ""
        )?;
    }
    Ok(whole)
}

/// The texts of a crate. One without any that is offered under the Apache License too is used under that.
fn texts(krate: &Krate, apache: &Path) -> Result<Vec<String>> {
    let mut files = licence_files(&krate.folder)?;
    files.extend(
        krate
            .licence_file
            .iter()
            .map(|file| krate.folder.join(file)),
    );
    if files.is_empty() {
        if !krate.licence.split(' ').any(|word| word == "Apache-2.0") {
            bail!(
                "{} {} ({}) has no file with its licence; add the text, or replace the crate",
                krate.name,
                krate.version,
                krate.licence
            );
        }
        files.push(apache.into());
    }
    files.sort();
    files.dedup();
    files.iter().map(|file| read(file)).collect()
}

/// Files of a folder whose names say that they are licences.
pub fn licence_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let names_one = BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning));
        if names_one && path.is_file() && !name.ends_with(".rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A text without what only its file has: ends of lines, spaces behind them.
fn read(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    Ok(lines.join("\n").trim_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn krate(name: &str, licence: &str, folder: &Path) -> Krate {
        Krate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.to_owned(),
            folder: folder.to_owned(),
            licence_file: None,
            checksum: Some(String::new()),
        }
    }

    #[test]
    fn each_text_is_there_once_below_all_that_have_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("LICENSE-MIT"), "Permission is\r\n").unwrap();
        let crates = [
            krate("a", "MIT", folder.path()),
            krate("b", "MIT", folder.path()),
        ];
        let whole = third_party(&crates.into(), &BTreeMap::new(), Path::new("/none")).unwrap();
        assert_eq!(whole.matches("Permission is").count(), 1, "{whole}");
        assert!(whole.contains("a 1.0.0, b 1.0.0"), "{whole}");
    }

    #[test]
    fn a_crate_without_a_text_is_refused_unless_it_is_apaches() {
        let folder = tempfile::tempdir().unwrap();
        let apache = folder.path().join("apache");
        fs::write(&apache, "Apache").unwrap();
        let empty = tempfile::tempdir().unwrap();
        let tried = |licence: &str| {
            let crates = [krate("a", licence, empty.path())];
            third_party(&crates.into(), &BTreeMap::new(), &apache)
        };
        let error = tried("MIT").unwrap_err().to_string();
        assert!(error.contains("a 1.0.0 (MIT)"), "{error}");
        assert!(tried("MIT OR Apache-2.0").unwrap().contains("\nApache\n"));
    }
}
