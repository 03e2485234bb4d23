//! Daemons that are replaced, machines that start again, Nodes that are deleted.

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use mooring_common::names::NAMESPACE;

use super::super::cluster::is_initialised;
use super::super::machine::CloudProvider;
use super::{Reader, eventually};

/// Replaces all daemons, one after the other.
const RESTART: &str = "kubectl --namespace mooring-system rollout restart daemonset/mooring-node";

impl Reader<'_> {
    pub(super) async fn roll_daemons(&self) -> Result<()> {
        let speaker = self.speaker().await?;
        self.steps
            .take("daemons rolled", 180, async {
                self.installation.shell.run(RESTART).await?;
                self.rolled_out(&self.install.command("rollout status")?)
                    .await?;
                ensure!(
                    self.speaker().await? == speaker,
                    "{speaker} does not speak any more"
                );
                Ok(format!("{speaker} speaks as before"))
            })
            .await
    }

    /// The speaker's machine is taken out of use as the page says, and starts again.
    pub(super) async fn reboot_speaker(&mut self) -> Result<()> {
        let old = self.speaker().await?;
        let Self {
            steps,
            installation,
            networks,
            ..
        } = &*self;
        let shell = &installation.shell;
        let annotate = "kubectl annotate node n1 mooring.dev/maintenance=";
        let annotate = super::inline(networks, annotate)?.replace("n1", &old);
        let cordon = format!("kubectl drain {old} --ignore-daemonsets");
        steps
            .take_moving("speaker's Node drained", 120, async {
                shell.run(&annotate).await?;
                let new = eventually(async || {
                    let new = self.speaker().await?;
                    ensure!(new != old, "{old} still speaks");
                    Ok(new)
                })
                .await?;
                shell.run(&cordon).await?;
                Ok(format!("{new} speaks instead of {old}"))
            })
            .await?;
        let start = Timestamp::now();
        self.start_again("its machine rebooted", &old).await?;
        let back = format!("{annotate} && kubectl uncordon {old}");
        let back = back.replace("maintenance=", "maintenance-");
        self.use_again("its daemon is back", &old, start, &back)
            .await
    }

    /// The speaker's machine is drained without the page's annotation, and shut down in order: its daemon gives the
    /// address away before the network goes.
    pub(super) async fn shut_speaker_down(&mut self) -> Result<()> {
        let old = self.speaker().await?;
        let drain = format!("kubectl drain {old} --ignore-daemonsets");
        self.steps
            .take("speaker's Node only drained", 120, async {
                self.installation.shell.run(&drain).await?;
                ensure!(
                    self.speaker().await? == old,
                    "{old} does not speak any more"
                );
                Ok(format!("{old} speaks as before"))
            })
            .await?;
        let start = Timestamp::now();
        let number = self.installation.number_of(&old)?;
        let machine = &mut self.installation.machines[number];
        self.steps
            .take_moving("its machine shut down in order", 120, async {
                machine.shut_down().await?;
                Ok(format!("{old} is off"))
            })
            .await?;
        self.start_again("its machine started", &old).await?;
        let clear = self.networks.command("delete pods --field-selector")?;
        let back = format!("kubectl uncordon {old} && {clear}");
        self.use_again("its daemon is back too", &old, start, &back)
            .await
    }

    /// Switches a machine off, if it is not, and on again.
    async fn start_again(&mut self, step: &'static str, name: &str) -> Result<()> {
        let number = self.installation.number_of(name)?;
        let Self {
            steps,
            installation,
            ..
        } = self;
        let machine = &mut installation.machines[number];
        steps
            .take(step, 120, async {
                machine.switch_off()?;
                machine.boot().await?;
                machine.start_kubelet(CloudProvider::External).await?;
                machine.start_kube_proxy()?;
                steps.heed(machine);
                Ok(format!("{name} is up, its kubelet is well"))
            })
            .await
    }

    /// Waits for a Node's daemon, which another speaks instead of, and lets the Node be used.
    async fn use_again(
        &self,
        step: &'static str,
        name: &str,
        start: Timestamp,
        back: &str,
    ) -> Result<()> {
        self.steps
            .take(step, 120, async {
                let speaker = self.speaker().await?;
                ensure!(speaker != name, "the client's frames go to {name}");
                eventually(async || self.daemon_is_ready(name, start).await).await?;
                self.installation.shell.run(back).await?;
                Ok(format!("{speaker} speaks, {name} is in use again"))
            })
            .await
    }

    /// The speaker's Node is deleted, and its kubelet registers it again when it starts.
    pub(super) async fn delete_speakers_node(&mut self) -> Result<()> {
        let name = self.speaker().await?;
        let number = self.installation.number_of(&name)?;
        let Self {
            steps,
            installation,
            ..
        } = self;
        let nodes = Api::<Node>::all(installation.admin.clone());
        let machine = &mut installation.machines[number];
        let shell = &installation.shell;
        steps
            .take_moving("speaker's Node deleted and back", 120, async {
                let old = nodes.get(&name).await?.metadata.uid;
                shell.run(&format!("kubectl delete node {name}")).await?;
                machine.stop_kubelet().await?;
                machine.start_kubelet(CloudProvider::External).await?;
                steps.heed(machine);
                let id = eventually(async || {
                    let node = nodes.get(&name).await?;
                    ensure!(node.metadata.uid != old, "it is the Node that was deleted");
                    is_initialised(&node, true)?;
                    Ok(node.spec.and_then(|spec| spec.provider_id))
                })
                .await?;
                Ok(format!(
                    "{name} is initialised again: {}",
                    id.unwrap_or_default()
                ))
            })
            .await?;
        let Self { steps, install, .. } = &*self;
        steps
            .take_moving("its daemon is ready", 180, async {
                let start = Timestamp::UNIX_EPOCH;
                eventually(async || self.daemon_is_ready(&name, start).await).await?;
                self.rolled_out(&install.command("rollout status")?).await?;
                Ok("and so is everything else".to_owned())
            })
            .await
    }

    /// The Node that the client's frames go to.
    async fn speaker(&self) -> Result<String> {
        let address = self.installation.address_of("web").await?;
        self.installation.speaker(address)
    }

    /// Whether a daemon on a Node has started since, and is ready.
    ///
    /// Beside it may be a Pod that ended with its machine: the DaemonSet controller of Kubernetes makes the next
    /// one first (`maxSurge`), and waits between deletions.
    async fn daemon_is_ready(&self, node: &str, since: Timestamp) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.installation.admin.clone(), NAMESPACE);
        let of_node = ListParams::default()
            .labels("app.kubernetes.io/name=mooring-node")
            .fields(&format!("spec.nodeName={node}"));
        let mut reasons = Vec::new();
        for pod in pods.list(&of_node).await?.items {
            let name = pod.metadata.name.clone().unwrap_or_default();
            match is_ready_since(pod, since) {
                Ok(()) => return Ok(()),
                Err(reason) => reasons.push(format!("{name}: {reason}")),
            }
        }
        bail!("no daemon on {node} is ready: {}", reasons.join("; "));
    }
}

/// Whether a Pod has started since, and is ready.
fn is_ready_since(pod: Pod, since: Timestamp) -> Result<()> {
    let statuses = pod.status.and_then(|status| status.container_statuses);
    let status = statuses.unwrap_or_default().into_iter().next();
    let status = status.context("its container has no status")?;
    let running = status.state.and_then(|state| state.running);
    let started = running.and_then(|running| running.started_at);
    let started = started.context("it does not run")?.0;
    // Kubernetes counts in seconds.
    ensure!(
        started.as_second() >= since.as_second(),
        "it runs since {started}"
    );
    ensure!(status.ready, "it is not ready");
    Ok(())
}
