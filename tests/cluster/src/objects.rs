//! Short ways to make the objects of a cluster, and to read what was said about them.
//!
//! The builders [`NodeBuilder`], [`ServiceBuilder`] and [`PodBuilder`] stand in for the kubelet,
//! the user and the scheduler: they create the object and then write its status through the
//! `status` subresource, as the real ones do.

mod node;
mod pod;
mod service;

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Event, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, ListParams, PostParams};

pub use node::NodeBuilder;
pub use pod::PodBuilder;
pub use service::ServiceBuilder;

use crate::control_plane::ControlPlane;

/// A name that no other test uses: `prefix-` and eight random digits.
pub fn unique(prefix: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{prefix}-{}", &random[..8])
}

/// Makes a namespace; one that exists already is fine.
pub async fn create_namespace(client: &kube::Client, name: &str) -> Result<()> {
    let namespace = Namespace {
        metadata: named(name),
        ..Namespace::default()
    };
    create_or_keep(&Api::all(client.clone()), &namespace).await
}

/// Makes a ServiceAccount; one that exists already is fine.
pub async fn create_service_account(
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> Result<()> {
    let account = ServiceAccount {
        metadata: named(name),
        ..ServiceAccount::default()
    };
    create_or_keep(&Api::namespaced(client.clone(), namespace), &account).await
}

async fn create_or_keep<K>(api: &Api<K>, object: &K) -> Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop).context("creating an object"),
    }
}

/// Writes a Lease as its holder would: made if it is not there, renewed `age` ago.
///
/// With an age above 40 s it looks like the Lease of a holder that is gone.
pub async fn put_lease(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    holder: &str,
    age: SignedDuration,
) -> Result<()> {
    let api = Api::<Lease>::namespaced(client.clone(), namespace);
    let spec = LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(40),
        renew_time: Some(MicroTime(Timestamp::now().checked_sub(age)?)),
        ..LeaseSpec::default()
    };
    match api.get_opt(name).await? {
        Some(mut lease) => {
            lease.spec = Some(spec);
            api.replace(name, &PostParams::default(), &lease).await?;
        }
        None => {
            let lease = Lease {
                metadata: named(name),
                spec: Some(spec),
            };
            api.create(&PostParams::default(), &lease).await?;
        }
    }
    Ok(())
}

/// Renews the kubelet's Lease of a node now, in `kube-node-lease`.
pub async fn renew_kubelet_lease(client: &kube::Client, node: &str) -> Result<()> {
    put_lease(client, "kube-node-lease", node, node, SignedDuration::ZERO).await
}

/// One Event, reduced to what suites ask about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNote {
    /// `Normal` or `Warning`.
    pub kind: String,
    /// The machine-readable reason.
    pub reason: String,
    /// The sentence for people.
    pub note: String,
    /// How often it was reported.
    pub count: i32,
    /// Who reported it.
    pub reporter: String,
}

/// All Events about an object. For a cluster-scoped object give no namespace: its Events are in `default`. The API
/// server keeps no Events in its memory, and reads all of the namespace for each answer.
pub async fn events_for(
    client: &kube::Client,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
) -> Result<Vec<EventNote>> {
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let params = ListParams::default().fields(&fields);
    list_events(client, namespace.unwrap_or("default"), &params).await
}

/// All Events of a namespace.
pub async fn events_in(client: &kube::Client, namespace: &str) -> Result<Vec<EventNote>> {
    list_events(client, namespace, &ListParams::default()).await
}

/// Lists Events of a namespace. Panics if one of Mooring's shows a value of Rust.
async fn list_events(
    client: &kube::Client,
    namespace: &str,
    params: &ListParams,
) -> Result<Vec<EventNote>> {
    let events = Api::<Event>::namespaced(client.clone(), namespace)
        .list(params)
        .await?;
    let notes: Vec<_> = events.items.into_iter().map(EventNote::from).collect();
    for event in notes.iter().filter(|event| event.is_ours()) {
        let shows = RUST_VALUES
            .iter()
            .find(|value| event.note.contains(**value));
        assert_eq!(shows, None, "an Event shows a value of Rust: {event:?}");
    }
    Ok(notes)
}

/// What values of Rust look like, as `{:?}` writes them.
const RUST_VALUES: [&str; 6] = ["Some(", ": None", "(None", "Ok(", "Err(", " { "];

impl EventNote {
    /// Whether one of Mooring's programs has reported it: both speak in the names of several components.
    fn is_ours(&self) -> bool {
        !["kube", "default-scheduler", "attachdetach"]
            .iter()
            .any(|other| self.reporter.starts_with(other))
    }
}

impl From<Event> for EventNote {
    fn from(event: Event) -> Self {
        let series = event.series.and_then(|series| series.count);
        Self {
            kind: event.type_.unwrap_or_default(),
            reason: event.reason.unwrap_or_default(),
            note: event.message.unwrap_or_default(),
            count: series.or(event.count).unwrap_or(1),
            reporter: event
                .reporting_component
                .filter(|name| !name.is_empty())
                .unwrap_or_else(|| {
                    event
                        .source
                        .and_then(|source| source.component)
                        .unwrap_or_default()
                }),
        }
    }
}

/// Applies a file or a folder of manifests as a user does, with `kubectl apply --server-side`.
pub async fn apply_manifests(control_plane: &ControlPlane, path: &Path) -> Result<String> {
    let path = path.to_str().context("the manifests' path is not UTF-8")?;
    kubectl(
        control_plane,
        &["apply", "--server-side", "--recursive", "-f", path],
    )
    .await
}

/// Runs kubectl as the administrator and gives what it printed.
pub async fn kubectl(control_plane: &ControlPlane, args: &[&str]) -> Result<String> {
    let mut command = Command::new(control_plane.kubectl());
    command
        .arg("--kubeconfig")
        .arg(control_plane.admin_kubeconfig())
        .arg("--cache-dir")
        .arg(control_plane.folder().join("kubectl-cache"))
        .args(args)
        .stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output())
        .await?
        .context("running kubectl")?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "kubectl {} failed ({}):\n{stdout}{stderr}",
            args.join(" "),
            output.status
        );
    }
    Ok(stdout)
}

pub(crate) fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}
