//! An address for the control plane, by static Pods: kubelets run them before there is anything else, and beside
//! the daemons.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::Value;

use super::super::api_port::PORT;
use super::super::cluster::CONTROL_PLANE;
use super::super::images::{NEXT_TAG, REGISTRY};
use super::super::machine::Machine;
use super::{Reader, eventually};

/// The page's networks, and the lab's.
const NETWORKS: [&str; 2] = ["192.0.2.", "10.77.0."];

/// What the process on a machine says of itself.
const STATE: &str = "cat /run/mooring/control-plane.json";

impl Reader<'_> {
    /// Each machine has an API server from then on, and a key, a file and a static Pod, as the page says.
    pub(super) async fn start_static_pods(&mut self) -> Result<()> {
        self.installation.open_api_ports().await?;
        let Self {
            steps,
            installation,
            control_plane,
            ..
        } = &*self;
        steps
            .take("static Pods have an address", 120, async {
                let [first, others @ ..] = installation.machines.as_slice() else {
                    anyhow::bail!("there is no machine");
                };
                let mut make_key = control_plane.block("openssl rand")?;
                make_key += "cat /etc/mooring/heartbeat.key";
                let key = first.run(&make_key).await?;
                let copy = format!(
                    "mkdir -p /etc/mooring && umask 077 && echo {} > ",
                    key.trim()
                );
                let copy = copy + "/etc/mooring/heartbeat.key";
                try_join_all(others.iter().map(|machine| machine.run(&copy))).await?;
                let file = self.page_command("--print file --revision 1")?;
                let member = |machine: &Machine| {
                    let (name, address) = (machine.name(), machine.host.ipv4());
                    format!("--member {name}={address}")
                };
                let members: Vec<String> = installation.machines.iter().map(member).collect();
                let of_page = "--member cp1=10.77.0.11";
                ensure!(file.contains(of_page), "the page has no {of_page}: {file}");
                let file = file.replace(of_page, &members.join(" "));
                let tag = env!("CARGO_PKG_VERSION");
                let file = self.by_image(tag, &file)?;
                let both = format!("{file}\n{}", self.static_pod(tag)?);
                self.on_all_machines(&both).await?;
                let speaker = eventually(async || self.control_plane_speaker().await).await?;
                Ok(format!("at {CONTROL_PLANE}, by {speaker}"))
            })
            .await
    }

    /// The node with the address loses its API server.
    pub(super) async fn lose_api_server(&mut self) -> Result<()> {
        let old = self.control_plane_speaker().await?;
        let number = self.installation.number_of(&old)?;
        self.installation.machines[number].close_api_port();
        let lost = self.steps.take("its API server is gone", 30, async {
            let new = eventually(async || {
                let new = self.control_plane_speaker().await?;
                ensure!(new != old, "{old} still has the address");
                Ok(new)
            });
            Ok(format!("{} has the address instead of {old}", new.await?))
        });
        lost.await?;
        self.installation.open_api_ports().await
    }

    /// An L2Network that reserves the address shows who announces it.
    pub(super) async fn show_control_plane(&self) -> Result<()> {
        let shell = &self.installation.shell;
        self.steps
            .take("L2Network shows its address", 60, async {
                shell
                    .run(&self.page_command("kubectl patch l2network lan")?)
                    .await?;
                let show = self.page_command("{.name} {.controlPlane}")?;
                eventually(async || {
                    let shown = shell.run(&show).await?;
                    let times = |state: &str| shown.matches(state).count();
                    let states = ["Announcing", "Standby"].map(times);
                    ensure!(states == [1, 2], "{shown}");
                    Ok(())
                })
                .await?;
                Ok("one machine announces it, two can take it".to_owned())
            })
            .await
    }

    /// All machines take part, also the one that was rebooted.
    pub(super) async fn static_pods_are_back(&self) -> Result<()> {
        self.steps
            .take("its static Pod is back", 90, async {
                let speaker = eventually(async || self.control_plane_speaker().await).await?;
                Ok(format!("{speaker} has the control plane's address"))
            })
            .await
    }

    /// Writes a static Pod with another image, where the address is; gives the node.
    pub(super) async fn renew_static_pod(&self) -> Result<String> {
        let speaker = self.control_plane_speaker().await?;
        let number = self.installation.number_of(&speaker)?;
        let pod = self.static_pod(NEXT_TAG)?;
        self.installation.machines[number].run(&pod).await?;
        Ok(speaker)
    }

    /// The static Pod of this node has been replaced, and has the address as before.
    pub(super) async fn static_pod_is_renewed(&self, node: &str) -> Result<()> {
        self.steps
            .take("a static Pod is updated", 90, async {
                eventually(async || {
                    self.static_pod_runs(node, NEXT_TAG).await?;
                    let speaker = self.control_plane_speaker().await?;
                    ensure!(speaker == node, "{speaker} has the address, and not {node}");
                    Ok(())
                })
                .await?;
                Ok(format!(
                    "{node} runs the image {NEXT_TAG}, and has the address as before"
                ))
            })
            .await
    }

    /// The page's way back. The address goes a while later.
    pub(super) async fn remove_static_pods(&self) -> Result<()> {
        let end = self.control_plane.command("rm /etc/kubernetes/manifests")?;
        let remove = self
            .control_plane
            .command("rm -r /etc/mooring/control-plane.yaml")?;
        self.steps
            .take("static Pods removed", 60, async {
                self.on_all_machines(&end).await?;
                eventually(async || {
                    let pods = self.static_pods().await?;
                    ensure!(pods.is_empty(), "{} static Pods", pods.len());
                    Ok(())
                })
                .await?;
                self.on_all_machines(&remove).await?;
                Ok("and what they have written".to_owned())
            })
            .await
    }

    /// The kernel has taken the address off.
    pub(super) async fn address_is_gone(&self) -> Result<()> {
        self.steps
            .take("their address is gone", 60, async {
                eventually(async || {
                    for machine in &self.installation.machines {
                        let addresses = machine.host.ip("address show dev lo")?;
                        let has = addresses.contains(&format!("{CONTROL_PLANE}/"));
                        ensure!(!has, "{} has {CONTROL_PLANE}", machine.name());
                    }
                    Ok(())
                })
                .await?;
                Ok(format!("no machine has {CONTROL_PLANE}"))
            })
            .await
    }

    async fn on_all_machines(&self, commands: &str) -> Result<()> {
        let machines = self.installation.machines.iter();
        try_join_all(machines.map(|machine| machine.run(commands)))
            .await
            .map(drop)
    }

    /// Who has the address; all machines say the same, and an API server answers there.
    async fn control_plane_speaker(&self) -> Result<String> {
        let mut speakers = BTreeSet::new();
        for machine in &self.installation.machines {
            let state: Value = serde_json::from_str(&machine.run(STATE).await?)?;
            let voters = state["voters"].as_array().map(Vec::len);
            ensure!(voters == Some(self.installation.machines.len()), "{state}");
            speakers.insert(state["speaker"].as_str().map(str::to_owned));
        }
        ensure!(speakers.len() == 1, "{speakers:?}");
        let speaker = speakers.into_iter().next().flatten();
        let speaker = speaker.context("nobody has the address")?;
        let server = format!("--server=https://{CONTROL_PLANE}:{PORT} --request-timeout=2s");
        let ask = format!("kubectl {server} get --raw /readyz");
        self.installation.shell.run(&ask).await?;
        Ok(speaker)
    }

    /// The static Pods, as the kubelets show them in the cluster.
    async fn static_pods(&self) -> Result<Vec<Pod>> {
        let pods = Api::<Pod>::namespaced(self.installation.admin.clone(), "kube-system");
        let of_name = ListParams::default().labels("app.kubernetes.io/name=mooring-control-plane");
        Ok(pods.list(&of_name).await?.items)
    }

    /// Whether a Node's static Pod runs, with an image of this tag.
    async fn static_pod_runs(&self, node: &str, tag: &str) -> Result<()> {
        let pods = self.static_pods().await?.into_iter();
        let mut pods = pods.filter_map(|pod| Some((pod.spec?, pod.status?)));
        let pod = pods.find(|(spec, _)| spec.node_name.as_deref() == Some(node));
        let (spec, status) = pod.with_context(|| format!("no static Pod on {node}"))?;
        // The status may name any tag of the image.
        let images = spec.containers.into_iter().filter_map(|one| one.image);
        let images: Vec<String> = images.collect();
        let is_of_tag = |image: &String| image.ends_with(&format!(":{tag}"));
        ensure!(images.iter().all(is_of_tag), "{node} runs {images:?}");
        let statuses = status.container_statuses.unwrap_or_default();
        let runs = statuses
            .into_iter()
            .filter_map(|one| one.state?.running)
            .count()
            == 1;
        ensure!(runs, "the static Pod of {node} does not run");
        Ok(())
    }

    /// What writes a static Pod with this tag.
    fn static_pod(&self, tag: &str) -> Result<String> {
        let write = self.page_command("control-plane-manifest --image IMAGE")?;
        self.by_image(tag, &write)
    }

    /// Commands of the program in the image with this tag.
    fn by_image(&self, tag: &str, commands: &str) -> Result<String> {
        let program = self.page_command("mooring-node() {")?;
        let image = format!("{REGISTRY}/mooring-node:{tag}");
        Ok(format!("{program}\n{commands}").replace("IMAGE", &image))
    }

    /// A command of the page, with the lab's addresses.
    fn page_command(&self, words: &str) -> Result<String> {
        let [of_page, of_lab] = NETWORKS;
        Ok(self.control_plane.command(words)?.replace(of_page, of_lab))
    }
}
