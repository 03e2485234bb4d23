//! The pages as a site: laid out as they are in the repository, so that their links stay, then built by mdBook.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::archive::{Entry, read_folder};
use crate::pages::{self, OTHERS, Pages};

/// Builds the site in `target/site`, and checks each link of it.
pub fn build(workspace: &Path, mdbook: &Path) -> Result<()> {
    let (book, site) = (
        workspace.join("target/site-source"),
        workspace.join("target/site"),
    );
    for folder in [&book, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    lay_out(workspace, &book)?;
    let status = Command::new(mdbook)
        .arg("build")
        .arg("--dest-dir")
        .arg(&site)
        .arg(&book)
        .status();
    let status = status.with_context(|| format!("running {}", mdbook.display()))?;
    ensure!(status.success(), "mdBook failed: {status}");
    let built = built_pages(&site)?;
    let broken = pages::broken(&built, |path| site.join(path).is_file());
    ensure!(
        broken.is_empty(),
        "links of the site that lead nowhere:\n{}",
        broken.join("\n")
    );
    println!("site: {} pages, all links lead somewhere", built.len());
    Ok(())
}

/// The pages of the repository that the site has.
pub fn source_pages(workspace: &Path) -> Result<Pages> {
    let mut found = Pages::new();
    for (path, entry) in read_folder(&workspace.join("docs"))? {
        if let Entry::File(bytes) = entry
            && path.extension().is_some_and(|ending| ending == "md")
        {
            found.insert(Path::new("docs").join(path), String::from_utf8(bytes)?);
        }
    }
    for path in OTHERS {
        found.insert(path.into(), fs::read_to_string(workspace.join(path))?);
    }
    Ok(found)
}

/// Writes pages, what else they link to, and the table of contents.
fn lay_out(workspace: &Path, book: &Path) -> Result<()> {
    let sources = source_pages(workspace)?;
    let put = |path: PathBuf, bytes: &[u8]| -> Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(book))?;
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
    };
    let source = book.join("src");
    for (path, text) in &sources {
        // A folder's own page is its index there.
        let linked = text.replace("README.md)", "index.md)");
        let linked = linked.replace("README.md#", "index.md#");
        put(source.join(path), linked.as_bytes())?;
        for link in pages::links(text) {
            let target = pages::resolve(path, link);
            let file = workspace.join(&target);
            if !sources.contains_key(&target) && file.is_file() {
                put(source.join(&target), &fs::read(file)?)?;
            }
        }
    }
    put(
        source.join("SUMMARY.md"),
        pages::summary(&sources).as_bytes(),
    )?;
    put(
        book.join("book.toml"),
        &fs::read(workspace.join("docs/book.toml"))?,
    )
}

/// The chapters that mdBook has written.
fn built_pages(site: &Path) -> Result<Pages> {
    let mut found = Pages::new();
    for (path, entry) in read_folder(site)? {
        // Both are frames around what the pages have, and lie elsewhere than their links suppose.
        let frame = path == Path::new("404.html") || path == Path::new("toc.html");
        if let Entry::File(bytes) = entry
            && path.extension().is_some_and(|ending| ending == "html")
            && !frame
        {
            found.insert(path, String::from_utf8(bytes)?);
        }
    }
    Ok(found)
}
