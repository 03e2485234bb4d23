//! What the scenarios for every cloud need to know of this one: a load balancer is a NodeBalancer.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_cloud_sim::linode::{Kind, Linode, Outage};
use mooring_cloud_sim::{Call, Calls, When};
use mooring_common::names::linode_tags::{CLUSTER as CLUSTER_MARK, SERVICE as SERVICE_MARK};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::CentralFlags;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::linode_services::cluster::{Balancer, LoadBalancerCloud, assert_none};
use crate::linode_services::forwarding::{ForwardingCloud, node_port};

/// Where NodeBalancers are made and listed.
pub(crate) const BALANCERS: &str = "/v4/nodebalancers";
const NODES: &str = "/v4/nodebalancers/*/configs/*/nodes";

/// The cloud of this suite.
pub(crate) struct SuiteCloud(CloudSim);

impl Deref for SuiteCloud {
    type Target = CloudSim;

    fn deref(&self) -> &CloudSim {
        &self.0
    }
}

impl SuiteCloud {
    /// The simulation.
    pub(crate) fn sim(&self) -> &Linode {
        self.linode().expect("the cloud is Linode")
    }

    /// The parts of a kind of this NodeBalancer.
    pub(crate) fn parts(&self, id: &str, kind: Kind) -> Vec<Value> {
        let mut all = self.sim().all(kind);
        all.retain(|part| number(&part["nodebalancer_id"]) == id);
        all
    }

    /// The firewalls that protect this NodeBalancer.
    pub(crate) fn firewalls(&self, id: &str) -> Vec<Value> {
        let mut all = self.sim().all(Kind::Firewall);
        all.retain(|firewall| {
            let mut entities = firewall["entities"].as_array().into_iter().flatten();
            entities.any(|one| one["type"] == "nodebalancer" && number(&one["id"]) == id)
        });
        all
    }

    fn balancer(&self, found: &Value) -> Balancer {
        let id = number(&found["id"]);
        let (configs, nodes) = (self.parts(&id, Kind::Config), self.parts(&id, Kind::Node));
        let checks = nodes.iter().filter_map(|node| {
            let mut configs = configs.iter();
            let config = configs.find(|config| config["id"] == node["config_id"])?;
            let (_, port) = node["address"].as_str()?.rsplit_once(':')?;
            Some(format!("{} {port}", config["check"].as_str()?))
        });
        let firewalls = self.firewalls(&id);
        let rules = firewalls
            .iter()
            .filter_map(|firewall| firewall["rules"]["inbound"].as_array());
        let families = rules.flatten().flat_map(|rule| {
            let addresses = &rule["addresses"];
            [&addresses["ipv4"], &addresses["ipv6"]]
        });
        let sources = families.filter_map(Value::as_array).flatten();
        Balancer {
            served: self.sim().traffic(&id).now(),
            checks: checks.collect(),
            sources: sources.map(text).collect::<BTreeSet<_>>(),
            id,
        }
    }
}

impl LoadBalancerCloud for SuiteCloud {
    const CLOUD: Cloud = Cloud::Linode;
    const COMPONENT: &'static str = "linode-cloud-controller-manager";
    const REFUSED_ANNOTATION: (&'static str, &'static str) = (
        "service.beta.kubernetes.io/linode-loadbalancer-check-interval",
        "soon",
    );
    const PLAIN_FAILURE: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
    const FORWARDS: bool = true;
    const MANY: usize = 20;
    const OPTIONAL_FIELDS: &'static [&'static str] = &[
        "created",
        "updated",
        "transfer",
        "locks",
        "lke_cluster",
        "nodes_status",
        "cipher_suite",
        "udp_session_timeout",
        "client_udp_sess_throttle",
        "vpc_config_id",
        "ssl_commonname",
        "alerts",
        "backups",
        "specs",
    ];

    /// Linodes are reached by their private addresses alone.
    fn address(n: usize) -> String {
        format!("192.168.{}.{}", 128 + n / 250, n % 250)
    }

    fn node(node: NodeBuilder, n: usize) -> NodeBuilder {
        node.address("InternalIP", &Self::address(n))
    }

    /// It is asked at the port that gets traffic, at which no Node without endpoints answers.
    fn local_check(service: &Service) -> String {
        format!("connection {}", node_port(service))
    }

    async fn start(_: &Cluster) -> Self {
        Self(CloudSim::start(Self::CLOUD).await)
    }

    fn flags(&self, flags: CentralFlags) -> CentralFlags {
        flags.with("--nodebalancer-drain-period=1s")
    }

    fn assert_well_behaved(&self) {
        let writes = self.sim().writes().into_iter();
        let at_once: Vec<_> = writes
            .filter(|(_, writes)| writes.most_at_once > 1)
            .collect();
        assert_none(&at_once);
    }

    fn assert_served_all_along(&self, id: &str) {
        assert_none(&self.outages(id));
    }

    fn creation(&self) -> When {
        When::write(BALANCERS).method(Method::POST)
    }

    /// A new one is looked at.
    fn completion(&self) -> When {
        When::get("/v4/nodebalancers/*/configs")
    }

    fn deletion(&self, id: &str) -> When {
        When::write(&format!("{BALANCERS}/{id}")).method(Method::DELETE)
    }

    fn balancer_lookups(&self) -> Vec<When> {
        vec![When::get(BALANCERS), When::get("/v4/nodebalancers/*")]
    }

    fn creations(&self) -> Calls {
        self.calls().to(BALANCERS).method(&Method::POST)
    }

    fn writes_on(&self, id: &str) -> Calls {
        let firewalls = self.firewalls(id);
        let firewalls = firewalls
            .iter()
            .map(|firewall| format!("/v4/networking/firewalls/{}", firewall["id"]));
        let mut concerned: Vec<String> = firewalls.collect();
        concerned.push(format!("{BALANCERS}/{id}"));
        let is_below = |path: &str, folder: &String| {
            let rest = path.strip_prefix(folder.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_meant = |call: &Call| concerned.iter().any(|one| is_below(&call.path, one));
        self.calls().writes().filter(is_meant)
    }

    /// One listing shows them all.
    fn looked_at(&self, calls: &Calls) -> usize {
        let listings = calls.to(BALANCERS).method(&Method::GET);
        let answered = listings.filter(|call| call.took.is_some()).len();
        answered * (Self::MANY + 1)
    }

    /// NodeBalancers and Linodes, and once more for those who ask a second later.
    fn reads_at_start(&self, _balancers: usize) -> usize {
        10
    }

    /// By its mark.
    fn balancer_of(&self, service: &Service) -> Option<Balancer> {
        let mark = json!(format!("{SERVICE_MARK}{}", uid(service)));
        let mut found = self.sim().all(Kind::NodeBalancer);
        found.retain(|found| tags(found).contains(&mark));
        assert!(found.len() <= 1, "two NodeBalancers: {found:#?}");
        found.pop().map(|found| self.balancer(&found))
    }

    fn balancers(&self) -> Vec<Balancer> {
        let all = self.sim().all(Kind::NodeBalancer);
        all.iter().map(|found| self.balancer(found)).collect()
    }

    /// Firewalls cost nothing, and are not to be left either.
    fn left(&self) -> Vec<String> {
        let kinds = [Kind::NodeBalancer, Kind::Firewall];
        let all = kinds.into_iter().flat_map(|kind| self.sim().all(kind));
        all.map(|left| number(&left["id"])).collect()
    }

    fn has(&self, id: &str) -> bool {
        self.sim().get(Kind::NodeBalancer, id).is_some()
    }

    fn delete_by_hand(&self, id: &str) {
        let id = id.parse().expect("a number");
        assert!(self.sim().remove_node_balancer(id), "there is no {id}");
    }

    fn rename_by_hand(&self, id: &str) {
        let name = "renamed-by-hand";
        self.sim().set_in(Kind::NodeBalancer, id, "label", name);
    }

    fn lookalikes(&self, id: &str) -> Vec<String> {
        let original = self.sim().get(Kind::NodeBalancer, id);
        let tags = tags(&original.expect("it is there"));
        let marked = |mark: &str| {
            let mut tags = tags.iter().filter_map(Value::as_str);
            let tag = tags.find(|tag| tag.starts_with(mark));
            tag.expect("it bears the mark").to_owned()
        };
        let (service, cluster) = (marked(SERVICE_MARK), marked(CLUSTER_MARK));
        let another = format!("{CLUSTER_MARK}{}", Uuid::new_v4());
        let others = [
            json!([service, another]),
            json!([service]),
            json!([cluster]),
            json!([]),
        ];
        let put = |tags: Value| self.sim().put_node_balancer(&json!({ "tags": tags }));
        others
            .into_iter()
            .map(|tags| put(tags).to_string())
            .collect()
    }
}

impl ForwardingCloud for SuiteCloud {
    type Outage = Outage;

    const CREDENTIALS: &'static str = "LINODE_API_TOKEN";
    const HARMLESS: (&'static str, &'static str) = (
        "service.beta.kubernetes.io/linode-loadbalancer-throttle",
        "7",
    );
    /// It is made whole.
    const STEPS: usize = 1;

    fn set_latency(&self, latency: Duration) {
        self.sim().set_latency(latency);
    }

    fn shows_harmless(&self, service: &Service) -> bool {
        let id = self.balancer_of(service).expect("a NodeBalancer").id;
        let shown = self.sim().get(Kind::NodeBalancer, id);
        shown.is_some_and(|shown| shown["client_conn_throttle"] == 7)
    }

    fn additions(&self) -> When {
        When::write(NODES).method(Method::POST)
    }

    fn members_added(&self, id: &str) -> Calls {
        let path = NODES.replacen('*', id, 1);
        self.calls().to(&path).method(&Method::POST)
    }

    fn take_a_member(&self, id: &str) {
        let nodes = self.parts(id, Kind::Node);
        let node = nodes.first().and_then(|node| node["id"].as_u64());
        self.sim().remove_node(node.expect("a node"));
    }

    fn outages(&self, id: &str) -> Vec<Outage> {
        self.sim().outages(id)
    }

    fn outages_but(&self, id: &str, gone: &[&str]) -> Vec<Outage> {
        let mut outages = self.outages(id);
        outages.retain(|outage| outage.over || !gone.contains(&outage.listener.as_str()));
        outages
    }
}

/// A number as text: ids are texts to the scenarios.
pub(crate) fn number(value: &Value) -> String {
    value.to_string()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The tags of an object.
pub(crate) fn tags(value: &Value) -> Vec<Value> {
    value["tags"].as_array().cloned().unwrap_or_default()
}

pub(crate) fn uid(service: &Service) -> String {
    service.metadata.uid.clone().unwrap()
}
