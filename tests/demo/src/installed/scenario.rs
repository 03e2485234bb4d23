//! The life of an installation, step by step.

mod control_plane;
mod manifests;
mod nodes;
mod quiet;
mod release;

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use jiff::Timestamp;
use mooring_test_support::wait::try_eventually;

use super::super::console::Console;
use super::client::Client;
use super::cluster::Installation;
use super::guide::Page;
use super::leftovers::Inventory;
use super::logs::PodLogs;
use super::machine::CloudProvider;
use super::steps::Steps;

/// How long anything may take that is only waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two Pods that answer HTTP. They serve on for a while when they are to end, since nodes learn of it later.
const WEB: &str = include_str!("web.yaml");

/// A change that makes the DaemonSet controller look again.
const WAKE: &str = "kubectl --namespace mooring-system annotate --overwrite daemonset mooring-node \
    test-install/woken=$(date +%s)";

/// Whoever follows the pages.
struct Reader<'a> {
    steps: Steps<'a>,
    installation: Installation,
    install: Page,
    upgrade: Page,
    networks: Page,
    control_plane: Page,
    tutorial: Page,
    before: Inventory,
    logs: PodLogs,
}

/// Tells it to the end, or to the first step that does not happen.
pub(super) async fn run(console: &Console) -> Result<()> {
    console.chapter("Three machines with containerd");
    let steps = Steps::new(console);
    let install = Page::read("docs/how-to/install.md")?;
    let mut installation = None;
    steps
        .take("machines are up", 120, async {
            installation = Some(Installation::start(console, &install).await?);
            Ok("control plane, scheduler, containerd on n1, n2, n3 with the images".to_owned())
        })
        .await?;
    let mut installation = installation.context("there are no machines")?;
    start_kubelets(&steps, &mut installation).await?;
    let mut reader = Reader {
        before: Inventory::take(&installation).await?,
        logs: PodLogs::follow(installation.admin.clone()),
        steps,
        installation,
        install,
        upgrade: Page::read("docs/how-to/upgrade.md")?,
        networks: Page::read("docs/how-to/l2-networks.md")?,
        control_plane: Page::read("docs/how-to/control-plane.md")?,
        tutorial: Page::read("docs/tutorial/first-cluster.md")?,
    };
    let outcome = reader.follow().await;
    if outcome.is_err() {
        reader.show_cluster().await;
    }
    outcome?;
    console.print_table();
    Ok(())
}

async fn start_kubelets(steps: &Steps<'_>, installation: &mut Installation) -> Result<()> {
    steps
        .take("kubelets register their Nodes", 120, async {
            installation.start_kubelets(CloudProvider::External).await?;
            eventually(async || installation.are_initialised(false).await).await?;
            installation.start_kube_proxies()?;
            for machine in &installation.machines {
                steps.heed(machine);
            }
            Ok("with the taint uninitialized".to_owned())
        })
        .await
}

impl Reader<'_> {
    async fn follow(&mut self) -> Result<()> {
        let console = self.steps.console;
        console.chapter("An address for the control plane");
        self.start_static_pods().await?;
        self.lose_api_server().await?;
        console.chapter("By the chart, for machines of a file");
        let start = Timestamp::now();
        self.install_by_chart().await?;
        self.serve().await?;
        self.is_quiet("start was quiet", start).await?;
        self.show_control_plane().await?;
        console.chapter("The daemons, and the machines under them");
        let start = Timestamp::now();
        self.roll_daemons().await?;
        self.is_quiet("roll-out was quiet", start).await?;
        self.reboot_speaker().await?;
        self.shut_speaker_down().await?;
        self.static_pods_are_back().await?;
        self.delete_speakers_node().await?;
        console.chapter("Another version, and back");
        let start = Timestamp::now();
        self.upgrade().await?;
        self.is_quiet("upgrade was quiet", start).await?;
        let start = Timestamp::now();
        let renewed = self.renew_static_pod().await?;
        self.roll_back().await?;
        self.static_pod_is_renewed(&renewed).await?;
        self.is_quiet("way back was quiet", start).await?;
        console.chapter("Away");
        self.remove_static_pods().await?;
        self.uninstall_chart().await?;
        self.address_is_gone().await?;
        console.chapter("By plain manifests, without a cloud");
        let start = Timestamp::now();
        self.install_by_manifests().await?;
        self.serve().await?;
        self.is_quiet("second start was quiet", start).await?;
        self.uninstall_manifests().await
    }

    /// A network, two Pods, a Service, and a client that asks at its address from then on.
    async fn serve(&mut self) -> Result<()> {
        let Self {
            steps,
            installation,
            tutorial,
            ..
        } = &*self;
        let mut address = None;
        steps
            .take("Service answers", 60, async {
                let network = tutorial.block("kind: L2Network")?;
                let shell = &installation.shell;
                shell.write("lan.yaml", &network.replace("192.168.1.", "10.77.0."))?;
                shell.write("web.yaml", WEB)?;
                shell.run("kubectl apply -f web.yaml").await?;
                shell
                    .run(&tutorial.command("kubectl apply -f lan.yaml")?)
                    .await?;
                shell
                    .run(&tutorial.command("kubectl expose deployment web")?)
                    .await?;
                shell.run("kubectl rollout status deployment/web").await?;
                let found = eventually(async || installation.address_of("web").await).await?;
                address = Some(found);
                let url = format!("http://{found}/");
                eventually(async || {
                    let answer = installation.client.get(&url).await?;
                    ensure!(answer.status == 200, "it answers {}", answer.status);
                    Ok(())
                })
                .await?;
                Ok(format!("at {found}, by {}", installation.speaker(found)?))
            })
            .await?;
        let address: IpAddr = address.context("the Service has no address")?;
        let client = Client::start(self.installation.client.clone(), address);
        self.steps.ask(client);
        Ok(())
    }

    /// The Service goes, and its Pods.
    async fn delete_service(&mut self) -> Result<()> {
        self.steps.stop_asking();
        let delete = "kubectl delete service web; kubectl delete deployment web";
        self.installation.shell.run(delete).await?;
        eventually(async || {
            let pods = "kubectl get pods --no-headers --ignore-not-found";
            let left = self.installation.shell.run(pods).await?;
            ensure!(left.is_empty(), "{left}");
            Ok(())
        })
        .await
    }

    /// Waits by a page's `rollout status` until programs have been replaced.
    ///
    /// Now and then the DaemonSet controller of Kubernetes does not look again once the new Pod of a node
    /// has been ready for `minReadySeconds`, and the roll-out stands until something about the DaemonSet changes.
    async fn rolled_out(&self, status: &str) -> Result<()> {
        let shell = &self.installation.shell;
        for _ in 0..3 {
            match shell.run(&format!("{status} --timeout=40s")).await {
                Err(error) if error.to_string().contains("timed out") => {}
                outcome => return outcome.map(drop),
            }
            let console = self.steps.console;
            console
                .event("the roll-out stands still after 40 s: the DaemonSet controller is woken");
            shell.run(WAKE).await?;
        }
        shell
            .run(&format!("{status} --timeout=40s"))
            .await
            .map(drop)
    }

    /// What there is, for whoever asks why a step did not happen.
    async fn show_cluster(&self) {
        let show = "kubectl get nodes,pods --all-namespaces --output wide
            kubectl get events --all-namespaces | tail -n 40
            for namespace in mooring-system kube-system; do
                for pod in $(kubectl --namespace $namespace get pods --output name); do
                    echo \"--- $pod\"; kubectl --namespace $namespace logs --tail=30 $pod 2>&1 || true
                done
            done";
        match self.installation.shell.run(show).await {
            Ok(shown) => println!("{shown}"),
            Err(error) => println!("{error:#}"),
        }
    }
}

/// Waits for something.
async fn eventually<T>(look: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let found = try_eventually(PATIENCE, look).await;
    found.map_err(|reason| anyhow!("not so after {PATIENCE:?}: {reason}"))
}

/// The words of a page outside of its code blocks.
fn inline(page: &Page, command: &'static str) -> Result<&'static str> {
    if !page.has(&format!("`{command}`")) {
        bail!("the page does not say `{command}`");
    }
    Ok(command)
}
