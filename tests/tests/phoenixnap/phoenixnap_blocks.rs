//! IP blocks of PhoenixNAP, from the first Service to the last block's end, on a real API server.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{Api, DeleteParams};
use mooring_cloud_sim::phoenixnap::{CLIENT_ID, CLIENT_SECRET, Kind, Phoenixnap};
use mooring_common::l2_network::L2Network;
use mooring_common::names::annotations;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{ServiceBuilder, apply_manifests};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

const AT_LAST: Duration = Duration::from_secs(60);

struct BlocksCluster {
    cp: ControlPlane,
    cloud: Phoenixnap,
    network: String,
}

impl BlocksCluster {
    async fn start() -> Self {
        let cp = ControlPlane::start(Options::default()).await.unwrap();
        let cloud = Phoenixnap::start().await.unwrap();
        let network = cloud.add_network("services", "PHX");
        Self { cp, cloud, network }
    }

    fn central(&self, mode: &str, flags: &[&str]) -> Process {
        let mut all = vec![
            "--cloud-provider=phoenixnap".to_owned(),
            format!("--kubeconfig={}", self.cp.admin_kubeconfig().display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let spec = Program::Central.spec(self.cp.folder(), all).unwrap();
        let spec = spec
            .env("PNAP_CLIENT_ID", CLIENT_ID)
            .env("PNAP_CLIENT_SECRET", CLIENT_SECRET)
            .env("PNAP_BASE_URL", self.cloud.url())
            .env("PNAP_TOKEN_URL", self.cloud.token_url())
            .env("PNAP_LOAD_BALANCER", format!("{mode}://{}", self.network));
        Process::start(&spec).unwrap()
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.cp.admin(), "default")
    }

    async fn create(&self, name: &str) {
        let service = ServiceBuilder::load_balancer("default", name).port(80, 8080);
        service.create(&self.cp.admin()).await.unwrap();
    }

    /// Waits until a Service has its address, and gives it.
    async fn served(&self, name: &str) -> Service {
        eventually(&format!("{name} has its address"), AT_LAST, async || {
            let service = self.services().get(name).await.unwrap();
            ingress(&service).map(|_| service)
        })
        .await
    }

    async fn delete(&self, name: &str) {
        let services = self.services();
        services
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        eventually(&format!("{name} is gone"), AT_LAST, async || {
            services.get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    async fn nothing_is_left(&self) {
        eventually("all blocks are given back", AT_LAST, async || {
            self.cloud.all(Kind::Block).is_empty()
        })
        .await;
        assert!(
            self.cloud.misdirected().is_empty(),
            "{:?}",
            self.cloud.misdirected()
        );
    }
}

fn ingress(service: &Service) -> Option<String> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    status.ingress.as_ref()?.first()?.ip.clone()
}

fn requested(service: &Service) -> Option<String> {
    service.spec.as_ref()?.load_balancer_ip.clone()
}

fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    let all = service.metadata.annotations.as_ref()?;
    all.get(key).map(String::as_str)
}

/// An address of a block, counted from its first.
fn nth(cidr: &str, n: u32) -> String {
    let (first, _) = cidr.split_once('/').unwrap();
    let first: Ipv4Addr = first.parse().unwrap();
    Ipv4Addr::from(u32::from(first) + n).to_string()
}

#[tokio::test]
async fn with_kube_vip_services_share_a_block_that_goes_with_the_last_of_them() {
    let cluster = BlocksCluster::start().await;
    let central = cluster.central("kube-vip", &["--ip-block-size=/29"]);
    for name in ["first", "second"] {
        cluster.create(name).await;
        let service = cluster.served(name).await;
        assert_eq!(ingress(&service), requested(&service));
    }
    let purchases = cluster.cloud.purchases();
    assert_eq!(purchases.len(), 1, "{purchases:?}");
    assert_eq!(cluster.cloud.blocks_on(&cluster.network).len(), 1);
    let kubernetes = cluster.services().get("kubernetes").await.unwrap();
    assert_eq!(annotation(&kubernetes, annotations::IP_BLOCK_CLAIM), None);
    cluster.delete("first").await;
    assert_eq!(cluster.cloud.all(Kind::Block).len(), 1);
    cluster.delete("second").await;
    cluster.nothing_is_left().await;
    assert!(central.is_running());
}

#[tokio::test]
async fn without_sharing_each_service_has_the_third_address_of_a_block_with_four_tags() {
    let cluster = BlocksCluster::start().await;
    let _central = cluster.central("kube-vip", &["--ip-block-sharing=false"]);
    cluster.create("web").await;
    let service = cluster.served("web").await;
    let namespaces: Api<Namespace> = Api::all(cluster.cp.admin());
    let uid = namespaces.get("kube-system").await.unwrap().metadata.uid;
    let blocks = cluster.cloud.tagged(&[
        ("usage", "cloud-provider-phoenixnap-auto"),
        ("cluster", &uid.unwrap()),
        ("serviceNamespace", "default"),
        ("serviceName", "web"),
    ]);
    assert_eq!(blocks.len(), 1);
    let cidr = blocks[0]["cidr"].as_str().unwrap();
    assert_eq!(ingress(&service), Some(nth(cidr, 2)));
    cluster.delete("web").await;
    cluster.nothing_is_left().await;
}

#[tokio::test]
async fn for_the_node_daemons_the_network_is_written_as_an_l2_network_first() {
    let cluster = BlocksCluster::start().await;
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/mooring/crds");
    apply_manifests(&cluster.cp, &crds).await.unwrap();
    let _central = cluster.central("l2", &[]);
    cluster.create("web").await;
    let service = cluster.served("web").await;
    assert_eq!(requested(&service), None);
    let name = annotation(&service, annotations::ALLOCATED_NETWORK).unwrap();
    let networks: Api<L2Network> = Api::all(cluster.cp.admin());
    let network = networks.get(name).await.unwrap();
    let listed = cluster.cloud.get(Kind::Network, &cluster.network).unwrap();
    assert_eq!(network.spec.vlan.map(u64::from), listed["vlanId"].as_u64());
    let [subnet] = network.spec.subnets.as_slice() else {
        panic!("{:?}", network.spec);
    };
    assert_eq!(subnet.gateway, Some(nth(&subnet.cidr, 1)));
    assert_eq!(ingress(&service), Some(nth(&subnet.cidr, 2)));
    cluster.delete("web").await;
    cluster.nothing_is_left().await;
}
