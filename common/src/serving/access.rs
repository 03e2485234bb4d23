//! Who may read an endpoint: whoever the API server says may `get` its path.
//!
//! **Guarantees.** A flood of tokens costs the API server [`STRANGERS`] questions a second at most, and neither
//! memory nor the access of those who had it before.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::bucket::TokenBucket;
use crate::errors::with_causes;

/// How long an answer of the API server counts.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many answers of each kind are remembered: a flood of tokens fills no memory.
const MOST_REMEMBERED: usize = 256;
/// For how long a token that was permitted is asked about without waiting behind those that never were, and counts where
/// the API server does not answer: what goes on without it is to be seen without it.
const KNOWN: Duration = Duration::from_secs(24 * 3600);
/// How often the API server is asked about tokens that were never permitted.
const STRANGERS: f64 = 2.0;
/// How many of them at once after a pause.
const STRANGERS_AT_ONCE: u32 = 10;
/// How many of these questions are asked side by side.
const SIDE_BY_SIDE: usize = 4;
/// How long the API server may take.
const LONGEST_REVIEW: Duration = Duration::from_secs(5);

/// Asks the API server who may read what.
pub struct Access {
    client: Client,
    always_allowed: HashSet<String>,
    reviewed: Mutex<Reviewed>,
    strangers: TokenBucket,
    asking: Semaphore,
}

/// A token, and the path that it is for.
type Key = (String, String);

/// What the API server said.
#[derive(Default)]
struct Reviewed {
    /// Who was permitted, and when that was said last.
    permitted: HashMap<Key, Instant>,
    refused: HashMap<Key, (StatusCode, Instant)>,
}

impl Reviewed {
    fn forget(&mut self) {
        self.permitted.retain(|_, at| at.elapsed() < KNOWN);
        self.refused.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
    }

    /// An answer that still counts.
    fn answer(&self, key: &Key) -> Option<StatusCode> {
        match self.permitted.get(key) {
            Some(at) if at.elapsed() < REMEMBERED => Some(StatusCode::OK),
            _ => self.refused.get(key).map(|(status, _)| *status),
        }
    }

    fn learn(&mut self, key: Key, status: StatusCode) {
        if status == StatusCode::OK {
            self.refused.remove(&key);
            self.permitted.insert(key, Instant::now());
            if self.permitted.len() > MOST_REMEMBERED {
                let oldest = self.permitted.iter().min_by_key(|(_, at)| **at);
                let oldest = oldest.map(|(key, _)| key.clone());
                oldest.and_then(|key| self.permitted.remove(&key));
            }
        } else {
            self.permitted.remove(&key);
            if self.refused.len() < MOST_REMEMBERED {
                self.refused.insert(key, (status, Instant::now()));
            }
        }
    }
}

impl Access {
    /// Paths that are always allowed are served without asking.
    #[must_use]
    pub fn new(client: Client, always_allowed: HashSet<String>) -> Self {
        Self {
            client,
            always_allowed,
            reviewed: Mutex::default(),
            strangers: TokenBucket::new(STRANGERS, STRANGERS_AT_ONCE),
            asking: Semaphore::new(SIDE_BY_SIDE),
        }
    }

    async fn decide(&self, token: &str, path: &str) -> StatusCode {
        let key = (token.to_owned(), path.to_owned());
        let is_known = {
            let mut reviewed = self.reviewed();
            reviewed.forget();
            if let Some(status) = reviewed.answer(&key) {
                return status;
            }
            reviewed.permitted.contains_key(&key)
        };
        if is_known {
            let answer = self.review(key).await;
            return answer.unwrap_or(StatusCode::OK);
        }
        let Ok(_turn) = self.asking.acquire().await else {
            return StatusCode::SERVICE_UNAVAILABLE;
        };
        // Another request with the same token may have asked meanwhile.
        if let Some(status) = self.reviewed().answer(&key) {
            return status;
        }
        if self.strangers.admit().await.is_err() {
            return StatusCode::TOO_MANY_REQUESTS;
        }
        let answer = self.review(key).await;
        answer.unwrap_or_else(|| {
            tracing::warn!(path, "the API server does not answer who may read this");
            StatusCode::SERVICE_UNAVAILABLE
        })
    }

    /// What the API server says now, if it answers.
    async fn review(&self, key: Key) -> Option<StatusCode> {
        let (token, path) = &key;
        match timeout(LONGEST_REVIEW, self.ask(token, path)).await {
            Ok(Ok(status)) => {
                self.reviewed().learn(key, status);
                return Some(status);
            }
            Ok(Err(kube::Error::Api(refusal))) if refusal.code < 500 && refusal.code != 429 => {
                // It answers, so what it once permitted counts no more.
                tracing::warn!(error = %refusal.message, path, "the API server refuses to say who may read this");
                self.reviewed().permitted.remove(&key);
                return Some(StatusCode::SERVICE_UNAVAILABLE);
            }
            Ok(Err(error)) => tracing::debug!(error = with_causes(&error), path, "not reviewed"),
            Err(_) => tracing::debug!(path, "not reviewed within {LONGEST_REVIEW:?}"),
        }
        None
    }

    fn reviewed(&self) -> MutexGuard<'_, Reviewed> {
        self.reviewed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str, path: &str) -> Result<StatusCode, kube::Error> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = reviews
            .create(&PostParams::default(), &review)
            .await?
            .status;
        let Some(user) = status
            .filter(|s| s.authenticated == Some(true))
            .and_then(|s| s.user)
        else {
            return Ok(StatusCode::UNAUTHORIZED);
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = access_review(user, path);
        let allowed = reviews
            .create(&PostParams::default(), &review)
            .await?
            .status;
        let allowed = allowed.is_some_and(|status| status.allowed);
        Ok(if allowed {
            StatusCode::OK
        } else {
            StatusCode::FORBIDDEN
        })
    }
}

fn access_review(user: UserInfo, path: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            groups: user.groups,
            uid: user.uid,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some("get".to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// Answers in place of the path if the API server does not permit it, or has not said yet.
pub async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if access.always_allowed.contains(path) {
        return next.run(request).await;
    }
    let status = match token(request.headers()) {
        None => StatusCode::UNAUTHORIZED,
        Some(token) => access.decide(token, path).await,
    };
    match status {
        StatusCode::OK => next.run(request).await,
        refused => refused.into_response(),
    }
}

/// The token that a request shows (RFC 6750, section 2.1).
fn token(headers: &HeaderMap) -> Option<&str> {
    let shown = headers.get(header::AUTHORIZATION)?;
    shown.to_str().ok()?.strip_prefix("Bearer ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scheme is put together, so that no search and replace changes it here and in what it tests alike.
    #[test]
    fn token_is_read_by_the_scheme_of_rfc_6750() {
        let scheme = ["Bea", "rer"].concat();
        let mut headers = HeaderMap::new();
        headers.insert(
            header::AUTHORIZATION,
            format!("{scheme} t0ken").parse().unwrap(),
        );
        assert_eq!(token(&headers), Some("t0ken"));
        headers.insert(header::AUTHORIZATION, "Basic t0ken".parse().unwrap());
        assert_eq!(token(&headers), None);
    }

    fn key(number: usize) -> Key {
        (format!("token-{number}"), "/metrics".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn token_flood_takes_no_memory_and_denies_nobody() {
        let mut reviewed = Reviewed::default();
        reviewed.learn(key(0), StatusCode::OK);
        for number in 1..10_000 {
            reviewed.learn(key(number), StatusCode::UNAUTHORIZED);
        }
        assert_eq!(reviewed.refused.len(), MOST_REMEMBERED);
        assert_eq!(reviewed.answer(&key(0)), Some(StatusCode::OK));
        assert_eq!(reviewed.answer(&key(1)), Some(StatusCode::UNAUTHORIZED));
        tokio::time::advance(REMEMBERED).await;
        reviewed.forget();
        assert!(reviewed.refused.is_empty());
        // It is asked about anew, and without waiting.
        assert_eq!(reviewed.answer(&key(0)), None);
        assert!(reviewed.permitted.contains_key(&key(0)));
        reviewed.learn(key(0), StatusCode::UNAUTHORIZED);
        assert!(reviewed.permitted.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_was_permitted_reads_while_the_api_server_is_away() {
        let away = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(away).unwrap();
        let access = Access::new(client, HashSet::new());
        let (known, path) = key(0);
        access.reviewed().learn(key(0), StatusCode::OK);
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(access.decide(&known, &path).await, StatusCode::OK);
        let stranger = access.decide("another", &path).await;
        assert_eq!(stranger, StatusCode::SERVICE_UNAVAILABLE);
        tokio::time::advance(KNOWN).await;
        let forgotten = access.decide(&known, &path).await;
        assert_eq!(forgotten, StatusCode::SERVICE_UNAVAILABLE);
    }

    /// An API server that answers with this status whatever it is asked.
    fn answering(code: u16) -> Access {
        let service = tower::service_fn(move |_: axum::http::Request<kube::client::Body>| {
            let status = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure",
                "message": "no", "reason": "none", "code": code,
            });
            let body = kube::client::Body::from(status.to_string().into_bytes());
            let response = axum::http::Response::builder().status(code).body(body);
            std::future::ready(response)
        });
        Access::new(Client::new(service, "default"), HashSet::new())
    }

    #[tokio::test(start_paused = true)]
    async fn api_server_that_refuses_a_review_ends_what_it_permitted() {
        let (known, path) = key(0);
        for (code, expected) in [
            (403, StatusCode::SERVICE_UNAVAILABLE),
            (429, StatusCode::OK),
            (500, StatusCode::OK),
        ] {
            let access = answering(code);
            access.reviewed().learn(key(0), StatusCode::OK);
            tokio::time::advance(REMEMBERED).await;
            assert_eq!(access.decide(&known, &path).await, expected, "{code}");
            let is_known = access.reviewed().permitted.contains_key(&key(0));
            assert_eq!(is_known, code != 403, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_that_are_permitted_the_last_are_remembered() {
        let mut reviewed = Reviewed::default();
        for number in 0..=MOST_REMEMBERED {
            reviewed.learn(key(number), StatusCode::OK);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(reviewed.permitted.len(), MOST_REMEMBERED);
        assert_eq!(reviewed.answer(&key(0)), None);
        assert_eq!(reviewed.answer(&key(MOST_REMEMBERED)), Some(StatusCode::OK));
    }
}
