//! A proxy between one program and the API server, which does to chosen requests what networks
//! and API servers do now and then.
//!
//! ```text
//!   mooring-central ──HTTP──► ApiProxy ──TLS──► kube-apiserver
//!     (its own token)           │ (the same token)
//!                               ├── rules: fail, hold, or do something first
//!                               └── requests(): what was asked, and when
//! ```
//!
//! It speaks plain HTTP, so that a kubeconfig that names it needs no certificate.

use std::convert::Infallible;
use std::future::Future;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::control_plane::ControlPlane;

/// Within that time, the request that a gate is for comes.
const ARRIVES: Duration = Duration::from_secs(120);

type Hook = dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// What happens to a request that a rule is for.
enum Action {
    Fail(StatusCode),
    Hold(Gate),
    First(Box<Hook>),
}

struct Rule {
    method: Method,
    path: String,
    times: usize,
    action: Arc<Action>,
}

/// A request as the proxy has seen it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it came in.
    pub at: Instant,
    /// Its method.
    pub method: Method,
    /// Its path, without the query.
    pub path: String,
}

/// Holds requests until it is opened.
#[derive(Clone, Debug)]
pub struct Gate {
    waiting: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// Waits until a request stands before the gate.
    ///
    /// # Panics
    /// If none comes within two minutes: who was to send it may have ended.
    pub async fn reached(&self) {
        let mut waiting = self.waiting.subscribe();
        let reached = waiting.wait_for(|count| *count > 0);
        let reached = tokio::time::timeout(ARRIVES, reached).await;
        // The sender lives in self.
        assert!(
            matches!(reached, Ok(Ok(_))),
            "no request has come to the gate within {ARRIVES:?}"
        );
    }

    /// Lets all requests pass, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    async fn pass(&self) {
        self.waiting.send_modify(|count| *count += 1);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

struct Shared {
    upstream: kube::Client,
    rules: Mutex<Vec<Rule>>,
    asked: Mutex<Vec<Asked>>,
}

/// A running proxy. It ends when it is dropped, and it needs the runtime of its test.
pub struct ApiProxy {
    port: u16,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl ApiProxy {
    /// Starts a proxy on a free port of this machine.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let shared = Arc::new(Shared {
            upstream: without_credentials(control_plane.admin_kubeconfig()).await?,
            rules: Mutex::default(),
            asked: Mutex::default(),
        });
        Ok(Self {
            port: listener.local_addr()?.port(),
            server: tokio::spawn(serve(listener, shared.clone())),
            shared,
        })
    }

    /// A copy of a kubeconfig that leads through the proxy with the same credentials.
    pub fn kubeconfig(&self, original: &Path) -> Result<PathBuf> {
        let mut config = Kubeconfig::read_from(original)?;
        for cluster in &mut config.clusters {
            let cluster = cluster.cluster.as_mut().context("an empty cluster")?;
            cluster.server = Some(format!("http://127.0.0.1:{}", self.port));
        }
        let copy = original.with_extension(format!("by-way-of-{}", self.port));
        std::fs::write(&copy, serde_norway::to_string(&config)?)?;
        Ok(copy)
    }

    /// Answers the next so many requests of this method, to a path that ends like this, with an
    /// error.
    pub fn fail(&self, method: Method, path: &str, times: usize, status: StatusCode) {
        self.add(method, path, times, Action::Fail(status));
    }

    /// Holds the next request of this method, to a path that ends like this, until the gate is
    /// opened.
    pub fn hold(&self, method: Method, path: &str) -> Gate {
        let gate = Gate {
            waiting: watch::Sender::new(0),
            open: watch::Sender::new(false),
        };
        self.add(method, path, 1, Action::Hold(gate.clone()));
        gate
    }

    /// Does something before each of the next so many requests of this method, to a path that ends
    /// like this, is passed on.
    pub fn first<F>(
        &self,
        method: Method,
        path: &str,
        times: usize,
        hook: impl Fn() -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let hook: Box<Hook> = Box::new(move || Box::pin(hook()));
        self.add(method, path, times, Action::First(hook));
    }

    /// What has been asked so far, with this method, of paths that end like this.
    pub fn asked(&self, method: &Method, path: &str) -> Vec<Asked> {
        let asked = lock(&self.shared.asked);
        asked
            .iter()
            .filter(|asked| asked.method == *method && asked.path.ends_with(path))
            .cloned()
            .collect()
    }

    fn add(&self, method: Method, path: &str, times: usize, action: Action) {
        lock(&self.shared.rules).push(Rule {
            method,
            path: path.to_owned(),
            times,
            action: Arc::new(action),
        });
    }
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    /// Notes the request, and says what is to be done with it.
    fn note(&self, request: &Request<Incoming>) -> Option<Arc<Action>> {
        // A dry run is no attempt at what it tries.
        if request
            .uri()
            .query()
            .is_some_and(|query| query.contains("dryRun=All"))
        {
            return None;
        }
        let (method, path) = (request.method(), request.uri().path());
        lock(&self.asked).push(Asked {
            at: Instant::now(),
            method: method.clone(),
            path: path.to_owned(),
        });
        let mut rules = lock(&self.rules);
        let rule = rules
            .iter_mut()
            .find(|rule| rule.times > 0 && rule.method == method && path.ends_with(&rule.path))?;
        rule.times -= 1;
        Some(rule.action.clone())
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>> {
        match self.note(&request).as_deref() {
            None => {}
            Some(Action::Fail(status)) => return failure(*status),
            Some(Action::Hold(gate)) => gate.pass().await,
            Some(Action::First(hook)) => hook().await,
        }
        let (mut parts, body) = request.into_parts();
        for hop in [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING] {
            parts.headers.remove(hop);
        }
        let body = Body::from(body.collect().await?.to_bytes());
        let mut answer = self.upstream.send(Request::from_parts(parts, body)).await?;
        answer.headers_mut().remove(header::TRANSFER_ENCODING);
        answer.headers_mut().remove(header::CONNECTION);
        Ok(answer)
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(connection(stream, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move {
            let answer = shared.answer(request).await;
            let answer = answer.or_else(|_| failure(StatusCode::BAD_GATEWAY));
            Ok::<_, Infallible>(answer.expect("a failure can be told"))
        }
    });
    // A client that goes away in the middle is an everyday thing.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// What the API server says when something within it has failed.
fn failure(status: StatusCode) -> Result<Response<Body>> {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "this failure was made by a test", "reason": "InternalError",
        "code": status.as_u16(),
    });
    Ok(Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(serde_json::to_vec(&body)?))?)
}

async fn without_credentials(kubeconfig: &Path) -> Result<kube::Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(config, &options).await?;
    config.auth_info = kube::config::AuthInfo::default();
    Ok(kube::Client::try_from(config)?)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
