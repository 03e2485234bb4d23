//! One request to a token endpoint, and its answer (RFC 6749, 3.2, 5.1 and 5.2).

use std::fmt;
use std::time::{Duration, SystemTime};

use form_urlencoded::byte_serialize;
use mooring_common::errors::with_causes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::super::{CloudError, ErrorKind, Metrics, Secret, Transport, http, lenient, wait};
use super::client::ClientCredentials;

/// For how long a token is used that says nothing of its end.
const UNSAID: Duration = Duration::from_secs(5 * 60);
/// However long a token lasts, it is renewed after this time.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// All requests wait for a token, so that it must not take long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// No answer of the token endpoint is longer, in bytes.
const LONGEST_BODY: usize = 64 << 10;
/// How many characters of somebody else's words are passed on.
const LONGEST_WORDS: usize = 300;

/// What to do about refusals; each ends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remedies {
    /// The authorization server refuses the credentials.
    pub refused: &'static str,
    /// It is no authorization server that answers.
    pub elsewhere: &'static str,
}

/// A token endpoint.
pub(super) struct Endpoint {
    provider: &'static str,
    url: Url,
    remedies: Remedies,
    http: reqwest::Client,
    metrics: Metrics,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

/// A token that was given.
pub(super) struct Granted {
    pub(super) token: Secret,
    pub(super) lasts: Duration,
    pub(super) refresh_token: Option<String>,
}

/// Why there is no token.
pub(super) struct Failure {
    pub(super) error: CloudError,
    /// The client lacks a part of the scope.
    pub(super) is_about_scope: bool,
}

impl Failure {
    /// Whether somebody has answered who would not answer otherwise later.
    pub(super) const fn is_answer(&self) -> bool {
        matches!(
            self.error.kind,
            ErrorKind::Unauthorized | ErrorKind::Malformed
        )
    }
}

/// RFC 6749, 5.1.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    /// In seconds; some write a text.
    #[serde(default)]
    expires_in: Value,
    #[serde(default, deserialize_with = "lenient")]
    refresh_token: Option<String>,
}

impl TokenResponse {
    fn lasts(&self) -> Duration {
        let seconds: Option<f64> = match &self.expires_in {
            Value::String(text) => text.parse().ok(),
            other => other.as_f64(),
        };
        let lasts = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        lasts.unwrap_or(UNSAID).min(LONGEST_LIFE)
    }
}

/// RFC 6749, 5.2.
#[derive(Deserialize)]
struct ErrorResponse {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

impl Endpoint {
    pub(super) fn new(
        provider: &'static str,
        url: Url,
        remedies: Remedies,
        transport: &Transport<'_>,
        metrics: Metrics,
    ) -> Result<Self, CloudError> {
        Ok(Self {
            provider,
            http: http(provider, &url, transport)?,
            url,
            remedies,
            metrics,
        })
    }

    pub(super) const fn provider(&self) -> &'static str {
        self.provider
    }

    /// Asks once.
    pub(super) async fn ask(
        &self,
        client: &ClientCredentials,
        form: String,
    ) -> Result<Granted, Failure> {
        let began = Instant::now();
        let answer = self.exchange(client, form).await;
        let result = answer
            .as_ref()
            .map_or_else(|f| f.error.kind.label(), |_| "ok");
        self.metrics
            .ended(self.provider, "get_token", result, began.elapsed());
        answer
    }

    async fn exchange(&self, client: &ClientCredentials, form: String) -> Result<Granted, Failure> {
        // RFC 6749, 2.3.1: both parts are encoded before they are joined.
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let sent = self
            .http
            .post(self.url.clone())
            .timeout(TIMEOUT)
            .basic_auth(encoded(&client.id), Some(encoded(&client.secret)))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form)
            .send()
            .await;
        let response = sent.map_err(|error| self.broken(error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = read(response).await.map_err(|error| self.broken(error))?;
        if !status.is_success() {
            return Err(self.refused(status, &headers, &body));
        }
        let response: TokenResponse = decode(&headers, &body)
            .ok_or_else(|| self.failure(ErrorKind::Malformed, "the answer has no token in it"))?;
        let token = Secret::new(&response.access_token).ok_or_else(|| {
            self.failure(
                ErrorKind::Malformed,
                "the token has characters that no token has",
            )
        })?;
        Ok(Granted {
            token,
            lasts: response.lasts(),
            refresh_token: response.refresh_token.filter(|token| !token.is_empty()),
        })
    }

    fn broken(&self, error: reqwest::Error) -> Failure {
        let kind = match error.is_timeout() {
            true => ErrorKind::Timeout,
            false => ErrorKind::Transport,
        };
        let error = with_causes(&error.without_url());
        self.failure(kind, &format!("the connection failed: {error}"))
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Failure {
        let said: Option<ErrorResponse> = decode(headers, body);
        let words = said.as_ref().map(|said| match &said.error_description {
            Some(description) => format!("{}: {description}", said.error),
            None => said.error.clone(),
        });
        let words = words.as_deref().map(shorten);
        let (kind, remedy) = match status {
            StatusCode::TOO_MANY_REQUESTS => (ErrorKind::RateLimited, None),
            _ if status.is_server_error() => (ErrorKind::Server, None),
            _ if status.is_client_error() && said.is_some() => {
                (ErrorKind::Unauthorized, Some(self.remedies.refused))
            }
            _ => (ErrorKind::Malformed, Some(self.remedies.elsewhere)),
        };
        let mut text = status.to_string();
        if let Some(words) = &words {
            text = format!("{text}: {words}");
        }
        if let Some(remedy) = remedy {
            text = format!("{text}; {remedy}");
        }
        let mut failure = self.failure(kind, &text);
        failure.error.status = Some(status.as_u16());
        failure.error.words = words;
        failure.error.retry_after = wait::retry_after(headers, SystemTime::now());
        failure.is_about_scope = said.is_some_and(|said| said.error == "invalid_scope");
        failure
    }

    fn failure(&self, kind: ErrorKind, what: &str) -> Failure {
        let message = format!("no token from {}: {what}", self.url);
        Failure {
            error: CloudError::new(self.provider, kind, message),
            is_about_scope: false,
        }
    }
}

/// Reads JSON, which RFC 6749 asks for, or the form that some servers answer with.
fn decode<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Option<T> {
    if let Ok(answer) = serde_json::from_slice(body) {
        return Some(answer);
    }
    let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !["application/x-www-form-urlencoded", "text/plain"].contains(&media_type) {
        return None;
    }
    let fields = form_urlencoded::parse(body)
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect();
    serde_json::from_value(Value::Object(fields)).ok()
}

/// Somebody else's words, on one line and of bearable length.
fn shorten(words: &str) -> String {
    let line = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(LONGEST_WORDS).collect()
}

/// No more than an answer may be long.
async fn read(mut response: Response) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let left = LONGEST_BODY.saturating_sub(body.len());
        body.extend(chunk.iter().take(left));
        if left == 0 {
            break;
        }
    }
    Ok(body)
}
