//! Connections: TLS, and how many there may be.

use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificate::Certificate;
use crate::connection_slots::{ConnectionSlots, Slot};

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// From elsewhere, served at once.
    pub remote: usize,
    /// By loopback, served at once, which no one elsewhere can take: on the host network the kubelet's
    /// probes come by it.
    pub loopback: usize,
}

/// How long a client may take for its handshake, and for the head of each request.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a client may hold a connection.
const CONNECTION: Duration = Duration::from_secs(60);
/// How long to wait when no connection can be accepted, for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Serves until the future is dropped. The longest idle connection makes way for a new one.
pub async fn serve(
    listener: TcpListener,
    certificate: &Certificate,
    connections: ConnectionLimits,
    router: Router,
) {
    let loopback = ConnectionSlots::new(connections.loopback);
    let others = ConnectionSlots::new(connections.remote);
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let slots = if is_loopback(peer.ip()) {
            &loopback
        } else {
            &others
        };
        let slot = slots.take();
        let number = slot.number();
        let serving = connection(stream, slot, certificate.acceptor(), router.clone());
        let task = tokio::spawn(serving);
        slots.close_by(number, task.abort_handle());
    }
}

async fn connection(stream: TcpStream, slot: Slot, acceptor: TlsAcceptor, router: Router) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(stream)).await else {
        return;
    };
    slot.idle(Instant::now());
    let (router, slot) = (TowerToHyperService::new(router), &slot);
    let answer = service_fn(|request| {
        slot.reading(Instant::now());
        let answer = router.call(request);
        async move {
            let answer = answer.await;
            slot.idle(Instant::now());
            answer
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE)
        .serve_connection(TokioIo::new(stream), answer);
    let _ = timeout(CONNECTION, connection).await;
}

/// Whether a client is on this machine; one of IPv4 may come by a socket of IPv6.
fn is_loopback(peer: IpAddr) -> bool {
    peer.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_own_slots() {
        for (peer, expected) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(peer.parse().unwrap()), expected, "{peer}");
        }
    }
}
