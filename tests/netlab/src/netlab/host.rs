//! One host of the lab: a network namespace with a cable to the bridge.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tokio::net::TcpListener;

use super::capture::Capture;
use super::frame::Mac;
use super::http::{self, Answer};
use super::{BRIDGE, Place, ip, namespace, run};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::try_eventually;

/// How long one request may take before it counts as failed.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

/// How long the kernel may take to notice a cable: it looks once a second at most.
const NOTICED: Duration = Duration::from_secs(3);

/// How often to look.
const LOOK: Duration = Duration::from_millis(10);

/// Longest interface name that the kernel takes is 15, with `p-` in front of a host's name.
const LONGEST_NAME: usize = 13;

/// A node or a client.
#[derive(Debug)]
pub struct Host {
    place: Place,
    scratch: Arc<Scratch>,
    logs: AtomicU32,
}

/// An entry of a host's neighbour table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The neighbour's address.
    pub address: IpAddr,
    /// Its hardware address, if known.
    pub mac: Option<Mac>,
    /// `REACHABLE`, `STALE`, `FAILED` and so on.
    pub state: Vec<String>,
}

impl Host {
    pub(super) fn new(place: Place, scratch: Arc<Scratch>) -> Result<Self> {
        let name = &place.name;
        if name.len() > LONGEST_NAME {
            bail!("a host's name has at most {LONGEST_NAME} letters");
        }
        ip(&format!("netns add {name}"))?;
        ip(&format!(
            "link add p-{name} type veth peer name eth0 address {} netns {name}",
            place.mac()
        ))?;
        ip(&format!("link set p-{name} master {BRIDGE} up"))?;
        let host = Self {
            place,
            scratch,
            logs: AtomicU32::new(1),
        };
        host.set("net/ipv6/conf/all/accept_dad", "0")?;
        host.set("net/ipv6/conf/eth0/accept_dad", "0")?;
        host.set("net/ipv6/conf/eth0/accept_ra", "0")?;
        host.ip("link set lo up")?;
        host.ip("link set eth0 up")?;
        host.ip(&format!("address add {}/24 dev eth0", host.ipv4()))?;
        host.ip(&format!("address add {}/64 dev eth0 nodad", host.ipv6()))?;
        if host.place.has_pods {
            // A reply may take another way than the request: no reverse path filter.
            for (setting, value) in [
                ("net/ipv4/ip_forward", "1"),
                ("net/ipv6/conf/all/forwarding", "1"),
                ("net/ipv4/conf/all/rp_filter", "0"),
                ("net/ipv4/conf/default/rp_filter", "0"),
                ("net/ipv4/conf/eth0/rp_filter", "0"),
            ] {
                host.set(setting, value)?;
            }
        }
        Ok(host)
    }

    /// Its name, which is also its namespace's.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Its IPv4 address on the bridge.
    pub fn ipv4(&self) -> Ipv4Addr {
        self.place.ipv4()
    }

    /// Its IPv6 address on the bridge.
    pub fn ipv6(&self) -> Ipv6Addr {
        self.place.ipv6()
    }

    /// The hardware address of its eth0.
    pub fn mac(&self) -> Mac {
        self.place.mac()
    }

    // --- the cable ----------------------------------------------------------------------------

    /// Pulls the cable: the host sees its link go down.
    pub fn pull_cable(&self) -> Result<()> {
        ip(&format!("link set p-{} down", self.name())).map(drop)
    }

    /// Plugs the cable in again.
    pub fn plug_cable(&self) -> Result<()> {
        ip(&format!("link set p-{} up", self.name())).map(drop)
    }

    /// The switch drops what comes from and goes to the host, whose link stays up.
    pub fn silence(&self) -> Result<()> {
        self.port_state("disabled")
    }

    /// Ends [`Self::silence`]. The kernel refuses that for as long as it has not noticed that the cable is plugged in again.
    pub fn unsilence(&self) -> Result<()> {
        let limit = Instant::now() + NOTICED;
        loop {
            match self.port_state("forwarding") {
                Err(_) if Instant::now() < limit => std::thread::sleep(LOOK),
                done => return done,
            }
        }
    }

    fn port_state(&self, state: &str) -> Result<()> {
        let port = format!("p-{}", self.name());
        run("bridge", &["link", "set", "dev", &port, "state", state]).map(drop)
    }

    /// Starts to keep every frame on the host's eth0.
    pub fn capture(&self) -> Result<Capture> {
        Capture::start(Some(self.name()), "eth0")
    }

    // --- commands and settings ----------------------------------------------------------------

    /// Runs `ip` in the host, arguments separated by spaces.
    pub fn ip(&self, args: &str) -> Result<String> {
        ip(&format!("-n {} {args}", self.name()))
    }

    /// Runs a command in the host and gives what it printed. Not for long runs: it blocks.
    pub fn run(&self, command: &[&str]) -> Result<String> {
        let args = [&["netns", "exec", self.name()], command].concat();
        run("ip", &args)
    }

    /// Does something on a thread in the host's network: sockets that it opens are there.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        namespace::inside(Some(self.name()), action)
    }

    /// Writes a setting of the host's network, for example `net/ipv4/ip_forward`.
    pub fn set(&self, setting: &str, value: &str) -> Result<()> {
        let status = Command::new("ip")
            .args([
                "netns",
                "exec",
                self.name(),
                "sh",
                "-c",
                r#"echo "$2" > "/proc/sys/$1""#,
                "sh",
            ])
            .args([setting, value])
            .stdin(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("setting {setting} to {value} in {} failed", self.name());
        }
        Ok(())
    }

    /// Starts a program in the host.
    pub fn start(&self, spec: Spec) -> Result<Process> {
        Process::start(&spec.netns(self.name()))
    }

    /// Starts one of Mooring's programs in the host; its log goes into the lab's folder.
    pub fn start_program<S: Into<String>>(
        &self,
        program: Program,
        flags: impl IntoIterator<Item = S>,
    ) -> Result<Process> {
        self.start(program.spec(self.scratch.path(), flags)?)
    }

    /// A path for a log of this host in the lab's folder.
    pub(super) fn log_path(&self, what: &str) -> std::path::PathBuf {
        let number = self.logs.fetch_add(1, Ordering::Relaxed);
        self.scratch
            .join(format!("{}-{what}-{number}.log", self.name()))
    }

    /// A thread in the host's network: what it opens is there.
    ///
    /// # Errors
    /// If the host's network cannot be entered.
    pub fn thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<Result<T>> {
        let name = self.name().to_owned();
        std::thread::spawn(move || namespace::inside(Some(&name), || Ok(work())))
    }

    // --- traffic ------------------------------------------------------------------------------

    /// One HTTP request from the host on a new connection, with 2 s for each stage.
    pub async fn get(&self, url: &str) -> Result<Answer> {
        self.get_within(url, REQUEST_LIMIT).await
    }

    /// [`Self::get`] with another limit for connecting and for reading.
    pub async fn get_within(&self, url: &str, limit: Duration) -> Result<Answer> {
        let (name, url) = (self.name().to_owned(), url.to_owned());
        let ask = move || namespace::inside(Some(&name), || http::get(&url, limit));
        tokio::task::spawn_blocking(ask).await?
    }

    /// A process in the host that answers HTTP on all its addresses with `body`.
    pub async fn serve(&self, port: u16, body: &str) -> Result<Process> {
        let port_flag = format!("--port={port}");
        let spec = Spec::new(
            format!("server on {}", self.name()),
            Program::NetlabTool.path()?,
            self.log_path("serve"),
        )
        .args(["serve", &port_flag, "--body", body]);
        let process = self.start(spec)?;
        let url = format!("http://127.0.0.1:{port}/");
        try_eventually(Duration::from_secs(10), async || self.get(&url).await)
            .await
            .map_err(|reason| {
                anyhow::anyhow!("{}: {reason}\n{}", process.name(), process.log_tail())
            })?;
        Ok(process)
    }

    /// Listens in the host, on an address that it has.
    pub async fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        let name = self.name().to_owned();
        let listener = tokio::task::spawn_blocking(move || {
            namespace::inside(Some(&name), || {
                let listener = std::net::TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(listener)
            })
        })
        .await?
        .with_context(|| format!("listening on {address} in {}", self.name()))?;
        Ok(TcpListener::from_std(listener)?)
    }

    /// Gives the host the address of its Pod number `pod`, IPv4 and IPv6. All hosts have a route
    /// to it, so that a process in the host can be the Pod.
    pub fn add_pod(&self, pod: u8) -> Result<(Ipv4Addr, Ipv6Addr)> {
        let number = self.place.number;
        let [v4, v6] = [
            format!("10.244.{number}.{pod}"),
            format!("fd44:{number}::{pod}"),
        ];
        self.ip(&format!("address add {v4}/32 dev lo"))?;
        self.ip(&format!("address add {v6}/128 dev lo nodad"))?;
        Ok((v4.parse()?, v6.parse()?))
    }

    // --- the neighbour table ------------------------------------------------------------------

    /// The host's neighbour table, ARP and NDP.
    pub fn neighbours(&self) -> Result<Vec<Neighbour>> {
        let text = self.ip("-json neighbour show")?;
        let entries: Vec<Entry> = if text.trim().is_empty() {
            Vec::new()
        } else {
            serde_json::from_str(&text).context("ip's answer")?
        };
        entries
            .into_iter()
            .map(|entry| {
                Ok(Neighbour {
                    address: entry.dst.parse()?,
                    mac: entry.lladdr.map(|mac| mac.parse()).transpose()?,
                    state: entry.state,
                })
            })
            .collect()
    }

    /// The hardware address that the host believes an address to have.
    pub fn mac_of(&self, address: impl Into<IpAddr>) -> Result<Option<Mac>> {
        let address = address.into();
        Ok(self
            .neighbours()?
            .into_iter()
            .find(|entry| entry.address == address)
            .and_then(|entry| entry.mac))
    }

    /// Forgets all neighbours.
    pub fn forget_neighbours(&self) -> Result<()> {
        self.ip("neighbour flush all").map(drop)
    }
}

#[derive(Deserialize)]
struct Entry {
    dst: String,
    lladdr: Option<String>,
    #[serde(default)]
    state: Vec<String>,
}
