//! What is answered: a pure function from a path and the snapshot.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use jiff::Timestamp;
use mooring_common::k8s::ObjectKey;
use serde::Serialize;

use crate::announce::Snapshot;

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
    more: More<'a>,
}

/// Keys that kube-proxy's service endpoint has, and more.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceBody<'a> {
    service: ServiceName<'a>,
    local_endpoints: usize,
    service_proxy_healthy: bool,
    #[serde(flatten)]
    more: More<'a>,
}

#[derive(Serialize)]
struct ServiceName<'a> {
    namespace: &'a str,
    name: &'a str,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct More<'a> {
    draining: bool,
    view_age_seconds: Option<u64>,
    reason: &'a str,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    reason: &'a str,
}

/// Answers a path, which may have a query. `snapshot` is as of `now`.
#[must_use]
pub fn answer(path: &str, snapshot: &Snapshot, now: Now) -> Answer {
    match path {
        "/livez" => node(snapshot, now, Question::Alive),
        "/readyz" => node(snapshot, now, Question::AtWork),
        "/healthz" => node(snapshot, now, Question::CarriesTraffic),
        _ => match service_of(path) {
            Some((namespace, name)) => service(namespace, name, snapshot, now),
            None => Answer {
                status: Status::Unknown,
                body: json(&ErrorBody {
                    reason: "there are /livez, /readyz, /healthz and /services/<namespace>/<name>",
                }),
                weight: None,
            },
        },
    }
}

fn service_of(path: &str) -> Option<(&str, &str)> {
    let (namespace, name) = path.strip_prefix("/services/")?.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then_some((namespace, name))
}

/// What is asked about the Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Alive,
    AtWork,
    CarriesTraffic,
}

fn node(snapshot: &Snapshot, now: Now, question: Question) -> Answer {
    let eligible = snapshot.node.is_some() && !snapshot.draining();
    let fault = if !snapshot.answers_health() {
        Some(NOT_SYNCED)
    } else {
        match question {
            Question::AtWork if !snapshot.may_write => Some(NO_FENCE),
            Question::CarriesTraffic if snapshot.node.is_none() => Some(NO_NODE),
            Question::CarriesTraffic if !eligible => Some(DRAINING),
            Question::Alive | Question::AtWork | Question::CarriesTraffic => None,
        }
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
            more: more(snapshot, now, reason),
        }),
        weight: None,
    }
}

const NOT_SYNCED: &str = "Services, endpoints and the Node are not known yet";
const DRAINING: &str = "the Node is being deleted, excluded from load balancers, or drained";
const NO_FENCE: &str = "no admission policy is known yet that keeps this daemon to its own Node, so \
                        it writes and announces nothing; its log says more";
const NO_NODE: &str = "there is no Node of this name";
const NO_ENDPOINT: &str = "the Service has no ready endpoint on this Node";
const NO_SERVICE: &str = "there is no Service of type LoadBalancer of this name";

fn service(namespace: &str, name: &str, snapshot: &Snapshot, now: Now) -> Answer {
    let synced = snapshot.answers_health();
    let key = ObjectKey::new(namespace, name);
    let known = snapshot.services.contains_key(&key);
    let endpoints = if known {
        local_endpoints(snapshot, &key)
    } else {
        0
    };
    let (status, reason) = if !synced {
        (Status::Unhealthy, NOT_SYNCED)
    } else if !known {
        (Status::Unknown, NO_SERVICE)
    } else if snapshot.draining() {
        (Status::Unhealthy, DRAINING)
    } else if endpoints == 0 {
        (Status::Unhealthy, NO_ENDPOINT)
    } else {
        (Status::Healthy, "")
    };
    Answer {
        status,
        body: json(&ServiceBody {
            service: ServiceName { namespace, name },
            local_endpoints: endpoints,
            service_proxy_healthy: synced,
            more: more(snapshot, now, reason),
        }),
        weight: Some(endpoints),
    }
}

/// Distinct addresses of ready endpoints on this Node, of the family that has more of them: a pod
/// with two ports, or with an address of each family, is one.
fn local_endpoints(snapshot: &Snapshot, service: &ObjectKey) -> usize {
    let distinct: BTreeSet<IpAddr> = snapshot
        .slices_of(service)
        .iter()
        .flat_map(|slice| slice.local_ready.iter().copied())
        .collect();
    let v4 = distinct.iter().filter(|address| address.is_ipv4()).count();
    v4.max(distinct.len() - v4)
}

fn more<'a>(snapshot: &Snapshot, now: Now, reason: &'a str) -> More<'a> {
    More {
        draining: snapshot.draining(),
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
mod tests;
