//! What the scenarios for every cloud need to know of this one.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use mooring_common::names::cloudscale_tags::{CLUSTER as CLUSTER_TAG, SERVICE_UID as SERVICE_TAG};
use mooring_tests::cloud_sim::cloud::{Cloud, CloudSim};
use mooring_tests::cloud_sim::cloudscale::{Behaviour, Cloudscale, Kind, Outage};
use mooring_tests::cloud_sim::{Call, Calls, When};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloudscale_services::cluster::Balancer;

/// The cloud that the scenarios are about.
pub(crate) const CLOUD: Cloud = Cloud::Cloudscale;

/// The name under which the provider itself reports Events.
pub(crate) const COMPONENT: &str = "cloudscale-cloud-controller-manager";

/// An annotation that cannot be understood, about who may connect.
pub(crate) const BAD_SOURCES: (&str, &str) = (
    "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs",
    r#"["10.0.0.0/8", "10.0.0.0/99"]"#,
);

/// An annotation that chooses Nodes.
pub(crate) const NODE_SELECTOR: &str = "k8s.cloudscale.ch/loadbalancer-node-selector";

/// An annotation whose change users do not notice, and what it changes.
pub(crate) const HARMLESS: (&str, &str) = (
    "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms",
    "40000",
);

/// Whether the load balancer of this Service shows [`HARMLESS`].
pub(crate) fn shows_harmless(cloud: &CloudSim, uid: &str) -> bool {
    let listeners = sim(cloud).parts_of(&name(uid), Kind::Listener);
    let mut listeners = listeners.iter();
    listeners.all(|listener| listener["timeout_client_data_ms"] == 40000)
}

/// The simulation.
pub(crate) fn sim(cloud: &CloudSim) -> &Cloudscale {
    cloud.cloudscale().expect("the cloud is cloudscale.ch")
}

/// The name of a Service's load balancer.
pub(crate) fn name(uid: &str) -> String {
    format!("k8s-service-{uid}")
}

/// Requests that make a load balancer.
pub(crate) fn creation() -> When {
    When::write("/v1/load-balancers").method(Method::POST)
}

/// Requests that delete this load balancer.
pub(crate) fn deletion(id: &str) -> When {
    When::write(&format!("/v1/load-balancers/{id}")).method(Method::DELETE)
}

/// Requests that add members.
pub(crate) fn additions() -> When {
    When::write(Kind::Member.path()).method(Method::POST)
}

/// Whether a request adds a member.
pub(crate) fn is_addition(call: &Call) -> bool {
    call.method == Method::POST && call.path.ends_with("/members")
}

/// Requests that look for load balancers.
pub(crate) fn lookups() -> [When; 2] {
    [
        When::get("/v1/load-balancers"),
        When::get("/v1/load-balancers/*"),
    ]
}

/// New load balancers take so long to be there.
pub(crate) fn provision_in(cloud: &CloudSim, length: Duration) {
    sim(cloud).behave(Behaviour {
        provisioning: length,
        ..Behaviour::default()
    });
}

/// Somebody deletes a load balancer by hand.
pub(crate) fn delete_by_hand(cloud: &CloudSim, id: &str) {
    assert!(sim(cloud).take(Kind::LoadBalancer, id), "there is no {id}");
}

/// When listeners of this load balancer that had served did not, also if they still do not.
pub(crate) fn outages(cloud: &CloudSim, id: &str) -> Vec<Outage> {
    sim(cloud).outages(id)
}

/// The load balancer of this Service, if there is one: by its mark, or by its name. Panics if there
/// are two.
pub(crate) fn balancer_of(cloud: &CloudSim, uid: &str) -> Option<Balancer> {
    let mut found = sim(cloud).all(Kind::LoadBalancer);
    found.retain(|found| found["tags"][SERVICE_TAG] == uid || found["name"] == name(uid));
    assert!(found.len() <= 1, "two load balancers: {found:#?}");
    found.pop().map(|found| balancer(cloud, &found))
}

/// All load balancers.
pub(crate) fn balancers(cloud: &CloudSim) -> Vec<Balancer> {
    let all = sim(cloud).all(Kind::LoadBalancer);
    all.iter().map(|found| balancer(cloud, found)).collect()
}

fn balancer(cloud: &CloudSim, found: &Value) -> Balancer {
    let cloud = sim(cloud);
    let uuid = &found["uuid"];
    let parts = |kind: Kind| {
        let mut all = cloud.all(kind);
        all.retain(|part| part["load_balancer"]["uuid"] == *uuid);
        all
    };
    let (members, monitors) = (parts(Kind::Member), parts(Kind::HealthMonitor));
    let checks = members.iter().filter_map(|member| {
        let mut monitors = monitors.iter();
        let monitor = monitors.find(|monitor| monitor["pool"]["uuid"] == member["pool"]["uuid"])?;
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

/// What was asked to make load balancers, so far.
pub(crate) fn creations(cloud: &CloudSim) -> Calls {
    let calls = cloud.calls().to(Kind::LoadBalancer.path());
    calls.method(&Method::POST)
}

/// What was asked to add members to this load balancer, so far.
pub(crate) fn members_added(cloud: &CloudSim, id: &str) -> Calls {
    let pools = sim(cloud).all(Kind::Pool).into_iter();
    let pools = pools.filter(|pool| pool["load_balancer"]["uuid"] == id);
    let paths: Vec<String> = pools
        .map(|pool| format!("/v1/load-balancers/pools/{}/members", text(&pool["uuid"])))
        .collect();
    let posts = cloud.calls().method(&Method::POST);
    posts.filter(|call| paths.contains(&call.path))
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Somebody takes a member of this load balancer away by hand.
pub(crate) fn take_a_member(cloud: &CloudSim, id: &str) {
    let mut members = sim(cloud).all(Kind::Member).into_iter();
    let member = members.find(|member| member["load_balancer"]["uuid"] == id);
    let member = member.expect("a member");
    sim(cloud).take(Kind::Member, &text(&member["uuid"]));
}

/// Somebody renames a load balancer by hand.
pub(crate) fn rename_by_hand(cloud: &CloudSim, id: &str, name: &str) {
    sim(cloud).set_in(Kind::LoadBalancer, id, "name", name);
}

/// Whether this load balancer is there.
pub(crate) fn has(cloud: &CloudSim, id: &str) -> bool {
    sim(cloud).get(Kind::LoadBalancer, id).is_some()
}

/// Load balancers that look like this one and are not ours: another cluster's, and some that lack
/// one mark or all of them. Gives their names.
pub(crate) fn lookalikes(cloud: &CloudSim, id: &str) -> Vec<String> {
    let original = sim(cloud).get(Kind::LoadBalancer, id).expect("it is there");
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
        sim(cloud).put(Kind::LoadBalancer, other)
    };
    others.into_iter().map(put).collect()
}

/// What was asked so far to change this load balancer or its parts, of those that are still there.
pub(crate) fn writes_on(cloud: &CloudSim, id: &str) -> Calls {
    let of = |kind: Kind| {
        let all = sim(cloud).all(kind).into_iter();
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
    let writes = cloud.calls().writes();
    writes.filter(|call| is_named(call) || is_meant(call))
}

/// Whether nobody is at home: all connections are reset.
pub(crate) fn set_down(cloud: &CloudSim, down: bool) {
    sim(cloud).set_down(down);
}

/// Every answer comes so much later.
pub(crate) fn set_latency(cloud: &CloudSim, latency: Duration) {
    sim(cloud).set_latency(latency);
}

/// Fields that answers can do without.
pub(crate) const OPTIONAL_FIELDS: &[&str] = &[
    "created_at",
    "href",
    "monitor_status",
    "reverse_ptr",
    "gateway",
    "next_hop",
    "ssh_host_keys",
    "volumes",
];

/// The listings of members among these calls: there is one for each pool.
pub(crate) fn parts_read(calls: &Calls) -> usize {
    calls.to(Kind::Member.path()).method(&Method::GET).len()
}

/// How many requests a start may cost with so many load balancers of one pool: load balancers, pools,
/// listeners, health monitors and floating IPs once, and the members of each pool; the servers once,
/// and once more for those who ask a second later what Nodes there are.
pub(crate) const fn reads_at_start(balancers: usize) -> usize {
    5 + balancers + 2
}
