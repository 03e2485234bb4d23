//! Metadata services of clouds, as strict as the real ones, with failures on request.
//!
//! ```text
//!   node's namespace: mooring-node ──► 169.254.169.254:80 ── MetadataSim::on(&host, machine)
//!   anywhere:         many daemons ──► 127.0.0.1:port/m17 ── MetadataSim::serve(listener, machines)
//! ```
//!
//! One simulation serves one machine at the root, or many, each below a path of its own. Tokens,
//! documents and the log of requests are kept apart by machine; failures concern all.
//!
//! ```no_run
//! # use mooring_test_netlab::metadata_sim::{Fault, LINODE_TOKEN, Machine, MetadataSim};
//! # async fn example(host: &mooring_test_netlab::netlab::Host) -> anyhow::Result<()> {
//! let sim = MetadataSim::on(host, Machine::linode(12345, "n1")).await?;
//! sim.fail(LINODE_TOKEN, Fault::Status(503));
//! // ... start a daemon in the host ...
//! sim.heal();
//! assert!(sim.asked().iter().any(|asked| asked.status == 200));
//! # Ok(()) }
//! ```

mod answers;
mod connection;
mod machine;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

pub use machine::Machine;

use crate::netlab::Host;

/// Where all clouds have their metadata service.
pub const LINK_LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(169, 254, 169, 254), 80);

/// Where a Linode gets its token.
pub const LINODE_TOKEN: &str = "/v1/token";
/// What a Linode is.
pub const LINODE_INSTANCE: &str = "/v1/instance";
/// Which addresses a Linode has.
pub const LINODE_NETWORK: &str = "/v1/network";
/// What a server of cloudscale.ch is.
pub const CLOUDSCALE: &str = "/openstack/2017-02-22/meta_data.json";
/// The same under its moving name.
pub const CLOUDSCALE_LATEST: &str = "/openstack/latest/meta_data.json";
/// What a server of Brightbox is: the keys stand behind it.
pub const BRIGHTBOX: &str = "/latest/meta-data/";

/// What a service does instead of answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It takes the request and never answers.
    Hang,
    /// It answers with this status.
    Status(u16),
    /// It answers with a page for people, and calls that a success.
    Html,
    /// It answers with half of what it promised.
    CutOff,
    /// It answers one byte at a time.
    Slow,
    /// It leads to another path, where it would answer.
    Redirect,
    /// It answers with more than anybody wants to know.
    Huge,
}

/// One request as the service has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When it came in.
    pub at: Instant,
    /// What its machine's path begins with; empty at the root.
    pub machine: String,
    /// `GET`, `PUT` and so on.
    pub method: String,
    /// The path without [`Self::machine`].
    pub path: String,
    /// The status of the answer; 0 where there was none.
    pub status: u16,
}

/// A running simulation. It ends when it is dropped, and it needs the runtime of its test.
#[derive(Debug)]
pub struct MetadataSim {
    address: SocketAddr,
    host: Option<String>,
    shared: Arc<Shared>,
    server: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machines: BTreeMap<String, Machine>,
    tokens: BTreeMap<String, Token>,
    tokens_made: u64,
    faults: Vec<(String, Fault)>,
    asked: Vec<Asked>,
}

#[derive(Clone, Debug)]
struct Token {
    machine: String,
    expires: Instant,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetadataSim {
    /// The service of one machine, where all clouds have it, in the machine's own namespace.
    pub async fn on(host: &Host, machine: Machine) -> Result<Self> {
        host.ip(&format!("address replace {}/32 dev lo", LINK_LOCAL.ip()))?;
        let listener = host.listen(LINK_LOCAL.into()).await?;
        let mut sim = Self::serve(listener, [(String::new(), machine)])?;
        sim.host = Some(host.name().to_owned());
        Ok(sim)
    }

    /// The services of many machines, each below `/<its key>`; an empty key is the root.
    pub fn serve(
        listener: TcpListener,
        machines: impl IntoIterator<Item = (String, Machine)>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.lock().machines = machines.into_iter().collect();
        Ok(Self {
            address: listener.local_addr()?,
            host: None,
            server: Mutex::new(Some(tokio::spawn(accept(listener, shared.clone())))),
            shared,
        })
    }

    /// The value of `--metadata-endpoint` for the machine with this key.
    pub fn endpoint(&self, machine: &str) -> String {
        let path = if machine.is_empty() { "" } else { "/" };
        format!("http://{}{path}{machine}", self.address)
    }

    // --- failures -----------------------------------------------------------------------------

    /// From now on, all requests to paths that begin like this end so.
    pub fn fail(&self, path: &str, fault: Fault) {
        self.shared.lock().faults.push((path.to_owned(), fault));
    }

    /// Ends all failures.
    pub fn heal(&self) {
        self.shared.lock().faults.clear();
    }

    /// From now on nobody listens: connections are refused.
    pub async fn refuse(&self) {
        let server = self
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(server) = server {
            server.abort();
            let _ = server.await; // cancelled, and the listener is gone
        }
    }

    /// Ends [`Self::refuse`].
    pub async fn listen(&self, host: Option<&Host>) -> Result<()> {
        let listener = match (host, &self.host) {
            (Some(host), _) => host.listen(self.address).await?,
            (None, None) => TcpListener::bind(self.address).await?,
            (None, Some(name)) => anyhow::bail!("the service was on {name}: say so"),
        };
        let server = tokio::spawn(accept(listener, self.shared.clone()));
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
        Ok(())
    }

    /// Forgets all tokens, as when they have expired.
    pub fn forget_tokens(&self) {
        self.shared.lock().tokens.clear();
    }

    // --- machines -----------------------------------------------------------------------------

    /// Changes what is told of a machine.
    pub fn change(&self, machine: &str, change: impl FnOnce(&mut Machine)) -> Result<()> {
        let mut state = self.shared.lock();
        let found = state.machines.get_mut(machine);
        change(found.with_context(|| format!("there is no machine {machine:?}"))?);
        Ok(())
    }

    // --- the log ------------------------------------------------------------------------------

    /// All requests so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.lock().asked.clone()
    }

    /// All requests so far as "GET /v1/instance 200".
    pub fn lines(&self) -> Vec<String> {
        let line = |a: &Asked| format!("{} {} {}", a.method, a.path, a.status);
        self.shared.lock().asked.iter().map(line).collect()
    }

    /// All tokens that can be used now.
    pub fn tokens(&self) -> Vec<String> {
        self.shared.lock().tokens.keys().cloned().collect()
    }
}

impl Drop for MetadataSim {
    fn drop(&mut self) {
        let server = self
            .server
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = server {
            server.abort();
        }
    }
}

impl State {
    /// Notes a request, and gives what is to become of it.
    fn fault(&self, path: &str) -> Option<Fault> {
        let found = self
            .faults
            .iter()
            .find(|(prefix, _)| path.starts_with(prefix.as_str()));
        found.map(|(_, fault)| *fault)
    }

    /// Makes a token for a machine.
    fn make_token(&mut self, machine: &str, life: Duration) -> String {
        self.tokens_made += 1;
        let text = format!(
            "{:032x}{:016x}",
            uuid::Uuid::new_v4().as_u128(),
            self.tokens_made
        );
        let token = Token {
            machine: machine.to_owned(),
            expires: Instant::now() + life,
        };
        self.tokens.insert(text.clone(), token);
        text
    }

    fn is_valid(&self, token: &str, machine: &str) -> bool {
        self.tokens
            .get(token)
            .is_some_and(|token| token.machine == machine && Instant::now() < token.expires)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(connection::serve(stream, shared.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
