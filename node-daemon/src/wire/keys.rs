//! The secrets that heartbeats are signed with.
//!
//! They come from a file or a folder (a Secret that is mounted), and are replaced while the daemon
//! runs: a new one is put in front, and once all daemons have it they sign with it; then the old one
//! can be taken away. Where all of them are replaced at once, the old ones still count for some minutes.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mooring_common::errors::with_causes;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::protocol::{Heartbeat, KeyId};

/// For how long secrets still count that all at once are not in the file any more. The kubelet takes
/// up to two minutes to show a change to each Pod.
const REPLACED_COUNT: Duration = Duration::from_secs(300);
/// For how long nothing is said of first secrets that are not there yet: on a new installation central
/// makes them, and the kubelet takes up to two minutes to show them.
const FIRST_AWAITED: Duration = Duration::from_secs(180);
/// How often the file is looked at for a change.
const POLL: Duration = Duration::from_secs(5);
/// The shortest secret that is taken, in bytes.
const SHORTEST: usize = 16;
/// What is larger than this is not a file of secrets.
const LARGEST_FILE: u64 = 64 * 1024;

/// How many bytes of an HMAC a message bears.
pub const TAG_LENGTH: usize = 16;

/// Why secrets cannot be read. No secret is ever named in it.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file or folder cannot be read.
    #[error("--heartbeat-key-file: cannot read {}; it must be a file or a folder that this process may read", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is too large.
    #[error("--heartbeat-key-file: {} is larger than {LARGEST_FILE} bytes; write one secret a line", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// A secret can be guessed.
    #[error(
        "--heartbeat-key-file: the secret in line {line} of {} has {length} bytes; write at least \
         {SHORTEST}, for example what `openssl rand -hex 32` prints", path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The length in bytes.
        length: usize,
    },
    /// There is none.
    #[error(
        "--heartbeat-key-file: there is no secret in {}; write at least one", path.display()
    )]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// There are too many.
    #[error(
        "--heartbeat-key-file: there are {count} secrets in {}; keep at most {}, the newest",
        path.display(),
        Heartbeat::MOST_SECRETS
    )]
    TooMany {
        /// Which.
        path: PathBuf,
        /// How many.
        count: usize,
    },
}

impl KeysError {
    /// Whether there is no secret, rather than one that cannot be used.
    #[must_use]
    pub fn is_none_there(&self) -> bool {
        match self {
            Self::Empty { .. } => true,
            Self::Unreadable { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::TooLarge { .. } | Self::Short { .. } | Self::TooMany { .. } => false,
        }
    }
}

/// One secret.
#[derive(Clone)]
pub struct Secret {
    id: KeyId,
    bytes: Arc<[u8]>,
    /// Made ready once: a key takes as long as half a message. There always is one, for a key of any
    /// length is taken.
    keyed: Option<Hmac<Sha256>>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.id.0)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Secret {}

impl Secret {
    /// A secret of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(bytes));
        Self {
            id: KeyId(u32::from_be_bytes([a, b, c, d])),
            bytes: bytes.into(),
            keyed: Hmac::new_from_slice(bytes).ok(),
        }
    }

    /// What names it on the wire.
    #[must_use]
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// Signs a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; TAG_LENGTH] {
        let mut tag = [0; TAG_LENGTH];
        let full = self.mac(message).map(|mac| mac.finalize().into_bytes());
        for (to, from) in tag.iter_mut().zip(full.iter().flatten()) {
            *to = *from;
        }
        tag
    }

    /// Whether a message was signed with this secret. It takes as long for a wrong tag as for the
    /// right one.
    #[must_use]
    pub fn verifies(&self, message: &[u8], tag: &[u8; TAG_LENGTH]) -> bool {
        self.mac(message)
            .is_some_and(|mac| mac.verify_truncated_left(tag).is_ok())
    }

    fn mac(&self, message: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = self.keyed.clone()?;
        mac.update(message);
        Some(mac)
    }
}

/// The secrets that are held, newest first. Without any, messages are neither signed nor verified, and
/// a daemon takes part in segments only if it is told that it may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRing(Vec<Secret>);

impl KeyRing {
    /// These secrets, newest first.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = Secret>) -> Self {
        Self(secrets.into_iter().collect())
    }

    /// Reads a file with one secret a line, the newest first; or a folder of such files, of which the
    /// last by name comes first. What begins with a dot in a folder is left out.
    ///
    /// # Errors
    /// [`KeysError`]: it cannot be read, or a secret is short, or there is none.
    pub fn read(path: &Path) -> Result<Self, KeysError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| KeysError::Unreadable { path, source }
        };
        let mut secrets: Vec<Secret> = Vec::new();
        for file in files(path).map_err(unreadable(path))? {
            let size = std::fs::metadata(&file).map_err(unreadable(&file))?.len();
            if size > LARGEST_FILE {
                return Err(KeysError::TooLarge { path: file });
            }
            let content = std::fs::read(&file).map_err(unreadable(&file))?;
            for (line, secret) in content.split(|byte| *byte == b'\n').enumerate() {
                let secret = secret.trim_ascii();
                if secret.is_empty() {
                    continue;
                }
                if secret.len() < SHORTEST {
                    return Err(KeysError::Short {
                        path: file,
                        line: line + 1,
                        length: secret.len(),
                    });
                }
                let secret = Secret::new(secret);
                if !secrets.contains(&secret) {
                    secrets.push(secret);
                }
            }
        }
        match secrets.len() {
            0 => Err(KeysError::Empty {
                path: path.to_owned(),
            }),
            count if count > Heartbeat::MOST_SECRETS => Err(KeysError::TooMany {
                path: path.to_owned(),
                count,
            }),
            _ => Ok(Self(secrets)),
        }
    }

    /// Whether nothing is signed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these take the place of others, and none of those is kept.
    fn replaces(&self, others: &Self) -> bool {
        !others.is_empty() && !self.0.iter().any(|secret| others.0.contains(secret))
    }

    /// These, and others that are older, as far as there is room.
    fn and(&self, older: &Self) -> Self {
        let all = self.0.iter().chain(&older.0);
        Self::new(all.take(Heartbeat::MOST_SECRETS).cloned())
    }

    /// What names the secrets, newest first.
    #[must_use]
    pub fn ids(&self) -> Vec<KeyId> {
        self.0.iter().map(Secret::id).collect()
    }

    /// The secrets of this name.
    pub fn named(&self, id: KeyId) -> impl Iterator<Item = &Secret> {
        self.0.iter().filter(move |secret| secret.id == id)
    }

    /// The secret to sign with, as the others accept these: the newest of those that most of them
    /// have, which is the newest that all have if there is one.
    pub fn signing<'a>(&self, others: impl IntoIterator<Item = &'a [KeyId]>) -> Option<&Secret> {
        let mut accepted: BTreeMap<KeyId, usize> = BTreeMap::new();
        for other in others {
            for id in other {
                *accepted.entry(*id).or_default() += 1;
            }
        }
        let count = |secret: &&Secret| accepted.get(&secret.id).copied().unwrap_or(0);
        // Of equals the last is taken, so the newest comes last.
        self.0.iter().rev().max_by_key(count)
    }
}

/// The files to read, the newest first.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && std::fs::metadata(entry.path())?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    files.reverse();
    Ok(files)
}

/// What is logged of secrets that cannot be read. Nothing as long as the first ones may still come.
fn complaint(error: &KeysError, held: &KeyRing, waited: Duration) -> Option<&'static str> {
    match held.is_empty() {
        true if !error.is_none_there() => Some("the heartbeat secrets cannot be used"),
        true if waited < FIRST_AWAITED => None,
        true => Some("there is still no secret to sign heartbeats with"),
        false => Some("the heartbeat secrets stay as they were"),
    }
}

/// Keeps `ring` as the file has it, for as long as the future is polled. What cannot be read is
/// logged, and the last secrets stand. So do, for `REPLACED_COUNT`, secrets of which the file has
/// none any more: other daemons see the change up to two minutes earlier or later.
pub async fn follow(path: PathBuf, ring: Arc<ArcSwap<KeyRing>>) {
    let mut fault = None;
    let mut in_file = KeyRing::clone(&ring.load());
    let mut replaced: Option<(KeyRing, Instant)> = None;
    let start = Instant::now();
    loop {
        tokio::time::sleep(POLL).await;
        let from = path.clone();
        let read = tokio::task::spawn_blocking(move || KeyRing::read(&from)).await;
        match read {
            Ok(Ok(now)) => {
                fault = None;
                if now.replaces(&in_file) {
                    let before = std::mem::replace(&mut in_file, now);
                    replaced = Some((before, Instant::now() + REPLACED_COUNT));
                } else if now != in_file {
                    in_file = now;
                    replaced = None;
                }
                replaced = replaced.filter(|(_, until)| Instant::now() < *until);
                let wanted = match &replaced {
                    Some((before, _)) => in_file.and(before),
                    None => in_file.clone(),
                };
                if **ring.load() != wanted {
                    tracing::info!(
                        secrets = wanted.0.len(),
                        "the heartbeat secrets have changed"
                    );
                    ring.store(Arc::new(wanted));
                }
            }
            Ok(Err(error)) => {
                let complaint = complaint(&error, &in_file, start.elapsed());
                let text = error.to_string();
                if let Some(complaint) = complaint
                    && fault.as_ref() != Some(&text)
                {
                    let error = with_causes(&error);
                    tracing::warn!(error, "{complaint}");
                    fault = Some(text);
                }
            }
            Err(error) => tracing::error!(%error, "reading the heartbeat secrets has failed"),
        }
    }
}

#[cfg(test)]
mod tests;
