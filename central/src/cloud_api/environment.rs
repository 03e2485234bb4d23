//! The environment variables that a cloud is configured by, and the file whose keys stand in for them.

mod versioned;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use mooring_common::go_bool;
use mooring_common::work_queue::LONGEST_REQUEST;
use reqwest::Url;

use super::json_file::{FileKey, JsonFile};
pub use versioned::VersionedUrl;

/// The flag that names the file.
const FILE: &str = "--cloud-config";

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The variable, or `KEY in --cloud-config` if its value is from there.
    pub variable: Cow<'static, str>,
    /// Its value, unless it is absent or a secret.
    pub value: Option<String>,
    /// What is wrong with it, and what to do about it.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}: {}", self.variable, self.remedy),
            None => write!(f, "{}: {}", self.variable, self.remedy),
        }
    }
}

/// Reads variables one after the other, and remembers every fault. A variable wins over its key in the
/// file.
pub struct Environment<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    /// None: there is one, and it cannot be used.
    file: Option<JsonFile>,
    faults: Vec<Fault>,
    notices: Vec<String>,
}

impl<'a> Environment<'a> {
    /// Reads with this function.
    #[must_use]
    pub fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            read,
            file: Some(JsonFile::default()),
            faults: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Reads with this function, and the file that `--cloud-config` names, if it names one, which has
    /// these keys.
    #[must_use]
    pub fn with_file(
        read: &'a dyn Fn(&str) -> Option<String>,
        path: Option<&Path>,
        keys: &'static [FileKey],
    ) -> Self {
        let mut environment = Self::new(read);
        let Some(path) = path else {
            environment.file = Some(JsonFile::absent(keys));
            return environment;
        };
        match JsonFile::read(path, keys) {
            Ok(file) => {
                environment.notices.extend_from_slice(file.notices());
                environment.file = Some(file);
            }
            Err(remedies) => {
                environment.file = None;
                let shown = path.display().to_string();
                for remedy in remedies {
                    environment.fault(FILE, Some(&shown), remedy);
                }
            }
        }
        environment
    }

    /// The value of the variable, else of its key in the file, without space around it. An empty one
    /// counts as absent.
    #[must_use]
    pub fn text(&self, variable: &str) -> Option<String> {
        self.variable(variable)
            .or_else(|| self.in_file(self.file.as_ref()?.key_of(variable)?))
    }

    fn variable(&self, variable: &str) -> Option<String> {
        let text = (self.read)(variable)?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The value of a key of the file, without space around it. An empty one counts as absent.
    #[must_use]
    pub fn in_file(&self, key: &str) -> Option<String> {
        self.file.as_ref()?.text(key).map(ToOwned::to_owned)
    }

    /// The key of the file that the value of a variable is from. None: it is from the variable, or there
    /// is none.
    #[must_use]
    pub fn key_in_use(&self, variable: &str) -> Option<&'static str> {
        let file = self.file.as_ref()?;
        let key = file.key_of(variable)?;
        (self.variable(variable).is_none() && file.text(key).is_some()).then_some(key)
    }

    /// The file, unless it cannot be used, which is a fault already.
    #[must_use]
    pub const fn file(&self) -> Option<&JsonFile> {
        self.file.as_ref()
    }

    /// [`Self::text`]; a fault if it is absent. Nobody knows what a file lacks that cannot be used.
    pub fn required(&mut self, variable: &'static str) -> Option<String> {
        let text = self.text(variable);
        if let (None, Some(file)) = (&text, &self.file) {
            let mut remedy = "must be set in the environment (from a Secret)".to_owned();
            if let Some(key) = file.key_of(variable) {
                remedy = format!("{remedy}, or {key} in the file that {FILE} names");
            }
            self.fault(variable, None, remedy);
        }
        text
    }

    /// How long a request may take: whole seconds, more than none. Anything else gives the default, as
    /// with the Go controllers, and a notice; so does more than a pass has time for ([`LONGEST_REQUEST`]).
    pub fn timeout(&mut self, variable: &'static str, default: Duration) -> Duration {
        let asked = self.seconds(variable, default);
        if asked > LONGEST_REQUEST {
            let longest = LONGEST_REQUEST.as_secs();
            self.notice(format!("{variable} is more than {longest}, the longest that a request may take; {longest} is used"));
        }
        asked.min(LONGEST_REQUEST)
    }

    /// Whole seconds, more than none.
    pub fn seconds(&mut self, variable: &'static str, default: Duration) -> Duration {
        let Some(text) = self.text(variable) else {
            return default;
        };
        match text.parse::<u32>() {
            Ok(seconds) if seconds > 0 => Duration::from_secs(seconds.into()),
            _ => {
                self.notice(format!(
                    "{variable}={text} is no whole number of seconds above 0; {} is used",
                    default.as_secs()
                ));
                default
            }
        }
    }

    /// Something that is written like this; a fault and None if it cannot be read.
    pub fn parsed<T: FromStr>(&mut self, variable: &'static str, remedy: &str) -> Option<T> {
        let text = self.text(variable)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.fault(variable, Some(&text), remedy);
        }
        parsed
    }

    /// The authorities to trust, PEM, of the file that the variable names; a fault and None if it has none.
    pub fn authorities(&mut self, variable: &'static str) -> Option<Vec<u8>> {
        let path = self.text(variable)?;
        let problem = match std::fs::read(&path) {
            Ok(pem) => match reqwest::Certificate::from_pem_bundle(&pem) {
                Ok(certificates) if !certificates.is_empty() => return Some(pem),
                _ => "has no certificate in PEM form".to_owned(),
            },
            Err(error) => format!("cannot be read ({error})"),
        };
        let remedy = format!("{problem}; name a PEM file with the authorities to trust");
        self.fault(variable, Some(&path), remedy);
        None
    }

    /// A boolean, false if absent. What is none counts as false, as with the Go controllers, with a notice.
    pub fn bool(&mut self, variable: &'static str) -> bool {
        let Some(text) = self.text(variable) else {
            return false;
        };
        go_bool::parse(&text).unwrap_or_else(|| {
            self.notice(format!(
                "{variable}={text} is neither true nor false; false is used"
            ));
            false
        })
    }

    /// A notice that names those of these variables that are set: they have no effect.
    pub fn without_effect(&mut self, variables: &[&str]) {
        let set = variables.iter().filter(|name| self.text(name).is_some());
        let set: Vec<&str> = set.copied().collect();
        if !set.is_empty() {
            self.notice(format!("without effect here: {}", set.join(", ")));
        }
    }

    /// The address of an API, with a default; a fault and None if it is none.
    pub fn url_or(&mut self, variable: &'static str, default: &str) -> Option<Url> {
        let text = self.text(variable);
        let remedy = format!("is no address of an API; write it like {default}");
        self.url(variable, text.as_deref().unwrap_or(default), &remedy)
    }

    /// An HTTP address, without query and credentials; a fault and None if it is none.
    pub fn url(&mut self, variable: &'static str, text: &str, remedy: &str) -> Option<Url> {
        let url = Url::parse(text).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.host().is_some()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        let has_credentials = text.contains('@');
        match url {
            Some(url) if !has_credentials => return Some(url),
            _ if has_credentials => {
                self.fault(
                    variable,
                    None,
                    "must have no credentials in it; take them out",
                );
            }
            _ => self.fault(variable, Some(text), remedy),
        }
        None
    }

    /// Remembers that a setting cannot be used, and where its value is from. No value of a secret may be
    /// given.
    pub fn fault(
        &mut self,
        variable: &'static str,
        value: Option<&str>,
        remedy: impl Into<String>,
    ) {
        self.faults.push(Fault {
            variable: match self.key_in_use(variable) {
                Some(key) => format!("{key} in {FILE}").into(),
                None => variable.into(),
            },
            value: value.map(ToOwned::to_owned),
            remedy: remedy.into(),
        });
    }

    /// Remembers something that is worth a line in the log.
    pub fn notice(&mut self, notice: impl Into<String>) {
        self.notices.push(notice.into());
    }

    /// Ends the reading, and gives the notices.
    ///
    /// # Errors
    /// Every fault there was.
    pub fn finish(self) -> Result<Vec<String>, Vec<Fault>> {
        if self.faults.is_empty() {
            Ok(self.notices)
        } else {
            Err(self.faults)
        }
    }
}

#[cfg(test)]
mod tests;
