//! What the environment says of Brightbox. The names and defaults are those of the Go controller;
//! `BRIGHTBOX_API_TIMEOUT` is ours.

use std::time::Duration;

use reqwest::Url;

use super::NAME;
use crate::cloud_api::oauth2::{
    Access, AccessVariables, ClientCredentials, ClientSource, Grant, Remedies, UserCredentials,
};
use crate::cloud_api::{Environment, Fault};

const DEFAULT_URL: &str = "https://api.gb1.brightbox.com/";
/// The vendor's application for tokens of users.
const APPLICATION: &str = "app-dkmch";

pub(super) const CLIENT: &str = "BRIGHTBOX_CLIENT";
const CLIENT_SECRET: &str = "BRIGHTBOX_CLIENT_SECRET";
pub(super) const USER: &str = "BRIGHTBOX_USER_NAME";
const PASSWORD: &str = "BRIGHTBOX_PASSWORD";
const ACCOUNT: &str = "BRIGHTBOX_ACCOUNT";
const API_URL: &str = "BRIGHTBOX_API_URL";

const ACCESS: AccessVariables = AccessVariables {
    provider: NAME,
    // What the API takes, as the Go controller asks for it.
    scope: Some("infrastructure orbit"),
    remedies: Remedies {
        refused: "put the credentials of an API client that exists into BRIGHTBOX_CLIENT and \
                  BRIGHTBOX_CLIENT_SECRET, or those of a user into BRIGHTBOX_USER_NAME and \
                  BRIGHTBOX_PASSWORD, and start again",
        elsewhere: "is this the right address of the API? BRIGHTBOX_API_URL sets it",
    },
    timeout: ("BRIGHTBOX_API_TIMEOUT", Duration::from_secs(30)),
};

/// How Brightbox is used.
#[derive(Debug)]
pub struct Config {
    /// How its API is reached.
    pub access: Access,
    /// The account that requests name. `None`: the API client has one.
    pub account: Option<String>,
    /// What is worth a line in the log.
    pub notices: Vec<String>,
}

impl Config {
    /// Reads the variables with `env`.
    ///
    /// # Errors
    /// Every [`Fault`] there is.
    pub fn read(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<Fault>> {
        let mut env = Environment::new(env);
        let login = if env.text(USER).is_some() || env.text(PASSWORD).is_some() {
            read_user(&mut env)
        } else {
            read_client(&mut env)
        };
        let (client, account) = login.unzip();
        let urls = read_urls(&mut env);
        let access = Access::read(&mut env, ACCESS, client, urls);
        let notices = env.finish()?;
        Ok(Self {
            // Whatever is missing was a fault.
            access: access.ok_or_else(Vec::new)?,
            account: account.flatten(),
            notices,
        })
    }
}

/// Who asks, by what, and which account requests name.
type Login = ((ClientSource, Grant), Option<String>);

/// An API client belongs to one account, which it need not name.
fn read_client(env: &mut Environment<'_>) -> Option<Login> {
    let client = ClientSource::read(env, CLIENT, CLIENT_SECRET);
    if env.text(ACCOUNT).is_some() {
        env.notice("BRIGHTBOX_ACCOUNT has no effect here: an API client has one account");
    }
    Some(((client?, Grant::ClientCredentials), None))
}

/// A user asks by an application, and may have several accounts.
fn read_user(env: &mut Environment<'_>) -> Option<Login> {
    let (name, password) = (env.required(USER), env.required(PASSWORD));
    let (secret, account) = (env.required(CLIENT_SECRET), env.required(ACCOUNT));
    let id = env.text(CLIENT).unwrap_or_else(|| APPLICATION.to_owned());
    if id.starts_with("cli-") {
        env.fault(
            CLIENT,
            Some(&id),
            "is an API client, which needs no user; take BRIGHTBOX_USER_NAME and BRIGHTBOX_PASSWORD \
             away, or name the application that the user logs in to",
        );
        return None;
    }
    let client = ClientCredentials {
        id,
        secret: secret?,
    };
    let user = UserCredentials {
        name: name?,
        password: password?,
    };
    let client = (client.into(), Grant::Password(user));
    Some((client, Some(account?)))
}

/// Where the API is, and where tokens come from: `1.0/` and `token/` relative to `BRIGHTBOX_API_URL`, by the
/// rules of RFC 3986.
fn read_urls(env: &mut Environment<'_>) -> Option<(Url, Url)> {
    let url = env.url_or(API_URL, DEFAULT_URL)?;
    Some((url.join("1.0/").ok()?, url.join("token/").ok()?))
}

#[cfg(test)]
mod tests;
