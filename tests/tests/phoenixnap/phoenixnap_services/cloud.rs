//! What the scenarios for every cloud need to know of this one: a load balancer is an IP block, whose
//! third address is the Service's.

use std::ops::Deref;
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::Api;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::phoenixnap::{Behaviour, Kind, Pace, Phoenixnap};
use mooring_cloud_sim::{Call, Calls, When};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::shipped::{CentralFlags, permit_kube_vip};
use serde_json::{Value, json};

use crate::phoenixnap_services::blocks::{USAGE, attachment, has_tag, id, listing, purchase, tags};
use crate::phoenixnap_services::cluster::{Balancer, LoadBalancerCloud, assert_none};

/// The cloud of this suite.
pub(crate) struct SuiteCloud {
    sim: CloudSim,
    /// The public network that the configuration names.
    pub(crate) network: String,
    /// The UID of `kube-system`.
    pub(crate) cluster_uid: String,
}

impl Deref for SuiteCloud {
    type Target = CloudSim;

    fn deref(&self) -> &CloudSim {
        &self.sim
    }
}

impl SuiteCloud {
    /// The simulation.
    pub(crate) fn sim(&self) -> &Phoenixnap {
        self.phoenixnap().expect("it is PhoenixNAP")
    }

    /// The blocks of this cluster that are not marked.
    pub(crate) fn living_blocks(&self) -> Vec<Value> {
        let cluster = ("cluster", self.cluster_uid.as_str());
        let mut blocks = self.sim().tagged(&[USAGE, cluster]);
        blocks.retain(|block| !has_tag(block, "delete"));
        blocks
    }

    /// For addresses that kube-vip announces.
    pub(crate) fn load_balancer(&self) -> String {
        format!("kube-vip://{}", self.network)
    }
}

fn balancer(block: &Value) -> Balancer {
    Balancer {
        id: id(block),
        ..Balancer::default()
    }
}

impl LoadBalancerCloud for SuiteCloud {
    const CLOUD: Cloud = Cloud::Phoenixnap;
    const COMPONENT: &'static str = "cloud-provider-phoenixnap";
    const REFUSED_ANNOTATION: (&'static str, &'static str) = ("phoenixnap.com/ip-location", "ASH");
    /// After a 500 the block may have been sold: it is looked for, and not asked for again at once.
    const PLAIN_FAILURE: StatusCode = StatusCode::BAD_REQUEST;
    const FORWARDS: bool = false;
    /// A network takes ten blocks.
    const MANY: usize = 8;
    const OPTIONAL_FIELDS: &'static [&'static str] =
        &["description", "createdOn", "tagId", "isBringYourOwn"];

    async fn start(cluster: &Cluster) -> Self {
        permit_kube_vip(cluster).await.unwrap();
        let sim = CloudSim::start(Self::CLOUD).await;
        let phoenixnap = sim.phoenixnap().expect("it is PhoenixNAP");
        let network = phoenixnap.add_network("services", "PHX");
        let namespaces = Api::<Namespace>::all(cluster.admin.clone());
        let system = namespaces.get("kube-system").await.unwrap();
        Self {
            sim,
            network,
            cluster_uid: system.metadata.uid.unwrap(),
        }
    }

    /// As the Go controller has it.
    fn flags(&self, flags: CentralFlags) -> CentralFlags {
        flags
            .environment("PNAP_LOAD_BALANCER", self.load_balancer())
            .with("--creation-settle-time=10s")
            .with("--ip-block-sharing=false")
    }

    fn machine(&self, n: usize) -> Server {
        let server = Server::named(&format!("n{n}")).private(&Self::address(n));
        server.public(&format!("192.0.2.{n}"))
    }

    fn provision_in(&self, length: Duration) {
        self.sim().behave(Behaviour::paced(Pace::Takes(length)));
    }

    fn assert_well_behaved(&self) {
        assert_none(&self.sim().misdirected());
    }

    fn creation(&self) -> When {
        purchase()
    }

    fn completion(&self) -> When {
        attachment()
    }

    /// The block is marked.
    fn deletion(&self, id: &str) -> When {
        When::write(&format!("{}/{id}/tags", Kind::Block.path())).method(Method::PUT)
    }

    fn balancer_lookups(&self) -> Vec<When> {
        vec![listing()]
    }

    fn creations(&self) -> Calls {
        let calls = self.calls().to(Kind::Block.path());
        calls.method(&Method::POST)
    }

    fn writes_on(&self, id: &str) -> Calls {
        let is_meant = |call: &Call| {
            let named = call.body.as_ref().is_some_and(|body| body["id"] == id);
            named || call.path.contains(id)
        };
        self.calls().writes().filter(is_meant)
    }

    /// One listing shows them all.
    fn looked_at(&self, calls: &Calls) -> usize {
        let listings = calls.to(Kind::Block.path()).method(&Method::GET);
        let answered = listings.filter(|call| call.took.is_some()).len();
        answered * (Self::MANY + 1)
    }

    /// A token, the blocks by each kind of mark, the network, and the servers; and once more for those
    /// who ask a second later.
    fn reads_at_start(&self, _balancers: usize) -> usize {
        12
    }

    /// By the tags that the Go controller writes.
    fn balancer_of(&self, service: &Service) -> Option<Balancer> {
        let name = service.metadata.name.clone().unwrap_or_default();
        let namespace = service.metadata.namespace.clone().unwrap_or_default();
        let wanted = [("serviceName", name), ("serviceNamespace", namespace)];
        let mut found = self.living_blocks();
        found.retain(|block| {
            let tags = tags(block);
            let mut wanted = wanted.iter();
            wanted.all(|(key, value)| tags.contains(&((*key).to_owned(), value.clone())))
        });
        assert!(found.len() <= 1, "two blocks: {found:#?}");
        found.pop().map(|block| balancer(&block))
    }

    fn balancers(&self) -> Vec<Balancer> {
        self.living_blocks().iter().map(balancer).collect()
    }

    fn left(&self) -> Vec<String> {
        let cluster = ("cluster", self.cluster_uid.as_str());
        self.sim().tagged(&[cluster]).iter().map(id).collect()
    }

    fn has(&self, id: &str) -> bool {
        self.sim().get(Kind::Block, id).is_some()
    }

    fn delete_by_hand(&self, id: &str) {
        assert!(self.sim().take(Kind::Block, id), "there is no {id}");
    }

    fn lookalikes(&self, id: &str) -> Vec<String> {
        let original = self.sim().get(Kind::Block, id).expect("it is there");
        let marks = |change: &dyn Fn(&mut Value)| {
            let tags = tags(&original).into_iter();
            let mut marks: Value = tags.map(|(key, value)| (key, json!(value))).collect();
            change(&mut marks);
            marks
        };
        let another = json!("11111111-2222-4333-8444-555555555555");
        let others = [
            marks(&|marks| marks["cluster"] = another.clone()),
            marks(&|marks| marks["usage"] = json!("somebody-elses")),
            json!({ "serviceName": "web" }),
            json!({}),
        ];
        let put = |(n, tags): (usize, Value)| {
            let cidr = format!("198.51.100.{}/29", n * 8);
            self.sim()
                .put(Kind::Block, json!({ "cidr": cidr, "tags": tags }))
        };
        others.into_iter().enumerate().map(put).collect()
    }
}
