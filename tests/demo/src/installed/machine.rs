//! A machine of the cluster: its own network, mounts, processes and cgroups; with containerd, a kubelet and
//! kube-proxy.

mod files;
mod logind;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use mooring_test_cluster::control_plane::{ControlPlane, program};
use mooring_test_netlab::netlab::{Host, Netlab, search_path};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::scratch::Scratch;
use mooring_test_support::wait::try_eventually;

use super::api_port::ApiPort;
use super::cgroups;
use super::shell::output_of;

/// The machine's first process: it puts the machine's own folders in place and then waits for its
/// children, and for those that others leave behind. All other processes enter its namespaces, and end with it.
const BOOT: &str = r#"set -eu
disk=$1
for folder in etc var; do
    mount -t overlay overlay \
        -o "lowerdir=/$folder,upperdir=$disk/$folder,workdir=$disk/work-$folder" "/$folder"
done
mount --bind "$disk/containerd" /var/lib/containerd
mount --bind "$disk/kubelet" /var/lib/kubelet
cd "$disk/sys"
find . -type f | while read -r file; do mount --bind "$file" "/proc/sys/$file"; done
cd /
mount -t tmpfs tmpfs /run
echo booted
sleep infinity &
wait"#;

/// How long containerd and the kubelet may take to answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The folder with the images as files.
pub(super) const IMAGES: &str = "/var/images";

/// Where the kubelet says that it is well.
const KUBELET_HEALTH: &str = "http://127.0.0.1:10248/healthz";

/// With whom a kubelet leaves the description of its Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloudProvider {
    /// `--cloud-provider=external`: a new Node is tainted.
    External,
    /// The kubelet describes the Node itself.
    None,
}

/// The machine. Dropping it switches it off.
pub(super) struct Machine {
    pub(super) host: Host,
    disk: Scratch,
    programs: PathBuf,
    number: u8,
    api_port: Option<ApiPort>,
    // The order matters: what runs on it goes before its first process.
    services: Vec<Process>,
    boot: Option<Process>,
}

impl Machine {
    /// A machine that is switched off. On its disk are what its programs are configured with, and the
    /// files of a folder with images.
    pub(super) fn new(host: Host, control_plane: &ControlPlane, images: &Path) -> Result<Self> {
        let name = host.name().to_owned();
        // The addresses of Services are in no network that it is on.
        host.ip(&format!("route add default via {}", Netlab::GATEWAY_V4))?;
        let machine = Self {
            disk: Scratch::new(&format!("disk-{name}"))?,
            programs: node_programs()?,
            number: host.ipv4().octets()[3],
            api_port: None,
            services: Vec::new(),
            boot: None,
            host,
        };
        for folder in ["work-etc", "work-var", "containerd", "kubelet"] {
            fs::create_dir(machine.disk.join(folder))?;
        }
        for folder in [
            "var/lib/containerd",
            "var/lib/kubelet",
            "var/log/pods",
            "etc/kubernetes/manifests",
        ] {
            fs::create_dir_all(machine.disk.join(folder))?;
        }
        let folder = machine.disk.join(IMAGES.trim_start_matches('/'));
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(images)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::hard_link(entry.path(), folder.join(entry.file_name()))?;
            }
        }
        for (file, text) in files::configuration(&name, machine.number) {
            machine.write(&file, &text)?;
        }
        for (user, group, file) in [
            (
                format!("system:node:{name}"),
                Some("system:nodes"),
                "kubelet",
            ),
            ("system:kube-proxy".to_owned(), None, "kube-proxy"),
        ] {
            let kubeconfig = control_plane.kubeconfig_for_user(&user, group)?;
            let text = fs::read_to_string(kubeconfig)?;
            machine.write(&format!("etc/kubernetes/{file}.kubeconfig"), &text)?;
        }
        Ok(machine)
    }

    pub(super) fn name(&self) -> &str {
        self.host.name()
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.disk.join(file);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Switches it on, and starts logind and containerd. `/run` and the cgroups are empty; the disk is as it was.
    pub(super) async fn boot(&mut self) -> Result<()> {
        let cgroup = cgroups::of_node(self.name()).await?;
        self.write("etc/kubernetes/kubelet.yaml", &files::kubelet(&cgroup))?;
        let namespaces = [
            "--mount",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child",
        ];
        let spec = Spec::new(
            format!("machine {}", self.name()),
            "nsenter",
            self.log("boot"),
        )
        .args([format!("--net=/run/netns/{}", self.name())])
        .args(["--", "unshare"])
        .args(namespaces)
        .args(["--mount-proc", "--", "sh", "-c", BOOT, "boot"])
        .args([self.disk.path().display().to_string()]);
        if spec.log.exists() {
            fs::remove_file(&spec.log)?; // that of the start before
        }
        let boot = Process::start(&spec)?;
        let is_up = try_eventually(START_LIMIT, async || boot.log().contains("booted")).await;
        is_up.map_err(|_| anyhow!("{} does not boot:\n{}", self.name(), boot.log_tail()))?;
        self.boot = Some(boot);
        self.start_logind().await?;
        self.start("containerd", self.programs.join("containerd"), &[])?;
        self.until("containerd answers", "ctr version").await
    }

    /// Starts the kubelet.
    pub(super) async fn start_kubelet(&mut self, provider: CloudProvider) -> Result<()> {
        let (name, ip) = (self.name().to_owned(), self.host.ipv4());
        let mut flags = vec![
            "--config=/etc/kubernetes/kubelet.yaml".to_owned(),
            "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig".to_owned(),
            format!("--hostname-override={name}"),
            format!("--node-ip={ip}"),
        ];
        if provider == CloudProvider::External {
            flags.push("--cloud-provider=external".to_owned());
        }
        let kubelet = self.programs.join("kubelet");
        self.start("kubelet", kubelet, &flags)?;
        let outcome = try_eventually(START_LIMIT, async || {
            let answer = self.host.get(KUBELET_HEALTH).await?;
            ensure!(answer.status == 200, "{}", answer.body);
            anyhow::Ok(())
        });
        outcome.await.map_err(|reason| {
            let log = self.services.last().map(Process::log_tail);
            let log = log.unwrap_or_default();
            anyhow!("the kubelet of {name} is not well: {reason}\n{log}")
        })
    }

    /// An API server answers here.
    pub(super) async fn open_api_port(&mut self, api_server: SocketAddr) -> Result<()> {
        if self.api_port.is_none() {
            self.api_port = Some(ApiPort::open(&self.host, api_server).await?);
        }
        Ok(())
    }

    /// It does so no more.
    pub(super) fn close_api_port(&mut self) {
        self.api_port = None;
    }

    /// Starts kube-proxy. The Node must have its address.
    pub(super) fn start_kube_proxy(&mut self) -> Result<()> {
        let flags = [
            "--kubeconfig=/etc/kubernetes/kube-proxy.kubeconfig".to_owned(),
            format!("--hostname-override={}", self.name()),
            "--proxy-mode=nftables".to_owned(),
            // These settings belong to the host of the whole lab.
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-tcp-timeout-established=0".to_owned(),
            "--conntrack-tcp-timeout-close-wait=0".to_owned(),
        ];
        self.start("kube-proxy", program("kube-proxy")?, &flags)
    }

    /// Ends the kubelet; the containers run on.
    pub(super) async fn stop_kubelet(&mut self) -> Result<()> {
        self.services
            .retain(|service| !service.name().starts_with("kubelet"));
        // It ends after the process that has entered for it, and the next one ends if its port is taken.
        let is_free = "test -z \"$(ss --no-header --listening --tcp --numeric 'sport = :10250')\"";
        self.until("the port of its kubelet is free", is_free).await
    }

    /// Switches it off as by pulling the plug: all processes are killed at once, and what the kernel knew of
    /// containers and Services is gone.
    pub(super) fn switch_off(&mut self) -> Result<()> {
        self.boot = None;
        self.services.clear();
        self.host.run(&["nft", "flush", "ruleset"])?;
        if self
            .interfaces()?
            .iter()
            .any(|interface| interface == "cni0")
        {
            self.host.ip("link delete cni0")?;
        }
        Ok(())
    }

    /// Runs commands on the machine, and gives what they print.
    pub(super) async fn run(&self, commands: &str) -> Result<String> {
        let mut command = Command::new("nsenter");
        command
            .args(self.way_in()?)
            .args(["bash", "-euo", "pipefail", "-c", commands])
            .env("PATH", self.search_path());
        output_of(command)
            .await
            .with_context(|| format!("on {}", self.name()))
    }

    /// The names of its network interfaces, without those of containers.
    pub(super) fn interfaces(&self) -> Result<Vec<String>> {
        let listing = self.host.ip("-brief link show")?;
        let names = listing
            .lines()
            .filter_map(|line| line.split([' ', '@']).next());
        Ok(names
            .filter(|name| !name.starts_with("veth"))
            .map(str::to_owned)
            .collect())
    }

    /// All programs that run on it.
    pub(super) fn services(&self) -> &[Process] {
        &self.services
    }

    fn start(&mut self, name: &str, program: PathBuf, flags: &[String]) -> Result<()> {
        let spec = Spec::new(
            format!("{name} on {}", self.name()),
            "nsenter",
            self.log(name),
        )
        .args(self.way_in()?)
        // It ends with the process that has entered for it.
        .args(["setpriv", "--pdeathsig", "KILL", "--"])
        .args([program.display().to_string()])
        .args(flags.iter().cloned())
        .env("PATH", self.search_path());
        self.services.push(Process::start(&spec)?);
        Ok(())
    }

    async fn until(&self, what: &str, commands: &str) -> Result<()> {
        let outcome = try_eventually(START_LIMIT, async || self.run(commands).await).await;
        outcome
            .map(drop)
            .map_err(|reason| anyhow!("not so on {}: {what}: {reason}", self.name()))
    }

    /// How to enter its namespaces: those of its first process.
    fn way_in(&self) -> Result<Vec<String>> {
        let boot = self.boot.as_ref().context("the machine is switched off")?;
        let children = format!("/proc/{0}/task/{0}/children", boot.pid());
        let first = fs::read_to_string(&children).with_context(|| format!("reading {children}"))?;
        let target = format!("--target={}", first.trim());
        Ok([&target, "--mount", "--net", "--pid", "--"]
            .map(str::to_owned)
            .into())
    }

    fn search_path(&self) -> String {
        format!("{}:{}", self.programs.display(), search_path().display())
    }

    fn log(&self, what: &str) -> PathBuf {
        self.disk.join(format!("{what}.log"))
    }
}

/// The folder with kubelet, containerd and what belongs to them.
pub(super) fn node_programs() -> Result<PathBuf> {
    let folder = std::env::var("NODE_PROGRAMS").context("the variable NODE_PROGRAMS is not set")?;
    Ok(Path::new(&folder).to_owned())
}
