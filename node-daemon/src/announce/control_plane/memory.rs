//! What a control-plane node remembers across restarts and reboots: whose votes count.
//!
//! It is on disk before anything follows from it.

use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::protocol::members::Remembered;

/// The file's name in the folder.
const NAME: &str = "control-plane.json";
/// The version of what is in it.
const VERSION: u32 = 1;

/// Why what is remembered cannot be used. To go on without it could give the address two speakers.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// It cannot be read.
    #[error("cannot read {}; it must be a file that this process may read", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It makes no sense.
    #[error(
        "{} makes no sense; remove it, and this node votes again once most of the others are heard",
        path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// It is of another version.
    #[error("{} is of version {version}; go back to the version of Mooring that wrote it", path.display())]
    Version {
        /// Which.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// It is of another address.
    #[error(
        "{} is of {remembered:?}, and the control plane file of {wanted:?}; the first address may change only while no \
         node announces it: stop all of them, remove this file on each, and begin with revision 1",
        path.display()
    )]
    OtherSegment {
        /// Which.
        path: PathBuf,
        /// What it is of.
        remembered: String,
        /// What the control plane file is of.
        wanted: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    segment: String,
    remembered: Remembered,
}

/// Where a node remembers.
#[derive(Clone, Debug)]
pub struct Memory {
    folder: PathBuf,
    segment: String,
}

impl Memory {
    /// In this folder, of this segment.
    #[must_use]
    pub fn new(folder: &Path, segment: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            segment: segment.to_owned(),
        }
    }

    /// Reads what was written last; nothing, where nothing was.
    ///
    /// # Errors
    /// [`MemoryError`]: something was, and cannot be gone by.
    pub fn read(&self) -> Result<Remembered, MemoryError> {
        let path = self.folder.join(NAME);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Remembered::default());
            }
            Err(source) => return Err(MemoryError::Unreadable { path, source }),
        };
        let stored: Stored = match serde_json::from_slice(&text) {
            Ok(stored) => stored,
            Err(source) => return Err(MemoryError::Damaged { path, source }),
        };
        if stored.version != VERSION {
            let version = stored.version;
            return Err(MemoryError::Version { path, version });
        }
        if stored.segment != self.segment {
            return Err(MemoryError::OtherSegment {
                path,
                remembered: stored.segment,
                wanted: self.segment.clone(),
            });
        }
        Ok(stored.remembered)
    }

    /// Replaces what is remembered. Once it returns, a power cut does not undo it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, remembered: &Remembered) -> io::Result<()> {
        let stored = Stored {
            version: VERSION,
            segment: self.segment.clone(),
            remembered: remembered.clone(),
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let draft = self.folder.join(format!(".{NAME}"));
        let mut file = std::fs::File::create(&draft)?;
        file.write_all(&serde_json::to_vec(&stored)?)?;
        file.sync_all()?;
        std::fs::rename(draft, self.folder.join(NAME))?;
        std::fs::File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{NodeId, VoterSet};

    fn remembered() -> Remembered {
        let set = |generation, nodes: &[&str]| VoterSet {
            generation,
            voters: nodes.iter().map(|name| NodeId::of(name)).collect(),
            primary: None,
        };
        Remembered {
            served: set(3, &["cp1", "cp2"]),
            accepted: Some(set(4, &["cp1", "cp2", "cp3"])),
        }
    }

    #[test]
    fn reads_back_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(&folder.path().join("new"), "control-plane/192.0.2.100");
        assert_eq!(memory.read().unwrap(), Remembered::default());
        memory.write(&remembered()).unwrap();
        assert_eq!(memory.read().unwrap(), remembered());
    }

    #[test]
    fn never_takes_fault_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let memory = Memory::new(folder.path(), "control-plane/192.0.2.100");
        memory.write(&remembered()).unwrap();
        let other = Memory::new(folder.path(), "control-plane/192.0.2.101");
        assert!(matches!(
            other.read(),
            Err(MemoryError::OtherSegment { .. })
        ));
        let path = folder.path().join(NAME);
        std::fs::write(&path, "{\"version\":").unwrap();
        assert!(matches!(memory.read(), Err(MemoryError::Damaged { .. })));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(memory.read(), Err(MemoryError::Unreadable { .. })));
    }
}
