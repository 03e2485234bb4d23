//! What the environment and the file of `--cloud-config` say of PhoenixNAP. The names and defaults
//! are those of the Go controller; `PNAP_BASE_URL`, `PNAP_TOKEN_URL`, `PNAP_API_TIMEOUT` and
//! `token-url` are ours.
//!
//! A variable wins over the file. An empty one counts as absent.

mod file;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use reqwest::Url;

use super::Flags;
use super::setting::Setting;
use crate::cloud_api::{Environment, Fault, Proxies};
use file::{File, FileFault};

pub(super) const TIMEOUT: &str = "PNAP_API_TIMEOUT";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_URL: &str = "https://api.phoenixnap.com/";
const DEFAULT_TOKEN_URL: &str =
    "https://auth.phoenixnap.com/auth/realms/BMC/protocol/openid-connect/token";
const DEFAULT_ANNOTATION: &str = "phoenixnap.com/ip-location";

/// Names of the file itself and of its keys, where a fault has no variable.
const FILE: &str = "--cloud-config";

const CLIENT_ID: &str = "PNAP_CLIENT_ID";
const CLIENT_SECRET: &str = "PNAP_CLIENT_SECRET";

/// Who we are to the cloud. Nothing shows the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// `PNAP_CLIENT_ID`.
    pub id: String,
    /// `PNAP_CLIENT_SECRET`.
    pub secret: String,
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCredentials(***)")
    }
}

/// Where the client's credentials are said: what the variables do not say is in the file. Nothing
/// shows them.
#[derive(Clone, Default)]
pub struct ClientSource {
    id: Option<String>,
    secret: Option<String>,
    file: Option<PathBuf>,
}

impl fmt::Debug for ClientSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSource")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl ClientSource {
    /// The credentials as of now, if a file can have others than before.
    pub(super) async fn read(&self) -> Option<ClientCredentials> {
        let bytes = tokio::fs::read(self.file.as_ref()?).await.ok()?;
        self.with(&File::parse(&bytes).ok()?)
    }

    fn with(&self, file: &File) -> Option<ClientCredentials> {
        Some(ClientCredentials {
            id: self.id.clone().or_else(|| given(&file.client_id))?,
            secret: self.secret.clone().or_else(|| given(&file.client_secret))?,
        })
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
    pub client: ClientCredentials,
    /// Where that is said.
    pub client_source: ClientSource,
    /// For a whole request, its answer included.
    pub timeout: Duration,
    /// The proxies in between.
    pub proxies: Proxies,
    /// What becomes of Services.
    pub services: ServiceConfig,
    /// What is worth a line in the log.
    pub notices: Vec<String>,
}

/// What becomes of Services.
#[derive(Clone, Debug, Default)]
pub struct ServiceConfig {
    /// How and where their addresses are announced. None: they get none.
    pub setting: Option<Setting>,
    /// Where blocks are bought, in capitals. None: where the public network is.
    pub location: Option<String>,
    /// The annotation by which a Service may say where its block is to be bought.
    pub location_annotation: String,
    /// What the command line says.
    pub flags: Flags,
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
        let mut env = Environment::new(env);
        let file = match path {
            Some(path) => read_file(&mut env, path),
            None => Some(File::default()),
        };
        // Of a file that cannot be read nobody knows what it lacks.
        let is_read = file.is_some();
        let file = file.unwrap_or_default();
        let client_source = ClientSource {
            id: env.text(CLIENT_ID),
            secret: env.text(CLIENT_SECRET),
            file: path.map(Path::to_path_buf),
        };
        let client = read_client(&mut env, &client_source, &file, is_read);
        let base = read_url(&mut env, Key::BASE, file.base_url.as_deref());
        let token_url = read_url(&mut env, Key::TOKEN, file.token_url.as_deref());
        let (setting, location) = read_load_balancing(&mut env, &file);
        check_port(&mut env, &file);
        if given(&file.service_node_selector).is_some() {
            env.notice(
                "serviceNodeSelector has no effect here; spec.nodeSelector of the L2Network says \
                 which Nodes announce addresses",
            );
        }
        let timeout = env.timeout(TIMEOUT, DEFAULT_TIMEOUT);
        let proxies = Proxies::read(&mut env);
        let location_annotation = env
            .text("PNAP_ANNOTATION_IP_LOCATION")
            .or_else(|| file.annotation_ip_location.clone())
            .filter(|key| !key.is_empty())
            .unwrap_or_else(|| DEFAULT_ANNOTATION.to_owned());
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
            client_source,
            timeout,
            proxies,
            services: ServiceConfig {
                setting,
                location,
                location_annotation,
                flags,
            },
            notices,
        })
    }
}

fn read_file(env: &mut Environment<'_>, path: &Path) -> Option<File> {
    let shown = path.display().to_string();
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let remedy = format!(
                "cannot be read ({error}); name a file that is there, or leave the flag away and \
                 set PNAP_CLIENT_ID and PNAP_CLIENT_SECRET"
            );
            env.fault(FILE, Some(&shown), remedy);
            return None;
        }
    };
    let file = match File::parse(&bytes) {
        Ok(file) => file,
        Err(faults) => {
            for fault in faults {
                tell(env, &shown, fault);
            }
            return None;
        }
    };
    if file.has_trailing_comma {
        env.notice(format!(
            "{shown} has a comma after its last entry, which is no JSON; it is taken all the same"
        ));
    }
    for key in &file.unknown {
        env.notice(format!("{shown}: the key {key:?} means nothing here"));
    }
    Some(file)
}

fn tell(env: &mut Environment<'_>, path: &str, fault: FileFault) {
    match fault {
        FileFault::NotAnObject(why) => env.fault(
            FILE,
            Some(path),
            format!(
                "is no JSON object ({why}); write it like {{\"clientID\": \"…\", \"clientSecret\": \
                 \"…\"}}"
            ),
        ),
        FileFault::WrongType {
            key,
            value,
            expected,
        } => {
            let value = value.unwrap_or_else(|| "the value".to_owned());
            let remedy = format!("{key}: {value} is not {expected}; write {expected}");
            env.fault(FILE, Some(path), remedy);
        }
    }
}

fn read_client(
    env: &mut Environment<'_>,
    source: &ClientSource,
    file: &File,
    file_is_read: bool,
) -> Option<ClientCredentials> {
    for (variable, in_variable, key, in_file) in [
        (CLIENT_ID, &source.id, "clientID", &file.client_id),
        (
            CLIENT_SECRET,
            &source.secret,
            "clientSecret",
            &file.client_secret,
        ),
    ] {
        if in_variable.is_none() && given(in_file).is_none() && file_is_read {
            env.fault(
                variable,
                None,
                format!(
                    "must be set in the environment (from a Secret), or {key} in the file that \
                     {FILE} names"
                ),
            );
        }
    }
    source.with(file)
}

fn given(text: &Option<String>) -> Option<String> {
    let text = text.as_deref()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What names an address.
#[derive(Clone, Copy)]
struct Key {
    variable: &'static str,
    in_file: &'static str,
    default: &'static str,
}

impl Key {
    const BASE: Self = Self {
        variable: "PNAP_BASE_URL",
        in_file: "base-url in --cloud-config",
        default: DEFAULT_URL,
    };
    const TOKEN: Self = Self {
        variable: "PNAP_TOKEN_URL",
        in_file: "token-url in --cloud-config",
        default: DEFAULT_TOKEN_URL,
    };
}

fn read_url(env: &mut Environment<'_>, key: Key, in_file: Option<&str>) -> Option<Url> {
    let (name, text) = match (env.text(key.variable), in_file.map(str::trim)) {
        (Some(text), _) => (key.variable, text),
        (None, Some(text)) if !text.is_empty() => (key.in_file, text.to_owned()),
        _ => (key.variable, key.default.to_owned()),
    };
    let remedy = format!("is no address of an API; write it like {}", key.default);
    env.url(name, &text, &remedy)
}

fn read_load_balancing(
    env: &mut Environment<'_>,
    file: &File,
) -> (Option<Setting>, Option<String>) {
    let location = env
        .text("PNAP_LOCATION")
        .or_else(|| given(&file.location))
        .map(|location| location.to_uppercase());
    let (name, text) = match (env.text("PNAP_LOAD_BALANCER"), given(&file.load_balancer)) {
        (Some(text), _) => ("PNAP_LOAD_BALANCER", text),
        (None, Some(text)) => ("loadbalancer in --cloud-config", text),
        (None, None) => return (None, location),
    };
    let setting = match Setting::from_str(&text) {
        Ok(setting) => Some(setting),
        Err(remedy) => {
            env.fault(name, Some(&text), remedy);
            None
        }
    };
    if let (Some(Setting::Bgp(None)), None) = (&setting, &location) {
        env.fault(
            "PNAP_LOCATION",
            None,
            "must be set with bgp://, to where the servers are, such as PHX; or name the peer \
             group: bgp://IDENTIFIER",
        );
    }
    (setting, location)
}

/// It has no effect, as with the Go controller, which yet refuses what is no number.
fn check_port(env: &mut Environment<'_>, file: &File) {
    let variable = "PNAP_API_SERVER_PORT";
    let in_variable = env.text(variable);
    if let Some(text) = &in_variable
        && text.parse::<i64>().is_err()
    {
        env.fault(
            variable,
            Some(text),
            "must be a number; or take it away, for it has no effect",
        );
    } else if in_variable.is_some() || file.api_server_port.is_some_and(|port| port != 0) {
        env.notice("the API server's port has no effect here");
    }
}

#[cfg(test)]
mod tests;
