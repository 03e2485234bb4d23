//! What is answered: a pure function from a path and the snapshot.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use jiff::Timestamp;
use mooring_common::k8s::ObjectKey;
use serde::Serialize;

use crate::cluster::saved_health::SavedHealth;
use crate::cluster::snapshot::Snapshot;

/// What the clocks say.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For ages.
    pub monotonic: Instant,
    /// To show.
    pub wall: Timestamp,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether traffic should come, as an HTTP status.
    pub status: Status,
    /// JSON.
    pub body: String,
    /// Ready endpoints of the Service on this Node; `None` if no Service was asked for.
    pub weight: Option<usize>,
}

/// The statuses that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 200: send traffic.
    Healthy,
    /// 503: do not.
    Unhealthy,
    /// 404: nothing is known by that name.
    Unknown,
}

/// Keys that kube-proxy's node endpoint has, and more.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeBody<'a> {
    last_updated: String,
    current_time: String,
    healthy: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_eligible: Option<bool>,
    #[serde(flatten)]
    more: HealthDetails<'a>,
}

/// Keys that kube-proxy's service endpoint has, and more.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceBody<'a> {
    service: ServiceName<'a>,
    local_endpoints: usize,
    service_proxy_healthy: bool,
    #[serde(flatten)]
    more: HealthDetails<'a>,
}

#[derive(Serialize)]
struct ServiceName<'a> {
    namespace: &'a str,
    name: &'a str,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthDetails<'a> {
    draining: bool,
    view_age_seconds: Option<u64>,
    reason: &'a str,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    reason: &'a str,
}

/// Answers a path. `snapshot` is as of `now`.
#[must_use]
pub fn answer(path: &str, snapshot: &Snapshot, now: Now) -> Answer {
    match path {
        "/livez" => node(snapshot, now, Question::Alive),
        "/livez/ping" => node(snapshot, now, Question::Answers),
        "/readyz" => node(snapshot, now, Question::AtWork),
        "/healthz" => node(snapshot, now, Question::CarriesTraffic),
        _ => match service_of(path) {
            Some((namespace, name)) => service(
                &ObjectKey::new(namespace, name),
                snapshot,
                now,
                Status::Unknown,
            ),
            None => Answer {
                status: Status::Unknown,
                body: json(&ErrorBody {
                    reason: "there are /livez, /livez/ping, /readyz, /healthz and \
                             /services/<namespace>/<name>",
                }),
                weight: None,
            },
        },
    }
}

/// Answers at the port of one Service. One that is gone is not 404 there: its load balancer would ask
/// what that means.
#[must_use]
pub fn answer_service(key: &ObjectKey, snapshot: &Snapshot, now: Now) -> Answer {
    service(key, snapshot, now, Status::Unhealthy)
}

/// Whether a path asks about a Service: its name, its endpoints and the Node's state are not for
/// everybody.
pub(super) fn is_about_service(path: &str) -> bool {
    path.starts_with("/services/")
}

fn service_of(path: &str) -> Option<(&str, &str)> {
    let (namespace, name) = path.strip_prefix("/services/")?.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then_some((namespace, name))
}

/// What is asked about the Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Whether anybody answers.
    Answers,
    /// Whether traffic that comes is served.
    Alive,
    /// Whether the daemon does its work.
    AtWork,
    /// Whether traffic should come.
    CarriesTraffic,
}

/// What is known of the Node.
#[derive(Clone, Copy)]
struct NodeState {
    present: bool,
    draining: bool,
}

/// Health checks are answered from what is known now, or from what the process before knew.
enum Known<'a> {
    Now(&'a Snapshot),
    SavedHealth(&'a SavedHealth),
    Nothing,
}

impl<'a> Known<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        match &snapshot.saved_health {
            _ if snapshot.answers_health() => Self::Now(snapshot),
            Some(saved_health) => Self::SavedHealth(saved_health),
            None => Self::Nothing,
        }
    }

    const fn anything(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    fn node(&self) -> NodeState {
        match self {
            Self::Now(snapshot) => NodeState {
                present: snapshot.node.is_some(),
                draining: snapshot.draining(),
            },
            Self::SavedHealth(saved_health) => NodeState {
                present: saved_health.present,
                draining: saved_health.draining,
            },
            Self::Nothing => NodeState {
                present: false,
                draining: false,
            },
        }
    }

    /// The ready endpoints of a Service on this Node; `None`: there is no such Service.
    fn endpoints(&self, key: &ObjectKey) -> Option<usize> {
        match self {
            Self::Now(snapshot) => {
                let known = snapshot.services.contains_key(key);
                known.then(|| local_endpoints(snapshot, key))
            }
            Self::SavedHealth(saved_health) => Some(saved_health.service(key)?.endpoints),
            Self::Nothing => None,
        }
    }
}

fn node(snapshot: &Snapshot, now: Now, question: Question) -> Answer {
    let known = Known::of(snapshot);
    let state = known.node();
    let eligible = state.present && !state.draining;
    let proxy_works = snapshot.service_proxy.may_work();
    let fault = match question {
        Question::Answers => None,
        _ if !known.anything() => Some(NOT_SYNCED),
        Question::AtWork if !snapshot.may_write => Some(NO_FENCE),
        Question::Alive | Question::CarriesTraffic if !proxy_works => Some(PROXY_BROKEN),
        Question::CarriesTraffic if !state.present => Some(NO_NODE),
        Question::CarriesTraffic if !eligible => Some(DRAINING),
        Question::Alive | Question::AtWork | Question::CarriesTraffic => None,
    };
    let (healthy, reason) = (fault.is_none(), fault.unwrap_or_default());
    let age = view_age(snapshot, now);
    let heard = age.and_then(|age| {
        let age = jiff::SignedDuration::try_from(age).ok()?;
        now.wall.checked_sub(age).ok()
    });
    Answer {
        status: status(healthy),
        body: json(&NodeBody {
            // kube-proxy: now while healthy, else the last time that it was.
            last_updated: if healthy {
                now.wall
            } else {
                heard.unwrap_or_default()
            }
            .to_string(),
            current_time: now.wall.to_string(),
            healthy,
            node_eligible: (question == Question::CarriesTraffic).then_some(eligible),
            more: more(snapshot, state, now, reason),
        }),
        weight: None,
    }
}

const NOT_SYNCED: &str = "Services, endpoints and the Node are not known yet";
const DRAINING: &str = "the Node is being deleted, excluded from load balancers, or drained";
const NO_FENCE: &str = "no admission policy is known yet that keeps this daemon to its own Node, so \
                        it writes and announces nothing; its log says more";
const PROXY_BROKEN: &str = "the service proxy of this Node says that it does not work";
const PROXY_REFUSES: &str = "the service proxy of this Node does not say that the Service has an \
                             endpoint here";
const NO_NODE: &str = "there is no Node of this name";
const NO_ENDPOINT: &str = "the Service has no ready endpoint on this Node";
const NO_SERVICE: &str = "there is no Service of type LoadBalancer of this name";

fn service(key: &ObjectKey, snapshot: &Snapshot, now: Now, unknown: Status) -> Answer {
    let known = Known::of(snapshot);
    let state = known.node();
    let endpoints = known.endpoints(key);
    let proxy_works = snapshot.service_proxy.may_work();
    let refused = snapshot.refused.as_ref();
    let (status, reason) = if !known.anything() {
        (Status::Unhealthy, NOT_SYNCED)
    } else if endpoints.is_none() {
        (unknown, NO_SERVICE)
    } else if !proxy_works {
        (Status::Unhealthy, PROXY_BROKEN)
    } else if state.draining {
        (Status::Unhealthy, DRAINING)
    } else if endpoints == Some(0) {
        (Status::Unhealthy, NO_ENDPOINT)
    } else if refused.is_some_and(|refused| refused.contains(key)) {
        (Status::Unhealthy, PROXY_REFUSES)
    } else {
        (Status::Healthy, "")
    };
    let endpoints = endpoints.unwrap_or(0);
    Answer {
        status,
        body: json(&ServiceBody {
            service: ServiceName {
                namespace: &key.namespace,
                name: &key.name,
            },
            local_endpoints: endpoints,
            service_proxy_healthy: known.anything() && proxy_works,
            more: more(snapshot, state, now, reason),
        }),
        weight: Some(endpoints),
    }
}

/// Distinct addresses of ready endpoints on this Node, of the family that has more of them: a pod
/// with two ports, or with an address of each family, is one.
pub(super) fn local_endpoints(snapshot: &Snapshot, service: &ObjectKey) -> usize {
    let distinct: BTreeSet<IpAddr> = snapshot
        .slices_of(service)
        .iter()
        .flat_map(|slice| slice.local_ready.iter().copied())
        .collect();
    let v4 = distinct.iter().filter(|address| address.is_ipv4()).count();
    v4.max(distinct.len() - v4)
}

fn more<'a>(snapshot: &Snapshot, node: NodeState, now: Now, reason: &'a str) -> HealthDetails<'a> {
    HealthDetails {
        draining: node.draining,
        view_age_seconds: view_age(snapshot, now).map(|age| age.as_secs()),
        reason,
    }
}

fn view_age(snapshot: &Snapshot, now: Now) -> Option<std::time::Duration> {
    snapshot
        .heard
        .map(|heard| now.monotonic.saturating_duration_since(heard))
}

const fn status(healthy: bool) -> Status {
    if healthy {
        Status::Healthy
    } else {
        Status::Unhealthy
    }
}

/// Indented by tabs and ended by a newline, as kube-proxy's are.
fn json(body: &impl Serialize) -> String {
    let mut text = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"\t");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, indent);
    // Strings, numbers and booleans with fixed keys, into memory: there is nothing that could fail.
    let _ = body.serialize(&mut serializer);
    text.push(b'\n');
    String::from_utf8(text).unwrap_or_default()
}

#[cfg(test)]
pub(super) mod tests;
