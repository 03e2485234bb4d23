//! The VM's own network as a node's, with a cable to a switch, and what looks after its VLANs.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Segment, Subnet};
use mooring_node::vlan::keeper::Segments;
use mooring_node::vlan::metrics::RepairLabels;
use mooring_node::vlan::{Faults, Metrics, Options, keep};
use mooring_test_support::figures::figure_time;
use mooring_test_support::wait::eventually;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long anything may take in the VM.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Runs a shell script and gives what it printed; it must succeed.
pub(crate) fn sh(script: &str) -> String {
    try_sh(script).unwrap_or_else(|error| panic!("{script}: {error:#}"))
}

/// Runs a shell script and gives what it printed.
pub(crate) fn try_sh(script: &str) -> Result<String> {
    let output = Command::new("sh").args(["-ec", script]).output()?;
    if !output.status.success() {
        bail!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What `ip -json` says.
pub(crate) fn ip(arguments: &str) -> Result<Value> {
    let text = try_sh(&format!("ip -json -details {arguments}"))?;
    serde_json::from_str(&text).context("reading what ip says")
}

/// One interface, as `ip` describes it; `Null` where there is none.
pub(crate) fn link(name: &str) -> Value {
    let found = ip(&format!("address show dev {name}")).unwrap_or_default();
    found[0].clone()
}

/// Whether an interface is up and ready, with the mark of Mooring.
pub(crate) fn is_made(name: &str) -> bool {
    let link = link(name);
    let up = link["flags"]
        .as_array()
        .is_some_and(|f| f.contains(&"UP".into()));
    up && link["ifalias"] == mooring_node::vlan::ALIAS
}

/// A setting below `/proc/sys/net`.
pub(crate) fn setting(name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/sys/net/{name}"));
    text.unwrap_or_default().trim().to_owned()
}

/// An L2Network with a VLAN, read whole.
pub(crate) fn segment(name: &str, vlan: u16, edit: impl FnOnce(&mut L2NetworkSpec)) -> Segment {
    let third = vlan % 256;
    let subnet = |cidr: String, gateway: String| Subnet {
        cidr,
        gateway: Some(gateway),
    };
    let mut spec = L2NetworkSpec {
        vlan: Some(vlan),
        parent: Some("eth0".to_owned()),
        subnets: vec![
            subnet(
                format!("192.168.{third}.0/24"),
                format!("192.168.{third}.1"),
            ),
            subnet(
                format!("2001:db8:{third}::/64"),
                format!("2001:db8:{third}::1"),
            ),
        ],
        ranges: vec![format!("192.168.{third}.16/28")],
        ..L2NetworkSpec::default()
    };
    edit(&mut spec);
    Segment::try_from(&L2Network::new(name, spec)).expect("an L2Network that is right")
}

/// A cable from `eth0` to a switch, which is a namespace of its own.
pub(crate) fn cable() {
    sh("ip netns add switch
        ip link add eth0 mtu 1500 type veth peer name trunk netns switch
        ip -n switch link set lo up
        ip -n switch link set trunk up
        ip link set eth0 up");
}

/// The task that looks after VLANs, with what it says.
pub(crate) struct VlanTask {
    pub(crate) faults: Faults,
    pub(crate) metrics: Metrics,
    segments: watch::Sender<Segments>,
    task: JoinHandle<()>,
}

impl VlanTask {
    pub(crate) fn start(segments: &[Segment]) -> Self {
        Self::start_with(Options::default(), segments)
    }

    pub(crate) fn start_with(options: Options, segments: &[Segment]) -> Self {
        let (sender, receiver) = watch::channel(Some(segments.to_vec()));
        let (faults, metrics) = (Faults::default(), Metrics::default());
        let task = tokio::spawn(keep(options, receiver, faults.clone(), metrics.clone()));
        Self {
            faults,
            metrics,
            segments: sender,
            task,
        }
    }

    pub(crate) fn set(&self, segments: &[Segment]) {
        self.segments.send_replace(Some(segments.to_vec()));
    }

    /// Ends the task, as the end of the daemon would.
    pub(crate) async fn stop(self) {
        self.task.abort();
        let ended = self.task.await;
        assert!(ended.is_err_and(|error| error.is_cancelled()));
    }

    pub(crate) fn repairs(&self, what: &'static str) -> u64 {
        let labels = RepairLabels { what };
        self.metrics.repairs.get_or_create(&labels).get()
    }
}

/// Waits until interfaces are made, and everything that belongs to them.
pub(crate) async fn made(names: &[&str]) {
    for name in names {
        eventually(&format!("{name} is there"), LIMIT, async || is_made(name)).await;
    }
}

/// Breaks something with a script, and waits until a look shows it as it was; says how long it took.
pub(crate) async fn repaired<F>(what: &str, breaking: &str, is_whole: F) -> Duration
where
    F: Fn() -> bool,
{
    eventually(&format!("{what} is there"), LIMIT, async || is_whole()).await;
    sh(breaking);
    let start = Instant::now();
    eventually(&format!("{what} is there again"), LIMIT, async || {
        is_whole()
    })
    .await;
    let took = start.elapsed();
    figure_time(
        &format!("{what} removed by somebody, there again (emulated)"),
        took,
    );
    took
}
