//! Listeners on the `healthCheckNodePort`s of Services, where no service proxy serves them
//! (`--livez-health-check-node-ports`).
//!
//! They are kube-proxy's by right. So they are taken only where nobody has answered for a minute at the
//! port at which a service proxy says how it is, and given back as soon as somebody does. A port that
//! somebody has is left alone, unless it is the daemon before this one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooring_common::k8s::ObjectKey;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::listen::{PortOwner, listen_everywhere, occupant};
use super::serve::{ListenerRole, Shared, serve};
use crate::cluster::service_proxy::ServiceProxy;
use crate::cluster::snapshot::{Snapshot, TrafficPolicy};

/// For how long nobody must have answered for the service proxy.
const SILENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether something has changed.
const LOOK: Duration = Duration::from_millis(20);
/// How long to leave a port alone that somebody else has.
const AGAIN: Duration = Duration::from_secs(10);

/// By port, the Service that is asked about there.
type Ports = BTreeMap<u16, ObjectKey>;

/// Whether this daemon may have the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    /// A service proxy may be there.
    None,
    /// Nobody answers, but not for long: only those that the daemon before this one has.
    Inherited,
    /// All.
    Full,
}

fn right(proxy: ServiceProxy, now: Instant) -> Right {
    match proxy {
        ServiceProxy::Silent { since } if now.saturating_duration_since(since) >= SILENCE => {
            Right::Full
        }
        ServiceProxy::Silent { .. } => Right::Inherited,
        ServiceProxy::Unclear | ServiceProxy::Works | ServiceProxy::Broken => Right::None,
    }
}

fn ports(snapshot: &Snapshot) -> Ports {
    if snapshot.answers_health() {
        let services = snapshot.services.iter();
        let local = services.filter(|(_, service)| service.policy == TrafficPolicy::Local);
        local
            .filter_map(|(key, service)| Some((service.health_check_node_port?, key.clone())))
            .collect()
    } else {
        let saved_health = snapshot.saved_health.iter();
        saved_health
            .flat_map(|saved_health| saved_health.services())
            .filter_map(|(key, service)| Some((service.health_check_node_port?, key)))
            .collect()
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Close(u16),
    Open { port: u16, service: ObjectKey },
}

fn steps(open: &BTreeMap<u16, &ObjectKey>, wanted: &Ports, right: Right) -> Vec<Step> {
    let stays =
        |port: &u16, service: &ObjectKey| right != Right::None && wanted.get(port) == Some(service);
    let closed = open.iter().filter(|(port, service)| !stays(port, service));
    let opened = wanted
        .iter()
        .filter(|(port, service)| right != Right::None && open.get(port) != Some(service));
    closed
        .map(|(port, _)| Step::Close(*port))
        .chain(opened.map(|(port, service)| Step::Open {
            port: *port,
            service: service.clone(),
        }))
        .collect()
}

/// A port that is listened on. Dropping it ends that.
struct Open {
    service: ObjectKey,
    stop: CancellationToken,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Has the ports that it may have until `stop` is cancelled. What it serves is tracked by `tracker`.
pub(super) async fn keep(shared: Arc<Shared>, tracker: TaskTracker, stop: CancellationToken) {
    let mut keeper = Keeper {
        shared,
        tracker,
        stop: stop.clone(),
        open: BTreeMap::new(),
        later: BTreeMap::new(),
        seen: BTreeSet::new(),
    };
    let mut last = None;
    while !stop.is_cancelled() {
        let (snapshot, now) = (keeper.shared.snapshot.load_full(), Instant::now());
        let right = right(snapshot.service_proxy, now);
        let is_new =
            |(known, had): &(Arc<Snapshot>, Right)| !Arc::ptr_eq(known, &snapshot) || *had != right;
        if last.as_ref().is_none_or(is_new) || keeper.later.values().any(|at| *at <= now) {
            keeper.apply(&ports(&snapshot), right, now);
            last = Some((snapshot, right));
        }
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

struct Keeper {
    shared: Arc<Shared>,
    tracker: TaskTracker,
    stop: CancellationToken,
    open: BTreeMap<u16, Open>,
    /// Ports that somebody else has, and when to try them again.
    later: BTreeMap<u16, Instant>,
    /// Ports of which it has been seen whether the daemon before this one has them.
    seen: BTreeSet<u16>,
}

impl Keeper {
    fn apply(&mut self, wanted: &Ports, right: Right, now: Instant) {
        self.later
            .retain(|port, at| wanted.contains_key(port) && *at > now);
        let open = self.open.iter();
        let open = open.map(|(port, open)| (*port, &open.service)).collect();
        for step in steps(&open, wanted, right) {
            match step {
                Step::Close(port) => {
                    tracing::info!(port, "health checks of a Service: given back");
                    self.open.remove(&port);
                }
                Step::Open { port, service } if self.may_open(port, right) => {
                    self.open(port, service, now);
                }
                Step::Open { .. } => {}
            }
        }
    }

    fn may_open(&mut self, port: u16, right: Right) -> bool {
        match right {
            Right::None => false,
            Right::Inherited => self.seen.insert(port) && occupant(port) == PortOwner::Ours,
            Right::Full => !self.later.contains_key(&port),
        }
    }

    fn open(&mut self, port: u16, service: ObjectKey, now: Instant) {
        match listen_everywhere(port) {
            Ok(listener) => {
                tracing::info!(port, %service, "health checks of a Service: taken");
                let stop = self.stop.child_token();
                let site = ListenerRole::Service(service.clone());
                let serving = serve(listener, site, Arc::clone(&self.shared), stop.clone());
                self.tracker.spawn(serving);
                self.open.insert(port, Open { service, stop });
            }
            Err(error) => {
                tracing::debug!(port, %service, %error, "a port is somebody else's");
                self.later.insert(port, now + AGAIN);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::livez::health_file::worth_keeping;
    use crate::livez::plan::tests::snapshot;

    #[test]
    fn takes_ports_after_a_minute_of_silence() {
        let since = Instant::now();
        let silent = ServiceProxy::Silent { since };
        let almost = since + Duration::from_secs(59);
        assert_eq!(right(silent, almost), Right::Inherited);
        assert_eq!(right(silent, since + SILENCE), Right::Full);
        for other in [
            ServiceProxy::Unclear,
            ServiceProxy::Works,
            ServiceProxy::Broken,
        ] {
            assert_eq!(right(other, since + SILENCE), Right::None, "{other:?}");
        }
    }

    #[test]
    fn only_local_services_have_ports() {
        let known = snapshot(&[&["10.0.0.1"]]);
        let web = ObjectKey::new("shop", "web");
        let wanted: Ports = [(31000, web.clone())].into();
        assert_eq!(ports(&known), wanted);
        assert_eq!(ports(&Snapshot::default()), Ports::new());
        let saved_health = worth_keeping("n1", &known).map(Arc::new);
        let left = Snapshot {
            saved_health,
            ..Snapshot::default()
        };
        assert_eq!(ports(&left), wanted);
    }

    #[test]
    fn open_ports_follow_services() {
        let [web, shop] = ["web", "shop"].map(|name| ObjectKey::new("shop", name));
        let open = |port: u16, service: &ObjectKey| Step::Open {
            port,
            service: service.clone(),
        };
        let wanted: Ports = [(31000, web.clone())].into();
        let none = BTreeMap::new();
        let held: BTreeMap<_, _> = [(31000, &web)].into();
        let of_another: BTreeMap<_, _> = [(31000, &shop)].into();
        assert_eq!(steps(&none, &wanted, Right::Full), [open(31000, &web)]);
        assert_eq!(steps(&none, &wanted, Right::None), []);
        assert_eq!(steps(&held, &wanted, Right::Inherited), []);
        assert_eq!(steps(&held, &wanted, Right::None), [Step::Close(31000)]);
        assert_eq!(
            steps(&held, &Ports::new(), Right::Full),
            [Step::Close(31000)]
        );
        // A port that is another Service's now is closed before it is opened.
        let moved = steps(&of_another, &wanted, Right::Full);
        assert_eq!(moved, [Step::Close(31000), open(31000, &web)]);
    }
}
