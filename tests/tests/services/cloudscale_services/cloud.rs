//! What the scenarios for every cloud need to know of this one.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_cloud_sim::cloudscale::{Behaviour, Cloudscale, Kind, Outage};
use mooring_cloud_sim::{Call, Calls, When};
use mooring_common::names::cloudscale_tags::{CLUSTER as CLUSTER_TAG, SERVICE_UID as SERVICE_TAG};
use mooring_test_cluster::cluster::Cluster;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloudscale_services::cluster::{Balancer, LoadBalancerCloud, assert_none};
use crate::cloudscale_services::forwarding::ForwardingCloud;

/// An annotation that chooses Nodes.
pub(crate) const NODE_SELECTOR: &str = "k8s.cloudscale.ch/loadbalancer-node-selector";

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
    pub(crate) fn sim(&self) -> &Cloudscale {
        self.cloudscale().expect("the cloud is cloudscale.ch")
    }

    fn balancer(&self, found: &Value) -> Balancer {
        let cloud = self.sim();
        let uuid = &found["uuid"];
        let parts = |kind: Kind| {
            let mut all = cloud.all(kind);
            all.retain(|part| part["load_balancer"]["uuid"] == *uuid);
            all
        };
        let (members, monitors) = (parts(Kind::Member), parts(Kind::HealthMonitor));
        let checks = members.iter().filter_map(|member| {
            let mut monitors = monitors.iter();
            let monitor =
                monitors.find(|monitor| monitor["pool"]["uuid"] == member["pool"]["uuid"])?;
            let port = match &member["monitor_port"] {
                Value::Null => &member["protocol_port"],
                port => port,
            };
            Some(format!("{} {port}", monitor["type"].as_str()?))
        });
        let listeners = parts(Kind::Listener);
        let cidrs = listeners
            .iter()
            .flat_map(|listener| listener["allowed_cidrs"].as_array().into_iter().flatten());
        let sources = cidrs.filter_map(|cidr| Some(cidr.as_str()?.to_owned()));
        Balancer {
            id: uuid.as_str().unwrap_or_default().to_owned(),
            served: cloud.traffic(uuid.as_str().unwrap_or_default()).now(),
            checks: checks.collect(),
            sources: sources.collect::<BTreeSet<_>>(),
        }
    }
}

impl LoadBalancerCloud for SuiteCloud {
    const CLOUD: Cloud = Cloud::Cloudscale;
    const COMPONENT: &'static str = "cloudscale-cloud-controller-manager";
    const REFUSED_ANNOTATION: (&'static str, &'static str) = (
        "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs",
        r#"["10.0.0.0/8", "10.0.0.0/99"]"#,
    );
    const PLAIN_FAILURE: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;
    const FORWARDS: bool = true;
    const MANY: usize = 20;
    const OPTIONAL_FIELDS: &'static [&'static str] = &[
        "created_at",
        "href",
        "monitor_status",
        "reverse_ptr",
        "gateway",
        "next_hop",
        "ssh_host_keys",
        "volumes",
    ];

    async fn start(_: &Cluster) -> Self {
        Self(CloudSim::start(Self::CLOUD).await)
    }

    fn provision_in(&self, length: Duration) {
        self.sim().behave(Behaviour {
            provisioning: length,
            ..Behaviour::default()
        });
    }

    fn assert_served_all_along(&self, id: &str) {
        assert_none(&self.outages(id));
    }

    fn creation(&self) -> When {
        When::write("/v1/load-balancers").method(Method::POST)
    }

    fn completion(&self) -> When {
        self.additions()
    }

    fn deletion(&self, id: &str) -> When {
        When::write(&format!("/v1/load-balancers/{id}")).method(Method::DELETE)
    }

    fn balancer_lookups(&self) -> Vec<When> {
        vec![
            When::get("/v1/load-balancers"),
            When::get("/v1/load-balancers/*"),
        ]
    }

    fn creations(&self) -> Calls {
        let calls = self.calls().to(Kind::LoadBalancer.path());
        calls.method(&Method::POST)
    }

    fn writes_on(&self, id: &str) -> Calls {
        let of = |kind: Kind| {
            let all = self.sim().all(kind).into_iter();
            let mine = all.filter(|part| part["load_balancer"]["uuid"] == id);
            mine.map(|part| text(&part["uuid"])).collect::<Vec<_>>()
        };
        let kinds = [
            Kind::Pool,
            Kind::Listener,
            Kind::HealthMonitor,
            Kind::Member,
        ];
        let mut concerned: Vec<String> = kinds.into_iter().flat_map(of).collect();
        concerned.push(id.to_owned());
        let is_named = |call: &Call| {
            concerned
                .iter()
                .any(|uuid| call.path.contains(uuid.as_str()))
        };
        let is_meant = |call: &Call| {
            let body = call.body.as_ref();
            let parent = body.map(|body| [text(&body["load_balancer"]), text(&body["pool"])]);
            parent.is_some_and(|parent| parent.iter().any(|uuid| concerned.contains(uuid)))
        };
        let writes = self.calls().writes();
        writes.filter(|call| is_named(call) || is_meant(call))
    }

    /// The listings of members among them: there is one for each pool.
    fn looked_at(&self, calls: &Calls) -> usize {
        calls.to(Kind::Member.path()).method(&Method::GET).len()
    }

    /// Load balancers, pools, listeners, health monitors and floating IPs once, and the members of each
    /// pool; the servers once, and once more for those who ask a second later what Nodes there are; and load
    /// balancers once more for those that no Service has, which is known once all Services have had their turn.
    fn reads_at_start(&self, balancers: usize) -> usize {
        5 + balancers + 2 + 1
    }

    /// By its mark, or by its name.
    fn balancer_of(&self, service: &Service) -> Option<Balancer> {
        let uid = uid(service);
        let mut found = self.sim().all(Kind::LoadBalancer);
        found.retain(|found| found["tags"][SERVICE_TAG] == uid || found["name"] == name(&uid));
        assert!(found.len() <= 1, "two load balancers: {found:#?}");
        found.pop().map(|found| self.balancer(&found))
    }

    fn balancers(&self) -> Vec<Balancer> {
        let all = self.sim().all(Kind::LoadBalancer);
        all.iter().map(|found| self.balancer(found)).collect()
    }

    fn has(&self, id: &str) -> bool {
        self.sim().get(Kind::LoadBalancer, id).is_some()
    }

    fn delete_by_hand(&self, id: &str) {
        assert!(self.sim().take(Kind::LoadBalancer, id), "there is no {id}");
    }

    fn rename_by_hand(&self, id: &str) {
        let name = "renamed-by-hand";
        self.sim().set_in(Kind::LoadBalancer, id, "name", name);
    }

    fn lookalikes(&self, id: &str) -> Vec<String> {
        let original = self.sim().get(Kind::LoadBalancer, id).expect("it is there");
        let tags = &original["tags"];
        assert!(
            tags[SERVICE_TAG].is_string() && tags[CLUSTER_TAG].is_string(),
            "{tags}"
        );
        let others = [
            json!({ SERVICE_TAG: tags[SERVICE_TAG], CLUSTER_TAG: Uuid::new_v4().to_string() }),
            json!({ SERVICE_TAG: tags[SERVICE_TAG] }),
            json!({ CLUSTER_TAG: tags[CLUSTER_TAG] }),
            json!({}),
        ];
        let put = |tags: Value| {
            let other = json!({ "name": original["name"], "tags": tags });
            self.sim().put(Kind::LoadBalancer, other)
        };
        others.into_iter().map(put).collect()
    }
}

impl ForwardingCloud for SuiteCloud {
    type Outage = Outage;

    const CREDENTIALS: &'static str = "CLOUDSCALE_ACCESS_TOKEN";
    const HARMLESS: (&'static str, &'static str) = (
        "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms",
        "40000",
    );
    const STEPS: usize = 5;

    fn set_latency(&self, latency: Duration) {
        self.sim().set_latency(latency);
    }

    fn shows_harmless(&self, service: &Service) -> bool {
        let listeners = self.sim().parts_of(&name(&uid(service)), Kind::Listener);
        let mut listeners = listeners.iter();
        listeners.all(|listener| listener["timeout_client_data_ms"] == 40000)
    }

    fn additions(&self) -> When {
        When::write(Kind::Member.path()).method(Method::POST)
    }

    fn members_added(&self, id: &str) -> Calls {
        let pools = self.sim().all(Kind::Pool).into_iter();
        let pools = pools.filter(|pool| pool["load_balancer"]["uuid"] == id);
        let paths: Vec<String> = pools
            .map(|pool| format!("/v1/load-balancers/pools/{}/members", text(&pool["uuid"])))
            .collect();
        let posts = self.calls().method(&Method::POST);
        posts.filter(|call| paths.contains(&call.path))
    }

    fn take_a_member(&self, id: &str) {
        let mut members = self.sim().all(Kind::Member).into_iter();
        let member = members.find(|member| member["load_balancer"]["uuid"] == id);
        let member = member.expect("a member");
        self.sim().take(Kind::Member, &text(&member["uuid"]));
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

/// The name of a Service's load balancer.
pub(crate) fn name(uid: &str) -> String {
    format!("k8s-service-{uid}")
}

/// Whether a request adds a member.
pub(crate) fn is_addition(call: &Call) -> bool {
    call.method == Method::POST && call.path.ends_with("/members")
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn uid(service: &Service) -> String {
    service.metadata.uid.clone().unwrap()
}

/// An annotation of a Service.
pub(crate) fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    let annotations = service.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}
