//! One read of the cluster. What the user may not read is remembered, and the rest goes on.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Error, Resource};
use mooring_common::l2_network::L2Network;
use serde::de::DeserializeOwned;

use super::flags::Scope;
use super::rights::{Kind, MissingRight};
use super::setup::Setup;
use super::snapshot::{Objects, Snapshot};

/// How many objects the API server gives at once.
const PAGE: u32 = 500;
/// Where Events about cluster-wide objects are.
const CLUSTER_WIDE: &str = "default";
/// What the chart's objects are found by.
const SELECTOR: &str = "app.kubernetes.io/part-of=mooring";

const fn kind(group: &'static str, resource: &'static str, shows: &'static str) -> Kind {
    Kind {
        group,
        resource,
        shows,
    }
}

const NODES: Kind = kind("", "nodes", "which Nodes there are, and their taints");
const SERVICES: Kind = kind("", "services", "which Services have addresses");
const NETWORKS: Kind = kind(
    "mooring.dev",
    "l2networks",
    "who speaks for which address since when",
);
const SLICES: Kind = kind(
    "discovery.k8s.io",
    "endpointslices",
    "where endpoints of Services are",
);
const EVENTS: Kind = kind("", "events", "why something failed");
const NAMESPACES: Kind = kind(
    "",
    "namespaces",
    "which namespaces may have addresses of which L2Network",
);
/// Pods of Mooring.
pub(super) const PODS: Kind = kind("", "pods", "whether Mooring's programs run");
const DEPLOYMENTS: Kind = kind("apps", "deployments", "how central is started");
const DAEMON_SETS: Kind = kind("apps", "daemonsets", "on which Nodes the daemon is to run");
const LEASES: Kind = kind(
    "coordination.k8s.io",
    "leases",
    "who leads, and which daemons live",
);
const POLICIES: Kind = kind(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
    "whether the admission policies are in force",
);

/// Reads, and remembers what may not be read.
struct Observer<'a> {
    client: &'a Client,
    missing: Mutex<Vec<MissingRight>>,
}

/// What a list came to.
enum Listed<K> {
    Found(Vec<K>),
    /// The API server does not know the kind.
    Unknown,
    Forbidden,
}

impl<K> Listed<K> {
    fn found(self) -> Option<Vec<K>> {
        match self {
            Self::Found(all) => Some(all),
            Self::Unknown => Some(Vec::new()),
            Self::Forbidden => None,
        }
    }
}

/// One read.
///
/// # Errors
/// If the API server does not answer, or does not know the user.
pub(super) async fn observe(
    client: &Client,
    scope: &Scope,
    now: Timestamp,
) -> anyhow::Result<Snapshot> {
    let observer = Observer {
        client,
        missing: Mutex::default(),
    };
    let version = client.apiserver_version().await;
    let system = scope.system.as_str();
    let of_mooring = ListParams::default().labels(SELECTOR);
    let deployments = observer.within::<Deployment>(DEPLOYMENTS, Some(system), &of_mooring);
    let deployments = deployments.await?.found();
    let setup = Setup::read(deployments.as_deref());
    let everything = ListParams::default();
    let namespace = scope.namespace.as_deref();
    let networks = observer.all::<L2Network>(NETWORKS, &everything);
    let networks = networks.await?;
    let has_crd = !matches!(networks, Listed::Unknown);
    let networks = networks.found();
    let selects = networks.iter().flatten().any(selects_namespaces);
    let namespaces = match selects {
        true => observer
            .all::<Namespace>(NAMESPACES, &everything)
            .await?
            .found(),
        false => Some(Vec::new()),
    };
    let about = |kind: &str| ListParams::default().fields(&format!("involvedObject.kind={kind}"));
    let objects = Objects {
        nodes: observer.all::<Node>(NODES, &everything).await?.found(),
        services: observer
            .within::<Service>(SERVICES, namespace, &everything)
            .await?
            .found(),
        slices: observer
            .within::<EndpointSlice>(SLICES, namespace, &everything)
            .await?
            .found(),
        node_events: observer
            .within::<Event>(EVENTS, Some(CLUSTER_WIDE), &about("Node"))
            .await?
            .found(),
        network_events: observer
            .within::<Event>(EVENTS, Some(CLUSTER_WIDE), &about("L2Network"))
            .await?
            .found(),
        service_events: observer
            .within::<Event>(EVENTS, namespace, &about("Service"))
            .await?
            .found(),
        pods: observer
            .within::<Pod>(PODS, Some(system), &of_mooring)
            .await?
            .found(),
        daemon_sets: observer
            .within::<DaemonSet>(DAEMON_SETS, Some(system), &of_mooring)
            .await?
            .found(),
        leases: observer
            .within::<Lease>(LEASES, Some(system), &everything)
            .await?
            .found(),
        leader_leases: observer.leader_leases(&setup).await?,
        policies: observer
            .all::<ValidatingAdmissionPolicyBinding>(POLICIES, &everything)
            .await?
            .found()
            .map(|all| all.iter().map(policy).collect()),
        networks,
        namespaces,
        deployments,
    };
    let missing = observer.missing.into_inner();
    let missing = missing.unwrap_or_else(PoisonError::into_inner);
    let mut snapshot = Snapshot::new(now, system, setup, objects, missing);
    snapshot.has_crd = has_crd;
    snapshot.only.clone_from(&scope.namespace);
    snapshot.server = version.ok().map(|version| version.git_version);
    Ok(snapshot)
}

fn policy(binding: &ValidatingAdmissionPolicyBinding) -> String {
    binding.spec.policy_name.clone()
}

/// Whether central goes by the labels of namespaces.
fn selects_namespaces(network: &L2Network) -> bool {
    let mut pools = network.spec.pools.iter();
    network.spec.allowed_namespaces.is_some() || pools.any(|pool| pool.allowed_namespaces.is_some())
}

impl Observer<'_> {
    async fn all<K>(&self, kind: Kind, params: &ListParams) -> anyhow::Result<Listed<K>>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api = Api::all(self.client.clone());
        self.list(&api, kind, None, params).await
    }

    /// Of one namespace, or of all.
    async fn within<K>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> anyhow::Result<Listed<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug,
    {
        let api = match namespace {
            None => Api::all(self.client.clone()),
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
        };
        self.list(&api, kind, namespace, params).await
    }

    async fn list<K>(
        &self,
        api: &Api<K>,
        kind: Kind,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> anyhow::Result<Listed<K>>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let mut params = params.clone().limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(Error::Api(status)) if status.code == 403 => {
                    self.lacks("list", kind, namespace);
                    return Ok(Listed::Forbidden);
                }
                Err(Error::Api(status)) if status.code == 404 => return Ok(Listed::Unknown),
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot list {}", kind.resource));
                }
            };
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            all.extend(page.items);
            match next {
                None => return Ok(Listed::Found(all)),
                Some(token) => params = params.continue_token(&token),
            }
        }
    }

    /// Those that are there.
    async fn leader_leases(&self, setup: &Setup) -> anyhow::Result<Option<Vec<Lease>>> {
        let namespace = setup.lease_namespace.as_str();
        let api = Api::<Lease>::namespaced(self.client.clone(), namespace);
        let mut found = Vec::new();
        for name in &setup.leases {
            match api.get_opt(name).await {
                Ok(lease) => found.extend(lease),
                Err(Error::Api(status)) if status.code == 403 => {
                    self.lacks("get", LEASES, Some(namespace));
                    return Ok(None);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot read the Lease {name}"));
                }
            }
        }
        Ok(Some(found))
    }

    fn lacks(&self, verb: &'static str, kind: Kind, namespace: Option<&str>) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.push(MissingRight::new(verb, kind, namespace));
    }
}
