//! Linode's metadata service.
//!
//! ```text
//!   PUT /v1/token ──► token, kept until shortly before it expires
//!   GET /v1/instance, /v1/network, /v1/instance ──► facts
//! ```

mod facts;
mod token;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::header::{ACCEPT, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use ipnet::IpNet;
use mooring_common::machines::Identity;
use tokio::time::Instant;

use super::errors::{MetadataError, Problem};
use super::http::{Answer, Endpoint};
use super::values::Document;
use super::{MetadataSource, Probe, SourceAnswer};

use token::Token;

const NAME: &str = "linode";
const TOKEN_PATH: &str = "/v1/token";
const INSTANCE_PATH: &str = "/v1/instance";
const NETWORK_PATH: &str = "/v1/network";
/// For how long a token is asked for; the service permits a second to a day.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);
const TOKEN_LIFE_HEADER: HeaderName = HeaderName::from_static("metadata-token-expiry-seconds");
const TOKEN_HEADER: HeaderName = HeaderName::from_static("metadata-token");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Linode's metadata service as a metadata source.
#[derive(Debug)]
pub struct LinodeSource {
    endpoint: Endpoint,
    external: Option<IpNet>,
    token: Mutex<Option<Token>>,
}

impl LinodeSource {
    /// The service at this endpoint. Private addresses within `external` count as public ones.
    #[must_use]
    pub const fn new(endpoint: Endpoint, external: Option<IpNet>) -> Self {
        Self {
            endpoint,
            external,
            token: Mutex::new(None),
        }
    }

    /// The token that is held, if it will last for a while.
    fn held(&self) -> Option<HeaderValue> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        Some(token.as_ref()?.usable(now)?.clone())
    }

    async fn ask_for_token(&self) -> Result<Answer, MetadataError> {
        let life = HeaderValue::from(TOKEN_LIFE.as_secs());
        let headers = [(TOKEN_LIFE_HEADER, life), (ACCEPT, JSON)];
        self.endpoint.ask(Method::PUT, TOKEN_PATH, &headers).await
    }

    /// Asks for another token and holds it.
    async fn renew(&self) -> Result<HeaderValue, MetadataError> {
        let asked = Instant::now();
        let answer = self.ask_for_token().await?.found(NAME)?;
        let token = Token::read(&answer.body, asked + TOKEN_LIFE).ok_or_else(|| {
            MetadataError::Unanswered {
                url: answer.url,
                problem: Problem::NoToken,
            }
        })?;
        let value = token.value().clone();
        let mut held = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        *held = Some(token);
        Ok(value)
    }

    async fn get(&self, path: &str) -> Result<Document, MetadataError> {
        let token = match self.held() {
            Some(token) => token,
            None => self.renew().await?,
        };
        let mut answer = self.get_with(path, token).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            // The service has forgotten it, as after a migration of the machine.
            let token = self.renew().await?;
            answer = self.get_with(path, token).await?;
        }
        if answer.status == StatusCode::UNAUTHORIZED {
            return Err(MetadataError::Unanswered {
                url: answer.url,
                problem: Problem::Status(answer.status),
            });
        }
        let answer = answer.found(NAME)?;
        Document::read(&answer.url, answer.body.as_bytes())
    }

    async fn get_with(&self, path: &str, token: HeaderValue) -> Result<Answer, MetadataError> {
        let headers = [(TOKEN_HEADER, token), (ACCEPT, JSON)];
        self.endpoint.get(path, &headers).await
    }
}

#[async_trait]
impl MetadataSource for LinodeSource {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn facts(&self, node: &Identity) -> Result<SourceAnswer, MetadataError> {
        let instance = self.get(INSTANCE_PATH).await?;
        let network = self.get(NETWORK_PATH).await?;
        let afterwards = self.get(INSTANCE_PATH).await?;
        facts::same_instance(&instance, &afterwards)?;
        facts::describe(&instance, &network, self.external, &node.name)
    }
}

#[async_trait]
impl Probe for LinodeSource {
    /// No other cloud gives tokens in this way.
    async fn recognises(&self) -> Result<bool, MetadataError> {
        let answer = self.ask_for_token().await?;
        if !answer.is_found() {
            return Ok(false);
        }
        let expires = Instant::now() + TOKEN_LIFE;
        match Token::read(&answer.body, expires) {
            Some(token) => {
                let mut held = self.token.lock().unwrap_or_else(PoisonError::into_inner);
                *held = Some(token);
                Ok(true)
            }
            None => Err(MetadataError::Unanswered {
                url: answer.url,
                problem: Problem::NoToken,
            }),
        }
    }
}

#[cfg(test)]
mod tests;
