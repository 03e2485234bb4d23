//! A cluster and its cloud as the Go controller leaves them, and what must not change of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, ListParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::linode::{Kind, Linode};
use mooring_common::names::{annotations, labels};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::{NodeBuilder, apply_manifests};
use serde_json::{Value, json};

use super::guide::Reader;
use super::kubelet::Kubelet;
use crate::linode_services::cloud::SuiteCloud;
use crate::linode_services::cluster::{LoadBalancerCloud as _, assert_none};
use crate::linode_services::left_by_go::{RESERVED, cases, leave};

const NAMESPACE: &str = "default";
const OLD_IMAGE: &str = "linode/linode-cloud-controller-manager:v0.9.8";

/// What is between the commands: kube-controller-manager makes Pods of them.
const CONTROLLERS: [&str; 4] = [
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
];

/// One test's cluster and cloud, and whoever follows the guide there.
pub(crate) struct GuideCluster {
    pub(crate) cp: Arc<ControlPlane>,
    pub(crate) cloud: CloudSim,
    pub(crate) reader: Reader,
    /// The names of the Services, and the ids of their NodeBalancers.
    left: BTreeMap<String, String>,
    before: Value,
    _kubelet: Kubelet,
}

impl GuideCluster {
    pub(crate) async fn left_by_go() -> Self {
        let options = Options::default().with_controller_manager();
        let options = CONTROLLERS.into_iter().fold(options, Options::controller);
        let cp = Arc::new(ControlPlane::start(options).await.unwrap());
        let cloud = CloudSim::start(Cloud::Linode).await;
        cloud
            .linode()
            .unwrap()
            .reserve("eu-central", Some(RESERVED));
        let logs = cp.folder().join("pods");
        std::fs::create_dir(&logs).unwrap();
        let mut cluster = Self {
            reader: Reader::of(&cp, &logs),
            _kubelet: Kubelet::start(&cp, &logs, cloud.environment()),
            cp,
            cloud,
            left: BTreeMap::new(),
            before: Value::Null,
        };
        cluster.nodes().await;
        cluster.services().await;
        cluster.old_controller().await;
        cluster.before = cluster.state().await;
        cluster
    }

    pub(crate) fn sim(&self) -> &Linode {
        self.cloud.linode().unwrap()
    }

    /// Its manifest, with its own image, in force.
    async fn old_controller(&self) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let manifest = here.join("tests/services/upstream_manifest/linode.yaml");
        let text = std::fs::read_to_string(manifest).unwrap();
        let image = "image: mooring-central";
        assert!(text.contains(image), "the manifest has another form");
        let own = self.cp.folder().join("old.yaml");
        std::fs::write(&own, text.replace(image, &format!("image: {OLD_IMAGE}"))).unwrap();
        apply_manifests(&self.cp, &own).await.unwrap();
        let rolled_out = "kubectl --namespace kube-system rollout status daemonset/ccm-linode";
        self.reader.run(rolled_out).await;
    }

    /// Two, described as the Go controller describes them.
    async fn nodes(&self) {
        let other = Server::named("somebody-elses").private("10.250.0.1");
        self.cloud.add(other);
        for n in [1, 2] {
            let name = format!("n{n}");
            let ipv6 = format!("2a01:7e01::{n}");
            let server = Server::named(&name)
                .public(&format!("203.0.113.{n}"))
                .private(&SuiteCloud::address(n))
                .public(&ipv6);
            let addresses = server.addresses(Cloud::Linode);
            let id = self.cloud.add(server);
            let host = format!("00000000-0000-4000-8000-00000000000{n}");
            self.cloud.set(&id, "host_uuid", json!(host));
            let node = NodeBuilder::new(&name)
                .provider_id(&id)
                .label(labels::INSTANCE_TYPE, "small")
                .label(labels::INSTANCE_TYPE_BETA, "small")
                .label(labels::REGION, "eu-central")
                .label(labels::REGION_BETA, "eu-central")
                .label(labels::LINODE_HOST_UUID, &host)
                .annotation(annotations::LINODE_PRIVATE_IP, &SuiteCloud::address(n))
                .annotation(annotations::LINODE_PUBLIC_IPV6, &format!("{ipv6}/128"));
            let node = if n == 1 {
                node.label(labels::CONTROL_PLANE, "")
            } else {
                node
            };
            let described = addresses.iter().filter_map(|one| one.split_once(' '));
            let node = described.fold(node, |node, (kind, address)| node.address(kind, address));
            node.ready().create(&self.cp.admin()).await.unwrap();
        }
    }

    async fn services(&mut self) {
        let services = Api::<Service>::namespaced(self.cp.admin(), NAMESPACE);
        for case in cases(NAMESPACE) {
            let service = case.service.create(&self.cp.admin()).await.unwrap();
            let (sim, protocol) = (self.sim(), case.protocol);
            let id = leave(sim, &services, &service, protocol, case.change, case.shows).await;
            self.left.insert(case.name.to_owned(), id);
        }
    }

    pub(crate) async fn service(&self, name: &str) -> Service {
        let services = Api::<Service>::namespaced(self.cp.admin(), NAMESPACE);
        services.get(name).await.unwrap()
    }

    /// Everything in the cloud, and what the Go controller has written in the cluster.
    pub(crate) async fn state(&self) -> Value {
        let cloud = Kind::ALL.map(|kind| self.sim().all(kind));
        let mut objects = Vec::new();
        for name in self.left.keys() {
            let service = self.service(name).await;
            let metadata = service.metadata;
            let notes = metadata.annotations.unwrap_or_default().into_iter();
            let notes: BTreeMap<_, _> = notes.filter(|(key, _)| !is_record(key)).collect();
            objects.push(json!([name, metadata.finalizers, notes, service.status]));
        }
        let nodes = Api::<Node>::all(self.cp.admin());
        for node in nodes.list(&ListParams::default()).await.unwrap() {
            let metadata = node.metadata;
            let notes = metadata.annotations.unwrap_or_default().into_iter();
            let notes: BTreeMap<_, _> = notes.filter(|(key, _)| !is_record(key)).collect();
            let addresses = node.status.and_then(|status| status.addresses);
            objects.push(json!([
                metadata.name,
                metadata.labels,
                notes,
                node.spec,
                addresses
            ]));
        }
        json!([cloud, objects])
    }

    /// Asserts that nothing was written in the cloud, and that all is as the Go controller has left it.
    pub(crate) async fn assert_untouched(&self) {
        assert_none(&self.cloud.calls().writes());
        assert_eq!(self.state().await, self.before);
        for (name, id) in &self.left {
            assert_none(&self.sim().outages(id));
            let service = self.service(name).await;
            assert_eq!(
                found_by_go(self.sim(), &service).as_ref(),
                Some(id),
                "{name}"
            );
        }
    }

    /// Waits until central has looked at all that was left, and recorded it.
    pub(crate) async fn adopted(&self) {
        for name in self.left.keys() {
            let what = format!("{name} is adopted");
            mooring_test_support::wait::eventually(&what, super::AT_LAST, async || {
                let service = self.service(name).await;
                let notes = service.metadata.annotations.unwrap_or_default();
                notes.contains_key(annotations::APPLIED)
            })
            .await;
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.left.keys()
    }
}

/// What Mooring writes for itself.
pub(crate) fn is_record(key: &str) -> bool {
    key.starts_with("mooring.dev/")
}

/// The NodeBalancer that the Go controller finds: by the first entry of the status alone.
pub(crate) fn found_by_go(sim: &Linode, service: &Service) -> Option<String> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    let entry = status.ingress.as_ref()?.first()?;
    let is_it = |balancer: &Value| match (&entry.ip, &entry.hostname) {
        (Some(ip), _) => balancer["ipv4"] == **ip || balancer["ipv6"] == **ip,
        (None, Some(hostname)) => balancer["hostname"] == **hostname,
        (None, None) => false,
    };
    let mut found = sim.all(Kind::NodeBalancer).into_iter().filter(is_it);
    let id = found.next()?["id"].to_string();
    assert!(found.next().is_none(), "two NodeBalancers fit");
    Some(id)
}
