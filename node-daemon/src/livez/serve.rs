//! What one listener answers to its clients.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use jiff::Timestamp;
use mooring_common::connection_slots::ConnectionSlots;
use mooring_common::k8s::ObjectKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::connection::{Respond, converse};
use super::metrics::Metrics;
use super::plan::{Now, answer, answer_service, is_about_service};
use super::request::{Fault, Method, Request};
use super::response::Response;
use super::response_cache::ResponseCache;
use crate::cluster::snapshot::Snapshot;

/// How many connections there may be at one listener.
pub(super) const CONNECTIONS: usize = 256;
/// How long to wait when no connection can be accepted, for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long clients are given, at the end, to come back by another connection.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// Networks whose clients are told all about a Service. Others get the status alone.
#[derive(Clone, Debug, Default)]
pub struct DetailNetworks(Vec<IpNet>);

impl DetailNetworks {
    /// Loopback, and these.
    #[must_use]
    pub const fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    fn contains(&self, client: IpAddr) -> bool {
        // A client of IPv4 may come by a socket of IPv6.
        let client = client.to_canonical();
        client.is_loopback() || self.0.iter().any(|network| network.contains(&client))
    }
}

/// What all listeners share.
pub(super) struct Shared {
    pub(super) snapshot: Arc<ArcSwap<Snapshot>>,
    metrics: Metrics,
    detail: DetailNetworks,
    pub(super) closing: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        snapshot: Arc<ArcSwap<Snapshot>>,
        metrics: Metrics,
        detail: DetailNetworks,
    ) -> Arc<Self> {
        Arc::new(Self {
            snapshot,
            metrics,
            detail,
            closing: AtomicBool::new(false),
        })
    }
}

/// What a listener is for.
#[derive(Clone, Debug)]
pub(super) enum ListenerRole {
    /// The Node, and all Services by path.
    Node,
    /// One Service, whatever the path and the method.
    Service(ObjectKey),
}

struct ListenerHandler {
    site: ListenerRole,
    shared: Arc<Shared>,
    cache: ResponseCache,
    /// For those who are told the status alone.
    bare: ResponseCache,
}

impl ListenerHandler {
    fn new(site: ListenerRole, shared: Arc<Shared>) -> Self {
        Self {
            site,
            shared,
            cache: ResponseCache::default(),
            bare: ResponseCache::default(),
        }
    }
}

/// Answers one client.
struct ClientHandler<'a> {
    handler: &'a ListenerHandler,
    is_told_all: bool,
}

impl ListenerHandler {
    fn to(&self, client: IpAddr) -> ClientHandler<'_> {
        ClientHandler {
            handler: self,
            is_told_all: self.shared.detail.contains(client),
        }
    }
}

impl Respond for ClientHandler<'_> {
    fn respond(&self, request: &Request<'_>, now: tokio::time::Instant) -> Arc<Response> {
        let ListenerHandler {
            site,
            shared,
            cache,
            bare,
        } = self.handler;
        let snapshot = shared.snapshot.load();
        let now = now.into_std();
        let clocks = || Now {
            monotonic: now,
            wall: Timestamp::now(),
        };
        let response = match site {
            // As kube-proxy answers there, to everybody.
            ListenerRole::Service(key) => cache.get("", &snapshot, now, || {
                answer_service(key, &snapshot, clocks()).into()
            }),
            ListenerRole::Node if request.method == Method::Other => {
                Arc::new(Response::method_not_allowed())
            }
            ListenerRole::Node if !self.is_told_all && is_about_service(request.path) => {
                bare.get(request.path, &snapshot, now, || {
                    Response::bare(answer(request.path, &snapshot, clocks()).status)
                })
            }
            ListenerRole::Node => cache.get(request.path, &snapshot, now, || {
                answer(request.path, &snapshot, clocks()).into()
            }),
        };
        shared.metrics.count(response.status);
        response
    }

    fn refuse(&self, fault: Fault) -> Response {
        let response = Response::from(fault);
        self.handler.shared.metrics.count(response.status);
        response
    }

    fn closes(&self) -> bool {
        self.handler.shared.closing.load(Ordering::Relaxed)
    }
}

/// Serves until cancelled. Connections that are open then get answers for a while.
pub(super) async fn serve(
    listener: TcpListener,
    site: ListenerRole,
    shared: Arc<Shared>,
    close: CancellationToken,
) {
    let (slots, mut connections) = (ConnectionSlots::new(CONNECTIONS), JoinSet::new());
    let handler = Arc::new(ListenerHandler::new(site, shared));
    let admit = |connections: &mut JoinSet<()>, stream: TcpStream, client: IpAddr| {
        let (slot, handler) = (slots.take(), Arc::clone(&handler));
        let number = slot.number();
        let task =
            connections.spawn(async move { converse(stream, &slot, &handler.to(client)).await });
        slots.close_by(number, task);
    };
    loop {
        let accepted = tokio::select! {
            () = close.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, client)) => admit(&mut connections, stream, client.ip()),
            Err(error) => {
                tracing::debug!(%error, "cannot accept a health check");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
    // Who has come until now would otherwise be refused.
    if let Ok(listener) = listener.into_std() {
        while let Ok((stream, client)) = listener.accept() {
            let stream = stream.set_nonblocking(true).map(|()| stream);
            if let Ok(stream) = stream.and_then(TcpStream::from_std) {
                admit(&mut connections, stream, client.ip());
            }
        }
    }
    let closing_connections = async { while connections.join_next().await.is_some() {} };
    if timeout(SHUTDOWN_GRACE, closing_connections).await.is_err() {
        connections.shutdown().await;
    }
}

#[cfg(test)]
mod tests;
