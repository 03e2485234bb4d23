//! TLS Secrets that load balancers present: what was read of them. Nothing here shows a key.

mod fingerprints;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The key of a Secret with the certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// The key of a Secret with the certificate's private key.
pub const PRIVATE_KEY: &str = "tls.key";

/// A private key. Nothing shows it but [`PrivateKey::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(String);

impl PrivateKey {
    /// The text itself, for the request that hands it over.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(***)")
    }
}

/// A certificate and its key.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsSecret {
    /// `tls.crt`, without the white space around it.
    pub certificate: String,
    /// `tls.key`, without the white space around it.
    pub key: PrivateKey,
}

/// The certificate is not shown either: there are files with both in one.
impl fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSecret(***)")
    }
}

/// What was read of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadSecret {
    /// A certificate and its key.
    Usable(TlsSecret),
    /// There is no such Secret.
    Missing,
    /// These keys of it are missing, empty, or no text.
    Incomplete(Vec<&'static str>),
    /// It could not be read: why, and what to do about it.
    Unreadable(String),
}

impl ReadSecret {
    /// What these values of a Secret are.
    #[must_use]
    pub fn of(certificate: Option<&[u8]>, key: Option<&[u8]>) -> Self {
        let text = |bytes: Option<&[u8]>| {
            let text = std::str::from_utf8(bytes?).ok()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        match (text(certificate), text(key)) {
            (Some(certificate), Some(key)) => Self::Usable(TlsSecret {
                certificate,
                key: PrivateKey(key),
            }),
            (certificate, key) => {
                let lacking = [
                    (CERTIFICATE, certificate.is_none()),
                    (PRIVATE_KEY, key.is_none()),
                ];
                let lacking = lacking.into_iter().filter(|(_, lacks)| *lacks);
                Self::Incomplete(lacking.map(|(name, _)| name).collect())
            }
        }
    }

    /// This program has no right to read it.
    #[must_use]
    pub fn forbidden() -> Self {
        Self::Unreadable(
            "mooring-central may not read it: give its ClusterRole the verb `get` on secrets \
             (central.loadBalancers.tlsSecretNamespaces in the chart)"
                .to_owned(),
        )
    }

    /// The certificate with its key; else what is wrong with the Secret and what to do, as the remedy of
    /// an [`InvalidField`](super::load_balancers::InvalidField) whose value is the Secret's name.
    ///
    /// # Errors
    /// That remedy.
    pub fn usable(&self) -> Result<&TlsSecret, String> {
        Err(match self {
            Self::Usable(secret) => return Ok(secret),
            Self::Missing => {
                "is no Secret of the Service's namespace; create it there with kubectl create secret \
                 tls, or correct the name"
                    .to_owned()
            }
            Self::Incomplete(lacking) => format!(
                "is a Secret whose {} {} missing, empty or no text; write {CERTIFICATE} and \
                 {PRIVATE_KEY} as kubectl create secret tls does",
                lacking.join(" and "),
                if lacking.len() == 1 { "is" } else { "are" },
            ),
            Self::Unreadable(why) => format!("cannot be read: {why}"),
        })
    }
}

/// What was read of the Secrets that a Service names
/// ([`LoadBalancers::secrets`](super::load_balancers::LoadBalancers::secrets)), by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, Arc<ReadSecret>>);

impl Secrets {
    /// What was read of the one of this name. `None`: it was not asked for.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ReadSecret> {
        self.0.get(name).map(|secret| &**secret)
    }

    /// The one of this name as [`ReadSecret::usable`] gives it.
    ///
    /// # Errors
    /// What is wrong with it and what to do.
    pub fn usable(&self, name: &str) -> Result<&TlsSecret, String> {
        let unasked = || "was not read, as it was not named when this plan began".to_owned();
        self.get(name).ok_or_else(unasked)?.usable()
    }
}

impl FromIterator<(String, Arc<ReadSecret>)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, Arc<ReadSecret>)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(certificate: Option<&str>, key: Option<&str>) -> ReadSecret {
        ReadSecret::of(certificate.map(str::as_bytes), key.map(str::as_bytes))
    }

    #[test]
    fn certificate_and_key_come_without_the_space_around_them() {
        let read = read(Some("\n CERT\n\n"), Some(" KEY\r\n"));
        let secret = read.usable().unwrap();
        assert_eq!(secret.certificate, "CERT");
        assert_eq!(secret.key.expose(), "KEY");
    }

    #[test]
    fn renewal_of_either_makes_another_secret() {
        let before = read(Some("CERT"), Some("KEY"));
        assert_eq!(before, read(Some("CERT "), Some("KEY")));
        assert_ne!(before, read(Some("OTHER"), Some("KEY")));
        assert_ne!(before, read(Some("CERT"), Some("OTHER")));
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        let read = read(Some("CERT"), Some("KEY"));
        let all: Secrets = [("web".to_owned(), Arc::new(read.clone()))]
            .into_iter()
            .collect();
        let secret = read.usable().unwrap();
        let shown = format!("{read:?} {all:?} {all:#?} {secret:?} {:?}", secret.key);
        assert!(!shown.contains("CERT") && !shown.contains("KEY"), "{shown}");
        assert!(shown.contains("\"web\""), "{shown}");
    }

    #[test]
    fn unusable_secret_says_what_to_do() {
        let empty = read(Some(" \n"), Some("KEY"));
        assert_eq!(empty, ReadSecret::Incomplete(vec![CERTIFICATE]));
        let lacking = read(None, None).usable().unwrap_err();
        assert!(lacking.contains("tls.crt and tls.key are"), "{lacking}");
        let binary = ReadSecret::of(Some(b"CERT"), Some(&[0xff]));
        let binary = binary.usable().unwrap_err();
        assert!(binary.contains("whose tls.key is missing"), "{binary}");
        let missing = ReadSecret::Missing.usable().unwrap_err();
        assert!(missing.contains("kubectl create secret tls"), "{missing}");
        let forbidden = ReadSecret::forbidden().usable().unwrap_err();
        assert!(forbidden.contains("`get` on secrets"), "{forbidden}");
        let unnamed = Secrets::default().usable("web").unwrap_err();
        assert!(unnamed.contains("was not read"), "{unnamed}");
    }
}
