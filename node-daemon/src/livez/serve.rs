//! The HTTP server.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::{Room, Timed};
use super::plan::{Answer, Now, Status, answer};
use crate::announce::Snapshot;

/// How many connections there may be. Beyond it the one that has been idle for longest is closed.
const CONNECTIONS: usize = 256;
/// How long a request's head may be, in bytes.
const LONGEST_HEAD: usize = 8192;
/// How many connections the kernel may hold until they are accepted.
const BACKLOG: i32 = 256;
/// How long to wait when no connection can be accepted, for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
/// kube-proxy's name for how many endpoints are behind an answer.
const WEIGHT: HeaderName = HeaderName::from_static("x-load-balancing-endpoint-weight");

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for health checks; choose another --livez-bind-address")]
pub struct ServeError {
    /// Where.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// Listens. `[::]` stands for all addresses of both families; where there is no IPv6, for all of
/// IPv4.
///
/// # Errors
/// [`ServeError`] if the port is taken, or the address is not this node's.
pub fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let result = match listen(address) {
        Err(error)
            if error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT)
                && address.ip().is_unspecified() =>
        {
            let all = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            listen(SocketAddr::new(all, address.port()))
        }
        result => result,
    };
    result.map_err(|source| ServeError { address, source })
}

/// Listens on one address. A daemon that takes the place of another one on the same node listens
/// beside it for a while.
///
/// # Errors
/// If somebody else has the port, or the address is not this node's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until cancelled. Connections that are open then are closed.
pub async fn serve(
    listener: TcpListener,
    snapshot: Arc<ArcSwap<Snapshot>>,
    cancel: CancellationToken,
) {
    let room = Room::new(CONNECTIONS);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a health check");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        if let Some(seat) = room.enter() {
            let number = seat.number();
            let snapshot = Arc::clone(&snapshot);
            let task = connections.spawn(async move {
                let stream = Timed::new(stream, &seat);
                converse(stream, snapshot).await;
                drop(seat);
            });
            room.clear_by(number, task);
        }
    }
}

async fn converse<S>(stream: Timed<S>, snapshot: Arc<ArcSwap<Snapshot>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(|request| {
        let response = respond(&request, &snapshot);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        // Time is limited by the stream itself, which knows idle from slow.
        .header_read_timeout(None)
        .max_buf_size(LONGEST_HEAD)
        .max_header_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::trace!(%error, "health check ended");
    }
}

fn respond(request: &Request<Incoming>, snapshot: &ArcSwap<Snapshot>) -> Response<Full<Bytes>> {
    let mut response = if matches!(*request.method(), Method::GET | Method::HEAD) {
        let snapshot = snapshot.load();
        found(answer(request.uri().path(), &snapshot, clocks()))
    } else {
        let mut refusal = Response::new(Full::default());
        *refusal.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        refusal
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        refusal
    };
    let headers = response.headers_mut();
    headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if request.version() == Version::HTTP_10 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn clocks() -> Now {
    Now {
        monotonic: Instant::now(),
        wall: Timestamp::now(),
    }
}

/// hyper adds the Content-Length, and leaves the body out for HEAD.
fn found(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() = match answer.status {
        Status::Healthy => StatusCode::OK,
        Status::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
        Status::Unknown => StatusCode::NOT_FOUND,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(weight) = answer.weight {
        headers.insert(WEIGHT, HeaderValue::from(weight));
    }
    response
}

#[cfg(test)]
mod tests;
