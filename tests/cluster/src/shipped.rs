//! Mooring as it is shipped: its manifests on a control plane, and its programs under exactly the
//! ServiceAccounts that those name.
//!
//! ```no_run
//! # use mooring_test_cluster::control_plane::{ControlPlane, Options};
//! # use mooring_test_cluster::shipped::{CentralFlags, Shipped};
//! # async fn example() -> anyhow::Result<()> {
//! let cp = ControlPlane::start(Options::default()).await?;
//! let shipped = Shipped::install(&cp).await?;
//! let central = shipped.start_central(&cp, CentralFlags::alone()).await?;
//! // ... what the suite is about ...
//! shipped.assert_no_forbidden(&cp).await;
//! # Ok(()) }
//! ```

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use mooring_common::names::{LEADER_LEASE_NAMESPACE, NAMESPACE, annotations};
use serde_json::json;

use crate::api_proxy::ApiProxy;
use crate::control_plane::{AuditLog, ControlPlane, client_from, free_port};
use crate::endpoints::Endpoints;
use crate::objects::{NodeBuilder, PodBuilder, ServiceBuilder, apply_manifests, unique};
use mooring_cloud_sim::cloud::CloudSim;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// The user that central is, in the audit log.
pub const CENTRAL_USER: &str = "system:serviceaccount:mooring-system:mooring-central";
/// The user that every node daemon is, in the audit log.
pub const NODE_USER: &str = "system:serviceaccount:mooring-system:mooring-node";

/// How long the API server may take to take up the CRD and the policies: usually a second.
const TAKE_UP: Duration = Duration::from_secs(30);

/// The manifests of `deploy/`, in force on one control plane.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    installed: Timestamp,
}

impl Shipped {
    /// Applies `deploy/manifests` and waits until the CRD is served and the policies are in force.
    /// Deployment and DaemonSet are only stored: nobody runs their Pods.
    ///
    /// # Errors
    /// If a manifest is refused, or not in force in time.
    pub async fn install(cp: &ControlPlane) -> Result<Self> {
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/manifests");
        Self::install_from(cp, &manifests.join("mooring.yaml")).await
    }

    /// What the chart gives without any value: no cloud.
    ///
    /// # Errors
    /// If a manifest is refused, or not in force in time.
    pub async fn install_without_cloud(cp: &ControlPlane) -> Result<Self> {
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/manifests");
        Self::install_from(cp, &manifests.join("bare-metal.yaml")).await
    }

    /// [`Self::install`] with another file of manifests.
    ///
    /// # Errors
    /// If a manifest is refused, or not in force in time.
    pub async fn install_from(cp: &ControlPlane, manifests: &Path) -> Result<Self> {
        apply_manifests(cp, manifests).await?;
        let networks = Api::<L2Network>::all(cp.admin());
        try_eventually(TAKE_UP, async || {
            networks.list(&ListParams::default()).await
        })
        .await
        .map_err(anyhow::Error::msg)
        .context("the CRD of L2Network is not served")?;
        policies_stand(cp, manifests).await?;
        Ok(Self {
            installed: cp.now(),
        })
    }

    /// As with the chart's `nodeDaemon.identityFence: false`.
    ///
    /// # Errors
    /// If what it takes away is not there.
    pub async fn without_identity_fence(&self, cp: &ControlPlane) -> Result<()> {
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(cp.admin());
        for name in ["mooring-node-own-identity", "mooring-node-own-address"] {
            bindings.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// A kubeconfig with a token of central's ServiceAccount.
    ///
    /// # Errors
    /// If the API server gives no token.
    pub async fn central_kubeconfig(&self, cp: &ControlPlane) -> Result<PathBuf> {
        cp.kubeconfig_for_service_account(NAMESPACE, "mooring-central", None)
            .await
    }

    /// A kubeconfig with the token of a daemon's Pod on this Node. The Pod is made for it.
    ///
    /// # Errors
    /// If the API server takes no Pod, or gives no token.
    pub async fn node_kubeconfig(&self, cp: &ControlPlane, node: &str) -> Result<PathBuf> {
        let pod = unique("mooring-node");
        PodBuilder::new(NAMESPACE, &pod)
            .node(node)
            .service_account("mooring-node")
            .create(&cp.admin())
            .await?;
        cp.kubeconfig_for_service_account(NAMESPACE, "mooring-node", Some((NAMESPACE, &pod)))
            .await
    }

    /// Starts central under its ServiceAccount. It logs into the control plane's folder.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start_central(&self, cp: &ControlPlane, flags: CentralFlags) -> Result<Central> {
        self.start(cp, None, flags).await
    }

    /// Starts central under its ServiceAccount, so that it reaches the API server by this proxy.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn start_central_by(
        &self,
        cp: &ControlPlane,
        proxy: &ApiProxy,
        flags: CentralFlags,
    ) -> Result<Central> {
        self.start(cp, Some(proxy), flags).await
    }

    async fn start(
        &self,
        cp: &ControlPlane,
        proxy: Option<&ApiProxy>,
        flags: CentralFlags,
    ) -> Result<Central> {
        // A token of its own for each start, in a file of its own.
        let original = self.central_kubeconfig(cp).await?;
        let port = free_port(Ipv4Addr::LOCALHOST.into())?;
        let mut kubeconfig = cp.folder().join(format!("central-{port}.kubeconfig"));
        std::fs::rename(&original, &kubeconfig)?;
        let credential = credential(&kubeconfig).await?;
        if let Some(proxy) = proxy {
            kubeconfig = proxy.kubeconfig(&kubeconfig)?;
        }
        let spec = flags.spec(cp, &kubeconfig, port)?;
        Ok(Central {
            process: Process::start(&spec)?,
            endpoints: Endpoints::new(port)?,
            credential,
        })
    }

    /// Asserts that neither program was refused anything (403) since the manifests are in force.
    pub async fn assert_no_forbidden(&self, cp: &ControlPlane) {
        let log = cp.audit_settled().await;
        let refused = self
            .forbidden(&log)
            .filter(|record| !cp.was_starting(record.received));
        assert!(
            refused.is_empty(),
            "the shipped permissions are too narrow, or a program does what it must not:\n{}",
            refused.summary()
        );
    }

    /// What the programs were refused. Not counted: writes into a namespace that is being deleted,
    /// where nobody may create anything, and what the fence's self-test tries on purpose.
    #[must_use]
    pub fn forbidden(&self, log: &AuditLog) -> AuditLog {
        log.since(self.installed).forbidden().filter(|record| {
            [CENTRAL_USER, NODE_USER].contains(&record.user.as_str())
                && !record.message.contains("is being terminated")
                && !record.uri.contains("dryRun=All")
        })
    }
}

/// The command line of one `mooring-central`.
#[derive(Clone, Debug)]
pub struct CentralFlags {
    flags: Vec<String>,
    environment: Vec<(&'static str, String)>,
    serving: bool,
    program: Option<PathBuf>,
}

impl CentralFlags {
    /// The only replica: it leads at once.
    #[must_use]
    pub fn alone() -> Self {
        Self {
            flags: vec!["--leader-elect=false".to_owned()],
            environment: Vec::new(),
            serving: true,
            program: None,
        }
    }

    /// One of several replicas, with election times for impatient tests.
    #[must_use]
    pub fn replica() -> Self {
        let flags = [
            "--leader-elect-lease-duration=3s",
            "--leader-elect-renew-deadline=2s",
            "--leader-elect-retry-period=250ms",
        ];
        Self {
            flags: flags.map(ToOwned::to_owned).to_vec(),
            environment: Vec::new(),
            serving: true,
            program: None,
        }
    }

    /// Adds a flag. The last of a name wins.
    #[must_use]
    pub fn with(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// For this simulated cloud, which it may ask as often as it likes, and which shows at once what it
    /// has made: how long one that does not is waited for is for the tests that are about that.
    #[must_use]
    pub fn cloud(mut self, cloud: &CloudSim) -> Self {
        self.environment.extend(cloud.environment());
        self.with(format!("--cloud-provider={}", cloud.kind().name()))
            .with("--cloud-api-qps=1000")
            .with("--cloud-api-burst=1000")
            .with("--creation-settle-time=3s")
    }

    /// The variables in its environment.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        self.environment.clone()
    }

    /// With this variable in its environment.
    #[must_use]
    pub fn environment(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// With `--secure-port=0`.
    #[must_use]
    pub fn without_endpoints(mut self) -> Self {
        self.serving = false;
        self
    }

    /// Another build of the program.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    fn spec(self, cp: &ControlPlane, kubeconfig: &Path, port: u16) -> Result<Spec> {
        let port = if self.serving { port } else { 0 };
        let mut flags = vec![
            "--cloud-provider=cloudlycke".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
        ];
        flags.extend(self.flags);
        let spec = Program::Central.spec(cp.folder(), flags)?;
        let environment = self.environment.into_iter();
        let mut spec = environment.fold(spec, |spec, (name, value)| spec.env(name, value));
        if let Some(program) = self.program {
            spec.program = program;
        }
        Ok(spec)
    }
}

/// A running `mooring-central`. Dropping it kills it.
#[derive(Debug)]
pub struct Central {
    /// The program.
    pub process: Process,
    /// What it serves.
    pub endpoints: Endpoints,
    /// Its token's id in the audit log.
    pub credential: String,
}

/// The id of the token in a kubeconfig, as the audit log has it.
async fn credential(kubeconfig: &Path) -> Result<String> {
    let review = Api::<SelfSubjectReview>::all(client_from(kubeconfig).await?)
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    let user = review.status.and_then(|status| status.user_info);
    user.and_then(|user| {
        user.extra?
            .remove("authentication.kubernetes.io/credential-id")?
            .pop()
    })
    .context("the token has no id")
}

/// Applies what the manifests have for kube-vip, once per control plane, and waits until it is in force:
/// central may write `spec.loadBalancerIP` then.
///
/// # Errors
/// If a manifest is refused, or not in force in time.
pub async fn permit_kube_vip(cp: &ControlPlane) -> Result<()> {
    let admin = cp.admin();
    let probe = unique("probe");
    let service = ServiceBuilder::load_balancer("default", &probe).port(80, 8080);
    service.create(&admin).await?;
    let central = cp.client_for(NAMESPACE, "mooring-central", None).await?;
    let services = Api::<Service>::namespaced(central, "default");
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "spec": { "loadBalancerIP": "203.0.113.10" } }));
    if services.patch(&probe, &dry, &patch).await.is_err() {
        let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/manifests");
        apply_manifests(cp, &manifests.join("phoenixnap-kube-vip.yaml")).await?;
        let permitted =
            try_eventually(TAKE_UP, async || services.patch(&probe, &dry, &patch).await);
        permitted
            .await
            .map_err(anyhow::Error::msg)
            .context("central may not write the address")?;
    }
    let services = Api::<Service>::namespaced(admin, "default");
    services.delete(&probe, &DeleteParams::default()).await?;
    Ok(())
}

/// Waits for all policies: the API server takes up new ones within a second or so.
///
/// # Errors
/// If one of them is not in force in time.
async fn policies_stand(cp: &ControlPlane, manifests: &Path) -> Result<()> {
    let admin = cp.admin();
    // Without a cloud, central has no right to write Nodes that a policy would have to bound.
    let may_write_nodes = !std::fs::read_to_string(manifests)?.contains("--cloud-provider=none");
    let daemon = cp.client_for(NAMESPACE, "mooring-node", None).await?;
    let central = cp.client_for(NAMESPACE, "mooring-central", None).await?;
    let probe = unique("probe");
    NodeBuilder::new(&probe).create(&admin).await?;
    let label = Patch::Merge(json!({ "metadata": { "labels": { "probe": "1" } } }));
    let dry_patch = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let dry_post = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut lease = Lease::default();
    lease.metadata.name = Some(probe.clone());
    let nodes = Api::<Node>::all(daemon.clone());
    let leases = Api::<Lease>::namespaced(daemon.clone(), NAMESPACE);
    let all_services = Api::<Service>::namespaced(admin.clone(), "default");
    let record =
        json!({ "metadata": { "annotations": { annotations::ALLOCATED_NETWORK: "probe" } } });
    let record = Patch::Merge(record);
    let services = Api::<Service>::namespaced(central.clone(), "default");
    let central_nodes = Api::<Node>::all(central.clone());
    let central_leases = Api::<Lease>::namespaced(central.clone(), LEADER_LEASE_NAMESPACE);
    let central_networks = Api::<L2Network>::all(central.clone());
    let central_secrets = Api::<Secret>::namespaced(central, NAMESPACE);
    let mut secret = Secret::default();
    secret.metadata.name = Some(probe.clone());
    let votes =
        Patch::Merge(json!({ "status": { "voters": { "generation": 1, "nodes": ["n"] } } }));
    let networks = Api::<L2Network>::all(daemon.clone());
    let network = L2Network::new(&probe, example_network());
    let all_networks = Api::<L2Network>::all(admin.clone());
    all_networks
        .create(&PostParams::default(), &network)
        .await?;
    let uses = Patch::Merge(json!({ "status": { "usedAddresses": 1 } }));
    let stand = try_eventually(TAKE_UP, async || {
        is_denied(nodes.patch(&probe, &dry_patch, &label).await)
            && is_denied(leases.create(&dry_post, &lease).await)
            && is_denied(networks.patch_status(&probe, &dry_patch, &uses).await)
            && is_denied(
                services
                    .patch_status("kubernetes", &dry_patch, &label)
                    .await,
            )
            && is_denied(all_services.patch("kubernetes", &dry_patch, &record).await)
            && (!may_write_nodes
                || is_denied(central_nodes.patch(&probe, &dry_patch, &label).await))
            && is_denied(central_leases.create(&dry_post, &lease).await)
            && is_denied(
                central_networks
                    .patch_status(&probe, &dry_patch, &votes)
                    .await,
            )
            && is_denied(central_secrets.create(&dry_post, &secret).await)
    })
    .await;
    let gone = DeleteParams::default();
    all_networks.delete(&probe, &gone).await?;
    Api::<Node>::all(admin).delete(&probe, &gone).await?;
    stand
        .map_err(anyhow::Error::msg)
        .context("the admission policies are not in force")
}

fn example_network() -> L2NetworkSpec {
    L2NetworkSpec {
        subnets: vec![Subnet {
            cidr: "203.0.113.0/24".to_owned(),
            gateway: None,
        }],
        ranges: vec!["203.0.113.254-203.0.113.254".to_owned()],
        ..L2NetworkSpec::default()
    }
}

/// Whether an admission policy (and not RBAC) refused it.
fn is_denied<T>(answer: kube::Result<T>) -> bool {
    answer.is_err_and(|error| match error {
        kube::Error::Api(status) => status.message.contains("ValidatingAdmissionPolicy"),
        _ => false,
    })
}
