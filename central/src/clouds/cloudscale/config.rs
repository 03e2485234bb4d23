//! What the environment says of cloudscale.ch. The names and defaults are those of the Go
//! controller; `CLOUDSCALE_ACCESS_TOKEN_FILE` is ours.

use std::time::Duration;

use reqwest::Url;

use crate::cloud_api::{Connection, ConnectionVariables, Environment, Fault, TokenVariables};

const VARIABLES: ConnectionVariables = ConnectionVariables {
    token: TokenVariables {
        token: "CLOUDSCALE_ACCESS_TOKEN",
        file: "CLOUDSCALE_ACCESS_TOKEN_FILE",
        default_file: None,
        max_age: Duration::from_secs(60),
    },
    timeout: ("CLOUDSCALE_API_TIMEOUT", Duration::from_secs(20)),
    authorities: None,
};
const DEFAULT_URL: &str = "https://api.cloudscale.ch/";

/// How cloudscale.ch is used.
#[derive(Debug)]
pub struct Config {
    /// How its API is reached.
    pub connection: Connection,
    /// What is worth a line in the log.
    pub notices: Vec<String>,
}

impl Config {
    /// Reads the variables with `env`, and the file that they name.
    ///
    /// # Errors
    /// Every [`Fault`] there is.
    pub fn read(env: &dyn Fn(&str) -> Option<String>) -> Result<Self, Vec<Fault>> {
        let mut env = Environment::new(env);
        let connection = Connection::read(&mut env, VARIABLES, read_base);
        let notices = env.finish()?;
        // Whatever is missing was a fault.
        let connection = connection.ok_or_else(Vec::new)?;
        Ok(Self {
            connection,
            notices,
        })
    }
}

/// `v1/` relative to `CLOUDSCALE_API_URL`, by the rules of RFC 3986: what stands after the last
/// slash is replaced. Other tools of the vendor write the `v1` into the variable; that does too.
fn read_base(env: &mut Environment<'_>) -> Option<Url> {
    let variable = "CLOUDSCALE_API_URL";
    let text = env.text(variable).unwrap_or_else(|| DEFAULT_URL.to_owned());
    let remedy = "is no address of an API; write it like https://api.cloudscale.ch/";
    let mut url = env.url(variable, &text, remedy)?;
    if let Some(before) = url.path().strip_suffix("/v1/").map(ToOwned::to_owned) {
        url.set_path(&format!("{before}/"));
    }
    url.join("v1/").ok()
}

#[cfg(test)]
mod tests;
