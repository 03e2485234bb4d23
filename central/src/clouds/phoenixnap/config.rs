//! What the environment and the file of `--cloud-config` say of PhoenixNAP. The names and defaults
//! are those of the Go controller; `PNAP_BASE_URL`, `PNAP_TOKEN_URL`, `PNAP_API_TIMEOUT` and
//! `token-url` are ours.
//!
//! A variable wins over the file. An empty one counts as absent.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use reqwest::Url;

use super::Flags;
use super::setting::{Setting, Settings};
use crate::cloud_api::KeyKind::{Integer, Secret, Text};
use crate::cloud_api::oauth2::ClientSource;
use crate::cloud_api::{Environment, Fault, FileKey, KeyKind, Proxies};

pub(super) const TIMEOUT: &str = "PNAP_API_TIMEOUT";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_URL: &str = "https://api.phoenixnap.com/";
const DEFAULT_TOKEN_URL: &str =
    "https://auth.phoenixnap.com/auth/realms/BMC/protocol/openid-connect/token";
const DEFAULT_ANNOTATION: &str = "phoenixnap.com/ip-location";

const CLIENT_ID: &str = "PNAP_CLIENT_ID";
const CLIENT_SECRET: &str = "PNAP_CLIENT_SECRET";
const LOCATION: &str = "PNAP_LOCATION";
const LOAD_BALANCER: &str = "PNAP_LOAD_BALANCER";
const ANNOTATION: &str = "PNAP_ANNOTATION_IP_LOCATION";
const PORT: &str = "PNAP_API_SERVER_PORT";
const BASE_URL: &str = "PNAP_BASE_URL";
const TOKEN_URL: &str = "PNAP_TOKEN_URL";
const NODE_SELECTOR: &str = "serviceNodeSelector";

/// The keys of the file.
const KEYS: &[FileKey] = &[
    key("clientID", Some(CLIENT_ID), Secret),
    key("clientSecret", Some(CLIENT_SECRET), Secret),
    key("location", Some(LOCATION), Text),
    key("loadbalancer", Some(LOAD_BALANCER), Text),
    key("annotationIPLocation", Some(ANNOTATION), Text),
    key("apiServerPort", Some(PORT), Integer),
    key("base-url", Some(BASE_URL), Text),
    key("token-url", Some(TOKEN_URL), Text),
    key(NODE_SELECTOR, None, Text),
];

const fn key(name: &'static str, variable: Option<&'static str>, kind: KeyKind) -> FileKey {
    FileKey {
        name,
        variable,
        kind,
    }
}

/// How PhoenixNAP is used.
#[derive(Debug)]
pub struct Config {
    /// Where its API is; ends with a slash.
    pub base: Url,
    /// Where tokens are given.
    pub token_url: Url,
    /// Who we are.
    pub client: ClientSource,
    /// For a whole request, its answer included.
    pub timeout: Duration,
    /// The proxies in between.
    pub proxies: Proxies,
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
        Ok(Self {
            base,
            token_url,
            client,
            timeout,
            proxies,
            services,
            notices,
        })
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
        location_annotation: annotation.unwrap_or_else(|| DEFAULT_ANNOTATION.to_owned()),
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
