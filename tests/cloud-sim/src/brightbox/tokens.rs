//! Where tokens come from, and which of them are good.

use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode, header};
use serde_json::json;

use super::answers::with;
use super::{Handle, lock};
use crate::request::decoded;

/// The only API client that there is. It opens nothing else.
pub const CLIENT_ID: &str = "cli-simul";
/// Its secret.
pub const CLIENT_SECRET: &str = "a-secret-of-the-simulation-that-opens-nothing-else";
/// The application that asks for tokens of users; it may have any secret.
pub const APPLICATION: &str = "app-dkmch";
/// The only user.
pub const USER: &str = "jane@example.com";
/// Their password.
pub const PASSWORD: &str = "a-password-of-the-simulation-that-opens-nothing-else";
/// The only account.
pub const ACCOUNT: &str = "acc-simul";

/// The parts of the scope that a token may have.
const SCOPES: [&str; 2] = ["infrastructure", "orbit"];

struct Token {
    text: String,
    refresh: Option<String>,
    until: Instant,
    is_of_user: bool,
}

pub(super) struct Tokens {
    /// The secret that the client has now.
    secret: String,
    good: Vec<Token>,
}

/// What a token permits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// Everything of its account.
    Client,
    /// Everything of an account that is named.
    User,
    /// Nothing: it is known no more.
    Expired,
    /// Nothing: nobody has given it.
    Unknown,
}

impl Tokens {
    pub(super) fn new() -> Self {
        Self {
            secret: CLIENT_SECRET.to_owned(),
            good: Vec::new(),
        }
    }

    /// No token is good any more, also none that renews another.
    pub(super) fn revoke(&mut self) {
        self.good.clear();
    }

    /// The client has another secret, or the one that it had at first.
    pub(super) fn change_secret(&mut self, is_changed: bool) {
        let secret = if is_changed { "another" } else { CLIENT_SECRET };
        secret.clone_into(&mut self.secret);
    }

    fn issue(&mut self, is_of_user: bool, until: Instant) -> (String, Option<String>) {
        let text = format!("a-token-of-the-simulation-{}", uuid::Uuid::new_v4());
        let refresh = is_of_user.then(|| format!("a-refresh-{}", uuid::Uuid::new_v4()));
        self.good.push(Token {
            text: text.clone(),
            refresh: refresh.clone(),
            until,
            is_of_user,
        });
        (text, refresh)
    }

    /// Whether a request with this header may be made. The scheme was `OAuth` once, and still may be.
    pub(super) fn permit(&self, given: Option<&str>, now: Instant) -> Permit {
        let given = given.and_then(|given| {
            let bearer = given.strip_prefix("Bearer ");
            bearer.or_else(|| given.strip_prefix("OAuth "))
        });
        let mut good = self.good.iter();
        match good.find(|token| given == Some(token.text.as_str())) {
            None => Permit::Unknown,
            Some(token) if token.until <= now => Permit::Expired,
            Some(token) if token.is_of_user => Permit::User,
            Some(_) => Permit::Client,
        }
    }

    /// Takes a token that renews another; whether it is good.
    fn renew(&mut self, refresh: Option<&str>) -> bool {
        let before = self.good.len();
        self.good
            .retain(|token| token.refresh.is_none() || token.refresh.as_deref() != refresh);
        self.good.len() < before
    }
}

fn refused(status: StatusCode, error: &str, description: &str) -> Response {
    let body = json!({ "error": error, "error_description": description });
    with(status, &body)
}

/// `POST` with a form: `grant_type`, `scope`, what the grant needs, and the client by HTTP Basic or as
/// `client_id` and `client_secret`.
pub(super) async fn grant(
    Shared(state): Shared<Handle>,
    headers: HeaderMap,
    form: Bytes,
) -> Response {
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
    let is_application = client.as_ref().is_some_and(|(id, _)| id == APPLICATION);
    let is_client =
        client.is_some_and(|(id, secret)| id == CLIENT_ID && secret == state.tokens.secret);
    if !is_application && !is_client {
        let why = "Client authentication failed";
        return refused(StatusCode::UNAUTHORIZED, "invalid_client", why);
    }
    let asked = field("scope").unwrap_or_default();
    if asked
        .split_whitespace()
        .any(|scope| !SCOPES.contains(&scope))
    {
        return refused(StatusCode::BAD_REQUEST, "invalid_scope", "Unknown scope");
    }
    let is_of_user = match field("grant_type").as_deref() {
        Some("client_credentials") if is_client => false,
        Some("password") if is_application => {
            let is_known = field("username").as_deref() == Some(USER)
                && field("password").as_deref() == Some(PASSWORD);
            if !is_known {
                let why = "Invalid username or password";
                return refused(StatusCode::BAD_REQUEST, "invalid_grant", why);
            }
            true
        }
        Some("refresh_token") if is_application => {
            if !state.tokens.renew(field("refresh_token").as_deref()) {
                let why = "The refresh token is not valid";
                return refused(StatusCode::BAD_REQUEST, "invalid_grant", why);
            }
            true
        }
        Some("client_credentials" | "password" | "refresh_token") => {
            let why = "This client may not use this grant";
            return refused(StatusCode::BAD_REQUEST, "unauthorized_client", why);
        }
        _ => {
            let why = "grant_type is missing or unknown";
            return refused(StatusCode::BAD_REQUEST, "unsupported_grant_type", why);
        }
    };
    let lifetime = state.behaviour.token_lifetime;
    let until = state.now() + lifetime;
    let (token, refresh) = state.tokens.issue(is_of_user, until);
    granted(&token, refresh.as_deref(), lifetime, &asked)
}

fn granted(token: &str, refresh: Option<&str>, lifetime: Duration, scope: &str) -> Response {
    let mut body = json!({
        "access_token": token,
        "expires_in": lifetime.as_secs(),
        "token_type": "Bearer",
        "scope": scope,
    });
    if let Some(refresh) = refresh {
        body["refresh_token"] = json!(refresh);
    }
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
