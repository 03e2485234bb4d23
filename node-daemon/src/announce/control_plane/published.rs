//! How the process does, for people and for the daemon of the DaemonSet on the same node: a file that it replaces when
//! something changes, and a lock that tells that it runs.
//!
//! Nothing that the process decides follows from it.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooring_common::l2_network::SpokenFor;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::cluster::state_dir;

/// The file's name in the folder.
const NAME: &str = "control-plane.json";
/// The name of the file that is locked while a process runs. The kernel takes the lock off a process that dies.
const LOCK: &str = "control-plane.lock";
/// The version of what is in the file. Another is not read.
const VERSION: u32 = 1;
/// The longest file that is read.
const LONGEST: u64 = 64 * 1024;

/// The part of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// The control plane file does not name it.
    #[default]
    Stranger,
    /// It votes, and may have the address.
    Member,
    /// It votes only.
    Witness,
}

/// How the process does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// The version of this form.
    pub version: u32,
    /// The name of the node.
    pub node: String,
    /// The addresses of the control plane, as the file has them.
    pub addresses: Vec<IpAddr>,
    /// The port of the API servers, as the file has it.
    pub port: u16,
    /// The revision of the file.
    pub file_revision: u64,
    /// The revision whose voters it serves; 0: none.
    pub served_revision: u64,
    /// The revision that it has accepted as the next.
    pub accepted_revision: Option<u64>,
    /// The voters that it serves.
    pub voters: Vec<String>,
    /// The part of the node.
    pub part: Part,
    /// Whether its API server is ready.
    pub ready: bool,
    /// The node that has the address, as far as this one hears.
    pub speaker: Option<String>,
    /// The addresses that it announces itself.
    pub announces: Vec<SpokenFor>,
    /// What is wrong, and what to do.
    pub fault: Option<String>,
}

impl Published {
    /// Of this node; everything else is to be filled in.
    #[must_use]
    pub fn of(node: &str) -> Self {
        Self {
            version: VERSION,
            node: node.to_owned(),
            ..Self::default()
        }
    }
}

/// What is found in the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// No process was ever here, or nothing of it can be read.
    #[default]
    Nothing,
    /// There was one, which has ended.
    Ended,
    /// One runs, and says this.
    Running(Arc<Published>),
}

/// Looks how the process does.
#[must_use]
pub fn read(folder: &Path) -> Found {
    match read_file(folder) {
        Ok(published) if published.version != VERSION => Found::Nothing,
        Ok(_) if !is_locked(folder) => Found::Ended,
        Ok(published) => Found::Running(Arc::new(published)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Nothing,
        Err(error) => {
            let folder = folder.display();
            tracing::debug!(%folder, %error, "what the control plane's process says cannot be read");
            Found::Nothing
        }
    }
}

fn read_file(folder: &Path) -> io::Result<Published> {
    let mut text = Vec::new();
    let file = File::open(folder.join(NAME))?;
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn is_locked(folder: &Path) -> bool {
    let Ok(file) = File::open(folder.join(LOCK)) else {
        return false;
    };
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Writes how the process does whenever that changes, for as long as the future is polled.
pub async fn keep(folder: PathBuf, mut states: watch::Receiver<Option<Arc<Published>>>) {
    let mut lock: Option<Arc<File>> = None;
    let mut fault: Option<String> = None;
    loop {
        let state = states.borrow_and_update().clone();
        if let Some(state) = state {
            let (into, held) = (folder.clone(), lock.clone());
            let written = tokio::task::spawn_blocking(move || write(&into, held, &state)).await;
            let told = match written {
                Ok(Ok(held)) => {
                    lock = Some(held);
                    None
                }
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if told != fault
                && let Some(error) = &told
            {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "cannot write how this node does, so that no L2Network shows it; let \
                    --status-dir be the host's /run/mooring, and writable");
            }
            fault = told;
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// Replaces the file. The lock is taken before the first one, and several processes may have it: one that goes on for
/// another runs beside it for a moment.
fn write(folder: &Path, held: Option<Arc<File>>, state: &Published) -> io::Result<Arc<File>> {
    let lock = match held {
        Some(lock) => lock,
        None => {
            std::fs::create_dir_all(folder)?;
            let mut options = File::options();
            let lock = options.create(true).truncate(false).write(true);
            let lock = lock.open(folder.join(LOCK))?;
            lock.lock_shared()?;
            Arc::new(lock)
        }
    };
    state_dir::replace(folder, NAME, &serde_json::to_vec_pretty(state)?)?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(revision: u64) -> Published {
        Published {
            addresses: vec!["192.0.2.100".parse().unwrap()],
            port: 6443,
            file_revision: revision,
            part: Part::Member,
            ..Published::of("cp1")
        }
    }

    #[test]
    fn reads_back_what_it_writes_for_as_long_as_the_process_runs() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        assert_eq!(read(&folder), Found::Nothing);
        let old = write(&folder, None, &state(1)).unwrap();
        assert_eq!(read(&folder), Found::Running(Arc::new(state(1))));
        let new = write(&folder, None, &state(2)).unwrap();
        drop(old);
        let read_twice = [read(&folder), read(&folder)];
        assert_eq!(read_twice[1], Found::Running(Arc::new(state(2))));
        assert_eq!(read_twice[0], read_twice[1], "a reader takes no lock away");
        drop(new);
        assert_eq!(read(&folder), Found::Ended);
    }

    #[test]
    fn takes_nothing_from_file_that_makes_no_sense() {
        let folder = tempfile::tempdir().unwrap();
        let _lock = write(folder.path(), None, &state(1)).unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, "{\"version\":").unwrap();
        assert_eq!(read(folder.path()), Found::Nothing);
        let text = serde_json::to_string(&state(1)).unwrap();
        std::fs::write(&path, text.replace("\"version\":1", "\"version\":2")).unwrap();
        assert_eq!(read(folder.path()), Found::Nothing);
        std::fs::write(&path, format!("{text}{}", " ".repeat(80_000))).unwrap();
        assert_ne!(
            read(folder.path()),
            Found::Nothing,
            "what is beyond is left"
        );
    }

    #[tokio::test]
    async fn keeps_the_file_as_it_was_told_last() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("run");
        std::fs::write(&folder, "").unwrap();
        assert!(
            write(&folder, None, &state(1)).is_err(),
            "that is no folder"
        );
        std::fs::remove_file(&folder).unwrap();
        let (sender, states) = watch::channel(None);
        let keeping = tokio::spawn(keep(folder.clone(), states));
        sender.send_replace(Some(Arc::new(state(2))));
        drop(sender);
        keeping.await.unwrap();
        assert_eq!(read_file(&folder).unwrap(), state(2));
        assert_eq!(read(&folder), Found::Ended, "the lock is gone with it");
    }
}
