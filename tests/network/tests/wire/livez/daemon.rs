//! A daemon on a Node of its own, and questions to it.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, PostParams};
use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, create_namespace, unique};
use mooring_test_cluster::shipped::Shipped;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;
use serde_json::json;
use tokio::sync::OnceCell;

/// What "eventually" means here.
pub const SOON: Duration = Duration::from_secs(15);

/// How long the client waits for each read.
const READ_LIMIT: Duration = Duration::from_secs(8);

/// A daemon, its Node, and a namespace for what it shall know.
pub struct Daemon {
    pub process: Process,
    spec: Spec,
    pub node: String,
    pub namespace: String,
    pub port: u16,
    pub admin: kube::Client,
}

/// An answer, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Daemon {
    /// One that has seen everything. With the shipped permissions, on the shared control plane.
    pub async fn start() -> Self {
        Self::start_on(ControlPlane::shared(), &[]).await
    }

    /// One on another control plane, or with more flags.
    pub async fn start_on(control_plane: &ControlPlane, flags: &[&str]) -> Self {
        let daemon = Self::start_unsynced(control_plane, flags).await;
        eventually("the daemon has seen everything", SOON, async || {
            daemon.get("/livez").status == 200
        })
        .await;
        daemon
    }

    /// One that has just been started.
    pub async fn start_unsynced(control_plane: &ControlPlane, flags: &[&str]) -> Self {
        let admin = control_plane.admin();
        let shipped = installed(control_plane).await;
        let (node, namespace) = (unique("node"), unique("livez"));
        create_namespace(&admin, &namespace).await.unwrap();
        NodeBuilder::new(&node)
            .ready()
            .create(&admin)
            .await
            .unwrap();
        let kubeconfig = shipped.node_kubeconfig(control_plane, &node).await.unwrap();
        let port = free_port();
        let spec = spec(control_plane.folder(), &node, &kubeconfig, port, flags);
        Self {
            process: Process::start(&spec).unwrap(),
            spec,
            node,
            namespace,
            port,
            admin,
        }
    }

    /// Starts one more, as in an update of the daemon. It logs to a file of its own.
    pub fn start_next(&self) -> Process {
        let mut spec = self.spec.clone();
        spec.log.set_extension(format!("{}.log", unique("next")));
        Process::start(&spec).unwrap()
    }

    /// The loopback address that it listens on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.port)
    }

    /// A Service without selector, whose one endpoint is on the daemon's Node and ready. The slice,
    /// which is written by hand, is `<name>-1`.
    pub async fn has_service(&self, service: ServiceBuilder, name: &str) -> Api<EndpointSlice> {
        service.port(80, 8080).create(&self.admin).await.unwrap();
        let slice = json!({
            "metadata": {
                "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name },
            },
            "addressType": "IPv4",
            "ports": [{ "port": 8080 }],
            "endpoints": [endpoint(&self.node, true)],
        });
        let slices = Api::<EndpointSlice>::namespaced(self.admin.clone(), &self.namespace);
        let slice = serde_json::from_value(slice).unwrap();
        slices.create(&PostParams::default(), &slice).await.unwrap();
        slices
    }

    /// [`Self::has_service`] for the Service `web`. Returns once the daemon knows it.
    pub async fn has_web(&self) -> Api<EndpointSlice> {
        let service = ServiceBuilder::load_balancer(&self.namespace, "web");
        let slices = self.has_service(service, "web").await;
        self.service_is("web", 200).await;
        slices
    }

    /// A new connection.
    pub fn connect(&self) -> TcpStream {
        self.connect_to(Ipv4Addr::LOCALHOST.into())
    }

    /// A new connection to one of the machine's addresses.
    pub fn connect_to(&self, address: IpAddr) -> TcpStream {
        let stream = TcpStream::connect_timeout(&SocketAddr::new(address, self.port), READ_LIMIT);
        let stream = stream.expect("it listens");
        stream.set_read_timeout(Some(READ_LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends this on a new connection and reads until the end.
    pub fn send(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read_to_end(stream)
    }

    /// Asks as simply as can be. Nobody listening is the status 0.
    pub fn get(&self, path: &str) -> Answer {
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), self.port);
        match TcpStream::connect_timeout(&address, READ_LIMIT) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(READ_LIMIT)).unwrap();
                stream
                    .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
                    .unwrap();
                read_to_end(stream)
            }
            Err(_) => Answer {
                status: 0,
                head: String::new(),
                body: String::new(),
            },
        }
    }

    /// What is said of a Service in the daemon's namespace.
    pub fn service(&self, name: &str) -> Answer {
        self.get(&format!("/services/{}/{name}", self.namespace))
    }

    /// Waits until that has this status.
    pub async fn service_is(&self, name: &str, status: u16) -> Answer {
        eventually(&format!("{name} is {status}"), SOON, async || {
            let answer = self.service(name);
            if answer.status == status {
                Ok(answer)
            } else {
                Err(answer)
            }
        })
        .await
    }
}

/// The one endpoint of a Service of [`Daemon::has_service`].
pub fn endpoint(node: &str, ready: bool) -> serde_json::Value {
    json!({ "addresses": ["10.244.1.9"], "nodeName": node, "conditions": { "ready": ready } })
}

impl Answer {
    /// The value of a header line.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body, which is JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// Reads one answer from a connection that the server closes.
pub fn read_to_end(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream
        .read_to_end(&mut bytes)
        .expect("an answer, and then the end");
    parse(&String::from_utf8(bytes).expect("text"))
}

/// Reads one answer from a connection that stays.
pub fn read_one(stream: &mut TcpStream) -> Answer {
    let mut text = String::new();
    let mut byte = [0];
    while !text.ends_with("\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        text.push(char::from(byte[0]));
    }
    let length = parse(&text)
        .header("content-length")
        .map(|length| length.parse());
    let mut body = vec![0; length.expect("a length").expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    parse(&(text + std::str::from_utf8(&body).expect("text")))
}

fn parse(text: &str) -> Answer {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Answer {
        status: status.unwrap_or_else(|| panic!("no status line: {text:?}")),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn spec(folder: &Path, node: &str, kubeconfig: &Path, port: u16, flags: &[&str]) -> Spec {
    let own = [
        format!("--node-name={node}"),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--livez-bind-address=[::]:{port}"),
        "--metrics=false".to_owned(),
        "--report=false".to_owned(),
    ];
    let spec = Program::Node.spec(folder, own).unwrap();
    spec.args(flags.iter().copied())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("[::]:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// The manifests, applied once to the shared control plane, and once to each other.
async fn installed(control_plane: &ControlPlane) -> Shipped {
    static SHARED: OnceCell<Shipped> = OnceCell::const_new();
    if std::ptr::eq(control_plane, ControlPlane::shared()) {
        *SHARED
            .get_or_init(async || Shipped::install(control_plane).await.unwrap())
            .await
    } else {
        Shipped::install(control_plane).await.unwrap()
    }
}
