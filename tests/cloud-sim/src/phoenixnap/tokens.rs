//! Where tokens come from, and which of them are good.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};

use super::answers::with;
use super::{Handle, lock};
use crate::request::decoded;

/// The only client that can get a token. It opens nothing else.
pub const CLIENT_ID: &str = "a-client-of-the-simulation";

/// Its secret.
pub const CLIENT_SECRET: &str = "a-secret-of-the-simulation-that-opens-nothing-else";

pub(super) const ALL_SCOPES: [&str; 4] = ["bmc", "bmc.read", "tags", "tags.read"];

struct Token {
    text: String,
    until: Instant,
    scopes: Vec<String>,
}

pub(super) struct Tokens {
    /// The secret that the client has now.
    secret: String,
    /// What the client may ask for, which is also what it gets if it does not say.
    pub(super) scopes: Vec<String>,
    good: Vec<Token>,
}

/// What a token permits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Permit {
    Granted,
    Forbidden,
    Unknown,
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self {
            secret: CLIENT_SECRET.to_owned(),
            scopes: ALL_SCOPES.map(ToOwned::to_owned).into(),
            good: Vec::new(),
        }
    }

    /// No token is good any more.
    pub(super) fn revoke(&mut self) {
        self.good.clear();
    }

    /// The client has another secret, or the one that it had at first.
    pub(super) fn change_secret(&mut self, is_changed: bool) {
        let secret = if is_changed { "another" } else { CLIENT_SECRET };
        secret.clone_into(&mut self.secret);
    }

    fn issue(&mut self, scopes: Vec<String>, now: Instant, lifetime: Duration) -> String {
        let text = format!("a-token-of-the-simulation-{}", uuid::Uuid::new_v4());
        self.good.retain(|token| token.until > now);
        self.good.push(Token {
            text: text.clone(),
            until: now + lifetime,
            scopes,
        });
        text
    }

    /// Whether a request with this header may be made.
    pub(super) fn permit(
        &self,
        given: Option<&str>,
        method: &Method,
        path: &str,
        now: Instant,
    ) -> Permit {
        let given = given.and_then(|given| given.strip_prefix("Bearer "));
        let token = self
            .good
            .iter()
            .find(|token| given == Some(token.text.as_str()) && token.until > now);
        let Some(token) = token else {
            return Permit::Unknown;
        };
        let api = if path.starts_with("/tag-manager/") {
            "tags"
        } else {
            "bmc"
        };
        let reads = method == Method::GET && token.scopes.contains(&format!("{api}.read"));
        if reads || token.scopes.iter().any(|scope| scope == api) {
            Permit::Granted
        } else {
            Permit::Forbidden
        }
    }
}

fn refused(status: StatusCode, error: &str, description: &str) -> Response {
    let body = json!({ "error": error, "error_description": description });
    with(status, &body)
}

/// `POST` with a form: `grant_type=client_credentials`, perhaps `scope`, and the client by HTTP
/// Basic or as `client_id` and `client_secret`.
pub(super) async fn grant(
    Shared(state): Shared<Handle>,
    headers: HeaderMap,
    form: Bytes,
) -> Response {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/x-www-form-urlencoded") {
        let why = "Content-Type is not application/x-www-form-urlencoded";
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request", why);
    }
    let form = decoded(&String::from_utf8_lossy(&form));
    let field = |name: &str| {
        let found = form.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    };
    let client = match headers.get(header::AUTHORIZATION) {
        Some(given) => basic(given.to_str().unwrap_or_default()),
        None => field("client_id").zip(field("client_secret")),
    };
    let mut state = lock(&state);
    let known = client.is_some_and(|(id, secret)| id == CLIENT_ID && secret == state.tokens.secret);
    if !known {
        let why = "Invalid client or Invalid client credentials";
        return refused(StatusCode::UNAUTHORIZED, "invalid_client", why);
    }
    match field("grant_type").as_deref() {
        Some("client_credentials") => {}
        None => {
            let why = "Missing form parameter: grant_type";
            return refused(StatusCode::BAD_REQUEST, "invalid_request", why);
        }
        Some(_) => {
            let why = "Unsupported grant_type";
            return refused(StatusCode::BAD_REQUEST, "unsupported_grant_type", why);
        }
    }
    let permitted = state.tokens.scopes.clone();
    let scopes = match field("scope") {
        None => permitted,
        Some(asked) => {
            let asked: Vec<String> = asked.split_whitespace().map(ToOwned::to_owned).collect();
            if asked.iter().any(|scope| !permitted.contains(scope)) {
                let why = format!("Invalid scopes: {}", asked.join(" "));
                return refused(StatusCode::BAD_REQUEST, "invalid_scope", &why);
            }
            asked
        }
    };
    let (now, lifetime) = (state.now(), state.behaviour.token_lifetime);
    let scope = scopes.join(" ");
    let token = state.tokens.issue(scopes, now, lifetime);
    granted(&token, lifetime, &scope)
}

fn granted(token: &str, lifetime: Duration, scope: &str) -> Response {
    let body: Value = json!({
        "access_token": token,
        "expires_in": lifetime.as_secs(),
        "refresh_expires_in": 0,
        "token_type": "Bearer",
        "not-before-policy": 0,
        "scope": scope,
    });
    with(StatusCode::OK, &body)
}

/// Name and password of HTTP Basic, each percent-encoded as RFC 6749 wants it.
fn basic(given: &str) -> Option<(String, String)> {
    let decoded_text = STANDARD.decode(given.strip_prefix("Basic ")?).ok()?;
    let text = String::from_utf8(decoded_text).ok()?;
    let (id, secret) = text.split_once(':')?;
    let whole = |text: &str| {
        let pair = format!("x={text}");
        decoded(&pair).pop().map(|(_, value)| value)
    };
    Some((whole(id)?, whole(secret)?))
}
