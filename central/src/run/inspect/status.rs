//! What there is, in rows. Pure.

mod text;

use std::net::IpAddr;

use kube::ResourceExt as _;
use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::L2Network;
use mooring_common::names::{reasons, segment_conditions};
use mooring_common::node_view::{NodeView, Readiness};
use mooring_common::provider_id::ProviderId;
use serde::Serialize;

use super::print::age;
use super::rights::MissingRight;
use super::setup::{CENTRAL_CONTAINER, NODE_CONTAINER};
use super::snapshot::{Note, Snapshot, is_ready, node_of};
use crate::controllers::service::Server;
use crate::views::service_view::ServiceView;
pub(super) use text::text;

/// Everything.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    versions: Vec<Version>,
    leader: Option<Leader>,
    clouds: Vec<CloudRow>,
    nodes: Vec<NodeRow>,
    services: Vec<ServiceRow>,
    networks: Vec<NetworkRow>,
    pub(super) missing_rights: Vec<MissingRight>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    program: String,
    /// The image of Mooring's programs.
    version: String,
    /// How many of its Pods are Ready, of how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<[usize; 2]>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Leader {
    lease: String,
    holder: Option<String>,
    renewed: Option<String>,
    is_current: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CloudRow {
    name: String,
    nodes: usize,
    services: usize,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeRow {
    name: String,
    ready: bool,
    initialized: bool,
    provider_id: Option<String>,
    addresses: Vec<String>,
    /// Whether its daemon's Pod is Ready; absent: that is not known.
    daemon: Option<bool>,
    speaks_for: usize,
    notices: Vec<String>,
    last_warning: Option<Warned>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceRow {
    name: String,
    /// `L2Networks`, a cloud, or nobody here.
    served_by: String,
    addresses: Vec<AddressRow>,
    ports: Vec<String>,
    last_warning: Option<Warned>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AddressRow {
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip)]
    age: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NetworkRow {
    name: String,
    ready: Option<String>,
    quorum: Option<String>,
    signed: Option<String>,
    voters: Vec<String>,
    used: i64,
    free_ipv4: Option<i64>,
    free_ipv6: Option<i64>,
    last_warning: Option<Warned>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Warned {
    reason: String,
    note: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    #[serde(skip)]
    age: String,
}

pub(super) fn status(snapshot: &Snapshot) -> Status {
    Status {
        versions: versions(snapshot),
        leader: leader(snapshot),
        clouds: clouds(snapshot),
        nodes: snapshot.nodes.iter().map(|n| node(snapshot, n)).collect(),
        services: snapshot
            .load_balancers()
            .map(|one| service(snapshot, one))
            .collect(),
        networks: snapshot
            .networks()
            .iter()
            .map(|one| network(snapshot, one))
            .collect(),
        missing_rights: snapshot.missing.clone(),
    }
}

fn versions(snapshot: &Snapshot) -> Vec<Version> {
    let mut all = vec![Version {
        program: "this program".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ready: None,
    }];
    all.extend(snapshot.server.iter().map(|version| Version {
        program: "kube-apiserver".to_owned(),
        version: version.clone(),
        ready: None,
    }));
    for container in [CENTRAL_CONTAINER, NODE_CONTAINER] {
        let pods: Vec<_> = snapshot.pods_of(container).collect();
        let specs = pods.iter().filter_map(|pod| pod.spec.as_ref());
        let containers = specs.flat_map(|spec| &spec.containers);
        let ours = containers.filter(|one| one.name == container);
        let mut images: Vec<String> = ours.filter_map(|one| one.image.clone()).collect();
        images.sort();
        images.dedup();
        if !pods.is_empty() {
            all.push(Version {
                program: container.to_owned(),
                version: images.join(", "),
                ready: Some([pods.iter().filter(|pod| is_ready(pod)).count(), pods.len()]),
            });
        }
    }
    all
}

/// The Lease that was renewed last.
fn leader(snapshot: &Snapshot) -> Option<Leader> {
    let leases = snapshot.objects.leader_leases.as_ref()?;
    let renewed = |lease: &&k8s_openapi::api::coordination::v1::Lease| {
        let spec = lease.spec.as_ref();
        spec.and_then(|spec| spec.renew_time.as_ref().map(|time| time.0))
    };
    let lease = leases.iter().max_by_key(renewed)?;
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty());
    let renewed = spec.renew_time.map(|time| time.0);
    let lasts = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let is_current = renewed.is_some_and(|at| snapshot.now.duration_since(at).as_secs() <= lasts);
    Some(Leader {
        lease: format!("{}/{}", snapshot.setup.lease_namespace, lease.name_any()),
        is_current: is_current && holder.is_some(),
        holder,
        renewed: renewed.map(|at| at.to_string()),
    })
}

fn clouds(snapshot: &Snapshot) -> Vec<CloudRow> {
    let of = |name: &String| {
        let is_its = |node: &&NodeView| {
            let id = node.provider_id.as_ref();
            let id = id.and_then(|id| id.parse::<ProviderId>().ok());
            id.is_some_and(|id| id.scheme() == name)
        };
        let serves = |service: &&std::sync::Arc<ServiceView>| {
            snapshot.setup.routing.wanted_of(service) == Some(name)
        };
        CloudRow {
            name: name.clone(),
            nodes: snapshot.nodes.iter().filter(is_its).count(),
            services: snapshot.services.iter().filter(serves).count(),
        }
    };
    snapshot.setup.providers.iter().map(of).collect()
}

fn node(snapshot: &Snapshot, node: &NodeView) -> NodeRow {
    let daemon = snapshot.objects.pods.as_ref().map(|_| {
        let mut pods = snapshot.pods_of(NODE_CONTAINER);
        pods.any(|pod| node_of(pod) == Some(&node.name) && is_ready(pod))
    });
    let statuses = snapshot.networks().iter().filter_map(|n| n.status.as_ref());
    let entries = statuses.flat_map(|status| &status.nodes);
    let entries: Vec<_> = entries.filter(|entry| entry.name == node.name).collect();
    let mut notices: Vec<String> = entries
        .iter()
        .flat_map(|entry| entry.notices.iter().cloned())
        .collect();
    notices.extend(
        entries
            .iter()
            .filter(|entry| !entry.ready)
            .map(|entry| entry.reason.clone()),
    );
    notices.sort();
    notices.dedup();
    NodeRow {
        name: node.name.clone(),
        ready: node.readiness == Readiness::Ready,
        initialized: !node.is_uninitialized(),
        provider_id: node.provider_id.clone(),
        addresses: node
            .addresses
            .iter()
            .map(|one| one.address.clone())
            .collect(),
        daemon,
        speaks_for: entries.iter().map(|entry| entry.addresses.len()).sum(),
        notices,
        last_warning: snapshot
            .warning("Node", &ObjectKey::cluster_wide(&node.name), &[])
            .map(|note| warned(snapshot, note)),
    }
}

fn service(snapshot: &Snapshot, service: &ServiceView) -> ServiceRow {
    let served_by = match snapshot.setup.routing.server(service) {
        Some(Server::L2Networks) => "L2Networks",
        Some(Server::Cloud(cloud)) => cloud,
        None => "",
    };
    let ports = service.ports.iter();
    let trouble = snapshot.trouble_of(service, reasons::ENSURED_LOAD_BALANCER);
    ServiceRow {
        name: service.key.to_string(),
        served_by: served_by.to_owned(),
        addresses: service
            .ingress
            .iter()
            .filter_map(|entry| entry.ip.clone().or_else(|| entry.hostname.clone()))
            .map(|text| address(snapshot, service, text))
            .collect(),
        ports: ports
            .map(|port| format!("{}/{}", port.port, port.protocol))
            .collect(),
        last_warning: trouble.map(|note| warned(snapshot, note)),
    }
}

fn address(snapshot: &Snapshot, service: &ServiceView, text: String) -> AddressRow {
    let speakers = match text.parse::<IpAddr>() {
        Ok(address) => snapshot.speakers(address),
        Err(_) => Vec::new(),
    };
    let speaker = speakers.first();
    AddressRow {
        address: text,
        network: service.allocated_network.clone(),
        speaker: speaker.map(|one| one.node.name.clone()),
        since: speaker.map(|one| one.entry.since.0.to_string()),
        reason: speaker.map(|one| one.entry.reason.clone()),
        age: speaker.map_or_else(String::new, |one| age(snapshot.now, one.entry.since.0)),
    }
}

fn network(snapshot: &Snapshot, network: &L2Network) -> NetworkRow {
    let status = network.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().find(|known| known.type_ == type_);
    let name = network.name_any();
    let key = ObjectKey::cluster_wide(&name);
    NetworkRow {
        ready: condition(segment_conditions::READY).map(|known| known.reason.clone()),
        quorum: condition(segment_conditions::QUORUM).map(|known| known.reason.clone()),
        signed: condition(segment_conditions::HEARTBEATS_SIGNED).map(|known| known.status.clone()),
        voters: status.voters.clone().unwrap_or_default().nodes,
        used: status.used_addresses.unwrap_or_default(),
        free_ipv4: status.ipv4.map(|counts| counts.free),
        free_ipv6: status.ipv6.map(|counts| counts.free),
        last_warning: snapshot
            .warning("L2Network", &key, &[])
            .map(|note| warned(snapshot, note)),
        name,
    }
}

fn warned(snapshot: &Snapshot, note: &Note) -> Warned {
    Warned {
        reason: note.reason.clone(),
        note: note.note.clone(),
        last: note.last.map(|at| at.to_string()),
        age: note
            .last
            .map_or_else(String::new, |at| age(snapshot.now, at)),
    }
}
