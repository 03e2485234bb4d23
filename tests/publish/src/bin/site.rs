//! Builds the pages as a site with the mdBook that `MDBOOK` names; `docs/site.sh` calls it.

use std::path::Path;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mdbook = std::env::var_os("MDBOOK").context("MDBOOK is not set")?;
    mooring_publish::site::build(Path::new("."), Path::new(&mdbook))
}
