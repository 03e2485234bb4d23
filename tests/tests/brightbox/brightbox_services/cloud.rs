//! What the scenarios for every cloud need to know of this one: a load balancer is what has one name, a server
//! group, a firewall policy and a Cloud IP among it.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::brightbox::{Behaviour, Brightbox, Kind, Outage};
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_cloud_sim::{Call, Calls, When};
use mooring_test_cluster::cluster::Cluster;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::brightbox_services::cluster::{Balancer, LoadBalancerCloud, assert_none};
use crate::brightbox_services::forwarding::ForwardingCloud;

/// Where load balancers are made and listed.
pub(crate) const BALANCERS: &str = "/1.0/load_balancers";
const ADD_SERVERS: &str = "/1.0/server_groups/*/add_servers";
/// Where load balancers are, to a firewall.
const BALANCERS_NETWORK: &str = "10.0.0.0/8";

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
    pub(crate) fn sim(&self) -> &Brightbox {
        self.brightbox().expect("the cloud is Brightbox")
    }

    /// The load balancers that are not on their way out.
    pub(crate) fn living(&self) -> Vec<Value> {
        let mut all = self.sim().all(Kind::LoadBalancer);
        all.retain(|balancer| balancer["status"] != "deleting" && balancer["status"] != "deleted");
        all
    }

    /// What there is of the same name as this load balancer, and what leads to it: the identifiers, and the name.
    fn parts(&self, id: &str) -> BTreeSet<String> {
        let balancer = self.sim().get(Kind::LoadBalancer, id).unwrap_or_default();
        let name = &balancer["name"];
        let mut parts = BTreeSet::from([id.to_owned(), text(name)]);
        for kind in [Kind::ServerGroup, Kind::FirewallPolicy, Kind::CloudIp] {
            for part in self.sim().all(kind) {
                if part["name"] != *name && part["load_balancer"]["id"] != id {
                    continue;
                }
                let rules = part["rules"].as_array().into_iter().flatten();
                parts.extend(rules.map(|rule| text(&rule["id"])));
                parts.insert(text(&part["id"]));
            }
        }
        parts
    }

    fn balancer(&self, found: &Value) -> Balancer {
        let id = text(&found["id"]);
        let policies = self.sim().all(Kind::FirewallPolicy).into_iter();
        let policies = policies.filter(|policy| policy["name"] == found["name"]);
        let sources = policies.flat_map(|policy| {
            let rules = policy["rules"].as_array().cloned().unwrap_or_default();
            rules.into_iter().map(|rule| text(&rule["source"]))
        });
        let check = &found["healthcheck"];
        Balancer {
            served: self.sim().traffic(&id).now(),
            checks: [format!("{} {}", text(&check["type"]), check["port"])].into(),
            sources: sources
                .filter(|source| source != BALANCERS_NETWORK)
                .collect(),
            id,
        }
    }
}

impl LoadBalancerCloud for SuiteCloud {
    const CLOUD: Cloud = Cloud::Brightbox;
    const COMPONENT: &'static str = "brightbox-cloud-controller-manager";
    const REFUSED_ANNOTATION: (&'static str, &'static str) = (
        "service.beta.kubernetes.io/brightbox-load-balancer-policy",
        "magic-routing",
    );
    const PLAIN_FAILURE: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
    const FORWARDS: bool = true;
    const KEEPS_ADDRESS: bool = true;
    const MANY: usize = 20;
    const OPTIONAL_FIELDS: &'static [&'static str] = &[
        "created_at",
        "url",
        "account",
        "buffer_size",
        "ssl_minimum_version",
        "certificate",
        "mode",
        "port_translators",
        "database_server",
        "mac_address",
        "console_url",
        "volumes",
        "snapshots",
    ];

    async fn start(_: &Cluster) -> Self {
        Self(CloudSim::start(Self::CLOUD).await)
    }

    /// Cloud IPs never lead anywhere at once.
    fn provision_in(&self, length: Duration) {
        self.sim().behave(Behaviour {
            creating: length,
            ..usual()
        });
    }

    /// Nothing was asked that the API does not know.
    fn assert_well_behaved(&self) {
        let refused = self.calls().answered(StatusCode::UNPROCESSABLE_ENTITY);
        let refused = refused.filter(|call| !call.faulty);
        assert!(refused.is_empty(), "{}", refused.summary());
    }

    fn assert_served_all_along(&self, id: &str) {
        assert_none(&self.outages(id));
    }

    fn creation(&self) -> When {
        When::write(BALANCERS).method(Method::POST)
    }

    /// A Cloud IP is to lead to it.
    fn completion(&self) -> When {
        When::write("/1.0/cloud_ips/*/map")
    }

    fn deletion(&self, id: &str) -> When {
        When::write(&format!("{BALANCERS}/{id}")).method(Method::DELETE)
    }

    fn balancer_lookups(&self) -> Vec<When> {
        vec![When::get(BALANCERS), When::get("/1.0/load_balancers/*")]
    }

    fn creations(&self) -> Calls {
        self.calls().to(BALANCERS).method(&Method::POST)
    }

    fn writes_on(&self, id: &str) -> Calls {
        let parts = self.parts(id);
        let is_part = |value: &Value| value.as_str().is_some_and(|id| parts.contains(id));
        let is_meant = |call: &Call| {
            let named = call.path.split('/').any(|segment| parts.contains(segment));
            let body = call.body.as_ref().and_then(Value::as_object);
            named || body.is_some_and(|body| body.values().any(is_part))
        };
        let writes = self.calls().writes();
        writes.filter(|call| call.path != BALANCERS && is_meant(call))
    }

    /// One listing shows them all.
    fn looked_at(&self, calls: &Calls) -> usize {
        let listings = calls.to(BALANCERS).method(&Method::GET);
        let answered = listings.filter(|call| call.took.is_some()).len();
        answered * (Self::MANY + 1)
    }

    /// Each kind of part once; the servers once, and once more for those who ask a second later what Nodes
    /// there are.
    fn reads_at_start(&self, _balancers: usize) -> usize {
        4 + 2
    }

    /// By its name.
    fn balancer_of(&self, service: &Service) -> Option<Balancer> {
        let mut found = self.living();
        found.retain(|found| found["name"] == name(service));
        assert!(found.len() <= 1, "two load balancers: {found:#?}");
        found.pop().map(|found| self.balancer(&found))
    }

    fn balancers(&self) -> Vec<Balancer> {
        let all = self.living();
        all.iter().map(|found| self.balancer(found)).collect()
    }

    /// The rest costs something too, or is in the way of what comes later.
    fn left(&self) -> Vec<String> {
        let kinds = [
            Kind::LoadBalancer,
            Kind::ServerGroup,
            Kind::FirewallPolicy,
            Kind::FirewallRule,
            Kind::CloudIp,
        ];
        let mut left: Vec<Value> = kinds
            .into_iter()
            .flat_map(|kind| self.sim().all(kind))
            .collect();
        left.retain(|left| left["status"] != "deleted" && left["server"].is_null());
        left.iter().map(|left| text(&left["id"])).collect()
    }

    fn called(&self, id: &str) -> String {
        let found = self.sim().get(Kind::LoadBalancer, id);
        text(&found.expect("it is there")["name"])
    }

    fn has(&self, id: &str) -> bool {
        self.living().iter().any(|balancer| balancer["id"] == id)
    }

    fn delete_by_hand(&self, id: &str) {
        assert!(self.sim().take(Kind::LoadBalancer, id), "there is no {id}");
    }

    /// The marks are in the description of the server group.
    fn lookalikes(&self, id: &str) -> Vec<String> {
        let original = self.sim().get(Kind::LoadBalancer, id).expect("it is there");
        let groups = self
            .sim()
            .named(Kind::ServerGroup, &text(&original["name"]));
        let marks = text(&groups[0]["description"]);
        let marked = |mark: &str| {
            let mut words = marks.split_whitespace();
            let word = words.find(|word| word.starts_with(mark));
            word.unwrap_or_else(|| panic!("no {mark} in {marks:?}"))
        };
        let (cluster, service) = (marked("cluster="), marked("service="));
        let another = format!("cluster={}", Uuid::new_v4());
        let others = [
            json!(marks.replace(cluster, &another)),
            json!(format!("mooring.dev {service}")),
            json!(format!("mooring.dev {cluster}")),
            Value::Null,
        ];
        let put = |(n, marks): (usize, Value)| {
            let name = format!("lookalike-{n}.{}", text(&original["name"]));
            let group = json!({ "name": name, "description": marks });
            self.sim().put(Kind::ServerGroup, group);
            self.sim().put(Kind::LoadBalancer, json!({ "name": name }))
        };
        others.into_iter().enumerate().map(put).collect()
    }
}

impl ForwardingCloud for SuiteCloud {
    type Outage = Outage;

    const CREDENTIALS: &'static str = "BRIGHTBOX_CLIENT_SECRET";
    const HARMLESS: (&'static str, &'static str) = (
        "service.beta.kubernetes.io/brightbox-load-balancer-policy",
        "round-robin",
    );
    /// Group, its servers, policy, rule, Cloud IP, load balancer, and where the Cloud IP leads.
    const STEPS: usize = 7;
    /// In the server group and behind the load balancer.
    const WRITES_FOR_A_MEMBER: usize = 2;

    fn set_latency(&self, latency: Duration) {
        self.sim().set_latency(latency);
    }

    fn shows_harmless(&self, service: &Service) -> bool {
        let id = self.balancer_of(service).expect("a load balancer").id;
        let shown = self.sim().get(Kind::LoadBalancer, &id);
        shown.is_some_and(|shown| shown["policy"] == "round-robin")
    }

    fn additions(&self) -> When {
        When::write("/1.0/load_balancers/*").method(Method::PUT)
    }

    fn members_added(&self, id: &str) -> Calls {
        let parts = self.parts(id);
        let adds = self.calls().to(ADD_SERVERS);
        adds.filter(|call| call.path.split('/').any(|segment| parts.contains(segment)))
    }

    /// All of a round are added at once.
    fn rounds(added: &Calls) -> usize {
        added.len()
    }

    fn members_in(call: &Call) -> usize {
        let body = call.body.as_ref();
        let servers = body.and_then(|body| body["servers"].as_array());
        servers.map_or(0, Vec::len)
    }

    fn take_a_member(&self, id: &str) {
        self.sim().change_in(Kind::LoadBalancer, id, |balancer| {
            let nodes = balancer["nodes"].as_array_mut();
            nodes.expect("nodes").pop().expect("a node");
        });
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

/// How the cloud behaves here unless a test says otherwise: its names need no DNS server.
pub(crate) fn usual() -> Behaviour {
    Behaviour {
        numeric_names: true,
        ..Behaviour::default()
    }
}

/// What everything of a Service is called.
pub(crate) fn name(service: &Service) -> String {
    let metadata = &service.metadata;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}.{}.kubernetes",
        part(&metadata.name),
        part(&metadata.namespace)
    )
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
