//! What a token is asked for by (RFC 6749, 1.3), and the request's form.

use std::fmt;

use form_urlencoded::Serializer;

/// What a token is asked for by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The client's own credentials (RFC 6749, 4.4).
    ClientCredentials,
    /// A user's name and password (RFC 6749, 4.3). The token is renewed by its refresh token, if it has one.
    Password(UserCredentials),
}

/// A user's name and password. Debug shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct UserCredentials {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for UserCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserCredentials(***)")
    }
}

impl Grant {
    /// Whether refresh tokens are used. The client's own credentials need none (RFC 6749, 4.4.3), although
    /// some servers give one.
    pub(super) const fn has_refresh_token(&self) -> bool {
        matches!(self, Self::Password(_))
    }

    /// The form that asks for a token (RFC 6749, 4.3.2 and 4.4.2).
    pub(super) fn form(&self, scope: Option<&str>) -> String {
        let mut form = Serializer::new(String::new());
        match self {
            Self::ClientCredentials => form.append_pair("grant_type", "client_credentials"),
            Self::Password(user) => form
                .append_pair("grant_type", "password")
                .append_pair("username", &user.name)
                .append_pair("password", &user.password),
        };
        if let Some(scope) = scope {
            form.append_pair("scope", scope);
        }
        form.finish()
    }
}

/// The form that renews a token (RFC 6749, 6), with the scope that it has.
pub(super) fn refresh_form(refresh_token: &str) -> String {
    Serializer::new(String::new())
        .append_pair("grant_type", "refresh_token")
        .append_pair("refresh_token", refresh_token)
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_form_encodes_and_hides() {
        let grant = Grant::Password(UserCredentials {
            name: "jane@example.com".to_owned(),
            password: "s3cr3t &=".to_owned(),
        });
        assert_eq!(
            grant.form(Some("infrastructure orbit")),
            "grant_type=password&username=jane%40example.com&password=s3cr3t+%26%3D&\
             scope=infrastructure+orbit"
        );
        let shown = format!("{grant:?}");
        assert!(
            !shown.contains("s3cr3t") && !shown.contains("jane"),
            "{shown}"
        );
    }

    #[test]
    fn client_form_has_scope_only_if_asked_for() {
        let grant = Grant::ClientCredentials;
        assert_eq!(grant.form(None), "grant_type=client_credentials");
        assert_eq!(
            grant.form(Some("a b")),
            "grant_type=client_credentials&scope=a+b"
        );
    }
}
