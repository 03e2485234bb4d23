//! Routes and pod CIDRs with the rights of Linode's Go controller, as its chart grants them.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_cloud_sim::linode::Instance;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{NodeBuilder, apply_manifests};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

use super::pod_network::{network_unavailable, pod_cidrs};

const SOON: Duration = Duration::from_secs(20);
const NAMESPACE: &str = "kube-system";
const ACCOUNT: &str = "ccm-linode";

#[tokio::test]
async fn routes_and_pod_cidrs_need_no_more_rights_than_the_go_controller_has() {
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/services/upstream_manifest/linode.yaml");
    apply_manifests(&cp, &manifest).await.unwrap();
    let rights = cp.client_for(NAMESPACE, ACCOUNT, None).await.unwrap();
    let nodes = Api::<Node>::all(rights);
    eventually("the role is taken up", SOON, async || -> Result<()> {
        nodes.list(&ListParams::default()).await?;
        Ok(())
    })
    .await;
    let cloud = CloudSim::start(Cloud::Linode).await;
    let linode = cloud.linode().unwrap();
    let vpc = linode.add_vpc("net");
    let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/8");
    let instance = Instance::labelled("n1").ipv4("192.0.2.1");
    let number = linode.add(instance.with("interface_generation", "linode"));
    linode.attach(number, subnet, "10.0.0.2");
    let kubeconfig = cp
        .kubeconfig_for_service_account(NAMESPACE, ACCOUNT, None)
        .await
        .unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let spec = Program::Central
        .spec(
            cp.folder(),
            [
                "--cloud-provider=linode",
                "--secure-port=0",
                "--leader-elect-resource-lock=leases",
                "--node-daemon-grace=0",
                "--vpc-names=net",
                "--enable-route-controller",
                "--allocate-node-cidrs",
                "--cluster-cidr=10.192.0.0/10",
                "--disable-ipv6-node-cidr-allocation",
                "--cloud-api-qps=1000",
                "--cloud-api-burst=1000",
                &kubeconfig,
            ],
        )
        .unwrap();
    let spec = cloud
        .environment()
        .into_iter()
        .fold(spec, |spec, (name, value)| spec.env(name, value));
    let central = Process::start(&spec).unwrap();
    let admin = cp.admin();
    NodeBuilder::new("n1")
        .tainted()
        .ready()
        .create(&admin)
        .await
        .unwrap();
    let nodes = Api::<Node>::all(admin);
    eventually("it has a pod CIDR, and a route", SOON, async || {
        let node = nodes.get("n1").await.unwrap();
        pod_cidrs(&node) == ["10.192.0.0/24"]
            && network_unavailable(&node).is_some_and(|condition| condition.status == "False")
            && linode.ranges(number) == ["10.192.0.0/24"]
    })
    .await;
    central.terminate().unwrap();
    assert_eq!(central.wait_for_code(SOON).await, 0);
    let audit = cp.audit_settled().await;
    let refused = audit.by_service_account(NAMESPACE, ACCOUNT).forbidden();
    let refused = refused.filter(|record| record.user_agent == "cloud-controller-manager");
    assert!(refused.is_empty(), "{}", refused.summary());
}
