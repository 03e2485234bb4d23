//! The token that a cloud is shown.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use reqwest::header::HeaderValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{CloudError, Environment};

/// How RFC 6750 sends a token.
const SCHEME: &str = "Bearer ";
/// No longer text of a cloud gets into a log or an error.
pub(super) const LONGEST_SHOWN: usize = 64 << 10;

/// A token as it is sent. Nothing shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(HeaderValue);

impl Secret {
    /// The token in this text, without the space around it. None: there is none, or it has
    /// characters that no token has.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
            return None;
        }
        let mut value = HeaderValue::from_str(&format!("{SCHEME}{text}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    /// This text without the token, in case that somebody repeats it. The longest texts are listings,
    /// which nobody shows.
    pub(crate) fn without(&self, text: Vec<u8>) -> Vec<u8> {
        let token = self.0.as_bytes().strip_prefix(SCHEME.as_bytes());
        let Some(token) = token.filter(|_| text.len() <= LONGEST_SHOWN) else {
            return text;
        };
        if !text.windows(token.len()).any(|part| part == token) {
            return text;
        }
        let token = String::from_utf8_lossy(token);
        let text = String::from_utf8_lossy(&text);
        text.replace(&*token, "***").into_bytes()
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// What is known of a token's age, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenTimes {
    /// When the file that it is from was last written.
    pub changed: Option<i64>,
    /// When it expires.
    pub expires: Option<i64>,
}

/// What gives the token for each request.
#[async_trait]
pub trait Tokens: Send + Sync + fmt::Debug {
    /// The token as of now.
    ///
    /// # Errors
    /// [`CloudError`] if there is none to be had.
    async fn current(&self) -> Result<Secret, CloudError>;

    /// Another token than this one, which was refused, if there is one by now.
    ///
    /// # Errors
    /// [`CloudError`] if there is none to be had.
    async fn instead_of(&self, refused: &Secret) -> Result<Option<Secret>, CloudError>;

    /// How many times the credentials of somebody else may have taken the place of the last ones.
    fn generation(&self) -> u64;

    /// Whether another token can come without a restart.
    fn may_change(&self) -> bool;

    /// What to do if the token is refused.
    fn remedy(&self) -> String;

    /// How old it is.
    fn times(&self) -> TokenTimes;
}

/// A token that a variable or a file tells.
#[derive(Debug)]
pub struct Credentials {
    source: Source,
    current: Mutex<Current>,
    generation: AtomicU64,
    /// When the file was last written, as of its last reading; 0: that is not known.
    changed: AtomicI64,
}

#[derive(Debug)]
enum Source {
    /// A variable, read once.
    Variable(&'static str),
    /// A file, read again when what was read is this old.
    File(PathBuf, Duration),
}

#[derive(Debug)]
struct Current {
    secret: Secret,
    read: Instant,
}

/// The variables that tell the token of a cloud.
#[derive(Clone, Copy, Debug)]
pub struct TokenVariables {
    /// The token itself.
    pub token: &'static str,
    /// The path of a file that has it; the file wins if it can be read.
    pub file: &'static str,
    /// The path if there is no such variable.
    pub default_file: Option<&'static str>,
    /// How old what was read of the file may become.
    pub max_age: Duration,
}

impl Credentials {
    /// Reads the token, from the file if there is one, else from the variable. None: neither has
    /// one, which is a fault.
    pub fn read(environment: &mut Environment<'_>, names: TokenVariables) -> Option<Self> {
        let named = environment.text(names.file);
        let path = named.as_deref().or(names.default_file).map(PathBuf::from);
        let in_file = path.as_deref().map(read_now);
        let in_variable = environment.text(names.token);
        let problem = match (in_file, &in_variable) {
            (Some(Ok(secret)), _) => {
                return Some(Self::file(path.unwrap_or_default(), names.max_age, secret));
            }
            (Some(Err(problem)), _) if named.is_some() => Some(problem),
            _ => None,
        };
        if let Some(secret) = in_variable.as_deref().and_then(Secret::new) {
            if let Some(problem) = problem {
                environment.notice(format!("{problem}; the token in {} is used", names.token));
            }
            return Some(Self::new(Source::Variable(names.token), secret));
        }
        match (problem, in_variable) {
            (Some(problem), _) => environment.fault(
                names.file,
                named.as_deref(),
                format!(
                    "{problem}; name a file with the token in it, or set {}",
                    names.token
                ),
            ),
            (None, Some(_)) => environment.fault(
                names.token,
                None,
                "has characters that no token has; copy the token again",
            ),
            (None, None) => environment.fault(
                names.token,
                None,
                format!(
                    "must be set in the environment (from a Secret), or {} must name a file with \
                     the token in it",
                    names.file
                ),
            ),
        }
        None
    }

    fn file(path: PathBuf, max_age: Duration, secret: Secret) -> Self {
        Self::new(Source::File(path, max_age), secret)
    }

    fn new(source: Source, secret: Secret) -> Self {
        let changed = match &source {
            Source::File(path, _) => written(path),
            Source::Variable(_) => 0,
        };
        Self {
            source,
            changed: AtomicI64::new(changed),
            current: Mutex::new(Current {
                secret,
                read: Instant::now(),
            }),
            generation: AtomicU64::new(0),
        }
    }

    async fn reread(&self, path: &Path, current: &mut Current) {
        current.read = Instant::now();
        match tokio::fs::read_to_string(path).await {
            Ok(text) => match Secret::new(&text) {
                Some(secret) if secret == current.secret => {
                    self.changed.store(written(path), Ordering::Relaxed);
                }
                Some(secret) => {
                    current.secret = secret;
                    self.changed.store(written(path), Ordering::Relaxed);
                    self.generation.fetch_add(1, Ordering::SeqCst);
                }
                None => tracing::warn!(
                    path = %path.display(),
                    "the file has no token in it any more; the last one stays in use"
                ),
            },
            Err(error) => tracing::warn!(
                path = %path.display(),
                %error,
                "the token cannot be read any more; the last one stays in use"
            ),
        }
    }
}

#[async_trait]
impl Tokens for Credentials {
    /// While the file cannot be read, the last one stands.
    async fn current(&self) -> Result<Secret, CloudError> {
        let mut current = self.current.lock().await;
        if let Source::File(path, max_age) = &self.source
            && current.read.elapsed() >= *max_age
        {
            self.reread(path, &mut current).await;
        }
        Ok(current.secret.clone())
    }

    async fn instead_of(&self, refused: &Secret) -> Result<Option<Secret>, CloudError> {
        let mut current = self.current.lock().await;
        if let Source::File(path, _) = &self.source
            && current.secret == *refused
        {
            self.reread(path, &mut current).await;
        }
        Ok((current.secret != *refused).then(|| current.secret.clone()))
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn may_change(&self) -> bool {
        matches!(self.source, Source::File(..))
    }

    fn remedy(&self) -> String {
        match &self.source {
            Source::Variable(name) => format!("put a valid token into {name}, and start again"),
            Source::File(path, _) => format!("put a valid token into {}", path.display()),
        }
    }

    fn times(&self) -> TokenTimes {
        let changed = self.changed.load(Ordering::Relaxed);
        TokenTimes {
            changed: (changed > 0).then_some(changed),
            expires: None,
        }
    }
}

/// When a file was last written, in seconds since 1970; 0: that cannot be known.
fn written(path: &Path) -> i64 {
    let modified = std::fs::metadata(path).and_then(|file| file.modified());
    let age = modified
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    age.and_then(|age| i64::try_from(age.as_secs()).ok())
        .unwrap_or_default()
}

fn read_now(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{shown} cannot be read ({error})"))?;
    Secret::new(&text).ok_or_else(|| format!("{shown} has no token in it"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::credentials;
    use super::*;

    /// PR-18.
    #[tokio::test(start_paused = true)]
    async fn rereads_stale_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "old").unwrap();
        let credentials = credentials(Some(file.path()));
        std::fs::write(file.path(), "new").unwrap();
        let is = async |text| credentials.current().await == Ok(Secret::new(text).unwrap());
        tokio::time::advance(Duration::from_secs(3599)).await;
        assert!(is("old").await);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(is("new").await);
        assert_eq!(credentials.generation(), 1);
        std::fs::write(file.path(), "").unwrap();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(is("new").await, "the last one stands");
        assert_eq!(credentials.generation(), 1);
    }

    #[tokio::test]
    async fn age_of_a_token_in_a_file_is_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "old").unwrap();
        let long_ago = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        file.as_file().set_modified(long_ago).unwrap();
        let in_file = credentials(Some(file.path()));
        assert_eq!(in_file.times().changed, Some(1_600_000_000));
        std::fs::write(file.path(), "new").unwrap();
        let old = Secret::new("old").unwrap();
        assert!(in_file.instead_of(&old).await.unwrap().is_some());
        assert!(in_file.times().changed > Some(1_700_000_000));
        assert_eq!(credentials(None).times(), TokenTimes::default());
    }

    /// RFC 6750, section 2.1. The scheme is put together, so that no search and replace changes it here
    /// and in what it tests alike.
    #[test]
    fn token_is_sent_by_the_scheme_of_rfc_6750() {
        let scheme = ["Bea", "rer"].concat();
        let sent = Secret::new("t0ken").unwrap().header();
        assert_eq!(sent.to_str().unwrap(), format!("{scheme} t0ken"));
    }

    #[test]
    fn rejects_unsendable_token() {
        assert!(Secret::new(" \n").is_none() && Secret::new("a b").is_none());
        assert!(Secret::new("a\r\nb").is_none() && Secret::new("ä").is_none());
    }
}
