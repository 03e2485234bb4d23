//! Access tokens of an OAuth 2 authorization server (RFC 6749).
//!
//! ```text
//!   TokenSource: one token for all requests ──► Endpoint: one token request, its answer
//!        ├──► Grant: what is asked for by
//!        └──► ClientSource: who asks
//! ```
//!
//! One token serves all requests. It is renewed before it expires, and when it is refused. While no
//! other can be had, the one at hand is used for as long as it lasts. Credentials that are refused are
//! read again, for somebody may have exchanged them in the file.

mod access;
mod client;
mod endpoint;
mod grant;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use mooring_common::work_queue::Backoff;
use reqwest::Url;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{CloudError, ErrorKind, Metrics, Secret, TokenTimes, Tokens, Transport};
pub use access::{Access, AccessVariables};
pub use client::{ClientCredentials, ClientSource};
pub use endpoint::Remedies;
use endpoint::{Endpoint, Failure, Granted};
pub use grant::{Grant, UserCredentials};

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

/// How a cloud gives tokens.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The cloud, for errors and metrics.
    pub provider: &'static str,
    /// The token endpoint (RFC 6749, 3.2).
    pub token_url: Url,
    /// Who asks.
    pub client: ClientSource,
    /// What is asked for by.
    pub grant: Grant,
    /// The scope that is asked for (RFC 6749, 3.3), its parts separated by spaces. A client that lacks a
    /// part of it is asked for without, and gets what it has.
    pub scope: Option<&'static str>,
    /// What to do about refusals.
    pub remedies: Remedies,
}

/// Gets tokens, one at a time.
pub struct TokenSource {
    endpoint: Endpoint,
    client: ClientSource,
    grant: Grant,
    scope: Option<&'static str>,
    generation: AtomicU64,
    /// When the token expires, in seconds since 1970; 0: there is none.
    expires: AtomicI64,
    state: Mutex<State>,
}

struct State {
    client: ClientCredentials,
    token: Option<Token>,
    /// RFC 6749, 1.5. Only with [`Grant::Password`].
    refresh_token: Option<String>,
    /// None: there is none, or the client lacks a part of it.
    scope: Option<&'static str>,
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

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenSource")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl TokenSource {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// [`CloudError`] if the proxies and authorities cannot be used.
    pub fn new(
        settings: Settings,
        transport: &Transport<'_>,
        metrics: Metrics,
    ) -> Result<Arc<Self>, CloudError> {
        let Settings {
            provider,
            token_url,
            client,
            grant,
            scope,
            remedies,
        } = settings;
        let state = State {
            client: client.credentials.clone(),
            token: None,
            refresh_token: None,
            scope,
            failures: 0,
            failed: None,
        };
        Ok(Arc::new(Self {
            endpoint: Endpoint::new(provider, token_url, remedies, transport, metrics)?,
            client,
            grant,
            scope,
            generation: AtomicU64::new(0),
            expires: AtomicI64::new(0),
            state: Mutex::new(state),
        }))
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
            Ok(granted) => {
                let ends = now + granted.lasts;
                let lasts = i64::try_from(granted.lasts.as_secs()).unwrap_or_default();
                let expires = Timestamp::now().as_second().saturating_add(lasts);
                self.expires.store(expires, Ordering::Relaxed);
                state.token = Some(Token {
                    secret: granted.token.clone(),
                    obtained: Instant::now(),
                    renew: ends - MARGIN.min(granted.lasts / 2),
                    ends,
                    replaces_refused,
                });
                // RFC 6749, 6: if no other is given, the old one stays good.
                if self.grant.has_refresh_token() && granted.refresh_token.is_some() {
                    state.refresh_token = granted.refresh_token;
                }
                state.failures = 0;
                state.failed = None;
                Ok(granted.token)
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

    /// Asks with the refresh token and without, with credentials that were exchanged, and with the whole
    /// scope and without.
    async fn ask_by_all_means(&self, state: &mut State) -> Result<Granted, Failure> {
        let mut answer = self.ask(state).await;
        // A refresh token expires and is revoked, while the password is still good.
        if matches!(&answer, Err(failure) if failure.is_answer())
            && state.refresh_token.take().is_some()
        {
            answer = self.ask(state).await;
        }
        let provider = self.endpoint.provider();
        if matches!(&answer, Err(failure) if failure.error.kind == ErrorKind::Unauthorized)
            && let Some(client) = self.client.reread().await
            && client != state.client
        {
            tracing::info!(provider, "the credentials were exchanged");
            state.client = client;
            state.scope = self.scope;
            self.generation.fetch_add(1, Ordering::SeqCst);
            answer = self.ask(state).await;
        }
        if matches!(&answer, Err(failure) if failure.is_about_scope)
            && let Some(scope) = state.scope.take()
        {
            tracing::warn!(
                provider,
                scope,
                "the credential lacks a part of the scope, what it has is asked for"
            );
            answer = self.ask(state).await;
        }
        answer
    }

    /// Asks once.
    async fn ask(&self, state: &State) -> Result<Granted, Failure> {
        let form = match &state.refresh_token {
            Some(token) => grant::refresh_form(token),
            None => self.grant.form(state.scope),
        };
        self.endpoint.ask(&state.client, form).await
    }
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

    /// The refresh token may have been revoked together with the token, or may give one that is refused
    /// again. So it is not used.
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
        state.refresh_token = None;
        self.renew(&mut state, true).await.map(Some)
    }

    /// However often the token is renewed, it stands for the same client.
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    fn may_change(&self) -> bool {
        true
    }

    fn remedy(&self) -> String {
        "the token of this client is refused; look whether it was disabled, and whether the API and \
         the token endpoint belong together"
            .to_owned()
    }

    fn times(&self) -> TokenTimes {
        let expires = self.expires.load(Ordering::Relaxed);
        TokenTimes {
            changed: None,
            expires: (expires > 0).then_some(expires),
        }
    }
}

#[cfg(test)]
mod tests;
