//! Starting Mooring's programs on a [`Cluster`].

use super::{Cluster, SOON};
use crate::api_proxy::ApiProxy;
use crate::machines_file::MachinesFile;
use mooring_cloud_sim::cloud::CloudSim;
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

/// The program that initialises a Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initializer {
    /// `mooring-central`, which need not wait for anybody.
    Central,
    /// `mooring-node` on the Node.
    Daemon,
}

/// A program about to be started.
#[must_use]
pub struct Launch<'a> {
    cluster: &'a Cluster,
    which: Initializer,
    node: &'a str,
    proxy: Option<&'a ApiProxy>,
    flags: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl<'a> Launch<'a> {
    pub(super) fn new(cluster: &'a Cluster, which: Initializer, node: &'a str) -> Self {
        let flags: &[&str] = match which {
            Initializer::Central => &[
                "--cloud-provider=cloudlycke",
                "--leader-elect=false",
                "--secure-port=0",
                "--node-daemon-grace=0",
                "--node-status-update-frequency=300ms",
                "--node-monitor-period=200ms",
            ],
            Initializer::Daemon => &[
                "--announce=false",
                "--livez=false",
                "--metrics=false",
                "--node-status-update-frequency=300ms",
            ],
        };
        Self {
            cluster,
            which,
            node,
            proxy: None,
            flags: flags.iter().map(ToString::to_string).collect(),
            environment: Vec::new(),
        }
    }

    /// With this machines file. Without one, central goes by what it has built in.
    pub fn machines(self, file: &MachinesFile) -> Self {
        self.flag(&file.flag())
    }

    /// Central for this simulated cloud, which it may ask as often as it likes.
    pub fn cloud(self, cloud: &CloudSim) -> Self {
        let provider = format!("--cloud-provider={}", cloud.kind().name());
        let launch = self.flag(&provider).and_cloud(cloud);
        launch
            .flag("--cloud-api-qps=1000")
            .flag("--cloud-api-burst=1000")
    }

    /// With what central needs to reach this simulated cloud, too.
    pub fn and_cloud(mut self, cloud: &CloudSim) -> Self {
        self.environment.extend(cloud.environment());
        self
    }

    /// With one more variable in its environment.
    pub fn env(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// Talking to the API server through a proxy.
    pub fn by_way_of(mut self, proxy: &'a ApiProxy) -> Self {
        self.proxy = Some(proxy);
        self
    }

    /// With one more flag; it wins over the same one given earlier.
    pub fn flag(mut self, flag: &str) -> Self {
        let name = flag.split('=').next().unwrap_or(flag);
        self.flags.retain(|f| f.split('=').next() != Some(name));
        self.flags.push(flag.to_owned());
        self
    }

    /// Starts it, and waits until it has read its machines file.
    pub async fn start(self) -> Process {
        let process = self.try_start().await;
        logged(&process, "machines file loaded").await;
        process
    }

    /// Starts it, whatever comes of it.
    pub async fn try_start(self) -> Process {
        let (program, kubeconfig) = match self.which {
            Initializer::Central => (Program::Central, self.cluster.installed.kubeconfig.clone()),
            Initializer::Daemon => (
                Program::Node,
                self.cluster.daemon_kubeconfig(self.node).await,
            ),
        };
        let kubeconfig = match self.proxy {
            None => kubeconfig,
            Some(proxy) => proxy.kubeconfig(&kubeconfig).expect("a kubeconfig"),
        };
        let spec = program
            .spec(self.cluster.folder(), self.flags)
            .expect("the programs are built")
            .args([format!("--kubeconfig={}", kubeconfig.display())]);
        let environment = self.environment.into_iter();
        let spec = environment.fold(spec, |spec, (name, value)| spec.env(name, value));
        let spec = match self.which {
            Initializer::Central => spec,
            Initializer::Daemon => spec.args([format!("--node-name={}", self.node)]),
        };
        Process::start(&spec).expect("the program starts")
    }
}

/// Waits until a program has said so.
pub async fn logged(program: &Process, words: &str) {
    eventually(&format!("{words:?} is in the log"), SOON, async || {
        program.log().contains(words)
    })
    .await;
}
