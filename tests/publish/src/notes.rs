//! The notes of one release, out of `RELEASE_NOTES.md`.

use anyhow::{Context, Result, ensure};

/// The section of that version, with its heading.
pub fn section(notes: &str, version: &str) -> Result<String> {
    let starts = |line: &str| {
        let heading = line.strip_prefix("## ");
        heading.is_some_and(|rest| rest.split(' ').next() == Some(version))
    };
    let mut lines = notes.lines().skip_while(|line| !starts(line));
    let heading = lines
        .next()
        .with_context(|| format!("RELEASE_NOTES.md has no section '## {version}'"))?;
    let body: Vec<_> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let body = body.join("\n");
    ensure!(
        !body.trim().is_empty(),
        "the section '## {version}' of RELEASE_NOTES.md is empty"
    );
    Ok(format!("{heading}\n\n{}\n", body.trim()))
}

/// Whether the version's section says that it is not released yet.
#[must_use]
pub fn is_unreleased(section: &str) -> bool {
    let heading = section.lines().next();
    heading.is_some_and(|heading| heading.contains("unreleased"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTES: &str = "# Notes\n\n## 0.2.0 (unreleased)\n\n* new\n\n## 0.1.0\n\n* old\n* two\n";

    #[test]
    fn only_that_versions_section_is_taken() {
        let section_2 = section(NOTES, "0.2.0").unwrap();
        assert_eq!(section_2, "## 0.2.0 (unreleased)\n\n* new\n");
        assert!(is_unreleased(&section_2));
        let section_1 = section(NOTES, "0.1.0").unwrap();
        assert_eq!(section_1, "## 0.1.0\n\n* old\n* two\n");
        assert!(!is_unreleased(&section_1));
        assert!(section(NOTES, "0.1").is_err());
    }
}
