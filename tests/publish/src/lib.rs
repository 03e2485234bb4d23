//! What is published: the files of a release (`make release`), and the pages as a site (`make site`).
//!
//! ```text
//! bin/release ─ release ─┬─ image ─┬─ dockerfile    what an image starts, as whom
//!                        │         └─ archive       tar and gzip whose bytes follow from their content
//!                        ├─ sbom, licences ─ crates what the programs are made of
//!                        └─ notes, provenance, published
//! bin/site    ─ site ─── pages                      the table of contents, links of the built pages
//! ```

pub mod archive;
pub mod crates;
pub mod dockerfile;
pub mod image;
pub mod licences;
pub mod notes;
pub mod pages;
pub mod provenance;
pub mod published;
pub mod release;
pub mod sbom;
pub mod site;
