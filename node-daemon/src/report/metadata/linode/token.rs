//! The token without which Linode's metadata service tells nothing.

use std::time::Duration;

use http::header::HeaderValue;
use tokio::time::Instant;

/// How long before its end a token is replaced.
const MARGIN: Duration = Duration::from_secs(60);

/// A token and its end, by the clock that nobody sets.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// Marked as sensitive: never printed.
    value: HeaderValue,
    expires: Instant,
}

impl Token {
    /// Reads a JSON list of one text. `None`: it is none.
    pub(super) fn read(body: &str, expires: Instant) -> Option<Self> {
        let [text]: [String; 1] = serde_json::from_str(body).ok()?;
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        (!value.is_empty()).then_some(Self { value, expires })
    }

    /// As a header has it.
    pub(super) const fn value(&self) -> &HeaderValue {
        &self.value
    }

    /// The same, if it will last for a while.
    pub(super) fn usable(&self, now: Instant) -> Option<&HeaderValue> {
        (now + MARGIN < self.expires).then_some(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_list_of_one_string() {
        let now = Instant::now();
        assert!(Token::read(r#"["abc"]"#, now).is_some());
        for none in [
            "",
            "abc",
            "[]",
            r#"[""]"#,
            r#"["a","b"]"#,
            "[1]",
            r#"["a\n"]"#,
            "<html>",
        ] {
            assert!(Token::read(none, now).is_none(), "{none}");
        }
    }

    #[test]
    fn replaces_token_before_expiry() {
        let now = Instant::now();
        let token = Token::read(r#"["abc"]"#, now + Duration::from_secs(100)).unwrap();
        assert!(token.usable(now).is_some());
        assert!(token.usable(now + Duration::from_secs(39)).is_some());
        assert!(token.usable(now + Duration::from_secs(41)).is_none());
    }

    #[test]
    fn never_prints_token() {
        let token = Token::read(r#"["s3cr3t"]"#, Instant::now()).unwrap();
        assert!(!format!("{token:?}").contains("s3cr3t"));
    }
}
