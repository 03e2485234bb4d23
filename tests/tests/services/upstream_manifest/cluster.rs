//! A cluster in which an old manifest is applied, and its cloud.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, ListParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::objects::apply_manifests;
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

/// The manifest of a Go controller, in the file of its cloud's name.
#[derive(Clone, Copy)]
pub(crate) struct Manifest {
    pub(crate) cloud: Cloud,
    file: &'static str,
    account: &'static str,
    /// The old controller's name, in PATH and in the manifest.
    pub(crate) old_name: &'static str,
}

pub(crate) const CLOUDSCALE: Manifest = Manifest {
    cloud: Cloud::Cloudscale,
    file: "cloudscale.yaml",
    account: "cloud-controller-manager",
    old_name: "cloudscale-cloud-controller-manager",
};

pub(crate) const LINODE: Manifest = Manifest {
    cloud: Cloud::Linode,
    file: "linode.yaml",
    account: "ccm-linode",
    old_name: "linode-cloud-controller-manager",
};

/// The arguments of cloudscale.ch's manifest.
const ARGUMENTS: [&str; 3] = [
    "--allow-untagged-cloud",
    "--v=3",
    "--concurrent-service-syncs=2",
];
pub(crate) const NAMESPACE: &str = "kube-system";

/// What "eventually" means here.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// What the container of a manifest is started with.
pub(crate) struct Container {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

/// One test's cluster and cloud.
pub(crate) struct UpstreamCluster {
    pub(crate) cp: ControlPlane,
    pub(crate) cloud: CloudSim,
    manifest: Manifest,
    kubeconfig: PathBuf,
}

impl UpstreamCluster {
    pub(crate) async fn start(manifest: Manifest) -> Self {
        let cp = ControlPlane::start(Options::default()).await.unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/upstream_manifest");
        apply_manifests(&cp, &folder.join(manifest.file))
            .await
            .unwrap();
        let kubeconfig = cp.kubeconfig_for_service_account(NAMESPACE, manifest.account, None);
        let kubeconfig = kubeconfig.await.unwrap();
        let cluster = Self {
            cp,
            cloud: CloudSim::start(manifest.cloud).await,
            manifest,
            kubeconfig,
        };
        let nodes = Api::<Node>::all(cluster.client().await);
        let what = "the API server has taken the role up";
        eventually(what, SOON, async || -> Result<()> {
            nodes.list(&ListParams::default()).await?;
            Ok(())
        })
        .await;
        cluster
    }

    /// A client with the rights of the old manifest.
    pub(crate) async fn client(&self) -> Client {
        let client = self.cp.client_for(NAMESPACE, self.manifest.account, None);
        client.await.unwrap()
    }

    /// What cloudscale.ch's manifest starts the program with.
    pub(crate) fn container(&self) -> Container {
        let environment = self.cloud.environment().into_iter();
        Container {
            arguments: ARGUMENTS.map(ToOwned::to_owned).to_vec(),
            environment: environment.map(|(n, v)| (n.to_owned(), v)).collect(),
        }
    }

    /// Starts central by this name, as the manifest does: what is added is where this cluster is,
    /// and a port that is free.
    pub(crate) fn central(&self, name: &str, container: Container) -> (Process, Endpoints) {
        let own = Program::Central.path().unwrap();
        let program = self.cp.folder().join(name);
        std::os::unix::fs::symlink(own, &program).unwrap();
        let endpoints = Endpoints::on_free_port().unwrap();
        let spec = Program::Central.spec(self.cp.folder(), container.arguments);
        let spec = spec.unwrap();
        let mut spec = spec.args([
            format!("--kubeconfig={}", self.kubeconfig.display()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", endpoints.port()),
        ]);
        spec.program = program;
        let environment = container.environment.into_iter();
        let spec = environment.fold(spec, |spec, (variable, value)| spec.env(variable, value));
        (Process::start(&spec).unwrap(), endpoints)
    }

    /// Asserts that nothing was refused to the old ServiceAccount, which has asked for something.
    pub(crate) async fn assert_no_forbidden(&self) {
        let log = self.cp.audit_settled().await;
        let asked = log.by_service_account(NAMESPACE, self.manifest.account);
        assert!(!asked.writes().is_empty(), "nothing was done");
        // What the rig asks until the role is there.
        let refused = asked.forbidden();
        let refused = refused.filter(|record| record.user_agent == USER_AGENT);
        assert!(refused.is_empty(), "{}", refused.summary());
        let told = asked.filter(|record| record.user_agent == USER_AGENT);
        assert!(!told.is_empty(), "central names itself in another way");
    }
}

/// How central names itself.
const USER_AGENT: &str = "cloud-controller-manager";
