//! The environment variables that a cloud is configured by.

use std::fmt;
use std::time::Duration;

use mooring_common::work_queue::LONGEST_REQUEST;
use reqwest::Url;

/// A variable that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which.
    pub variable: &'static str,
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

/// Reads variables one after the other, and remembers every fault.
pub struct Environment<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
    faults: Vec<Fault>,
    notices: Vec<String>,
}

impl<'a> Environment<'a> {
    /// Reads with this function.
    #[must_use]
    pub fn new(read: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            read,
            faults: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// The value, without space around it. An empty one counts as absent.
    #[must_use]
    pub fn text(&self, variable: &str) -> Option<String> {
        let text = (self.read)(variable)?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
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

    /// Remembers that a variable cannot be used. No value of a secret may be given.
    pub fn fault(
        &mut self,
        variable: &'static str,
        value: Option<&str>,
        remedy: impl Into<String>,
    ) {
        self.faults.push(Fault {
            variable,
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
