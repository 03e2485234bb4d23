//! A small network of real namespaces: nodes and clients on one bridge.
//!
//! ```text
//!   namespaces (network, mount and process namespaces of its own)
//!   ┌────────────────────────────────────────────────────────────────────┐
//!   │  test, kube-apiserver ── br0 10.77.0.1, fd77::1 ──── Capture        │
//!   │                  ┌────────┼──────────┬───────────────┐              │
//!   │                 p-n1     p-n2       p-n3          p-client          │
//!   │                  │        │          │               │              │
//!   │               n1 eth0  n2 eth0    n3 eth0       client eth0         │
//!   └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A test enters them with [`in_netlab`], any other program with [`enter_netlab`]. Neither
//! needs root, neither can touch the network of the host, and all that runs in there ends
//! with the program that entered it.
//!
//! ```no_run
//! use mooring_test_netlab::netlab::{Netlab, in_netlab};
//!
//! // #[test]
//! fn a_client_reaches_a_node() {
//!     in_netlab(async || {
//!         let lab = Netlab::new().unwrap();
//!         let (node, client) = (lab.node("n1").unwrap(), lab.client("client").unwrap());
//!         let _server = node.serve(8080, "hello").await.unwrap();
//!         let answer = client.get(&format!("http://{}:8080/", node.ipv4())).await.unwrap();
//!         assert_eq!(answer.body, "hello");
//!     });
//! }
//! ```

mod capture;
pub mod claims;
mod filters;
mod flow;
mod frame;
mod host;
mod http;
mod isolation;
mod kubernetes;
mod namespace;
mod packages;
mod port;
mod prober;
mod quota;
pub mod raw;
mod relay;
mod segment;
mod threads;
mod unplugged;
mod watchdog;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

pub use capture::Capture;
pub use flow::{Echo, Outage, TcpFlows, UdpFlow};
pub use frame::{Arp, Frame, Mac, NeighbourAdvertisement};
pub use host::{Host, Neighbour};
pub use http::{Answer, get};
pub(crate) use isolation::test_name;
pub use isolation::{
    TEMPORARY, clear_netlab, enter_netlab, enter_netlab_with, in_netlab, is_netlab,
    run_test_in_netlab, way_in,
};
pub use kubernetes::ProxyMode;
pub use packages::{check_packages, search_path};
pub use port::{Direction, HeartbeatPath, Port};
pub use prober::{Answers, Prober, SPACING};
pub use quota::Quota;
pub use relay::{Mischief, Relay};
pub use segment::Segment;
pub use unplugged::Unplugged;
pub use watchdog::{TOLERABLE, Watchdog};

use mooring_test_support::scratch::Scratch;

/// The bridge's name.
const BRIDGE: &str = "br0";

/// The number of the first host's address: 10.77.0.11, fd77::11.
const FIRST_HOST: u8 = 11;

/// A bridge in the netlab, to which hosts are connected.
#[derive(Debug)]
pub struct Netlab {
    hosts: Mutex<Vec<Place>>,
    scratch: Arc<Scratch>,
}

/// What other hosts must know about one.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    number: u8,
    has_pods: bool,
}

impl Place {
    fn ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.number)
    }

    // The last group is written with the same digits as the IPv4 address ends with.
    fn ipv6(&self) -> Ipv6Addr {
        let digits = u16::from(self.number / 100) << 8
            | u16::from(self.number / 10 % 10) << 4
            | u16::from(self.number % 10);
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, digits)
    }

    fn mac(&self) -> Mac {
        Mac([0x02, 0x4d, 0x6f, 0x6f, 0x72, self.number])
    }

    fn pod_ranges(&self) -> [String; 2] {
        [
            format!("10.244.{}.0/24", self.number),
            format!("fd44:{}::/64", self.number),
        ]
    }
}

impl Netlab {
    /// Makes the bridge. Only inside of a netlab.
    pub fn new() -> Result<Self> {
        if !is_netlab() {
            bail!(
                "a lab needs namespaces of its own: call netlab::in_netlab or netlab::enter_netlab first"
            );
        }
        ip(&format!(
            "link add {BRIDGE} address 02:4d:6f:6f:72:01 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        ))?;
        // Promiscuous, so that a capture on the bridge sees what hosts say to each other.
        ip(&format!("link set {BRIDGE} promisc on up"))?;
        ip(&format!("address add {}/24 dev {BRIDGE}", Self::GATEWAY_V4))?;
        ip(&format!(
            "address add {}/64 dev {BRIDGE} nodad",
            Self::GATEWAY_V6
        ))?;
        Ok(Self {
            hosts: Mutex::default(),
            scratch: Arc::new(Scratch::new("netlab")?),
        })
    }

    /// The bridge's own IPv4 address: where the test itself and its API server live.
    pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

    /// The bridge's own IPv6 address.
    pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);

    /// Adds a node: a host that forwards, as kube-proxy needs, with ranges for its Pods to which
    /// all other hosts have a route (`10.244.<number>.0/24`).
    pub fn node(&self, name: &str) -> Result<Host> {
        self.add(name, true)
            .with_context(|| format!("adding the node {name}"))
    }

    /// Adds a host that only uses the network.
    pub fn client(&self, name: &str) -> Result<Host> {
        self.add(name, false)
            .with_context(|| format!("adding the client {name}"))
    }

    fn add(&self, name: &str, has_pods: bool) -> Result<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let number = FIRST_HOST + u8::try_from(hosts.len())?;
        let place = Place {
            name: name.to_owned(),
            number,
            has_pods,
        };
        let host = Host::new(place.clone(), Arc::clone(&self.scratch))?;
        for other in hosts.iter() {
            route_to_pods(Some(name), other)?;
            route_to_pods(Some(&other.name), &place)?;
        }
        route_to_pods(None, &place)?;
        hosts.push(place);
        Ok(host)
    }

    /// Starts to keep every frame that crosses the bridge from now on.
    pub fn capture(&self) -> Result<Capture> {
        Capture::start(None, BRIDGE)
    }

    /// Starts to keep ARP, ICMPv6 and heartbeats from now on, and none of what clients send.
    pub fn capture_control(&self) -> Result<Capture> {
        Capture::start_filtered(None, BRIDGE, &filters::control())
    }

    /// The folder for logs and captures.
    pub fn folder(&self) -> &std::path::Path {
        self.scratch.path()
    }
}

/// Makes the Pods of `to` reachable from the namespace `from`, or from the test itself.
fn route_to_pods(from: Option<&str>, to: &Place) -> Result<()> {
    if !to.has_pods {
        return Ok(());
    }
    let [v4, v6] = to.pod_ranges();
    let at = from.map(|name| format!("-n {name} ")).unwrap_or_default();
    ip(&format!("{at}route replace {v4} via {}", to.ipv4()))?;
    ip(&format!("{at}-6 route replace {v6} via {}", to.ipv6()))?;
    Ok(())
}

/// Runs `ip` with arguments separated by spaces and gives what it printed.
pub(crate) fn ip(args: &str) -> Result<String> {
    run("ip", &args.split_whitespace().collect::<Vec<_>>())
}

pub(crate) fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("running {program}: is it installed?"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed: {}", args.join(" "), stderr.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
