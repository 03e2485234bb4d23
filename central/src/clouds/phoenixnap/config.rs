//! What the environment and the file of `--cloud-config` say of PhoenixNAP. The names and defaults
//! are those of the Go controller; `PNAP_BASE_URL`, `PNAP_TOKEN_URL`, `PNAP_API_TIMEOUT` and
//! `token-url` are ours.
//!
//! A variable wins over the file. An empty one counts as absent.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use reqwest::Url;

use super::setting::{Setting, Settings};
use super::{Flags, NAME, annotations};
use crate::cloud_api::KeyKind::{Integer, Secret, Text};
use crate::cloud_api::oauth2::{self, Access, ClientSource, Grant, Remedies};
use crate::cloud_api::{Environment, Fault, FileKey, Proxies};

const TIMEOUT: &str = "PNAP_API_TIMEOUT";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_URL: &str = "https://api.phoenixnap.com/";
const DEFAULT_TOKEN_URL: &str =
    "https://auth.phoenixnap.com/auth/realms/BMC/protocol/openid-connect/token";

const CLIENT_ID: &str = "PNAP_CLIENT_ID";
const CLIENT_SECRET: &str = "PNAP_CLIENT_SECRET";
const LOCATION: &str = "PNAP_LOCATION";
const LOAD_BALANCER: &str = "PNAP_LOAD_BALANCER";
const ANNOTATION: &str = "PNAP_ANNOTATION_IP_LOCATION";
const PORT: &str = "PNAP_API_SERVER_PORT";
const BASE_URL: &str = "PNAP_BASE_URL";
const TOKEN_URL: &str = "PNAP_TOKEN_URL";
const NODE_SELECTOR: &str = "serviceNodeSelector";

/// What reading and changing servers, blocks, networks and tags takes.
const SCOPE: &str = "bmc bmc.read tags tags.read";

const REMEDIES: Remedies = Remedies {
    refused: "put the credentials of a client that exists into PNAP_CLIENT_ID and PNAP_CLIENT_SECRET \
              and start again, or into clientID and clientSecret of --cloud-config, which is read \
              again by itself",
    elsewhere: "is this the right address for tokens? PNAP_TOKEN_URL, or token-url of --cloud-config, \
                sets it",
};

/// The keys of the file.
const KEYS: &[FileKey] = &[
    FileKey::new("clientID", Some(CLIENT_ID), Secret),
    FileKey::new("clientSecret", Some(CLIENT_SECRET), Secret),
    FileKey::new("location", Some(LOCATION), Text),
    FileKey::new("loadbalancer", Some(LOAD_BALANCER), Text),
    FileKey::new("annotationIPLocation", Some(ANNOTATION), Text),
    FileKey::new("apiServerPort", Some(PORT), Integer),
    FileKey::new("base-url", Some(BASE_URL), Text),
    FileKey::new("token-url", Some(TOKEN_URL), Text),
    FileKey::new(NODE_SELECTOR, None, Text),
];

/// How PhoenixNAP is used.
#[derive(Debug)]
pub struct Config {
    /// How its API is reached.
    pub access: Access,
    /// What becomes of Services. `None`: they get no addresses.
    pub services: Option<Settings>,
    /// What is worth a line in the log.
    pub notices: Vec<String>,
}

impl Config {
    /// Reads the variables with `env`, and the file, if there is one.
    ///
    /// # Errors
    /// Every [`Fault`] there is.
    pub fn read(
        env: &dyn Fn(&str) -> Option<String>,
        path: Option<&Path>,
        flags: Flags,
    ) -> Result<Self, Vec<Fault>> {
        let mut env = Environment::with_file(env, path, KEYS);
        let client = ClientSource::read(&mut env, CLIENT_ID, CLIENT_SECRET);
        let base = env.url_or(BASE_URL, DEFAULT_URL);
        let token_url = env.url_or(TOKEN_URL, DEFAULT_TOKEN_URL);
        let is_elsewhere = |base: &Url| !base.as_str().starts_with(DEFAULT_URL);
        if env.text(TOKEN_URL).is_none() && base.as_ref().is_some_and(is_elsewhere) {
            env.notice(format!(
                "{BASE_URL} or base-url is not phoenixNAP's own address, and yet the client's credentials are \
                 sent to {DEFAULT_TOKEN_URL}; set {TOKEN_URL} or token-url to where that API has its tokens"
            ));
        }
        let services = read_services(&mut env, flags);
        check_without_effect(&mut env);
        let timeout = env.timeout(TIMEOUT, DEFAULT_TIMEOUT);
        let proxies = Proxies::read(&mut env);
        let notices = env.finish()?;
        // Whatever is missing was a fault.
        let (Some(client), Some(mut base), Some(token_url)) = (client, base, token_url) else {
            return Err(Vec::new());
        };
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let access = Access {
            base,
            tokens: tokens(token_url, client),
            timeout,
            timeout_variable: TIMEOUT,
            proxies,
        };
        Ok(Self {
            access,
            services,
            notices,
        })
    }
}

/// Tokens for this client's credentials (RFC 6749, 4.4).
const fn tokens(token_url: Url, client: ClientSource) -> oauth2::Settings {
    oauth2::Settings {
        provider: NAME,
        token_url,
        client,
        grant: Grant::ClientCredentials,
        scope: Some(SCOPE),
        remedies: REMEDIES,
    }
}

fn read_services(env: &mut Environment<'_>, flags: Flags) -> Option<Settings> {
    let location = env.text(LOCATION).map(|location| location.to_uppercase());
    let annotation = env.text(ANNOTATION);
    let setting = read_setting(env)?;
    if setting == Setting::Bgp(None) && location.is_none() {
        env.fault(
            LOCATION,
            None,
            "must be set with bgp://, to where the servers are, such as PHX; or name the peer \
             group: bgp://IDENTIFIER",
        );
    }
    Some(Settings {
        setting,
        location,
        location_annotation: annotation.unwrap_or_else(|| annotations::IP_LOCATION.key.to_owned()),
        flags,
    })
}

fn read_setting(env: &mut Environment<'_>) -> Option<Setting> {
    let text = env.text(LOAD_BALANCER)?;
    Setting::from_str(&text)
        .map_err(|remedy| env.fault(LOAD_BALANCER, Some(&text), remedy))
        .ok()
}

/// What has no effect, as with the Go controller, which yet refuses a port that is no number.
fn check_without_effect(env: &mut Environment<'_>) {
    match env.text(PORT) {
        Some(port) if port.parse::<i64>().is_err() => env.fault(
            PORT,
            Some(&port),
            "must be a number; or take it away, for it has no effect",
        ),
        Some(_) => env.notice("the API server's port has no effect here"),
        None => {}
    }
    if env.in_file(NODE_SELECTOR).is_some() {
        env.notice(
            "serviceNodeSelector has no effect here; spec.nodeSelector of the L2Network says \
             which Nodes announce addresses",
        );
    }
}

#[cfg(test)]
mod tests;
