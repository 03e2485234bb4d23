//! Central in the place of the Go controller of PhoenixNAP: under that one's ServiceAccount and ClusterRole,
//! with the arguments and the file of its manifest. Only the image is swapped.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::phoenixnap::{CLIENT_ID, CLIENT_SECRET};
use mooring_common::names::taints;
use mooring_test_cluster::cluster::{has_taint, provider_id};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::objects::{NodeBuilder, apply_manifests};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

const SOON: Duration = Duration::from_secs(10);
const NAMESPACE: &str = "kube-system";
const ACCOUNT: &str = "cloud-controller-manager";
/// The old controller's file in its image.
const OLD_NAME: &str = "cloud-provider-phoenixnap";
/// The arguments of its manifest, apart from paths.
const ARGUMENTS: [&str; 5] = [
    "--cloud-provider=phoenixnap",
    "--leader-elect=false",
    "--authentication-skip-lookup=true",
    "--node-status-update-frequency=1m",
    "--v=3",
];

/// The Secret as the old controller's template has it, with its comma too many, and addresses.
fn secret(cloud: &CloudSim) -> String {
    let cloud = cloud.phoenixnap().unwrap();
    format!(
        "{{\n  \"clientID\": \"{CLIENT_ID}\",\n  \"clientSecret\": \"{CLIENT_SECRET}\",\n  \
         \"location\": \"PHX\",\n  \"loadbalancer\": \"\",\n  \"base-url\": \"{}\",\n  \
         \"token-url\": \"{}\",\n}}\n",
        cloud.url(),
        cloud.token_url()
    )
}

/// Starts central by the old name, as the manifest does: what is added is where this cluster is, and
/// a port that is free.
async fn started(cp: &ControlPlane, cloud: &CloudSim) -> (Process, Endpoints) {
    let own = Program::Central.path().unwrap();
    let program = cp.folder().join(OLD_NAME);
    std::os::unix::fs::symlink(own, &program).unwrap();
    let config = cp.folder().join("cloud-sa.json");
    std::fs::write(&config, secret(cloud)).unwrap();
    let kubeconfig = cp.kubeconfig_for_service_account(NAMESPACE, ACCOUNT, None);
    let endpoints = Endpoints::on_free_port().unwrap();
    let spec = Program::Central.spec(cp.folder(), ARGUMENTS).unwrap();
    let mut spec = spec.args([
        format!("--cloud-config={}", config.display()),
        format!("--kubeconfig={}", kubeconfig.await.unwrap().display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", endpoints.port()),
        format!("--cert-dir={}", cp.folder().display()),
    ]);
    spec.program = program;
    (Process::start(&spec).unwrap(), endpoints)
}

#[tokio::test]
async fn it_does_the_work_of_the_old_one_with_its_rights() {
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/services/upstream_manifest/phoenixnap.yaml");
    apply_manifests(&cp, &manifest).await.unwrap();
    let rights = cp.client_for(NAMESPACE, ACCOUNT, None).await.unwrap();
    let nodes = Api::<Node>::all(rights);
    eventually("the role is taken up", SOON, async || -> Result<()> {
        nodes.list(&ListParams::default()).await?;
        Ok(())
    })
    .await;
    let cloud = CloudSim::start(Cloud::Phoenixnap).await;
    let admin = cp.admin();
    let (central, endpoints) = started(&cp, &cloud).await;
    for (name, address) in [("first", "10.0.0.1"), ("joins", "10.0.0.2")] {
        let id = cloud.add(Server::named(name).private(address));
        let node = NodeBuilder::new(name).tainted().ready();
        node.create(&admin).await.unwrap();
        eventually(&format!("{name} is initialised"), SOON, async || {
            let node = nodes.get(name).await.unwrap();
            !has_taint(&node, taints::UNINITIALIZED) && provider_id(&node) == Some(&*id)
        })
        .await;
    }
    assert_eq!(endpoints.status("/healthz").await, Some(200));
    central.terminate().unwrap();
    assert_eq!(central.wait_for_code(SOON).await, 0);

    let log = central.log();
    assert!(log.contains("has a comma after its last entry"), "{log}");
    assert!(!log.contains(CLIENT_SECRET), "{log}");
    let audit = cp.audit_settled().await;
    let asked = audit.by_service_account(NAMESPACE, ACCOUNT);
    assert!(!asked.writes().is_empty(), "nothing was done");
    let refused = asked.forbidden();
    let refused = refused.filter(|record| record.user_agent == "cloud-controller-manager");
    assert!(refused.is_empty(), "{}", refused.summary());
}
