//! Mooring, installed by its pages on real nodes: what `make test-install` runs.
//!
//! ```text
//!   netlab: kube-apiserver, kube-controller-manager, kube-scheduler ── br0
//!             n1, n2, n3: containerd, kubelet, kube-proxy ── eth0 ─┤
//!               Pods: mooring-node, mooring-central, web           ├─ client, ten requests a second
//! ```
//!
//! Static Pods give the control plane an address: `api_port` is each machine's API server.
//!
//! A node is a network, mount and process namespace of its own, with its own `/etc`, `/var`, `/run` and
//! cgroup: `machine::Machine`. Its kubelet runs the images that `make image` builds. The commands are
//! those of the pages: `guide::Page`. After each step it is counted what the client has lost. Where nothing goes wrong,
//! no program warns: `logs::PodLogs`.
//!
//! `NODE_PROGRAMS` names the folder that `tests/node-programs/build.sh` prints, `HELM` the program that
//! `deploy/render.sh --helm` prints. Namespaces end with the program, and `cgroups::Cgroups` are removed.

mod api_port;
mod cgroups;
mod client;
mod cluster;
mod guide;
mod images;
mod leftovers;
mod logs;
mod machine;
mod scenario;
mod shell;
mod steps;

use std::process::ExitCode;

use anyhow::{Result, bail};

use super::console::Console;
use super::{complain, run_demo, run_demo_with};
use cgroups::Cgroups;
use mooring_test_netlab::netlab;

const NAME: &str = "test-install";

/// What connects Pods.
const BRIDGE_PLUGIN: &str = "/usr/lib/cni/bridge";

/// What stands in for logind.
const LOGIND: &str = "/usr/lib/python3/dist-packages/dbusmock/__init__.py";

/// Programs that the nodes need, and the Debian packages that have them.
const NEEDED: [(&str, &str); 7] = [
    ("buildah", "buildah"),
    ("busybox", "busybox-static"),
    ("runc", "runc"),
    (BRIDGE_PLUGIN, "containernetworking-plugins"),
    ("dbus-daemon", "dbus-daemon"),
    ("dbus-send", "dbus-bin"),
    (LOGIND, "python3-dbusmock"),
];

/// What `make test-install` runs.
pub fn main() -> ExitCode {
    if netlab::is_netlab() {
        return run_demo(NAME, run);
    }
    // They outlive the namespaces: a process outside of these removes them.
    match check_machine().and_then(|()| Cgroups::create()) {
        Ok(cgroups) => run_demo_with(NAME, &[cgroups.variable()], run),
        Err(error) => complain(NAME, &error),
    }
}

async fn run(console: &Console, _keep: bool) -> Result<()> {
    scenario::run(console).await
}

/// Says in one line what is missing.
fn check_machine() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!("containers of real kubelets need root: run make test-install as root");
    }
    let folders = netlab::search_path();
    let is_there =
        |name: &str| std::env::split_paths(&folders).any(|folder| folder.join(name).is_file());
    let missing: Vec<&str> = NEEDED
        .into_iter()
        .filter(|(name, _)| !is_there(name))
        .map(|(_, package)| package)
        .collect();
    if !missing.is_empty() {
        bail!(
            "missing packages: {0}; apt-get install {0}",
            missing.join(" ")
        );
    }
    if !std::fs::read_to_string("/proc/filesystems")?.contains("\toverlay\n") {
        bail!("this kernel has no overlay file system, which nodes and containers need");
    }
    for name in ["NODE_PROGRAMS", "HELM"] {
        if std::env::var_os(name).is_none() {
            bail!("the variable {name} is not set: run make test-install");
        }
    }
    Ok(())
}
