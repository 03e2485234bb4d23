//! The chart: installed, upgraded, rolled back, uninstalled.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use mooring_common::names::NAMESPACE;

use super::super::images::NEXT_TAG;
use super::{Reader, eventually};

/// What the page says that `helm uninstall` leaves, and the namespace's own objects.
const LEFT_BY_HELM: [&str; 9] = [
    "APIService <none> v1alpha1.mooring.dev", // the CRD's
    "CustomResourceDefinition <none> l2networks.mooring.dev",
    "L2Network <none> lan",
    "Namespace <none> mooring-system",
    "ServiceAccount mooring-system default",
    "ConfigMap mooring-system kube-root-ca.crt",
    "Secret mooring-system mooring-heartbeat",
    "Lease mooring-system node-",
    "Lease kube-system cloud-controller-manager",
];

/// What the page says that stays on machines until the next boot.
pub(super) const LEFT_ON_MACHINES: [&str; 2] = ["cloud-init", "mooring"];

impl Reader<'_> {
    pub(super) async fn install_by_chart(&self) -> Result<()> {
        let Self {
            steps,
            installation,
            install,
            tutorial,
            ..
        } = self;
        let shell = &installation.shell;
        steps
            .take("chart installed", 120, async {
                let machines = tutorial.block("match: {name: worker-1}")?;
                let machines = machines
                    .replace("192.168.1.", "10.77.0.")
                    .replace("worker-", "n");
                let third = "  - match: {name: n3}\n    id: n3\n    addresses:\n      \
                             - {type: InternalIP, address: 10.77.0.13}\n";
                shell.write("machines.yaml", &(machines + third))?;
                shell
                    .run(&install.command("helm install mooring deploy/chart")?)
                    .await?;
                self.rolled_out(&install.command("rollout status")?).await?;
                Ok("central and daemons are ready".to_owned())
            })
            .await?;
        steps
            .take("Nodes are initialised", 60, async {
                eventually(async || installation.are_initialised(true).await).await?;
                let listing = shell.run(&install.command("kubectl get nodes")?).await?;
                ensure!(listing.contains("cloudlycke://n3"), "{listing}");
                Ok("no taint, and provider IDs cloudlycke://n1 to n3".to_owned())
            })
            .await
    }

    pub(super) async fn upgrade(&self) -> Result<()> {
        let Self {
            steps,
            installation,
            upgrade,
            ..
        } = self;
        let shell = &installation.shell;
        steps
            .take("chart upgraded", 180, async {
                shell
                    .run(&upgrade.block("deploy/chart/mooring/crds")?)
                    .await?;
                let command = upgrade.command("helm upgrade mooring")?;
                shell
                    .run(&format!("{command} --set images.tag={NEXT_TAG}"))
                    .await?;
                self.rolled_out(&upgrade.command("rollout status")?).await?;
                self.all_run(NEXT_TAG).await?;
                installation.are_initialised(true).await?;
                Ok(format!("all Pods run the images {NEXT_TAG}"))
            })
            .await
    }

    pub(super) async fn roll_back(&self) -> Result<()> {
        let Self {
            steps,
            installation,
            upgrade,
            ..
        } = self;
        let shell = &installation.shell;
        steps
            .take("chart rolled back", 180, async {
                shell.run(&upgrade.block("helm rollback mooring")?).await?;
                self.rolled_out(&upgrade.command("rollout status")?).await?;
                let version = env!("CARGO_PKG_VERSION");
                self.all_run(version).await?;
                Ok(format!("all Pods run the images {version}"))
            })
            .await
    }

    pub(super) async fn uninstall_chart(&mut self) -> Result<()> {
        self.steps.stop_asking();
        self.delete_service().await?;
        let Self {
            steps,
            installation,
            install,
            before,
            ..
        } = &*self;
        let shell = &installation.shell;
        steps
            .take("chart uninstalled", 120, async {
                shell
                    .run(&install.command("helm uninstall mooring")?)
                    .await?;
                self.no_pods().await?;
                let leftovers = before.leftovers(installation).await?;
                leftovers.check(&LEFT_BY_HELM, &LEFT_ON_MACHINES)?;
                Ok("what is left is what the page names".to_owned())
            })
            .await?;
        steps
            .take("the rest removed", 120, async {
                self.remove_rest().await?;
                installation.are_initialised(true).await?;
                Ok("no object is left; Nodes are as they were".to_owned())
            })
            .await
    }

    /// Removes what the page says is left; then there is nothing more.
    pub(super) async fn remove_rest(&self) -> Result<()> {
        let remove = self.install.block("crd l2networks.mooring.dev")?;
        self.installation.shell.run(&remove).await?;
        let leftovers = self.before.leftovers(&self.installation).await?;
        leftovers.check(&[], &LEFT_ON_MACHINES)
    }

    /// Whether all Pods of Mooring run images with this tag, and there are none besides.
    async fn all_run(&self, tag: &str) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.installation.admin.clone(), NAMESPACE);
        eventually(async || {
            let pods = pods.list(&ListParams::default()).await?;
            ensure!(pods.items.len() == 5, "{} Pods", pods.items.len());
            for pod in pods {
                let spec = pod.spec.context("a Pod without a spec")?;
                let image = spec
                    .containers
                    .into_iter()
                    .next()
                    .and_then(|container| container.image);
                let image = image.unwrap_or_default();
                ensure!(image.ends_with(&format!(":{tag}")), "a Pod runs {image}");
            }
            Ok(())
        })
        .await
    }

    /// Waits until Mooring's Pods are gone.
    pub(super) async fn no_pods(&self) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.installation.admin.clone(), NAMESPACE);
        eventually(async || {
            let left = pods.list(&ListParams::default()).await?.items.len();
            ensure!(left == 0, "{left} Pods are left");
            Ok(())
        })
        .await
    }
}
