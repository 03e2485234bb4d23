//! One node: its programs, its file, and what it says of itself.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{ADDRESSES, ECHO, SOON};
use crate::netlab::Host;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// What a node of the control plane runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A member of etcd, where there is a real one.
    Etcd,
    /// The API server, or what stands in for it.
    ApiServer,
    /// `mooring-node control-plane`.
    Announcer,
    /// kube-vip, where that is to be replaced.
    KubeVip,
}

/// How it is with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Its API server is ready.
    pub ready: bool,
    /// The revision whose voters it serves.
    pub revision: u64,
    /// It hears a majority of them.
    pub quorum: bool,
    /// How many others it hears on the node network: a witness is on no segment.
    pub peers: usize,
    /// How many of the addresses it announces.
    pub announced: usize,
    /// How many of the addresses its kernel takes packets for.
    pub addresses: usize,
}

/// A node of the control plane.
pub struct ControlPlaneNode {
    /// Its network.
    pub host: Host,
    folder: PathBuf,
    specs: BTreeMap<Part, Spec>,
    running: BTreeMap<Part, Process>,
}

impl ControlPlaneNode {
    pub(super) fn new(host: Host, lab: &Path) -> Result<Self> {
        let name = host.name().to_owned();
        let folder = lab.join(&name);
        fs::create_dir_all(&folder)?;
        write_key(&lab.join("heartbeat.key"))?;
        let mut node = Self {
            host,
            folder,
            specs: BTreeMap::new(),
            running: BTreeMap::new(),
        };
        let mut stand_in = vec![
            "serve-readyz".to_owned(),
            format!("--unready-while={}", node.unready_while().display()),
        ];
        for address in ADDRESSES {
            stand_in.push(format!("--echo={}", SocketAddr::new(address, ECHO)));
        }
        let stand_in = Program::NetlabTool.spec(&node.folder, stand_in)?;
        node.set(Part::ApiServer, stand_in);
        let announcer = Program::Node.spec(
            &node.folder,
            [
                "control-plane".to_owned(),
                format!("--node-name={name}"),
                format!(
                    "--file={}",
                    node.folder.join("control-plane.yaml").display()
                ),
                format!("--state-dir={}", node.folder.join("state").display()),
                format!("--status-dir={}", node.folder.join("run").display()),
                "--v=4".to_owned(),
            ],
        )?;
        node.set(Part::Announcer, announcer);
        Ok(node)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.host.name()
    }

    /// Runs this as a part of the node from now on.
    pub fn set(&mut self, part: Part, mut spec: Spec) {
        spec.name = format!("{} on {}", spec.name, self.name());
        self.specs.insert(part, spec);
    }

    /// Runs this file as its announcer from now on.
    pub(super) fn run_announcer(&mut self, program: PathBuf) -> Result<()> {
        let spec = self.specs.get_mut(&Part::Announcer);
        spec.context("there is no announcer")?.program = program;
        Ok(())
    }

    /// Runs nothing as this part from now on: its static Pod is removed.
    ///
    /// # Errors
    /// If it does not run, or does not end when it is told to.
    pub async fn remove(&mut self, part: Part) -> Result<()> {
        self.specs.remove(&part);
        let process = self.take(part)?;
        process.terminate()?;
        process.wait_for_exit(SOON).await;
        Ok(())
    }

    /// Where its parts have their files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn unready_while(&self) -> PathBuf {
        self.folder.join("unready")
    }

    /// Writes its control plane file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_file(&self, text: &str) -> Result<()> {
        let draft = self.folder.join(".control-plane.yaml");
        fs::write(&draft, text)?;
        fs::rename(draft, self.folder.join("control-plane.yaml"))?;
        Ok(())
    }

    /// The cable is in, and all that does not run is started, or goes on. Without `serves` it has no API server.
    ///
    /// # Errors
    /// If something does not start.
    pub fn boot(&mut self, serves: bool) -> Result<()> {
        self.host.plug_cable()?;
        self.host.unsilence()?;
        self.be_ready(true)?;
        let parts: Vec<Part> = self.specs.keys().copied().collect();
        for part in parts {
            if part == Part::Announcer || serves {
                self.start(part)?;
            }
        }
        Ok(())
    }

    /// Starts a part, or lets it go on.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(&mut self, part: Part) -> Result<()> {
        match self.running.get(&part) {
            Some(process) if process.is_running() => process.thaw(),
            _ => {
                let process = self.new_process(part)?;
                self.running.insert(part, process);
                Ok(())
            }
        }
    }

    /// A further process of a part, beside the one that runs.
    ///
    /// # Errors
    /// If it does not start.
    pub fn new_process(&self, part: Part) -> Result<Process> {
        let spec = self.specs.get(&part).context("there is no such part")?;
        self.host.start(spec.clone())
    }

    /// A part from now on, in the place of the one that ran. That is given back.
    pub fn replace(&mut self, part: Part, process: Process) -> Option<Process> {
        self.running.insert(part, process)
    }

    /// What runs.
    ///
    /// # Errors
    /// If it does not.
    pub fn process(&self, part: Part) -> Result<&Process> {
        self.running.get(&part).context("it does not run")
    }

    /// Takes a process out of the node's hands.
    ///
    /// # Errors
    /// If it does not run.
    pub fn take(&mut self, part: Part) -> Result<Process> {
        self.running.remove(&part).context("it does not run")
    }

    /// Ends a part without a warning.
    pub fn kill(&mut self, part: Part) {
        // Dropping it does.
        drop(self.running.remove(&part));
    }

    /// The node is without power: all that ran is gone, and nothing of it is heard.
    ///
    /// # Errors
    /// If the switch does not take it.
    pub fn crash(&mut self) -> Result<()> {
        self.host.silence()?;
        self.running.clear();
        Ok(())
    }

    /// Puts the control plane's addresses on an interface, as kube-vip does.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn add_addresses(&self, interface: &str) -> Result<()> {
        let add = |address: String| {
            self.host
                .ip(&format!("address add {address} dev {interface} nodad"))
        };
        alone().try_for_each(|address| add(address).map(drop))
    }

    /// Takes those that are there off an interface.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove_addresses(&self, interface: &str) -> Result<()> {
        let on = self
            .host
            .ip(&format!("-oneline address show dev {interface}"))?;
        for address in alone().filter(|address| on.contains(&format!(" {address} "))) {
            self.host
                .ip(&format!("address delete {address} dev {interface}"))?;
        }
        Ok(())
    }

    /// Whether what stands in for the API server says that it is ready.
    ///
    /// # Errors
    /// If that cannot be written.
    pub fn be_ready(&self, is_ready: bool) -> Result<()> {
        let path = self.unready_while();
        if !is_ready {
            fs::write(path, "")?;
        } else if path.exists() {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// How it is.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn state(&self) -> Result<State> {
        let metrics = self.metrics().await?;
        let on_loopback = self.host.ip("-oneline address show dev lo")?;
        let has = |address: &&IpAddr| on_loopback.contains(&format!(" {address}/"));
        let addresses = ADDRESSES.iter().filter(has).count();
        let heard = ["path=\"node_network\"", "state=\"heard\""];
        Ok(State {
            ready: metrics.sum("mooring_control_plane_ready", &[]) == 1,
            revision: u64::try_from(metrics.sum("mooring_control_plane_revision", &[]))?,
            quorum: metrics.sum("mooring_l2_quorum", &[]) == 1,
            peers: metrics.sum("mooring_l2_peers", &heard),
            addresses,
            announced: metrics.sum("mooring_l2_owner", &[]),
        })
    }

    /// How many others it hears on a path: `segment` or `node_network`.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn heard_on(&self, path: &str) -> Result<usize> {
        let path = format!("path=\"{path}\"");
        let labels = [path.as_str(), "state=\"heard\""];
        Ok(self.metrics().await?.sum("mooring_l2_peers", &labels))
    }

    /// What its announcer says of itself.
    async fn metrics(&self) -> Result<Metrics> {
        let answer = self.host.get("http://127.0.0.1:10272/metrics").await?;
        Ok(Metrics(answer.body))
    }

    /// Pulls its cable three times, and plugs it in again: its link is then left alone for a minute.
    ///
    /// # Errors
    /// If its announcer does not see that in time.
    pub async fn flap(&self) -> Result<()> {
        for times in 1..=3 {
            for is_in in [false, true] {
                if is_in {
                    self.host.plug_cable()?;
                } else {
                    self.host.pull_cable()?;
                }
                try_eventually(SOON, async || {
                    let state = self.state().await?;
                    ensure!(state.quorum == is_in, "{state:?} after {times} times");
                    Ok(())
                })
                .await
                .map_err(anyhow::Error::msg)?;
            }
        }
        let damped = ["transition=\"damped\""];
        let times = self
            .metrics()
            .await?
            .sum("mooring_l2_transitions_total", &damped);
        ensure!(times > 0, "its link has not been left alone");
        Ok(())
    }

    /// The last lines of its announcer's log.
    pub fn log_tail(&self) -> String {
        let tail = self.running.get(&Part::Announcer).map(Process::log_tail);
        format!("--- {}:\n{}", self.name(), tail.unwrap_or_default())
    }

    /// All that its announcers have logged.
    pub fn log(&self) -> String {
        let spec = &self.specs[&Part::Announcer];
        fs::read_to_string(&spec.log).unwrap_or_default()
    }

    /// Forgets whatever it remembers of who votes, as a new disk does.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(&self) -> Result<()> {
        let state = self.folder.join("state");
        if state.exists() {
            fs::remove_dir_all(state)?;
        }
        Ok(())
    }
}

/// The control plane's addresses, each a network of its own.
fn alone() -> impl Iterator<Item = String> {
    ADDRESSES.into_iter().map(|address| {
        let length = if address.is_ipv4() { 32 } else { 128 };
        format!("{address}/{length}")
    })
}

/// The page of metrics.
struct Metrics(String);

impl Metrics {
    /// The sum of all of a name with these labels.
    fn sum(&self, name: &str, labels: &[&str]) -> usize {
        let lines = self.0.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
        values.sum()
    }
}

/// The secret of heartbeats, the same on all nodes.
fn write_key(path: &Path) -> Result<()> {
    use std::io::Write as _;
    if path.exists() {
        return Ok(());
    }
    let mut options = fs::File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    writeln!(file, "{}", "5a".repeat(32))?;
    Ok(())
}
