//! Reads the control plane file, and keeps it fresh.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mooring_common::control_plane::{ControlPlaneFile, InvalidControlPlane, parse};
use tokio::sync::watch;

/// How often it is looked at for a change.
const POLL: Duration = Duration::from_secs(2);

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the control plane file {}; name it with --file", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has faults.
    #[error("{}: {invalid}", path.display())]
    Invalid {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        invalid: InvalidControlPlane,
    },
    /// Something has changed in it that needs another process.
    #[error("{}: {what} cannot change while this process runs; restart it", path.display())]
    Fixed {
        /// Which.
        path: PathBuf,
        /// What has changed.
        what: &'static str,
    },
}

/// Reads it.
///
/// # Errors
/// [`FileError`], which names everything that is wrong.
pub fn read(path: &Path) -> Result<ControlPlaneFile, FileError> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path()).map_err(|source| FileError::Unreadable {
        path: path(),
        source,
    })?;
    parse(&text).map_err(|invalid| FileError::Invalid {
        path: path(),
        invalid,
    })
}

/// Keeps `file` as it is on disk, for as long as the future is polled. What cannot be used is logged once,
/// and the last one stays: `fault` says why.
pub async fn follow(
    path: PathBuf,
    file: watch::Sender<Arc<ControlPlaneFile>>,
    fault: watch::Sender<Option<String>>,
) {
    loop {
        tokio::time::sleep(POLL).await;
        let read = read(&path).and_then(|now| unfixed(&path, &file.borrow(), now));
        match read {
            Ok(now) => {
                fault.send_if_modified(|known| known.take().is_some());
                file.send_if_modified(|known| {
                    let changed = **known != now;
                    if changed {
                        tracing::info!(
                            revision = now.revision,
                            "the control plane file has changed"
                        );
                        *known = Arc::new(now);
                    }
                    changed
                });
            }
            Err(error) => {
                let text = error.to_string();
                fault.send_if_modified(|known| {
                    let is_new = known.as_ref() != Some(&text);
                    if is_new {
                        tracing::warn!("{text}; going on with the last one");
                        *known = Some(text);
                    }
                    is_new
                });
            }
        }
    }
}

/// The file, unless something has changed in it that the process was started with.
fn unfixed(
    path: &Path,
    before: &ControlPlaneFile,
    now: ControlPlaneFile,
) -> Result<ControlPlaneFile, FileError> {
    let fixed = [
        ("the first of addresses", before.segment() != now.segment()),
        ("heartbeatPort", before.heartbeat_port != now.heartbeat_port),
        ("keyFile", before.key_file != now.key_file),
        ("port", before.port != now.port),
        ("probe", before.probe != now.probe),
    ];
    match fixed.into_iter().find(|(_, changed)| *changed) {
        Some((what, _)) => Err(FileError::Fixed {
            path: path.to_owned(),
            what,
        }),
        None => Ok(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "{version: 1, revision: 1, addresses: [192.0.2.100], interface: eth0, \
        members: [{name: cp1, address: 192.0.2.11}], keyFile: /k}";

    #[test]
    fn names_file_and_faults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control-plane.yaml");
        assert!(read(&path).unwrap_err().to_string().contains("cannot read"));
        std::fs::write(&path, "{version: 1}").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(
            error.contains("control-plane.yaml") && error.contains("revision"),
            "{error}"
        );
        std::fs::write(&path, FILE).unwrap();
        assert_eq!(read(&path).unwrap().revision, 1);
    }

    #[test]
    fn address_does_not_change_while_it_is_announced() {
        let before = parse(FILE).unwrap();
        let path = Path::new("/f");
        let mut now = before.clone();
        now.revision = 2;
        assert!(unfixed(path, &before, now.clone()).is_ok());
        now.addresses = vec!["192.0.2.101".parse().unwrap()];
        assert!(unfixed(path, &before, now).is_err());
    }
}
