//! One simulated cloud's server: connections, the log, and the faults; what is answered, is the
//! cloud's own.

mod failures;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt as _;

use super::door::{Door, Handles};
use super::faults::Faults;
use super::links::Links;
use super::log::Calls;
use super::request::Asked;
use super::tls::Tls;
use failures::fail;

/// How often others have their turn before a request is taken for one too many.
const A_FEW_TURNS: usize = 8;

/// An error in the shape of one API.
pub(super) type ErrorShape = fn(StatusCode) -> Response;

/// Where questions about the simulation itself go: past the log and all faults.
const CONTROL: &str = "/_sim/";

/// What a cloud answers.
pub(super) struct Api {
    pub(super) router: Router,
    pub(super) error: ErrorShape,
    /// Who sees each request as it arrives. Without one no body is looked at.
    pub(super) door: Option<Arc<dyn Door>>,
    /// What answers questions about the simulation itself.
    pub(super) control: Option<Router>,
}

struct Shared {
    url: String,
    tls: Option<Tls>,
    handles: Handles,
    api: Api,
    turned_away: AtomicU64,
}

/// A running server. It ends when it is dropped, and it needs the runtime of its test.
pub(super) struct Server {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on this address; port 0 is a free one.
    pub(super) async fn start(
        listen: SocketAddr,
        tls: Option<Tls>,
        api: Api,
        handles: Handles,
    ) -> Result<Self> {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("listening on {listen}"))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            url: format!("{scheme}://{}", listener.local_addr()?),
            tls,
            handles,
            api,
            turned_away: AtomicU64::new(0),
        });
        Ok(Self {
            task: tokio::spawn(serve(listener, shared.clone())),
            shared,
        })
    }

    pub(super) fn url(&self) -> String {
        self.shared.url.clone()
    }

    pub(super) fn faults(&self) -> &Faults {
        &self.shared.handles.faults
    }

    pub(super) fn calls(&self) -> Calls {
        self.shared.handles.log.calls()
    }

    /// Resets all connections, and every new one, until it is up again.
    pub(super) fn set_down(&self, down: bool) {
        self.shared.handles.down.send_replace(down);
    }

    /// Every answer comes so much later, whatever else befalls it.
    pub(super) fn set_latency(&self, latency: Duration) {
        self.shared.handles.latency.send_replace(latency);
    }

    /// How many connections were reset since the cloud was down.
    pub(super) fn turned_away(&self) -> u64 {
        self.shared.turned_away.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// A second handle of a connection's socket, by which it can be reset.
struct Wire(std::net::TcpStream);

impl Wire {
    /// When the connection is closed, it will be by a reset.
    fn reset(&self) {
        // A socket that is gone already needs no reset.
        let _ = SockRef::from(&self.0).set_linger(Some(Duration::ZERO));
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    // Small answers must not wait for each other.
    let _ = stream.set_nodelay(true);
    let Ok((stream, wire)) = split(stream) else {
        return;
    };
    let (wire, mut down) = (Arc::new(wire), shared.handles.down.subscribe());
    if *down.borrow_and_update() {
        shared.turned_away.fetch_add(1, Ordering::Relaxed);
        wire.reset();
        return;
    }
    let serving = async {
        match &shared.tls {
            None => speak(stream, shared.clone(), wire.clone()).await,
            Some(tls) => {
                // A client that does not believe the certificate goes away.
                if let Ok(stream) = tls.acceptor.accept(stream).await {
                    speak(stream, shared.clone(), wire.clone()).await;
                }
            }
        }
    };
    tokio::select! {
        () = serving => {}
        _ = down.wait_for(|down| *down) => wire.reset(),
    }
}

async fn speak<S>(stream: S, shared: Arc<Shared>, wire: Arc<Wire>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(shared.clone(), wire.clone(), request));
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A client that goes away in the middle is an everyday thing.
    let _ = serving.await;
}

fn split(stream: TcpStream) -> io::Result<(TcpStream, Wire)> {
    let stream = stream.into_std()?;
    let wire = Wire(stream.try_clone()?);
    Ok((TcpStream::from_std(stream)?, wire))
}

async fn answer(
    shared: Arc<Shared>,
    wire: Arc<Wire>,
    request: Request<Incoming>,
) -> io::Result<Response> {
    let asked = Asked::of(&request);
    let request = request.map(Body::new);
    if let Some(control) = &shared.api.control
        && asked.path.starts_with(CONTROL)
    {
        return Ok(routed(control, request).await);
    }
    let (request, body) = opened(&shared.api, request).await?;
    let ticket = shared.handles.log.arrived(&asked, request.headers(), &body);
    let door = shared.api.door.as_ref();
    if door.is_some_and(|door| door.is_taken(&asked, &body)) {
        // A client that gave up and asks again has gone away from the other request, which is only
        // seen when that one's turn comes.
        for _ in 0..A_FEW_TURNS {
            tokio::task::yield_now().await;
        }
    }
    let held = match door {
        None => None,
        Some(door) => match door.enter(&asked, &body).await {
            Ok(held) => Some(held),
            Err(refusal) => {
                ticket.answered(refusal.status());
                return Ok(*refusal);
            }
        },
    };
    let latency = *shared.handles.latency.borrow();
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let answer = match shared.handles.faults.strike(&asked) {
        None => call(&shared, request).await?,
        Some(injection) => {
            ticket.faulty();
            fail(&shared, &injection, &wire, &asked, request).await?
        }
    };
    drop(held);
    ticket.answered(answer.status());
    Ok(answer)
}

/// A request, and its body if that is JSON and there is somebody at the door to look at it.
async fn opened(api: &Api, request: Request<Body>) -> io::Result<(Request<Body>, Option<Value>)> {
    let Some(door) = api
        .door
        .as_ref()
        .filter(|_| request.method() != Method::GET)
    else {
        return Ok((request, None));
    };
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mut value = serde_json::from_slice(&body).ok();
    if let Some(value) = &mut value {
        door.redact(value);
    }
    Ok((Request::from_parts(parts, Body::from(body)), value))
}

/// What the cloud answers.
async fn call(shared: &Shared, request: Request<Body>) -> io::Result<Response> {
    let links = Links::of(&shared.url, request.headers());
    let answer = routed(&shared.api.router, request).await;
    match links {
        None => Ok(answer),
        Some(links) => links.put_into(answer).await,
    }
}

async fn routed(router: &Router, request: Request<Body>) -> Response {
    let answer = router.clone().oneshot(request).await;
    answer.unwrap_or_else(|never| match never {})
}
