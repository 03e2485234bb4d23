//! What the service proxy says of single Services, where that is asked (`--livez-read-through`).
//!
//! The daemon may know of a new endpoint before the service proxy forwards to it. Who wants to be sure
//! that a health check that succeeds means traffic that is forwarded lets both be asked.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::{StreamExt as _, stream};
use mooring_common::k8s::ObjectKey;
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Health, UnservedServices, ask};
use crate::cluster::snapshot::{Snapshot, TrafficPolicy};

/// How long to wait before all are asked again.
const PAUSE: Duration = Duration::from_millis(250);
/// How many are asked at once.
const AT_ONCE: usize = 8;

/// Keeps `refused` up to date, for as long as the future is polled.
pub async fn follow(snapshot: Arc<ArcSwap<Snapshot>>, refused: watch::Sender<UnservedServices>) {
    loop {
        let known = snapshot.load_full();
        if known.answers_health() {
            let now = Some(Arc::new(refusals(&known).await));
            refused.send_if_modified(|known| {
                let changed = *known != now;
                *known = now;
                changed
            });
        }
        sleep(PAUSE).await;
    }
}

/// Those with endpoints are asked about; the others are refused, so that an endpoint that comes counts
/// once both know of it.
async fn refusals(snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
    let answers = stream::iter(questions(snapshot)).map(async |(key, at)| match at {
        Some(at) if ask(at, "/").await != Some(Health::Sick) => None,
        Some(_) | None => Some(key),
    });
    let answers = answers.buffer_unordered(AT_ONCE);
    answers.filter_map(std::future::ready).collect().await
}

/// The Services that there is something to ask about, and where, if they have an endpoint here.
fn questions(snapshot: &Snapshot) -> Vec<(ObjectKey, Option<SocketAddr>)> {
    let proxy = proxy_address(snapshot);
    let services = snapshot.services.iter();
    let local = services.filter(|(_, service)| service.policy == TrafficPolicy::Local);
    local
        .filter_map(|(key, service)| {
            let at = SocketAddr::new(proxy, service.health_check_node_port?);
            let slices = snapshot.slices_of(key);
            let here = slices.iter().any(|slice| !slice.local_ready.is_empty());
            Some((key.clone(), here.then_some(at)))
        })
        .collect()
}

/// In its nftables mode kube-proxy answers on the Node's own addresses only.
pub(super) fn proxy_addresses(snapshot: &Snapshot) -> impl Iterator<Item = IpAddr> {
    snapshot.node.iter().flat_map(|node| node.internal_ips())
}

/// Where the service proxy is asked if the family makes no difference.
pub(super) fn proxy_address(snapshot: &Snapshot) -> IpAddr {
    let first = proxy_addresses(snapshot).next();
    first.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::service_proxy::tests::{SICK, proxy};
    use crate::cluster::snapshot::{ServiceView, SliceView};

    async fn refused(answers: &'static [(&str, &str)], endpoints: &[&str]) -> bool {
        let key = ObjectKey::new("shop", "web");
        let service = ServiceView {
            policy: TrafficPolicy::Local,
            health_check_node_port: Some(proxy(answers).await.port()),
            ..ServiceView::default()
        };
        let slice = SliceView {
            local_ready: endpoints.iter().map(|a| a.parse().unwrap()).collect(),
            ..SliceView::default()
        };
        let snapshot = Snapshot {
            services: Arc::new([(key.clone(), Arc::new(service))].into()),
            slices: Arc::new([(key.clone(), vec![Arc::new(slice)])].into()),
            ..Snapshot::default()
        };
        refusals(&snapshot).await.contains(&key)
    }

    #[tokio::test]
    async fn refuses_services_without_confirmed_endpoint() {
        let ready = ["10.0.0.1"];
        assert!(refused(&[("", SICK)], &ready).await);
        assert!(refused(&[], &[]).await, "nobody has to be asked");
        // Whoever cannot say does not count.
        assert!(!refused(&[], &ready).await);
    }
}
