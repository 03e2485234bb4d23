//! What the next process on this node has to know: to whom is passed on, and what the kernel was told.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::state::Forwarding;
use super::table::Table;
use crate::cluster::state_dir;

/// The file in the folder of `--state-dir`.
const NAME: &str = "connections.json";
/// Moments are of one run of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    boot_id: String,
    /// What the kernel has.
    pub written: Table,
    /// By segment.
    pub segments: BTreeMap<String, Forwarding>,
}

impl Saved {
    /// What is worth saving of this.
    #[must_use]
    pub fn of(written: &Table, segments: &BTreeMap<String, Forwarding>) -> Self {
        let segments = segments.iter();
        let segments = segments.filter(|(_, segment)| !segment.is_empty());
        Self {
            boot_id: boot_id(),
            written: written.clone(),
            segments: segments
                .map(|(name, segment)| (name.clone(), segment.clone()))
                .collect(),
        }
    }

    /// Whether there is nothing to go on with.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.segments.is_empty()
    }

    /// As it stands in the file.
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        // It has no maps whose keys are not texts, so it can be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads what a process before has saved since the machine was started.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let path = folder.join(NAME);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "saved connections cannot be read");
                return Self::default();
            }
        };
        match serde_json::from_slice::<Self>(&text) {
            Ok(saved) if saved.boot_id == boot_id() => saved,
            Ok(_) => Self::default(),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "saved connections make no sense");
                Self::default()
            }
        }
    }
}

/// Writes [`Saved::to_text`] to the file.
///
/// # Errors
/// If it cannot be written.
pub fn write(folder: &Path, text: &[u8]) -> io::Result<()> {
    state_dir::replace(folder, NAME, text)
}

fn boot_id() -> String {
    // Without it a reboot would go unnoticed: the clock shows less then, so that all ends in time or earlier.
    std::fs::read_to_string(BOOT_ID).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::state::Device;
    use super::*;
    use crate::protocol::mac::Mac;
    use crate::protocol::{Moment, NodeId};

    fn saved() -> Saved {
        let mac = Mac::new([2, 0, 0, 0, 0, 1]);
        let mut segment = Forwarding::default();
        let device = Device {
            name: "eth0".to_owned(),
            mac,
        };
        segment.configure(Some(device), Duration::from_secs(60));
        segment.set_members([(NodeId(7), mac)].into());
        let now = Moment(1);
        for address in ["192.0.2.10", "2001:db8::10"] {
            segment.prepare(address.parse().unwrap(), NodeId(7), now);
        }
        let written = Forwarding::table([&segment].into_iter(), now);
        let segments = [
            ("lan".to_owned(), segment),
            ("other".to_owned(), Forwarding::default()),
        ];
        Saved::of(&written, &segments.into())
    }

    #[test]
    fn reads_back_what_it_writes() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("n1");
        assert!(Saved::read(&folder).is_empty());
        write(&folder, &saved().to_text()).unwrap();
        let read = Saved::read(&folder);
        assert_eq!(read.written, saved().written);
        assert_eq!(read.written.groups[0].addresses.len(), 2);
        assert_eq!(read.segments.keys().collect::<Vec<_>>(), ["lan"]);
    }

    #[test]
    fn ignores_what_is_of_another_boot_or_corrupt() {
        let folder = tempfile::tempdir().unwrap();
        let mut other = saved();
        other.boot_id = "another".to_owned();
        write(folder.path(), &other.to_text()).unwrap();
        assert!(Saved::read(folder.path()).is_empty());
        std::fs::write(folder.path().join(NAME), "{\"written\":").unwrap();
        assert!(Saved::read(folder.path()).is_empty());
    }
}
