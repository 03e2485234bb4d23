//! Who may read an endpoint: whoever the API server says may `get` its path.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

/// How long an answer of the API server counts.
const REMEMBERED: Duration = Duration::from_secs(10);
/// How many answers are remembered; a flood of tokens cannot fill the memory.
const MOST_REMEMBERED: usize = 256;

/// Asks the API server who may read what.
pub struct Access {
    client: Client,
    always_allowed: HashSet<String>,
    remembered: Mutex<HashMap<(String, String), (StatusCode, Instant)>>,
}

impl Access {
    /// Paths that are always allowed are served without asking.
    #[must_use]
    pub fn new(client: Client, always_allowed: HashSet<String>) -> Self {
        Self {
            client,
            always_allowed,
            remembered: Mutex::default(),
        }
    }

    async fn decide(&self, token: &str, path: &str) -> StatusCode {
        let key = (token.to_owned(), path.to_owned());
        {
            let mut remembered = self
                .remembered
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            remembered.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
            if let Some((status, _)) = remembered.get(&key) {
                return *status;
            }
        }
        match self.ask(token, path).await {
            Ok(status) => {
                let mut remembered = self
                    .remembered
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if remembered.len() < MOST_REMEMBERED {
                    remembered.insert(key, (status, Instant::now()));
                }
                status
            }
            Err(error) => {
                tracing::warn!(%error, path, "cannot ask the API server who may read this");
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
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

pub(super) async fn check(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if access.always_allowed.contains(path) {
        return next.run(request).await;
    }
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    let status = match token {
        None => StatusCode::UNAUTHORIZED,
        Some(token) => access.decide(token, path).await,
    };
    match status {
        StatusCode::OK => next.run(request).await,
        refused => refused.into_response(),
    }
}
