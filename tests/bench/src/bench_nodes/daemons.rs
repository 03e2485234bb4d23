//! The node daemons of a large cluster: a few as programs, the others as tasks of this program, which
//! run what the programs run to describe a Node.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, PostParams};
use mooring_common::k8s::{ClientOptions, Events, client};
use mooring_common::names::{NAMESPACE, components};
use mooring_common::node_init::Writer;
use mooring_node::fence::{self, WritePermit};
use mooring_node::report::metadata::{Options, Selected, select};
use mooring_node::report::{self, OwnNode, Reporter};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use mooring_test_cluster::control_plane::{ControlPlane, free_port};
use mooring_test_cluster::objects::PodBuilder;
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;

/// The ServiceAccount of all daemons.
const ACCOUNT: &str = "mooring-node";
/// Longer than any bench.
const TOKEN_LIFETIME_SECONDS: i64 = 24 * 3600;
/// How often a daemon looks at its machine: the default.
const PERIOD: Duration = Duration::from_secs(300);

/// By which of the API server's addresses the tasks and the programs reach it, so that their
/// connections can be told apart.
pub(super) const TASKS_WAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// See [`TASKS_WAY`].
pub(super) const PROGRAMS_WAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Where the API server is, and where kubeconfigs go.
pub(super) struct Entrance {
    folder: PathBuf,
    port: u16,
    /// The administrator's kubeconfig, to be changed.
    template: Value,
}

impl Entrance {
    pub(super) fn new(cp: &ControlPlane) -> Result<Self> {
        let text = std::fs::read_to_string(cp.admin_kubeconfig())?;
        let port = cp.url().rsplit(':').next().unwrap_or_default();
        Ok(Self {
            folder: cp.folder().to_owned(),
            port: port.parse().context("the API server's port")?,
            template: serde_norway::from_str(&text)?,
        })
    }

    /// The API server's address on this way.
    pub(super) const fn by(&self, way: Ipv4Addr) -> SocketAddrV4 {
        SocketAddrV4::new(way, self.port)
    }

    /// The kubeconfig of the daemon of a Node, with the token of a Pod that is made for it.
    pub(super) async fn kubeconfig(
        &self,
        admin: &Client,
        node: &str,
        way: Ipv4Addr,
    ) -> Result<PathBuf> {
        let pod = PodBuilder::new(NAMESPACE, &format!("{ACCOUNT}-{node}"))
            .node(node)
            .service_account(ACCOUNT)
            .create(admin)
            .await?;
        let mut config = self.template.clone();
        config["clusters"][0]["cluster"]["server"] = json!(format!("https://{}", self.by(way)));
        config["users"][0]["user"] = json!({ "token": token(admin, pod).await? });
        let path = self.folder.join(format!("{node}.kubeconfig"));
        tokio::fs::write(&path, serde_norway::to_string(&config)?).await?;
        Ok(path)
    }
}

async fn token(admin: &Client, pod: Pod) -> Result<String> {
    let bound_to = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name,
        uid: pod.metadata.uid,
    };
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: None,
            bound_object_ref: Some(bound_to),
            expiration_seconds: Some(TOKEN_LIFETIME_SECONDS),
        }),
        ..TokenRequest::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), NAMESPACE);
    let params = PostParams::default();
    let answer = accounts.create_token_request(ACCOUNT, &params, &request);
    let status = answer.await?.status;
    status
        .and_then(|status| status.token)
        .context("a token request was answered without a token")
}

/// Starts a daemon as a program with everything that it does by default, on ports of its own.
pub(super) fn start_program(
    node: &str,
    folder: &Path,
    kubeconfig: &Path,
    metadata: &str,
) -> Result<Process> {
    let local = Ipv4Addr::LOCALHOST;
    let ports = [free_port(local.into())?, free_port(local.into())?];
    let spec = Program::Node.spec(
        folder,
        [
            format!("--node-name={node}"),
            format!("--kubeconfig={}", kubeconfig.display()),
            "--metadata-source=linode".to_owned(),
            format!("--metadata-endpoint={metadata}"),
            format!("--livez-bind-address={local}:{}", ports[0]),
            format!("--metrics-bind-address={local}:{}", ports[1]),
        ],
    )?;
    Process::start(&spec)
}

/// A daemon as a task: the same client, fence test, watch, metadata source and reporter as in the
/// program, put together in the same way. It announces nothing and serves nothing.
pub(super) async fn run_task(node: String, kubeconfig: PathBuf, metadata: String) -> Result<()> {
    let client = client(&ClientOptions {
        kubeconfig: Some(kubeconfig),
        user_agent: "mooring-node".to_owned(),
        ..ClientOptions::default()
    })
    .await?;
    let events = |component| Events::new(client.clone(), component, &node);
    let (opener, gate) = WritePermit::withheld();
    let test = fence::Test {
        client: client.clone(),
        node_name: node.clone(),
        lease_namespace: Some(NAMESPACE.to_owned()),
        events: events(components::NODE_DAEMON),
        metrics: fence::Metrics::default(),
    };
    let options = Options {
        choice: "linode".parse()?,
        endpoint: metadata.parse()?,
        ..Options::default()
    };
    let Selected { source, .. } = select(options, None)?;
    let own = Arc::new(OwnNode::new(node.clone()));
    let reporter = Reporter {
        node: own.clone(),
        source,
        writer: Writer::new(client.clone(), events(components::NODE)),
        period: PERIOD,
    };
    let (_never_changed, facts_changed) = watch::channel(0);
    let reports = async move {
        gate.granted().await;
        report::run(reporter, facts_changed, CancellationToken::new()).await;
    };
    tokio::join!(
        test.run(opener),
        own.follow(Api::all(client.clone())),
        reports
    );
    Ok(())
}
