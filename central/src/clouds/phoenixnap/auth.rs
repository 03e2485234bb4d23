//! The token that PhoenixNAP gives for a client's credentials (OAuth 2, RFC 6749, 4.4).
//!
//! One token serves all requests. It is renewed before it expires, and when it is refused. While
//! no other can be had, the one at hand is used for as long as it lasts. Credentials that are refused
//! are read again, for somebody may have exchanged them in the file.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use form_urlencoded::{Serializer, byte_serialize};
use mooring_common::errors::with_causes;
use mooring_common::work_queue::Backoff;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::NAME;
use super::config::{ClientCredentials, ClientSource};
use crate::cloud_api::{CloudError, ErrorKind, Metrics, Secret, Tokens, lenient, wait};

/// What reading and changing servers, blocks, networks and tags takes.
const SCOPE: &str = "bmc bmc.read tags tags.read";
/// For how long a token is used that says nothing of its end.
const UNSAID: Duration = Duration::from_secs(5 * 60);
/// However long a token lasts, it is renewed after this time.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long before its end a token is renewed at the latest, if it lasts long enough for that.
const MARGIN: Duration = Duration::from_secs(60);
/// A token that is refused so soon after it took the place of a refused one is not exchanged: the
/// reason is another one.
const TOO_SOON: Duration = Duration::from_secs(10);
/// For how long nobody asks again after a failure.
const AFTER_FAILURE: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(8),
};
/// The same where the credentials are refused, which asking again will hardly change.
const AFTER_REFUSAL: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(60),
};
/// All requests wait for a token, so that it must not take long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// No answer of the token endpoint is longer, in bytes.
const LONGEST_BODY: usize = 64 << 10;

const REFUSED: &str = "; put the credentials of a client that exists into PNAP_CLIENT_ID and \
                       PNAP_CLIENT_SECRET and start again, or into clientID and clientSecret of \
                       --cloud-config, which is read again by itself";
const ELSEWHERE: &str = "; is this the right address for tokens? PNAP_TOKEN_URL, or token-url of \
                         --cloud-config, sets it";

/// Gets tokens, one at a time.
pub(super) struct TokenSource {
    url: Url,
    http: reqwest::Client,
    source: ClientSource,
    metrics: Metrics,
    generation: AtomicU64,
    state: Mutex<State>,
}

struct State {
    client: ClientCredentials,
    token: Option<Token>,
    /// Whether [`SCOPE`] is asked for. A client that lacks a part of it is refused, and gets what
    /// it has without.
    asks_for_scope: bool,
    failures: u32,
    /// The last failure, and until when nobody asks again.
    failed: Option<(CloudError, Instant)>,
}

struct Token {
    secret: Secret,
    obtained: Instant,
    renew: Instant,
    ends: Instant,
    replaces_refused: bool,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default, deserialize_with = "lenient")]
    expires_in: Option<f64>,
}

#[derive(Deserialize)]
struct Refused {
    error: String,
    #[serde(default)]
    error_description: Option<String>,
}

/// What the token endpoint did not give a token for.
struct Failure {
    error: CloudError,
    is_about_scope: bool,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource")
            .field("url", &self.url.as_str())
            .finish_non_exhaustive()
    }
}

impl TokenSource {
    pub(super) fn new(
        url: Url,
        http: reqwest::Client,
        source: ClientSource,
        metrics: Metrics,
    ) -> Arc<Self> {
        Arc::new(Self {
            url,
            http,
            metrics,
            generation: AtomicU64::new(0),
            state: Mutex::new(State {
                client: source.credentials.clone(),
                token: None,
                asks_for_scope: true,
                failures: 0,
                failed: None,
            }),
            source,
        })
    }

    /// A new token, unless the endpoint is left alone just now.
    async fn renew(&self, state: &mut State, replaces_refused: bool) -> Result<Secret, CloudError> {
        let now = Instant::now();
        if let Some((error, until)) = &state.failed
            && *until > now
        {
            return Err(CloudError {
                retry_after: Some(*until - now),
                ..error.clone()
            });
        }
        match self.ask_by_all_means(state).await {
            Ok((secret, lasts)) => {
                let ends = now + lasts;
                state.token = Some(Token {
                    secret: secret.clone(),
                    obtained: Instant::now(),
                    renew: ends - MARGIN.min(lasts / 2),
                    ends,
                    replaces_refused,
                });
                state.failures = 0;
                state.failed = None;
                Ok(secret)
            }
            Err(Failure { error, .. }) => {
                state.failures += 1;
                let backoff = match error.kind {
                    ErrorKind::Unauthorized => AFTER_REFUSAL,
                    _ => AFTER_FAILURE,
                };
                let own = backoff.after(state.failures);
                let wait = error.retry_after.unwrap_or_default().max(own);
                tracing::warn!(%error, wait_s = wait.as_secs_f64(), "no token can be had");
                let error = CloudError {
                    retry_after: Some(wait),
                    ..error
                };
                state.failed = Some((error.clone(), Instant::now() + wait));
                Err(error)
            }
        }
    }

    /// Asks with the whole scope and without, and with credentials that were exchanged.
    async fn ask_by_all_means(&self, state: &mut State) -> Result<(Secret, Duration), Failure> {
        let mut answer = self.ask(state).await;
        if matches!(&answer, Err(failure) if failure.error.kind == ErrorKind::Unauthorized)
            && let Some(client) = self.source.reread().await
            && client != state.client
        {
            tracing::info!("the credentials were exchanged");
            state.client = client;
            state.asks_for_scope = true;
            self.generation.fetch_add(1, Ordering::SeqCst);
            answer = self.ask(state).await;
        }
        if matches!(&answer, Err(failure) if failure.is_about_scope && state.asks_for_scope) {
            tracing::warn!(
                scope = SCOPE,
                "the credential lacks a part of the scope, what it has is asked for"
            );
            state.asks_for_scope = false;
            answer = self.ask(state).await;
        }
        answer
    }

    /// Asks once, and gives a token and how long it lasts.
    async fn ask(&self, state: &State) -> Result<(Secret, Duration), Failure> {
        let began = Instant::now();
        let answer = self.exchange(&state.client, state.asks_for_scope).await;
        let result = answer
            .as_ref()
            .map_or_else(|f| f.error.kind.label(), |_| "ok");
        self.metrics
            .ended(NAME, "get_token", result, began.elapsed());
        answer
    }

    async fn exchange(
        &self,
        client: &ClientCredentials,
        with_scope: bool,
    ) -> Result<(Secret, Duration), Failure> {
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let sent = self
            .http
            .post(self.url.clone())
            .timeout(TIMEOUT)
            .basic_auth(encoded(&client.id), Some(encoded(&client.secret)))
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form(with_scope))
            .send()
            .await;
        let response = sent.map_err(|error| self.broken(error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = read(response).await.map_err(|error| self.broken(error))?;
        if !status.is_success() {
            return Err(self.refused(status, &headers, &body));
        }
        let granted: Granted = serde_json::from_slice(&body)
            .map_err(|_| self.failure(ErrorKind::Malformed, "the answer has no token in it"))?;
        let secret = Secret::new(&granted.access_token).ok_or_else(|| {
            self.failure(
                ErrorKind::Malformed,
                "the token has characters that no token has",
            )
        })?;
        let lasts = granted
            .expires_in
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok((secret, lasts.unwrap_or(UNSAID).min(LONGEST_LIFE)))
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
        let said: Option<Refused> = serde_json::from_slice(body).ok();
        let words = said.as_ref().map(|said| match &said.error_description {
            Some(description) => format!("{}: {description}", said.error),
            None => said.error.clone(),
        });
        let words = words.as_deref().map(shorten);
        let text = match &words {
            Some(words) => format!("{status}: {words}"),
            None => status.to_string(),
        };
        let (kind, remedy) = match status {
            StatusCode::TOO_MANY_REQUESTS => (ErrorKind::RateLimited, ""),
            _ if status.is_server_error() => (ErrorKind::Server, ""),
            _ if status.is_client_error() && said.is_some() => (ErrorKind::Unauthorized, REFUSED),
            _ => (ErrorKind::Malformed, ELSEWHERE),
        };
        let mut failure = self.failure(kind, &format!("{text}{remedy}"));
        failure.error.status = Some(status.as_u16());
        failure.error.words = words;
        failure.error.retry_after = wait::retry_after(headers, SystemTime::now());
        failure.is_about_scope = said.is_some_and(|said| said.error == "invalid_scope");
        failure
    }

    fn failure(&self, kind: ErrorKind, what: &str) -> Failure {
        Failure {
            error: CloudError::new(NAME, kind, format!("no token from {}: {what}", self.url)),
            is_about_scope: false,
        }
    }
}

/// What asks for a token.
fn form(with_scope: bool) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if with_scope {
        form.append_pair("scope", SCOPE);
    }
    form.finish()
}

/// Somebody else's words, on one line and of bearable length.
fn shorten(words: &str) -> String {
    let line = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(300).collect()
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

#[async_trait]
impl Tokens for TokenSource {
    async fn current(&self) -> Result<Secret, CloudError> {
        let mut state = self.state.lock().await;
        let now = Instant::now();
        let at_hand = match &state.token {
            Some(token) if now < token.renew => return Ok(token.secret.clone()),
            Some(token) if now < token.ends => Some(token.secret.clone()),
            _ => None,
        };
        match (self.renew(&mut state, false).await, at_hand) {
            (Err(_), Some(secret)) => Ok(secret),
            (renewed, _) => renewed,
        }
    }

    async fn instead_of(&self, refused: &Secret) -> Result<Option<Secret>, CloudError> {
        let mut state = self.state.lock().await;
        match &state.token {
            // Somebody else was quicker.
            Some(token) if token.secret != *refused => return Ok(Some(token.secret.clone())),
            Some(token) if token.replaces_refused && token.obtained.elapsed() < TOO_SOON => {
                return Ok(None);
            }
            _ => {}
        }
        state.token = None;
        self.renew(&mut state, true).await.map(Some)
    }

    /// However often the token is renewed, it stands for the same client.
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn remedy(&self) -> String {
        "the token of this client is refused; look whether it was disabled, and whether the API and \
         the token endpoint belong together"
            .to_owned()
    }
}

#[cfg(test)]
mod tests;
