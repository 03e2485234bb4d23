//! A Node's provider ID: `<scheme>://<the rest>`, written once and never changed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `<scheme>://<instance>`, as in `spec.providerID` of a Node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProviderId {
    scheme: String,
    instance: String,
}

/// Why a text is no provider ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is no provider ID; write it as <scheme>://<instance>, of letters, digits and /_.-"
)]
pub struct ProviderIdError {
    /// What was written.
    pub text: String,
}

impl ProviderId {
    /// Joins a scheme and an instance. An instance that already bears the scheme is not given it
    /// twice: the Go provider of Cloudlycke wrote `cloudlycke://cloudlycke://n-c2-1`, which nobody
    /// could correct afterwards.
    ///
    /// # Errors
    /// [`ProviderIdError`] if a part is empty or has a character that a provider ID cannot have.
    pub fn new(scheme: &str, instance: &str) -> Result<Self, ProviderIdError> {
        let instance = instance
            .strip_prefix(&format!("{scheme}://"))
            .unwrap_or(instance);
        format!("{scheme}://{instance}").parse()
    }

    /// What stands before `://`: it names the provider.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// What stands after `://`: it names the machine.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl FromStr for ProviderId {
    type Err = ProviderIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ProviderIdError {
            text: text.to_owned(),
        };
        let (scheme, instance) = text.split_once("://").ok_or_else(error)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        let path = |c: char| plain(c) || "/_".contains(c);
        if scheme.is_empty()
            || instance.is_empty()
            || text.len() > 253
            || !scheme.chars().all(plain)
            || !instance.chars().all(path)
        {
            return Err(error());
        }
        Ok(Self {
            scheme: scheme.to_owned(),
            instance: instance.to_owned(),
        })
    }
}

impl TryFrom<String> for ProviderId {
    type Error = ProviderIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ProviderId> for String {
    fn from(id: ProviderId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_is_never_repeated() {
        let plain = ProviderId::new("cloudlycke", "n-c2-1").unwrap();
        let doubled = ProviderId::new("cloudlycke", "cloudlycke://n-c2-1").unwrap();
        assert_eq!(plain, doubled);
        assert_eq!(plain.to_string(), "cloudlycke://n-c2-1");
    }

    #[test]
    fn rejects_invalid_provider_id() {
        for text in [
            "",
            "n-1",
            "://n-1",
            "a://",
            "a://b c",
            "a://cloudlycke://n",
            "ä://n",
        ] {
            assert!(text.parse::<ProviderId>().is_err(), "{text:?}");
        }
        assert!(
            format!("a://{}", "x".repeat(260))
                .parse::<ProviderId>()
                .is_err()
        );
    }

    #[test]
    fn keeps_paths() {
        let id: ProviderId = "aws:///zone/i-1".parse().unwrap();
        assert_eq!((id.scheme(), id.instance()), ("aws", "/zone/i-1"));
    }
}
