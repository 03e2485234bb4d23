//! One request, one answer.

mod connection;
mod exchange_log;
mod pages;
mod request;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use mooring_common::errors::with_causes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::credentials::Secret;
use super::{CloudError, ErrorKind, Limiter, Metrics, id_text, wait};
pub use connection::{Connection, ConnectionVariables, Transport, http};
pub use request::Request;

/// Nothing that a cloud says of a whole cluster is longer, in bytes.
const LONGEST_BODY: usize = 64 << 20;
/// How many characters of somebody else's words are passed on.
const LONGEST_WORDS: usize = 500;

/// How often a cloud is asked: `--cloud-api-qps` and `--cloud-api-burst`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Requests each second, above 0.
    pub qps: f64,
    /// How many of them may come at once after a pause, at least 1.
    pub burst: u32,
}

/// `--cloud-api-qps` and `--cloud-api-burst`, as far as they are given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitFlags {
    /// `--cloud-api-qps`.
    pub qps: Option<f64>,
    /// `--cloud-api-burst`.
    pub burst: Option<u32>,
}

impl LimitFlags {
    /// For a cloud with these limits by default.
    #[must_use]
    pub fn or(self, default: Limits) -> Limits {
        Limits {
            qps: self.qps.unwrap_or(default.qps),
            burst: self.burst.unwrap_or(default.burst),
        }
    }
}

/// How a cloud's answers are read that are not what was asked for.
pub trait ErrorDecoder: Send + Sync + fmt::Debug {
    /// What an answer with a status other than 2xx means.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Refusal;

    /// The cloud's words if this is an error after all, although the status is 2xx.
    fn error_in_success(&self, body: &[u8]) -> Option<String>;
}

/// What an answer with a status other than 2xx means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is to be thought of it.
    pub kind: ErrorKind,
    /// The cloud's own words. None: it was not the cloud that answered, or it said nothing.
    pub words: Option<String>,
    /// When to ask for the same again, where the headers do not say.
    pub retry_after: Option<Duration>,
    /// What to do about it. None: what is told of every cloud.
    pub remedy: Option<&'static str>,
}

impl Refusal {
    /// What the status alone says. 404 is no proof here: [`ErrorKind::Malformed`].
    #[must_use]
    pub fn by_status(status: StatusCode, words: Option<String>) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => ErrorKind::Unauthorized,
            StatusCode::FORBIDDEN => ErrorKind::Forbidden,
            StatusCode::NOT_FOUND => ErrorKind::Malformed,
            StatusCode::REQUEST_TIMEOUT => ErrorKind::Timeout,
            StatusCode::CONFLICT | StatusCode::LOCKED => ErrorKind::Busy,
            StatusCode::TOO_MANY_REQUESTS => ErrorKind::RateLimited,
            _ if status.is_server_error() => ErrorKind::Server,
            _ if status.is_client_error() => ErrorKind::Invalid,
            _ => ErrorKind::Malformed,
        };
        Self {
            kind,
            words,
            retry_after: None,
            remedy: None,
        }
    }
}

/// How the body of an answer is read.
type Reading<'a, T> = &'a (dyn Fn(&[u8]) -> Result<T, CloudError> + Send + Sync);

/// A cloud's API.
#[derive(Debug)]
pub struct Client {
    provider: &'static str,
    http: reqwest::Client,
    connection: Connection,
    decoder: &'static dyn ErrorDecoder,
    limiter: Limiter,
    listings: Option<Limiter>,
    /// What each request says besides its own.
    query: Option<(&'static str, String)>,
    logs_exchanges: bool,
    metrics: Metrics,
    /// Whether anything was answered as it was to be, since the start.
    has_answered: AtomicBool,
}

impl Client {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// [`CloudError`] if the authorities or proxies cannot be used.
    pub fn new(
        provider: &'static str,
        connection: Connection,
        decoder: &'static dyn ErrorDecoder,
        limits: Limits,
        metrics: Metrics,
    ) -> Result<Self, CloudError> {
        let http = http(provider, &connection.base, &connection.transport())?;
        Ok(Self {
            provider,
            http,
            connection,
            decoder,
            limiter: Limiter::new(limits),
            listings: None,
            query: None,
            logs_exchanges: false,
            metrics,
            has_answered: AtomicBool::new(false),
        })
    }

    /// The cloud has a budget of its own for listings. They take from both, and when that one is spent
    /// all else goes on.
    #[must_use]
    pub fn listing_limits(mut self, limits: Limits) -> Self {
        self.listings = Some(Limiter::new(limits));
        self
    }

    /// Each request says `?name=value` besides its own, if there is a value: the account that it is about.
    #[must_use]
    pub fn naming(mut self, name: &'static str, value: Option<String>) -> Self {
        self.query = value.map(|value| (name, value));
        self
    }

    /// Whether requests and their answers are logged with their bodies, without secrets.
    #[must_use]
    pub const fn logging_exchanges(mut self, logs: bool) -> Self {
        self.logs_exchanges = logs;
        self
    }

    /// The provider's name.
    #[must_use]
    pub const fn provider(&self) -> &'static str {
        self.provider
    }

    /// Another number whenever another token is in use than before.
    #[must_use]
    pub fn credentials(&self) -> u64 {
        self.connection.credentials.generation()
    }

    /// Whether another token can come without a restart.
    #[must_use]
    pub fn token_may_change(&self) -> bool {
        self.connection.credentials.may_change()
    }

    /// Sends a request and reads its answer.
    ///
    /// # Errors
    /// [`CloudError`] unless the answer is whole and of the type asked for.
    pub async fn fetch<T: DeserializeOwned>(&self, request: &Request) -> Result<T, CloudError> {
        self.ask(request, &|body| {
            serde_json::from_slice(body).map_err(|error| {
                self.malformed(request, &format!("the answer cannot be read: {error}"))
            })
        })
        .await
    }

    /// [`Self::fetch`] of something that may not be there. `None`: by the cloud's own word it is not.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud says whether it is there, and what it is.
    pub async fn find<T: DeserializeOwned>(
        &self,
        request: &Request,
    ) -> Result<Option<T>, CloudError> {
        match self.fetch(request).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// [`Self::fetch`] of what is made by it: its ID.
    ///
    /// # Errors
    /// [`CloudError`] unless the answer tells the ID.
    pub async fn make(&self, request: &Request) -> Result<String, CloudError> {
        #[derive(Deserialize)]
        struct Made {
            #[serde(alias = "uuid", deserialize_with = "id_text")]
            id: String,
        }
        let made: Made = self.fetch(request).await?;
        Ok(made.id)
    }

    /// Sends a request whose answer has nothing to read, and must yet be the cloud's: somebody in
    /// between may answer with a page, and status 200.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud has done what it was asked.
    pub async fn call(&self, request: &Request) -> Result<(), CloudError> {
        self.ask(request, &|body| {
            let is_clouds = body.trim_ascii().is_empty()
                || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
            if is_clouds {
                Ok(())
            } else {
                Err(self.malformed(request, "the answer is neither empty nor JSON"))
            }
        })
        .await
    }

    /// [`Self::call`] for the end of something, which may have come already.
    ///
    /// # Errors
    /// [`CloudError`] unless it is gone.
    pub async fn call_off(&self, request: &Request) -> Result<(), CloudError> {
        match self.call(request).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer,
        }
    }

    /// [`Self::call`] where the cloud answers with a sentence, be it JSON or not.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud has done what it was asked.
    pub async fn call_text(&self, request: &Request) -> Result<(), CloudError> {
        self.ask(request, &|body| {
            if body.trim_ascii_start().starts_with(b"<") {
                Err(self.malformed(request, "the answer is a page"))
            } else {
                Ok(())
            }
        })
        .await
    }

    /// Whether anything was answered as it was to be, since the start.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// A whole call has ended, which took several requests: see [`Request::page`].
    pub fn ended<T>(&self, request: &Request, answer: &Result<T, CloudError>) {
        self.metrics.called(request.operation(), answer.is_ok());
    }

    async fn ask<T>(&self, request: &Request, read: Reading<'_, T>) -> Result<T, CloudError> {
        let answer = self.ask_with_any_token(request, read).await;
        if answer.is_ok() {
            self.has_answered.store(true, Ordering::Relaxed);
        }
        if !request.is_page() {
            self.ended(request, &answer);
        }
        answer
    }

    async fn ask_with_any_token<T>(
        &self,
        request: &Request,
        read: Reading<'_, T>,
    ) -> Result<T, CloudError> {
        let secret = self.connection.credentials.current().await?;
        let times = self.connection.credentials.times();
        self.metrics.uses_token(self.provider, times);
        let answer = self.send_once(request, &secret, read).await;
        match &answer {
            Err(error) if error.kind == ErrorKind::Unauthorized => {}
            _ => return answer,
        }
        match self.connection.credentials.instead_of(&secret).await? {
            Some(secret) => self.send_once(request, &secret, read).await,
            None => answer,
        }
    }

    /// An answer that arrived and yet makes no sense.
    #[must_use]
    pub fn malformed(&self, request: &Request, problem: &str) -> CloudError {
        self.error(
            ErrorKind::Malformed,
            request,
            &format!(
                "{}; is {} the right address, and does nobody else answer in its place?",
                shorten(problem),
                self.connection.base
            ),
        )
    }

    fn error(&self, kind: ErrorKind, request: &Request, what: &str) -> CloudError {
        let path = self.url(request).path().to_owned();
        let method = request.method();
        CloudError::new(self.provider, kind, format!("{method} {path}: {what}"))
    }

    fn url(&self, request: &Request) -> Url {
        let base = &self.connection.base;
        let mut url = base.join(request.path()).unwrap_or_else(|_| base.clone());
        let mut pairs = request.query_pairs().iter().chain(&self.query).peekable();
        if pairs.peek().is_some() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        url
    }

    async fn send_once<T>(
        &self,
        request: &Request,
        secret: &Secret,
        read: Reading<'_, T>,
    ) -> Result<T, CloudError> {
        match self.turn(request).await {
            Ok(waited) => self.metrics.waited(self.provider, waited),
            Err(wait) => {
                self.metrics
                    .counted(self.provider, request.operation(), "held_back");
                let mut error = self.error(
                    ErrorKind::RateLimited,
                    request,
                    "not asked, so as not to ask too much; it will be asked again",
                );
                error.retry_after = Some(wait);
                return Err(error);
            }
        }
        let began = Instant::now();
        let answer = match self.exchange(request, secret).await {
            Ok(body) => read(&body),
            Err(error) => Err(error),
        };
        let (took, status) = (
            began.elapsed(),
            answer.as_ref().map_or_else(|e| e.status, |_| None),
        );
        let result = answer.as_ref().map_or_else(|e| e.kind.label(), |_| "ok");
        self.metrics
            .ended(self.provider, request.operation(), result, took);
        // A target of its own: only -v 6 and more shows it.
        tracing::debug!(
            target: "cloud_api",
            provider = self.provider,
            method = %request.method(),
            url = %self.url(request),
            result,
            status,
            took_s = took.as_secs_f64(),
            "asked a cloud"
        );
        answer
    }

    /// Waits for its turn by all limits that hold for it, and gives for how long.
    async fn turn(&self, request: &Request) -> Result<Duration, Duration> {
        let own = match self.listings.as_ref().filter(|_| request.is_page()) {
            Some(listings) => listings.admit().await?,
            None => Duration::ZERO,
        };
        Ok(own + self.limiter.admit().await?)
    }

    /// Whose budget the answer tells of.
    fn limiter(&self, request: &Request) -> &Limiter {
        let listings = self.listings.as_ref().filter(|_| request.is_page());
        listings.unwrap_or(&self.limiter)
    }

    async fn exchange(&self, request: &Request, secret: &Secret) -> Result<Vec<u8>, CloudError> {
        let mut builder = self
            .http
            .request(request.method().clone(), self.url(request))
            .header(AUTHORIZATION, secret.header())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in request.header_lines() {
            builder = builder.header(*name, value);
        }
        if let Some(body) = request.body() {
            builder = builder.body(body.to_string());
        }
        let sent = tokio::time::Instant::now();
        let response = builder
            .send()
            .await
            .map_err(|error| self.broken(request, error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.read(request, response).await;
        let body = body.map(|body| secret.without(body));
        if self.logs_exchanges {
            let url = self.url(request);
            exchange_log::log(self.provider, &url, request, status, &headers, &body);
        }
        if let Some(wait) = wait::spent_budget(&headers, SystemTime::now()) {
            self.limiter(request).pause(wait);
        }
        if !status.is_success() {
            let body = body.unwrap_or_default();
            return Err(self.refused(request, sent, status, &headers, &body));
        }
        self.limiter(request).accepted();
        let body = body?;
        match self.decoder.error_in_success(&body) {
            Some(words) => {
                let mut error = self.malformed(request, &format!("status {status}, yet: {words}"));
                error.status = Some(status.as_u16());
                error.words = Some(shorten(&words));
                Err(error)
            }
            None => Ok(body),
        }
    }

    async fn read(&self, request: &Request, mut response: Response) -> Result<Vec<u8>, CloudError> {
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| self.broken(request, error))?
        {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST_BODY {
                let problem = format!("the answer is longer than {LONGEST_BODY} bytes");
                return Err(self.malformed(request, &problem));
            }
        }
        Ok(body)
    }

    fn broken(&self, request: &Request, error: reqwest::Error) -> CloudError {
        let error = error.without_url();
        if error.is_timeout() {
            let what = format!(
                "no answer within {} s; {} sets how long to wait",
                self.connection.timeout.as_secs_f64(),
                self.connection.timeout_variable
            );
            return self.error(ErrorKind::Timeout, request, &what);
        }
        let what = format!("the connection failed: {}", with_causes(&error));
        self.error(ErrorKind::Transport, request, &what)
    }

    fn refused(
        &self,
        request: &Request,
        sent: tokio::time::Instant,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> CloudError {
        let refusal = self.decoder.refusal(status, headers, body);
        let asked = wait::retry_after(headers, SystemTime::now());
        let retry_after = match status {
            StatusCode::TOO_MANY_REQUESTS => Some(self.limiter(request).refused(sent, asked)),
            StatusCode::SERVICE_UNAVAILABLE => asked.inspect(|wait| self.limiter.pause(*wait)),
            _ => asked.or(refusal.retry_after),
        };
        let said = refusal.words.as_deref().map(shorten);
        let mut what = status.to_string();
        if let Some(said) = &said {
            what = format!("{what}: {said}");
        }
        let own = refusal.remedy.map(ToOwned::to_owned);
        if let Some(remedy) = own.or_else(|| self.remedy(refusal.kind, headers, retry_after)) {
            what = format!("{what}; {remedy}");
        }
        let mut error = self.error(refusal.kind, request, &what);
        error.status = Some(status.as_u16());
        error.words = said;
        error.retry_after = retry_after;
        error
    }

    fn remedy(
        &self,
        kind: ErrorKind,
        headers: &HeaderMap,
        retry_after: Option<Duration>,
    ) -> Option<String> {
        let host = &self.connection.base;
        let text = match kind {
            ErrorKind::Unauthorized => self.connection.credentials.remedy(),
            ErrorKind::Forbidden => "give the token the right to do this".to_owned(),
            ErrorKind::RateLimited | ErrorKind::Busy | ErrorKind::Server => {
                // Not when: words that change each time would be news each time.
                retry_after.map(|_| "it will be asked again".to_owned())?
            }
            ErrorKind::Malformed => match headers.get(LOCATION).and_then(|to| to.to_str().ok()) {
                Some(to) => format!("it points to {}; is {host} the right address?", shorten(to)),
                None => format!("this is not how the cloud answers; is {host} the right address?"),
            },
            _ => return None,
        };
        Some(text)
    }
}

/// Somebody else's words, on one line and of bearable length.
fn shorten(words: &str) -> String {
    let line = words.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(LONGEST_WORDS).collect()
}

#[cfg(test)]
mod tests;
