//! What the environment says of Linode. The names and defaults are those of the Go controller.

use std::time::Duration;

use ipnet::IpNet;

use super::Flags;
use crate::cloud_api::{
    Connection, ConnectionVariables, Environment, Fault, TokenVariables, VersionedUrl,
};

const TIMEOUT: Duration = Duration::from_secs(120);
const TOKEN_MAX_AGE: Duration = Duration::from_secs(60);
const ROUTES_MAX_AGE: Duration = Duration::from_secs(60);
/// Linode's own client reads it so too.
const API: VersionedUrl = VersionedUrl {
    url: "LINODE_URL",
    default_url: "https://api.linode.com",
    version: "LINODE_API_VERSION",
    default_version: "v4",
    example: "v4beta",
};
/// What the Go controller reads besides.
const WITHOUT_EFFECT: [&str; 6] = [
    "LINODE_INSTANCE_CACHE_TTL",
    "LINODE_METADATA_TTL",
    "K8S_NODECACHE_TTL",
    "SENTRY_DSN",
    "SENTRY_ENVIRONMENT",
    "SENTRY_RELEASE",
];

/// How Linode is used.
#[derive(Debug)]
pub struct Config {
    /// How its API is reached.
    pub connection: Connection,
    /// What else is said.
    pub settings: Settings,
    /// What is worth a line in the log.
    pub notices: Vec<String>,
}

/// What environment and command line say of Linode, its connection aside.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where NodeBalancers are made (`LINODE_REGION`).
    pub region: String,
    /// Whether the status of Services tells no addresses, unless they say otherwise
    /// (`LINODE_HOSTNAME_ONLY_INGRESS`).
    pub hostname_only: bool,
    /// Private addresses in it are external ones (`LINODE_EXTERNAL_SUBNET`).
    pub external_subnet: Option<IpNet>,
    /// How old a listing of the routes may be (`LINODE_ROUTES_CACHE_TTL_SECONDS`).
    pub routes_max_age: Duration,
    /// What the command line says.
    pub flags: Flags,
}

impl Config {
    /// Reads the variables with `env`, and the files that they name.
    ///
    /// # Errors
    /// Every [`Fault`] there is.
    pub fn read(
        env: &dyn Fn(&str) -> Option<String>,
        mut flags: Flags,
    ) -> Result<Self, Vec<Fault>> {
        let mut env = Environment::new(env);
        let max_age = env.seconds("LINODE_API_TOKEN_CACHE_TTL_SECONDS", TOKEN_MAX_AGE);
        let variables = ConnectionVariables {
            token: TokenVariables {
                token: "LINODE_API_TOKEN",
                file: "LINODE_API_TOKEN_FILE",
                default_file: Some("/var/run/secrets/linode/api-token"),
                max_age,
            },
            timeout: ("LINODE_REQUEST_TIMEOUT_SECONDS", TIMEOUT),
            authorities: Some("LINODE_CA"),
        };
        let connection = Connection::read(&mut env, variables, |env| env.versioned_url(&API));
        let region = env.text("LINODE_REGION");
        if region.is_none() {
            env.fault(
                "LINODE_REGION",
                None,
                "must be set in the environment (use a k8s secret), to the region that \
                 NodeBalancers are made in, such as us-east",
            );
        }
        let external_subnet = env.parsed(
            "LINODE_EXTERNAL_SUBNET",
            "is no block of addresses; write it like 192.0.2.0/24",
        );
        let routes_max_age = env.seconds("LINODE_ROUTES_CACHE_TTL_SECONDS", ROUTES_MAX_AGE);
        let hostname_only = env.bool("LINODE_HOSTNAME_ONLY_INGRESS");
        flags.logs_exchanges |= env.bool("LINODE_DEBUG");
        env.without_effect(&WITHOUT_EFFECT);
        for notice in &flags.notices {
            env.notice(notice);
        }
        let notices = env.finish()?;
        // Whatever is missing was a fault.
        let (connection, region) = connection.zip(region).ok_or_else(Vec::new)?;
        let settings = Settings {
            region,
            hostname_only,
            external_subnet,
            routes_max_age,
            flags,
        };
        Ok(Self {
            connection,
            settings,
            notices,
        })
    }
}

#[cfg(test)]
mod tests;
