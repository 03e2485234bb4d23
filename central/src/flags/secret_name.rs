//! `--heartbeat-secret`.

use std::fmt;
use std::str::FromStr;

/// Where the Secret is: `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for SecretName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (namespace, name) = text.split_once('/').ok_or(())?;
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}
