//! Whether the service proxy forwards to the endpoints on this Node, for Services with
//! `externalTrafficPolicy: Local`.
//!
//! The daemon learns of a new endpoint before the service proxy has rules for it. Until that says that it
//! has an endpoint here, this Node takes no address of the Service: others forward on. kube-proxy writes the
//! rules of one family after those of the other, and answers for each on that family's address; so a Service
//! with addresses of both is asked about at both. A proxy that does not say so is waited for no longer than
//! [`LIMIT`], and one that nobody can be asked about not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::{StreamExt as _, stream};
use mooring_common::k8s::ObjectKey;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::services::{proxy_address, proxy_addresses};
use super::{Confirmed, Health, ServiceProxy, ask};
use crate::cluster::snapshot::{ServiceView, Snapshot, TrafficPolicy};

/// How often it is asked about endpoints that it has not confirmed.
const PERIOD: Duration = Duration::from_millis(50);
/// How long asking about all of them may take, each time.
const ROUND: Duration = Duration::from_secs(1);
/// How many are asked about at once.
const AT_ONCE: usize = 16;
/// How long it is waited for.
const LIMIT: Duration = Duration::from_secs(5);

/// Whether the service proxy is still to confirm that a Service has an endpoint here.
#[must_use]
pub fn is_awaited(snapshot: &Snapshot, key: &ObjectKey, service: &ServiceView) -> bool {
    port(snapshot, key, service).is_some() && !snapshot.confirmed.contains(key)
}

/// The port at which the service proxy says whether a Service has an endpoint here, if it has to.
fn port(snapshot: &Snapshot, key: &ObjectKey, service: &ServiceView) -> Option<u16> {
    let here = |key| {
        let mut slices = snapshot.slices_of(key).iter();
        slices.any(|slice| !slice.local_ready.is_empty())
    };
    let asks = service.policy == TrafficPolicy::Local && service.network.is_some() && here(key);
    service.health_check_node_port.filter(|_| asks)
}

/// Keeps `confirmed` up to date, for as long as the future is polled. `late` counts Services for which
/// the proxy was waited for in vain.
pub async fn follow(
    snapshot: Arc<ArcSwap<Snapshot>>,
    mut published: watch::Receiver<u64>,
    confirmed: watch::Sender<Confirmed>,
    late: Counter,
) {
    let mut confirmations = Confirmations::default();
    loop {
        let known = snapshot.load_full();
        let mut waits = false;
        if known.answers_health() {
            let questions = confirmations.look(&known, Instant::now());
            waits = !questions.is_empty();
            let well = ask_all(questions).await;
            late.inc_by(confirmations.learn(&well, Instant::now()));
            confirmed.send_if_modified(|known| {
                let changed = **known != confirmations.confirmed;
                if changed {
                    *known = Arc::new(confirmations.confirmed.clone());
                }
                changed
            });
        }
        let pause = async {
            if waits {
                sleep(PERIOD).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = pause => {}
            changed = published.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
        }
    }
}

/// A Service, and wherever is to be asked about it.
type Question = (ObjectKey, Vec<SocketAddr>);

/// Where the proxy says whether it forwards to the endpoints here: for each family of which the Service has an
/// address.
fn places(snapshot: &Snapshot, service: &ServiceView, port: u16) -> Vec<SocketAddr> {
    let mut places = Vec::new();
    for is_of_family in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
        let has_address = service
            .addresses
            .iter()
            .chain(&service.recorded)
            .any(is_of_family);
        let place = proxy_addresses(snapshot).find(|address| has_address && is_of_family(address));
        places.extend(place);
    }
    if places.is_empty() {
        places.push(proxy_address(snapshot));
    }
    let with_port = places.into_iter().map(|place| SocketAddr::new(place, port));
    with_port.collect()
}

/// Those of which the proxy says everywhere, in time, that they have an endpoint here.
async fn ask_all(questions: Vec<Question>) -> BTreeSet<ObjectKey> {
    let well = Mutex::new(BTreeSet::new());
    let asking = stream::iter(questions).for_each_concurrent(AT_ONCE, async |(key, places)| {
        for place in places {
            if ask(place, "/").await != Some(Health::Well) {
                return;
            }
        }
        let mut well = well.lock().unwrap_or_else(PoisonError::into_inner);
        well.insert(key);
    });
    // Whoever has not answered by then is asked again.
    let _ = timeout(ROUND, asking).await;
    well.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What was confirmed, and what is waited for since when.
#[derive(Debug, Default)]
struct Confirmations {
    confirmed: BTreeSet<ObjectKey>,
    waiting: BTreeMap<ObjectKey, Instant>,
}

impl Confirmations {
    /// What to ask, and where. What has no endpoint here any more is asked about anew when it has one
    /// again.
    fn look(&mut self, snapshot: &Snapshot, now: Instant) -> Vec<Question> {
        let services = snapshot.services.iter();
        let here: BTreeMap<&ObjectKey, (&ServiceView, u16)> = services
            .filter_map(|(key, service)| Some((key, (&**service, port(snapshot, key, service)?))))
            .collect();
        self.confirmed.retain(|key| here.contains_key(key));
        self.waiting.retain(|key, _| here.contains_key(key));
        if matches!(snapshot.service_proxy, ServiceProxy::Silent { .. }) {
            self.waiting.clear();
            self.confirmed.extend(here.into_keys().cloned());
            return Vec::new();
        }
        let mut questions = Vec::new();
        for (key, (service, port)) in here {
            if !self.confirmed.contains(key) {
                self.waiting.entry(key.clone()).or_insert(now);
                questions.push((key.clone(), places(snapshot, service, port)));
            }
        }
        questions
    }

    /// Takes in what was confirmed; how many are waited for no longer.
    fn learn(&mut self, well: &BTreeSet<ObjectKey>, now: Instant) -> u64 {
        self.waiting.retain(|key, _| !well.contains(key));
        self.confirmed.extend(well.iter().cloned());
        let overdue = |_: &ObjectKey, since: &mut Instant| now >= *since + LIMIT;
        let mut late = 0;
        for (key, _) in self.waiting.extract_if(.., overdue) {
            tracing::warn!(
                service = %key,
                "the service proxy has not said within {LIMIT:?} that it forwards to the Service's \
                 endpoint on this Node: taking its addresses all the same"
            );
            self.confirmed.insert(key);
            late += 1;
        }
        late
    }
}

#[cfg(test)]
mod tests {
    use mooring_common::k8s::Slim as _;
    use mooring_common::node_view::NodeView;
    use serde_json::{from_value, json};

    use super::*;
    use crate::cluster::service_proxy::tests::{SICK, WELL, proxy};
    use crate::cluster::snapshot::SliceView;

    fn key() -> ObjectKey {
        ObjectKey::new("shop", "web")
    }

    fn snapshot(port: u16, endpoints: &[&str]) -> Snapshot {
        let service = ServiceView {
            network: Some("public".into()),
            policy: TrafficPolicy::Local,
            health_check_node_port: Some(port),
            ..ServiceView::default()
        };
        let slice = SliceView {
            local_ready: endpoints.iter().map(|a| a.parse().unwrap()).collect(),
            ..SliceView::default()
        };
        Snapshot {
            services: Arc::new([(key(), Arc::new(service))].into()),
            slices: Arc::new([(key(), vec![Arc::new(slice)])].into()),
            ..Snapshot::default()
        }
    }

    #[tokio::test]
    async fn only_healthy_answer_confirms() {
        for (answers, confirms) in [([("", WELL)], true), ([("", SICK)], false)] {
            let address = proxy(Box::leak(Box::new(answers))).await;
            let snapshot = snapshot(address.port(), &["10.0.0.1"]);
            let service = Arc::clone(&snapshot.services[&key()]);
            assert!(is_awaited(&snapshot, &key(), &service));
            let mut confirmations = Confirmations::default();
            let well = ask_all(confirmations.look(&snapshot, Instant::now())).await;
            assert_eq!(confirmations.learn(&well, Instant::now()), 0);
            let confirmed = Arc::new(confirmations.confirmed);
            let snapshot = Snapshot {
                confirmed,
                ..snapshot
            };
            assert_ne!(is_awaited(&snapshot, &key(), &service), confirms);
        }
    }

    #[test]
    fn each_family_of_a_service_is_asked_at_its_own_address() {
        let internal = |address| json!({"type": "InternalIP", "address": address});
        let addresses = ["fd00::7", "10.0.0.7", "10.0.0.8"].map(internal);
        let node = json!({"status": {"addresses": addresses}});
        let node = Arc::new(NodeView::slim(from_value(node).unwrap()));
        let table: [(&[&str], &[&str]); 4] = [
            (&["192.0.2.1"], &["10.0.0.7:30000"]),
            (&["2001:db8::1"], &["[fd00::7]:30000"]),
            (
                &["192.0.2.1", "2001:db8::1"],
                &["10.0.0.7:30000", "[fd00::7]:30000"],
            ),
            (&[], &["[fd00::7]:30000"]),
        ];
        for (addresses, asked) in table {
            let service = ServiceView {
                addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
                ..ServiceView::default()
            };
            let snapshot = Snapshot {
                node: Some(Arc::clone(&node)),
                ..Snapshot::default()
            };
            let places = places(&snapshot, &service, 30_000);
            let places: Vec<String> = places.iter().map(ToString::to_string).collect();
            assert_eq!(places, asked, "{addresses:?}");
        }
    }

    #[tokio::test]
    async fn one_family_that_is_late_is_waited_for() {
        let (well, sick) = (proxy(&[("", WELL)]).await, proxy(&[("", SICK)]).await);
        for (places, is_confirmed) in [
            (vec![well, sick], false),
            (vec![sick, well], false),
            (vec![well, well], true),
        ] {
            let confirmed = ask_all(vec![(key(), places)]).await;
            assert_eq!(confirmed.contains(&key()), is_confirmed);
        }
    }

    #[test]
    fn waits_until_limit_for_each_endpoint() {
        let (mut confirmations, start) = (Confirmations::default(), Instant::now());
        let (with, without) = (snapshot(30_000, &["10.0.0.1"]), snapshot(30_000, &[]));
        let none = BTreeSet::new();
        assert_eq!(confirmations.look(&without, start), []);
        for (later, late) in [(Duration::ZERO, 0), (LIMIT - PERIOD, 0), (LIMIT, 1)] {
            assert_eq!(confirmations.look(&with, start + later).len(), 1);
            assert_eq!(
                confirmations.learn(&none, start + later),
                late,
                "after {later:?}"
            );
        }
        assert_eq!(
            confirmations.look(&with, start + LIMIT),
            [],
            "it was waited for"
        );
        assert_eq!(confirmations.look(&without, start + LIMIT), []);
        assert_eq!(
            confirmations.look(&with, start + LIMIT).len(),
            1,
            "another endpoint"
        );
        assert_eq!(confirmations.learn(&none, start + LIMIT), 0);
    }

    #[test]
    fn silent_proxy_is_not_awaited() {
        let mut silent = snapshot(30_000, &["10.0.0.1"]);
        let since = Instant::now();
        silent.service_proxy = ServiceProxy::Silent { since };
        let mut confirmations = Confirmations::default();
        assert_eq!(confirmations.look(&silent, since), []);
        assert!(confirmations.confirmed.contains(&key()));
    }
}
