//! What a token is asked for by (RFC 6749, 1.3), and the request's form.

use form_urlencoded::Serializer;

/// What a token is asked for by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The client's own credentials (RFC 6749, 4.4).
    ClientCredentials,
}

impl Grant {
    /// The form that asks for a token (RFC 6749, 4.4.2).
    pub(super) fn form(&self, scope: Option<&str>) -> String {
        let mut form = Serializer::new(String::new());
        match self {
            Self::ClientCredentials => form.append_pair("grant_type", "client_credentials"),
        };
        if let Some(scope) = scope {
            form.append_pair("scope", scope);
        }
        form.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
