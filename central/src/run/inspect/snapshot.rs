//! What the cluster says at one time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use mooring_common::k8s::{ObjectKey, Slim as _};
use mooring_common::l2_network::{L2Network, SegmentNode, SpokenFor};
use mooring_common::names::labels;
use mooring_common::node_view::NodeView;

use super::rights::MissingRight;
use super::setup::Setup;
use crate::views::service_view::ServiceView;

/// The objects as the API server gave them. `None`: they may not be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    pub(super) nodes: Option<Vec<Node>>,
    pub(super) services: Option<Vec<Service>>,
    pub(super) networks: Option<Vec<L2Network>>,
    pub(super) slices: Option<Vec<EndpointSlice>>,
    pub(super) node_events: Option<Vec<Event>>,
    pub(super) network_events: Option<Vec<Event>>,
    pub(super) service_events: Option<Vec<Event>>,
    pub(super) namespaces: Option<Vec<Namespace>>,
    pub(super) pods: Option<Vec<Pod>>,
    pub(super) deployments: Option<Vec<Deployment>>,
    pub(super) daemon_sets: Option<Vec<DaemonSet>>,
    /// Of the node daemons.
    pub(super) leases: Option<Vec<Lease>>,
    /// Those of [`Setup::leases`] that are there.
    pub(super) leader_leases: Option<Vec<Lease>>,
    /// The names of the admission policies that are in force.
    pub(super) policies: Option<Vec<String>>,
}

/// Everything that the commands go by.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) now: Timestamp,
    /// Where Mooring runs.
    pub(super) system: String,
    /// The version of the API server.
    pub(super) server: Option<String>,
    /// The only namespace whose Services were read; absent: all were.
    pub(super) only: Option<String>,
    pub(super) setup: Setup,
    pub(super) objects: Objects,
    pub(super) nodes: Vec<NodeView>,
    pub(super) services: Vec<Arc<ServiceView>>,
    pub(super) notes: Vec<Note>,
    /// Whether the cluster has the CRD of L2Networks.
    pub(super) has_crd: bool,
    pub(super) missing: Vec<MissingRight>,
}

/// An Event, as far as it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) kind: String,
    pub(super) object: ObjectKey,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) is_warning: bool,
    pub(super) last: Option<Timestamp>,
}

/// An address that a Node says to speak for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speaker<'a> {
    pub(super) network: &'a L2Network,
    pub(super) node: &'a SegmentNode,
    pub(super) entry: &'a SpokenFor,
}

/// An endpoint of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) node: Option<String>,
    pub(super) ready: bool,
}

impl Snapshot {
    pub(super) fn new(
        now: Timestamp,
        system: &str,
        setup: Setup,
        objects: Objects,
        missing: Vec<MissingRight>,
    ) -> Self {
        let nodes = objects.nodes.iter().flatten().cloned().map(NodeView::slim);
        let services = objects.services.iter().flatten().cloned();
        let services = services.map(ServiceView::slim).map(Arc::new);
        let events = [
            &objects.node_events,
            &objects.network_events,
            &objects.service_events,
        ];
        let notes = events.into_iter().flatten().flatten().map(note);
        let mut snapshot = Self {
            now,
            system: system.to_owned(),
            server: None,
            only: None,
            setup,
            nodes: nodes.collect(),
            services: services.collect(),
            notes: notes.collect(),
            has_crd: true,
            missing,
            objects,
        };
        snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        snapshot.services.sort_by(|a, b| a.key.cmp(&b.key));
        snapshot.notes.sort_by_key(|note| note.last);
        snapshot.missing.sort();
        snapshot.missing.dedup();
        snapshot
    }

    pub(super) fn networks(&self) -> &[L2Network] {
        self.objects.networks.as_deref().unwrap_or_default()
    }

    pub(super) fn node(&self, name: &str) -> Option<&NodeView> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub(super) fn service(&self, key: &ObjectKey) -> Option<&Arc<ServiceView>> {
        self.services.iter().find(|service| service.key == *key)
    }

    /// Those of type LoadBalancer, and those that a load balancer is left over of.
    pub(super) fn load_balancers(&self) -> impl Iterator<Item = &Arc<ServiceView>> {
        self.services
            .iter()
            .filter(|service| service.is_load_balancer || service.has_finalizer())
    }

    /// The Events about an object, the oldest first.
    pub(super) fn notes_of(&self, kind: &str, key: &ObjectKey) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(move |note| {
            // Events about cluster-wide objects are in some namespace.
            let is_there = key.namespace.is_empty() || note.object.namespace == key.namespace;
            note.kind == kind && note.object.name == key.name && is_there
        })
    }

    /// The last Warning about an object with one of these reasons; of all reasons, if there are none.
    pub(super) fn warning(&self, kind: &str, key: &ObjectKey, reasons: &[&str]) -> Option<&Note> {
        self.notes_of(kind, key)
            .filter(|note| note.is_warning)
            .filter(|note| reasons.is_empty() || reasons.contains(&note.reason.as_str()))
            .last()
    }

    /// The last Warning about a Service, unless it has got what it asks for since.
    pub(super) fn trouble_of(&self, service: &ServiceView, settled: &str) -> Option<&Note> {
        let mut all = self.notes_of("Service", &service.key);
        let last = all.by_ref().filter(|note| note.is_warning).last()?;
        let mut all = self.notes_of("Service", &service.key);
        let is_over = all.any(|note| note.reason == settled && note.last > last.last);
        (!is_over).then_some(last)
    }

    /// Who says to speak for an address, the last that began in front.
    pub(super) fn speakers(&self, address: IpAddr) -> Vec<Speaker<'_>> {
        let text = address.to_string();
        let mut found = Vec::new();
        for network in self.networks() {
            for node in network.status.iter().flat_map(|status| &status.nodes) {
                let mut entries = node.addresses.iter();
                let entry = entries.find(|entry| entry.address == text);
                found.extend(entry.map(|entry| Speaker {
                    network,
                    node,
                    entry,
                }));
            }
        }
        found.sort_by(|a, b| b.entry.since.cmp(&a.entry.since));
        found
    }

    /// The L2Network whose ranges or record say that an address is of it.
    pub(super) fn network_named(&self, name: &str) -> Option<&L2Network> {
        self.networks()
            .iter()
            .find(|network| network.name_any() == name)
    }

    /// The endpoints of a Service; `None`: they may not be read.
    pub(super) fn endpoints(&self, key: &ObjectKey) -> Option<Vec<Endpoint>> {
        let slices = self.objects.slices.as_ref()?;
        let of_service = slices.iter().filter(|slice| {
            slice.namespace().as_deref() == Some(&key.namespace)
                && slice.labels().get(labels::SERVICE_NAME) == Some(&key.name)
        });
        let endpoints = of_service.flat_map(|slice| slice.endpoints.iter().flatten());
        let endpoints = endpoints.map(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            Endpoint {
                node: endpoint.node_name.clone(),
                ready: conditions.and_then(|all| all.ready).unwrap_or(true),
            }
        });
        Some(endpoints.collect())
    }

    /// The labels of all namespaces; `None`: they were not read.
    pub(super) fn namespaces(&self) -> Option<BTreeMap<String, BTreeMap<String, String>>> {
        let all = self.objects.namespaces.as_ref()?;
        let labels = all
            .iter()
            .map(|namespace| (namespace.name_any(), namespace.labels().clone()));
        Some(labels.collect())
    }

    /// The Pods with this container that have not ended. Kubernetes keeps those that were evicted, or that ended with
    /// their machine, beside the ones that replace them.
    pub(super) fn pods_of<'a>(&'a self, container: &'a str) -> impl Iterator<Item = &'a Pod> {
        let all = self.objects.pods.iter().flatten();
        all.filter(|pod| !has_ended(pod)).filter(move |pod| {
            let spec = pod.spec.as_ref();
            spec.is_some_and(|spec| spec.containers.iter().any(|one| one.name == container))
        })
    }
}

/// Whether a Pod is Ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn has_ended(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// The Node that a Pod is on.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn note(event: &Event) -> Note {
    let involved = &event.involved_object;
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref())
        .map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let began = event.event_time.as_ref().map(|time| time.0);
    Note {
        kind: involved.kind.clone().unwrap_or_default(),
        object: ObjectKey::new(
            involved.namespace.clone().unwrap_or_default(),
            involved.name.clone().unwrap_or_default(),
        ),
        reason: event.reason.clone().unwrap_or_default(),
        note: event.message.clone().unwrap_or_default(),
        is_warning: event.type_.as_deref() == Some("Warning"),
        last: series.or(last).or(began),
    }
}
