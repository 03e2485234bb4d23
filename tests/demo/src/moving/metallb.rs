//! MetalLB as its users have it: its CRDs, what they configure, its controller and its speakers.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::super::console::{Console, Step};
use mooring_test_cluster::control_plane::free_port;
use mooring_test_cluster::objects::{PodBuilder, apply_manifests, create_namespace};
use mooring_test_netlab::netlab::Host;
use mooring_test_netlab::netlab_cluster::NetlabCluster;
use mooring_test_support::process::{Process, Spec};

const NAMESPACE: &str = "metallb-system";

/// What a user of MetalLB configures: a pool for all, one on request, both announced on layer 2.
const CONFIGURATION: &str = "\
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: lan, namespace: metallb-system}
spec: {addresses: [10.77.0.200-10.77.0.215, 'fd77::200/124']}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: reserved, namespace: metallb-system}
spec: {addresses: [10.77.0.220/30], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: lan, namespace: metallb-system}
spec: {ipAddressPools: [lan, reserved]}
";

/// How long a program that is told to end may take.
const END: Duration = Duration::from_secs(20);

/// Whose logs to show.
const CONCERNS: &[&str] = &["metallb"];

/// MetalLB's programs.
pub(super) struct MetalLb {
    controller: Process,
    speakers: BTreeMap<String, Process>,
}

impl MetalLb {
    /// Installs and configures it, and starts its programs.
    pub(super) async fn install(console: &Console, cluster: &NetlabCluster) -> Result<Self> {
        console.chapter("MetalLB, whose users have come this far");
        let built = std::env::var_os("METALLB").context(
            "METALLB is not set: it names the folder that tests/replaced-programs/build.sh prints",
        )?;
        let built = PathBuf::from(built);
        let step = Step::new("MetalLB configured", 60, CONCERNS);
        console
            .run(step, async {
                apply_manifests(cluster, &built.join("crds")).await?;
                create_namespace(&cluster.admin, NAMESPACE).await?;
                let file = cluster.folder().join("metallb.yaml");
                fs::write(&file, CONFIGURATION)?;
                // Its CRDs are not served at once.
                step.until(async || apply_manifests(cluster, &file).await)
                    .await?;
                Ok(((), "two IPAddressPools, one L2Advertisement".to_owned()))
            })
            .await?;
        let step = Step::new("MetalLB at work", 60, CONCERNS);
        console
            .run(step, async {
                let controller = start_controller(cluster, &built).await?;
                console.heed(&controller);
                let mut speakers = BTreeMap::new();
                let key = cluster.folder().join("memberlist");
                fs::create_dir_all(&key)?;
                fs::write(key.join("secretkey"), [b'm'; 32])?;
                for node in &cluster.nodes {
                    let speaker = start_speaker(cluster, node, &built, &key).await?;
                    console.heed(&speaker);
                    speakers.insert(node.name().to_owned(), speaker);
                }
                let seen = format!("its controller, and {} speakers", speakers.len());
                let metallb = Self {
                    controller,
                    speakers,
                };
                Ok((metallb, seen))
            })
            .await
    }

    /// `kubectl scale deployment controller --replicas 0`
    pub(super) async fn stop_controller(&mut self) -> Result<()> {
        self.controller.terminate()?;
        self.controller.wait_for_exit(END).await;
        Ok(())
    }

    /// `kubectl delete daemonset speaker`
    pub(super) async fn stop_speakers(&mut self) -> Result<()> {
        for speaker in self.speakers.values() {
            speaker.terminate()?;
        }
        for speaker in self.speakers.values() {
            speaker.wait_for_exit(END).await;
        }
        Ok(())
    }
}

async fn start_controller(cluster: &NetlabCluster, built: &Path) -> Result<Process> {
    let pod = "controller";
    PodBuilder::new(NAMESPACE, pod)
        .create(&cluster.admin)
        .await?;
    let port = || free_port(Ipv4Addr::LOCALHOST.into());
    let log = cluster.folder().join("metallb-controller.log");
    let spec = Spec::new("metallb controller", built.join("controller"), log)
        .args([
            "--webhook-mode=disabled".to_owned(),
            "--disable-cert-rotation".to_owned(),
            format!("--namespace={NAMESPACE}"),
            format!("--pod-name={pod}"),
            format!("--port={}", port()?),
            format!("--health-probe-port={}", port()?),
        ])
        .env(
            "KUBECONFIG",
            cluster.admin_kubeconfig().display().to_string(),
        );
    Process::start(&spec)
}

async fn start_speaker(
    cluster: &NetlabCluster,
    node: &Host,
    built: &Path,
    key: &Path,
) -> Result<Process> {
    let (name, address) = (node.name(), IpAddr::from(node.ipv4()).to_string());
    let pod = format!("speaker-{name}");
    PodBuilder::new(NAMESPACE, &pod)
        .node(name)
        .label("app", "metallb")
        .label("component", "speaker")
        .running(&[&address])
        .host_network(&address)
        .create(&cluster.admin)
        .await?;
    let log = cluster.folder().join(format!("metallb-{pod}.log"));
    let spec = Spec::new(
        format!("metallb speaker on {name}"),
        built.join("speaker"),
        log,
    )
    .args([
        format!("--namespace={NAMESPACE}"),
        format!("--node-name={name}"),
        format!("--pod-name={pod}"),
        format!("--ml-bindaddr={address}"),
        "--ml-bindport=7946".to_owned(),
        "--ml-labels=app=metallb,component=speaker".to_owned(),
        format!("--ml-secret-key-path={}", key.display()),
    ])
    .env(
        "KUBECONFIG",
        cluster.admin_kubeconfig().display().to_string(),
    );
    node.start(spec)
}
