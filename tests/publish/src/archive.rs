//! Archives whose bytes follow from the files in them: sorted, owned by root, with one time for all.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// What has one path in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Folder,
    /// A file that everybody may read.
    File(Vec<u8>),
    /// A file that everybody may run.
    Program(Vec<u8>),
    /// A symbolic link to a path.
    Link(PathBuf),
}

/// The entries of an archive by their paths.
pub type Entries = BTreeMap<PathBuf, Entry>;

/// Reads what is below a folder, with paths relative to it.
pub fn read_folder(root: &Path) -> Result<Entries> {
    let mut entries = Entries::new();
    read_into(root, Path::new(""), &mut entries)
        .with_context(|| format!("reading {}", root.display()))?;
    Ok(entries)
}

fn read_into(root: &Path, below: &Path, entries: &mut Entries) -> Result<()> {
    for item in fs::read_dir(root.join(below))? {
        let item = item?;
        let path = below.join(item.file_name());
        let kind = item.file_type()?;
        let entry = if kind.is_dir() {
            read_into(root, &path, entries)?;
            Entry::Folder
        } else if kind.is_symlink() {
            Entry::Link(fs::read_link(item.path())?)
        } else if item.metadata()?.permissions().mode() & 0o111 != 0 {
            Entry::Program(fs::read(item.path())?)
        } else {
            Entry::File(fs::read(item.path())?)
        };
        entries.insert(path, entry);
    }
    Ok(())
}

/// The entries as a tar archive; all were changed at that second.
pub fn tar(entries: &Entries, second: u64) -> Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in entries {
        let mut header = Header::new_gnu();
        header.set_mtime(second);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mode(0o755);
        match entry {
            Entry::Folder => {
                header.set_entry_type(EntryType::Directory);
                header.set_size(0);
                builder.append_data(&mut header, path, &[][..])?;
            }
            Entry::File(bytes) | Entry::Program(bytes) => {
                header.set_entry_type(EntryType::Regular);
                header.set_size(bytes.len() as u64);
                if matches!(entry, Entry::File(_)) {
                    header.set_mode(0o644);
                }
                builder.append_data(&mut header, path, &bytes[..])?;
            }
            Entry::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                header.set_mode(0o777);
                builder.append_link(&mut header, path, target)?;
            }
        }
    }
    Ok(builder.into_inner()?)
}

/// The bytes, compressed, without a name or a time.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// The bytes of a `.tar.gz`, packed anew.
pub fn repack(bytes: &[u8], second: u64) -> Result<Vec<u8>> {
    let mut entries = Entries::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    for item in archive.entries()? {
        let mut item = item?;
        let path = item.path()?.into_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut item, &mut content)?;
        let entry = match item.header().entry_type() {
            EntryType::Directory => Entry::Folder,
            EntryType::Regular => Entry::File(content),
            other => anyhow::bail!("{} is a {other:?}", path.display()),
        };
        entries.insert(path, entry);
    }
    gzip(&tar(&entries, second)?)
}

/// The SHA-256 of the bytes in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(folder.path().join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        folder
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let (one, other) = (folder(&["a", "b", "c"]), folder(&["c", "b", "a"]));
        let changed = fs::File::open(other.path().join("a")).unwrap();
        changed.set_modified(std::time::UNIX_EPOCH).unwrap();
        let pack = |folder: &tempfile::TempDir| {
            gzip(&tar(&read_folder(folder.path()).unwrap(), 1_700_000_000).unwrap()).unwrap()
        };
        assert_eq!(pack(&one), pack(&other));
        fs::write(other.path().join("a"), "other").unwrap();
        assert_ne!(pack(&one), pack(&other));
    }

    #[test]
    fn what_is_packed_anew_forgets_when_it_was_packed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "a").unwrap();
        let entries = read_folder(folder.path()).unwrap();
        let pack = |second| gzip(&tar(&entries, second).unwrap()).unwrap();
        assert_ne!(pack(1), pack(2));
        assert_eq!(repack(&pack(1), 3).unwrap(), repack(&pack(2), 3).unwrap());
    }
}
