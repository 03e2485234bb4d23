//! The connection to the API server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::connection::{self, Connections};
use crate::clear_text::is_exposed;

/// Where the API server is, and who asks.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// A kubeconfig file. Absent: `KUBECONFIG`, or the configuration that every Pod is given.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Absent: its current one.
    pub context: Option<String>,
    /// The API server's address, overriding the configuration's.
    pub master: Option<String>,
    /// How this program names itself in the audit log.
    pub user_agent: String,
    /// How requests share connections.
    pub connections: Connections,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig file cannot be used.
    #[error("cannot use kubeconfig {}; check --kubeconfig", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// The kubeconfig has no such context, or one that cannot be used.
    #[error("cannot use the context {context:?}; kubectl config get-contexts lists them")]
    Context {
        /// The context.
        context: String,
        /// What is wrong with it.
        source: kube::config::KubeconfigError,
    },
    /// Neither a kubeconfig nor a Pod's configuration was found.
    #[error("no --kubeconfig was given, and this is no Pod of a cluster")]
    NotInCluster(#[source] kube::config::InferConfigError),
    /// `--master` is no URL.
    #[error("--master {master:?} is no URL; write it like https://10.0.0.1:6443")]
    Master {
        /// What was written.
        master: String,
        /// What is wrong with it.
        source: http::uri::InvalidUri,
    },
    /// The configuration is read, but a client cannot be made from it.
    #[error("cannot make a client from the cluster configuration")]
    Client(#[source] kube::Error),
}

/// Makes the client. Nothing is asked of the API server yet. What takes too long is for the
/// callers to end: [`crate::work_queue`] for passes, the leases for themselves. The client's own limit is
/// that of a watch.
///
/// # Errors
/// [`ClientError`], naming what to correct.
pub async fn client(options: &ClientOptions) -> Result<Client, ClientError> {
    let mut config = match &options.kubeconfig {
        Some(path) => from_file(path, options.context.as_ref()).await?,
        None => match &options.context {
            Some(context) => of_context(context).await?,
            None => Config::infer().await.map_err(ClientError::NotInCluster)?,
        },
    };
    if let Some(master) = &options.master {
        config.cluster_url = master.parse().map_err(|source| ClientError::Master {
            master: master.clone(),
            source,
        })?;
    }
    let (scheme, host) = (config.cluster_url.scheme_str(), config.cluster_url.host());
    if is_exposed(scheme.unwrap_or_default(), host.unwrap_or_default()) {
        tracing::warn!(
            url = %config.cluster_url,
            "the API server is reached by http: whoever is in between reads this program's token and \
             can answer in its place; write https in the kubeconfig or --master"
        );
    }
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(Duration::from_secs(295));
    config.write_timeout = Some(Duration::from_secs(10));
    if let Ok(agent) = options.user_agent.parse() {
        config.headers.push((http::header::USER_AGENT, agent));
    }
    connection::connect(config, options.connections).map_err(ClientError::Client)
}

/// A client for the API server of this machine, at one of its own addresses, for a probe. Its certificate is not verified:
/// whoever can listen in its place is root here. A request that is given up takes its connection with it.
///
/// # Errors
/// [`ClientError::Client`] if the certificate cannot be used.
pub fn of_this_machine(
    server: SocketAddr,
    certificate: Option<(&Path, &Path)>,
) -> Result<Client, ClientError> {
    let url = format!("https://{server}");
    let url = url.parse().map_err(|source| ClientError::Master {
        master: url,
        source,
    })?;
    let mut config = Config::new(url);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(1));
    config.read_timeout = Some(Duration::from_secs(1));
    config.write_timeout = Some(Duration::from_secs(1));
    if let Some((certificate, key)) = certificate {
        let name = |path: &Path| Some(path.display().to_string());
        config.auth_info.client_certificate = name(certificate);
        config.auth_info.client_key = name(key);
    }
    connection::connect(config, Connections::PerRequest).map_err(ClientError::Client)
}

async fn of_context(context: &str) -> Result<Config, ClientError> {
    let options = KubeConfigOptions {
        context: Some(context.to_owned()),
        ..KubeConfigOptions::default()
    };
    Config::from_kubeconfig(&options)
        .await
        .map_err(|source| ClientError::Context {
            context: context.to_owned(),
            source,
        })
}

async fn from_file(path: &PathBuf, context: Option<&String>) -> Result<Config, ClientError> {
    let error = |source| ClientError::Kubeconfig {
        path: path.clone(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(error)?;
    let options = KubeConfigOptions {
        context: context.cloned(),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(error)
}
