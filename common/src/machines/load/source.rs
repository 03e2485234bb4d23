//! The file on disk: whether it has changed, and what is in it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::LoadError;

/// More than the largest ConfigMap by far; who points at a device or a disk image has erred.
const LARGEST: u64 = 8 << 20;

/// What changes whenever the file does. It is that of the file which symbolic links lead to: a
/// mounted ConfigMap is changed by turning a link to another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What was read.
pub(super) struct Content {
    pub(super) fingerprint: Fingerprint,
    pub(super) text: String,
    /// Tells contents apart.
    pub(super) hash: u64,
}

/// The file's state, without reading it.
pub(super) async fn fingerprint(path: &Path) -> Result<Fingerprint, LoadError> {
    blocking(path, fingerprint_of).await
}

/// The whole file. Whoever needs to know that it has not changed while it was read compares the
/// fingerprint, taken before, with one taken afterwards.
pub(super) async fn read(path: &Path) -> Result<Content, LoadError> {
    let (fingerprint, text) =
        blocking(path, |path| Ok((fingerprint_of(path)?, text_of(path)?))).await?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Ok(Content {
        fingerprint,
        text,
        hash: hasher.finish(),
    })
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path) -> Result<T, Error> + Send + 'static,
) -> Result<T, LoadError> {
    let owned = path.to_owned();
    tokio::task::spawn_blocking(move || work(&owned))
        .await
        .unwrap_or_else(|panic| Err(Error::other(panic)))
        .map_err(|reason| LoadError::Read {
            path: path.to_owned(),
            reason,
        })
}

fn fingerprint_of(path: &Path) -> Result<Fingerprint, Error> {
    let data = path.metadata()?;
    Ok(Fingerprint {
        file: (data.dev(), data.ino()),
        length: data.len(),
        modified: (data.mtime(), data.mtime_nsec()),
        changed: (data.ctime(), data.ctime_nsec()),
    })
}

fn text_of(path: &Path) -> Result<String, Error> {
    // Asked before it is opened, since opening a pipe would wait for whoever writes to it.
    if !path.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LARGEST) {
        let reason = format!("it is larger than {} MiB", LARGEST >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, reason));
    }
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}
