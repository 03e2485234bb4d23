//! Plain manifests, on kubelets that describe their Nodes themselves.

use anyhow::{Context as _, Result, ensure};

use super::super::machine::CloudProvider;
use super::release::LEFT_ON_MACHINES;
use super::{Reader, eventually, inline};

const APPLY: &str = "kubectl apply -f deploy/manifests/bare-metal.yaml";

/// What the page says that the manifests leave.
const LEFT_BY_MANIFESTS: [&str; 1] = ["Lease kube-system mooring-central"];

impl Reader<'_> {
    pub(super) async fn install_by_manifests(&mut self) -> Result<()> {
        let Self {
            steps,
            installation,
            ..
        } = self;
        steps
            .take("kubelets without a cloud", 120, async {
                for machine in &mut installation.machines {
                    machine.stop_kubelet().await?;
                }
                installation.shell.run("kubectl delete nodes --all").await?;
                installation.start_kubelets(CloudProvider::None).await?;
                eventually(async || {
                    let nodes = installation.nodes().await?;
                    ensure!(nodes.len() == 3, "{} Nodes", nodes.len());
                    for node in nodes {
                        let spec = node.spec.context("a Node without a spec")?;
                        ensure!(spec.provider_id.is_none(), "{:?}", spec.provider_id);
                        ensure!(spec.taints.is_none(), "{:?}", spec.taints);
                    }
                    Ok(())
                })
                .await?;
                Ok("Nodes without taints and provider IDs".to_owned())
            })
            .await?;
        let Self {
            steps,
            installation,
            install,
            networks,
            ..
        } = &*self;
        steps
            .take("manifests applied", 120, async {
                installation.shell.run(inline(networks, APPLY)?).await?;
                self.rolled_out(&install.command("rollout status")?).await?;
                Ok("central and daemons are ready".to_owned())
            })
            .await
    }

    pub(super) async fn uninstall_manifests(&mut self) -> Result<()> {
        let took = self
            .steps
            .take("the client has asked on", 30, async { self.ask_on().await });
        took.await?;
        self.delete_service().await?;
        let Self {
            steps,
            installation,
            before,
            ..
        } = &*self;
        let shell = &installation.shell;
        steps
            .take("manifests deleted", 120, async {
                shell.run(&APPLY.replace("apply", "delete")).await?;
                self.no_pods().await?;
                let leftovers = before.leftovers(installation).await?;
                leftovers.check(&LEFT_BY_MANIFESTS, &LEFT_ON_MACHINES)?;
                self.remove_rest().await?;
                Ok("no object is left".to_owned())
            })
            .await
    }

    /// The client is answered for as long as it takes central to write to a Service again.
    async fn ask_on(&self) -> Result<String> {
        let shell = &self.installation.shell;
        let scale =
            "kubectl scale deployment web --replicas=3 && kubectl rollout status deployment/web";
        shell.run(scale).await?;
        Ok("meanwhile, a third Pod has begun to serve".to_owned())
    }
}
