//! The Nodes of a Service with `externalTrafficPolicy: Local`: kubelet, service proxy and Pods, played.
//!
//! As real ones do: from SIGTERM on a Pod counts as terminating, and is not ready; it serves on for as
//! long as it likes, and its Node goes on to forward to it if that has no other; health checks are
//! answered 503 from SIGTERM on. When it has ended, its Node forwards to nobody.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A Pod.
#[derive(Clone, Debug)]
struct Pod {
    name: String,
    node: usize,
    /// Since SIGTERM: until when it serves.
    serves_until: Option<Instant>,
}

impl Pod {
    fn is_ready(&self) -> bool {
        self.serves_until.is_none()
    }

    fn serves(&self) -> bool {
        self.serves_until.is_none_or(|end| Instant::now() < end)
    }
}

type Pods = Arc<Mutex<Vec<Pod>>>;

/// The Pods of a Service, wherever they are.
pub(crate) struct Workload {
    pods: Pods,
    slices: Api<EndpointSlice>,
    service: String,
    proxies: JoinSet<()>,
}

impl Workload {
    /// Of a Service that nobody asks: there are its EndpointSlices alone.
    pub(crate) fn told_of(admin: &Client, namespace: &str, service: &str) -> Self {
        Self {
            pods: Pods::default(),
            slices: Api::namespaced(admin.clone(), namespace),
            service: service.to_owned(),
            proxies: JoinSet::new(),
        }
    }

    /// The service proxy of the Node of this number begins: it forwards what comes to the first port,
    /// and answers for the Service's health at the second.
    pub(crate) async fn proxy(&mut self, node: usize, address: IpAddr, ports: (u16, u16)) {
        for (port, is_health) in [(ports.0, false), (ports.1, true)] {
            let door = TcpListener::bind(SocketAddr::new(address, port)).await;
            let door = door.expect("the Node's port is free");
            let pods = self.pods.clone();
            self.proxies.spawn(async move {
                let mut connections = JoinSet::new();
                while let Ok((connection, _)) = door.accept().await {
                    while connections.try_join_next().is_some() {}
                    let answer = answer(&pods, node, is_health);
                    connections.spawn(reply(connection, answer));
                }
            });
        }
    }

    /// A Pod is ready.
    pub(crate) async fn start(&self, name: &str, node: usize) {
        self.change(|pods| {
            pods.push(Pod {
                name: name.to_owned(),
                node,
                serves_until: None,
            });
        })
        .await;
    }

    /// A Pod gets SIGTERM, and serves on for so long.
    pub(crate) async fn terminate(&self, name: &str, serves: Duration) {
        let end = Instant::now() + serves;
        self.change(|pods| {
            let mut all = pods.iter_mut();
            let pod = all.find(|pod| pod.name == name).expect("there is this Pod");
            pod.serves_until = Some(end);
        })
        .await;
    }

    /// The Pods that have ended are seen to be gone.
    pub(crate) async fn bury(&self) {
        self.change(|pods| pods.retain(Pod::serves)).await;
    }

    /// Whether there is this Pod, and it serves.
    pub(crate) fn serves(&self, name: &str) -> bool {
        let pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        pods.iter().any(|pod| pod.name == name && pod.serves())
    }

    async fn change(&self, change: impl FnOnce(&mut Vec<Pod>)) {
        let endpoints: Vec<Value> = {
            let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut pods);
            pods.iter().enumerate().map(endpoint).collect()
        };
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{}-1", self.service),
                "labels": { "kubernetes.io/service-name": self.service },
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{ "port": 8080 }],
        });
        let name = format!("{}-1", self.service);
        let (params, patch) = (PatchParams::apply("rig").force(), Patch::Apply(slice));
        let applied = self.slices.patch(&name, &params, &patch).await;
        applied.expect("the API server takes an EndpointSlice");
    }
}

fn endpoint((index, pod): (usize, &Pod)) -> Value {
    json!({
        "addresses": [format!("10.1.{}.{}", pod.node, index + 1)],
        "nodeName": format!("n{}", pod.node),
        "conditions": {
            "ready": pod.is_ready(), "serving": pod.serves(), "terminating": !pod.is_ready(),
        },
    })
}

/// What a Node answers; nothing: it forwards to nobody.
fn answer(pods: &Pods, node: usize, is_health: bool) -> Option<&'static [u8]> {
    let pods = pods.lock().unwrap_or_else(PoisonError::into_inner);
    let mut own = pods.iter().filter(|pod| pod.node == node);
    match is_health {
        true if own.any(Pod::is_ready) => Some(b"HTTP/1.0 200 OK\r\n\r\n{}"),
        true => Some(b"HTTP/1.0 503 Service Unavailable\r\n\r\n{}"),
        false => own
            .any(Pod::serves)
            .then_some(b"HTTP/1.0 200 OK\r\n\r\nyes"),
    }
}

async fn reply(mut connection: TcpStream, answer: Option<&'static [u8]>) {
    let Some(answer) = answer else { return };
    let mut request = Vec::new();
    let mut piece = [0; 512];
    while !request.ends_with(b"\r\n\r\n") {
        match connection.read(&mut piece).await {
            Ok(length @ 1..) => request.extend_from_slice(&piece[..length]),
            _ => return,
        }
    }
    // Whoever has gone away does not want it.
    let _ = connection.write_all(answer).await;
    let _ = connection.shutdown().await;
}
