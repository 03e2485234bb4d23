//! One simulated cloud's server: connections, the log, and the faults; what is answered, is the
//! cloud's own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::stream;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tower::ServiceExt as _;

use super::door::{Door, Handles};
use super::faults::{Ending, Faults, Injection};
use super::log::Calls;
use super::request::Asked;

/// How long half an answer has to leave before the connection ends.
const HALF_WAY: Duration = Duration::from_millis(20);

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
    handles: Handles,
    api: Api,
    turned_away: AtomicU64,
}

/// A running server. It ends when it is dropped, and it needs the runtime of its test.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Server {
    /// Listens on this address; port 0 is a free one.
    pub(super) async fn start(listen: SocketAddr, api: Api, handles: Handles) -> Result<Self> {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("listening on {listen}"))?;
        let shared = Arc::new(Shared {
            handles,
            api,
            turned_away: AtomicU64::new(0),
        });
        Ok(Self {
            address: listener.local_addr()?,
            task: tokio::spawn(serve(listener, shared.clone())),
            shared,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
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
    let service = {
        let (shared, wire) = (shared.clone(), wire.clone());
        service_fn(move |request| answer(shared.clone(), wire.clone(), request))
    };
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // A client that goes away in the middle is an everyday thing.
        _ = serving => {}
        _ = down.wait_for(|down| *down) => wire.reset(),
    }
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
        return Ok(call(control, request).await);
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
    let held = match door.map(|door| door.enter(&asked, &body)).transpose() {
        Ok(held) => held,
        Err(refusal) => {
            ticket.answered(refusal.status());
            return Ok(*refusal);
        }
    };
    let latency = *shared.handles.latency.borrow();
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let answer = match shared.handles.faults.strike(&asked) {
        None => call(&shared.api.router, request).await,
        Some(injection) => {
            ticket.faulty();
            fail(&shared, &injection, &wire, request).await?
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

async fn call(api: &Router, request: Request<Body>) -> Response {
    let answer = api.clone().oneshot(request).await;
    answer.unwrap_or_else(|never| match never {})
}

async fn fail(
    shared: &Shared,
    injection: &Injection,
    wire: &Arc<Wire>,
    request: Request<Body>,
) -> io::Result<Response> {
    let fault = injection.fault();
    if let Some(hook) = &fault.hook {
        hook();
    }
    tokio::time::sleep(fault.delay).await;
    if let Some(after) = fault.later {
        // The client's going away ends this function, and must not end that.
        let (router, last) = (shared.api.router.clone(), fault.last.clone());
        let executed = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            let answer = call(&router, request).await;
            if let Some(last) = last {
                last();
            }
            answer
        });
        if matches!(fault.ending, Ending::Answer) {
            return executed.await.map_err(io::Error::other);
        }
        injection.is_lifted().await;
        return Err(reset(wire));
    }
    let executed = if fault.executed {
        Some(call(&shared.api.router, request).await)
    } else {
        None
    };
    if let Some(last) = &fault.last {
        last();
    }
    let executed = executed.unwrap_or_default();
    let mut answer = match &fault.ending {
        Ending::Answer => executed,
        Ending::Rewritten(rewrite) => {
            let (parts, body) = whole(executed).await?;
            let mut value = serde_json::from_slice(&body)?;
            rewrite(&mut value);
            with_length(parts, value.to_string().into())
        }
        Ending::CutOff => half(executed, None).await?,
        Ending::Torn => half(executed, Some(wire.clone())).await?,
        Ending::Reset => return Err(reset(wire)),
        Ending::Hang => {
            injection.is_lifted().await;
            return Err(reset(wire));
        }
        Ending::Status(status) => (shared.api.error)(*status),
        Ending::Body(status, kind, body) => {
            let mut answer = Response::new(Body::from(body.clone()));
            *answer.status_mut() = *status;
            let kind = HeaderValue::from_static(kind);
            answer.headers_mut().insert(header::CONTENT_TYPE, kind);
            answer
        }
    };
    if let Some(retry_after) = &fault.retry_after {
        let value = HeaderValue::try_from(retry_after.text()).map_err(io::Error::other)?;
        answer.headers_mut().insert(header::RETRY_AFTER, value);
    }
    Ok(answer)
}

fn reset(wire: &Wire) -> io::Error {
    wire.reset();
    io::Error::from(io::ErrorKind::ConnectionReset)
}

async fn whole(answer: Response) -> io::Result<(http::response::Parts, Bytes)> {
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?;
    Ok((parts, body.to_bytes()))
}

fn with_length(mut parts: http::response::Parts, body: Bytes) -> Response {
    let length = HeaderValue::from(body.len());
    parts.headers.insert(header::CONTENT_LENGTH, length);
    Response::from_parts(parts, Body::from(body))
}

/// The first half of an answer under the length of the whole; then the connection ends, by a reset
/// if there is a wire.
async fn half(answer: Response, wire: Option<Arc<Wire>>) -> io::Result<Response> {
    let (parts, body) = whole(answer).await?;
    let length = HeaderValue::from(body.len());
    let first = body.slice(..body.len() / 2);
    let parts_of_body = stream::unfold(Some(first), move |first| {
        let wire = wire.clone();
        async move {
            if let Some(first) = first {
                return Some((Ok(first), None));
            }
            tokio::time::sleep(HALF_WAY).await;
            if let Some(wire) = &wire {
                wire.reset();
            }
            Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), None))
        }
    });
    let mut answer = Response::from_parts(parts, Body::from_stream(parts_of_body));
    answer.headers_mut().insert(header::CONTENT_LENGTH, length);
    Ok(answer)
}
