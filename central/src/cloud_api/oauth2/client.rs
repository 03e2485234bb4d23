//! The credentials of a client (RFC 6749, 2.3.1), and where they are read again.

use std::fmt;

use super::super::{Environment, JsonFile};

/// The identifier and the secret that the authorization server gave to a client. Debug shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// The identifier.
    pub id: String,
    /// The secret.
    pub secret: String,
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCredentials(***)")
    }
}

/// A client's credentials, and the keys of the file that may have others later. Debug shows no secret.
#[derive(Clone, Debug)]
pub struct ClientSource {
    /// The credentials as they were read first.
    pub credentials: ClientCredentials,
    file: JsonFile,
    /// Where the file has the identifier. None: it does not change.
    id_key: Option<&'static str>,
    /// Where the file has the secret. None: it does not change.
    secret_key: Option<&'static str>,
}

/// Credentials that do not change.
impl From<ClientCredentials> for ClientSource {
    fn from(credentials: ClientCredentials) -> Self {
        Self {
            credentials,
            file: JsonFile::default(),
            id_key: None,
            secret_key: None,
        }
    }
}

impl ClientSource {
    /// Reads the credentials in two variables, or their keys in the file. None: one of them is absent, which
    /// is a fault.
    pub fn read(
        environment: &mut Environment<'_>,
        id_variable: &'static str,
        secret_variable: &'static str,
    ) -> Option<Self> {
        let id = environment.required(id_variable);
        let secret = environment.required(secret_variable);
        Some(Self {
            credentials: ClientCredentials {
                id: id?,
                secret: secret?,
            },
            file: environment.file()?.clone(),
            id_key: environment.key_in_use(id_variable),
            secret_key: environment.key_in_use(secret_variable),
        })
    }

    /// The credentials as they are now. None: there is no file, or it lacks them.
    pub async fn reread(&self) -> Option<ClientCredentials> {
        let file = self.file.reread().await?;
        let now = |key: Option<&str>, first: &String| match key {
            Some(key) => file.text(key).map(ToOwned::to_owned),
            None => Some(first.clone()),
        };
        Some(ClientCredentials {
            id: now(self.id_key, &self.credentials.id)?,
            secret: now(self.secret_key, &self.credentials.secret)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{FileKey, KeyKind};
    use super::*;

    const KEYS: &[FileKey] = &[
        FileKey {
            name: "clientID",
            variable: Some("ID"),
            kind: KeyKind::Secret,
        },
        FileKey {
            name: "clientSecret",
            variable: Some("SECRET"),
            kind: KeyKind::Secret,
        },
    ];

    #[tokio::test]
    async fn rereads_file_for_missing_variables() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        write(r#"{"clientID": "one", "clientSecret": "old"}"#);
        let variable = |name: &str| (name == "ID").then(|| "an-id".to_owned());
        let mut environment = Environment::with_file(&variable, Some(file.path()), KEYS);
        let source = ClientSource::read(&mut environment, "ID", "SECRET").unwrap();
        assert_eq!(source.reread().await, Some(source.credentials.clone()));
        write(r#"{"clientID": "two", "clientSecret": "new"}"#);
        let read = source.reread().await.unwrap();
        assert_eq!((&*read.id, &*read.secret), ("an-id", "new"));
        for text in ["", "{}"] {
            write(text);
            assert_eq!(source.reread().await, None);
        }
    }

    #[test]
    fn reports_both_missing_parts() {
        let mut environment = Environment::with_file(&|_| None, None, KEYS);
        assert!(ClientSource::read(&mut environment, "ID", "SECRET").is_none());
        let faults = environment.finish().unwrap_err();
        let variables: Vec<&str> = faults.iter().map(|fault| &*fault.variable).collect();
        assert_eq!(variables, ["ID", "SECRET"]);
    }

    #[tokio::test]
    async fn fixed_credentials_are_not_reread_or_shown() {
        let source = ClientSource::from(ClientCredentials {
            id: "an-id".to_owned(),
            secret: "s3cr3t".to_owned(),
        });
        assert_eq!(source.reread().await, None);
        let shown = format!("{source:?}");
        assert!(
            !shown.contains("s3cr3t") && !shown.contains("an-id"),
            "{shown}"
        );
    }
}
