//! The guide, step by step.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};
use mooring_common::l2_network::L2Network;
use mooring_common::names::annotations::ALLOCATED_ADDRESSES;

use super::super::console::{Console, Step};
use super::super::scenario::{MOORING, await_leader};
use super::clients::Clients;
use super::metallb::MetalLb;
use super::services::{addresses, list};
use mooring_test_cluster::objects::kubectl;
use mooring_test_netlab::netlab_cluster::NetlabCluster;
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;

/// Whose logs to show while both are at work.
const BOTH: &[&str] = &["mooring", "metallb"];

/// How central is started without a cloud, as the chart does.
const WITHOUT_CLOUD: &str = "--cloud-provider=none";

/// Mooring's programs.
pub(super) struct Mooring {
    _central: Process,
    _daemons: BTreeMap<String, Process>,
}

/// Takes all steps; `metallb` is gone in the end.
pub(super) async fn follow(
    console: &Console,
    cluster: &NetlabCluster,
    metallb: &mut MetalLb,
    clients: &Clients,
) -> Result<Mooring> {
    console.chapter("Steps 1 to 4: Mooring is installed idle, and knows what MetalLB was told");
    let idle = cluster
        .start_central(&[WITHOUT_CLOUD, "--serve-classless-services=false"])
        .await?;
    await_leader(console, cluster, &idle).await?;
    let daemons = cluster.start_daemons(&["--report=false"]).await?;
    daemons.values().for_each(|daemon| console.heed(daemon));
    import(console, cluster).await?;
    ready(console, cluster, daemons.len()).await?;
    let before = addresses(cluster).await?;

    console.chapter("Steps 5 and 6: central serves what MetalLB's controller has served");
    metallb.stop_controller().await?;
    console.event("MetalLB's controller is gone; its speakers announce as before");
    stop(&idle).await?;
    let central = cluster
        .start_central(&[WITHOUT_CLOUD, "--serve-classless-services=true"])
        .await?;
    await_leader(console, cluster, &central).await?;
    let step = Step::new("every address adopted", 60, BOTH);
    console
        .run(step, async {
            step.until(async || adopted(cluster, before.len()).await)
                .await?;
            let after = addresses(cluster).await?;
            ensure!(after == before, "{after:?} instead of {before:?}");
            for (service, addresses) in &after {
                console.event(&format!("shop/{service} keeps {}", list(addresses)));
            }
            Ok(((), "as before".to_owned()))
        })
        .await?;
    let step = Step::new("daemons announce where speakers do", 60, BOTH);
    console
        .run(step, async {
            step.until(async || announced(cluster, &before).await)
                .await?;
            clients.each_has_one_speaker()?;
            Ok(((), "each address has one MAC address".to_owned()))
        })
        .await?;

    console.chapter("Steps 7 and 8: the speakers go");
    metallb.stop_speakers().await?;
    console.event("MetalLB's speakers are gone");
    let step = Step::new("every address announced by Mooring", 60, MOORING);
    console
        .run(step, async {
            step.until(async || {
                announced(cluster, &before).await?;
                clients.each_has_one_speaker()
            })
            .await?;
            let after = addresses(cluster).await?;
            ensure!(after == before, "{after:?} instead of {before:?}");
            Ok(((), "and every Service has what it had".to_owned()))
        })
        .await?;
    Ok(Mooring {
        _central: central,
        _daemons: daemons,
    })
}

/// `mooring-central import metallb`, and what it prints is applied.
async fn import(console: &Console, cluster: &NetlabCluster) -> Result<()> {
    let step = Step::new("configuration imported", 30, BOTH);
    console
        .run(step, async {
            let mut command = Command::new(Program::Central.path()?);
            command
                .args([
                    "import",
                    "metallb",
                    "--subnet",
                    "10.77.0.0/24",
                    "--subnet",
                    "fd77::/64",
                ])
                .arg("--kubeconfig")
                .arg(cluster.admin_kubeconfig())
                .stdin(Stdio::null());
            let output = tokio::task::spawn_blocking(move || command.output()).await??;
            let told = String::from_utf8_lossy(&output.stderr);
            for line in told.lines().filter(|line| !line.is_empty()) {
                console.event(line);
            }
            ensure!(output.status.success(), "it ends with {}", output.status);
            let file = cluster.folder().join("l2networks.yaml");
            fs::write(&file, &output.stdout)?;
            let file = file.to_str().context("the path is not UTF-8")?;
            let applied = kubectl(cluster, &["apply", "--filename", file]).await?;
            Ok(((), applied.trim().replace('\n', ", ")))
        })
        .await
}

/// Every node can announce on every L2Network.
async fn ready(console: &Console, cluster: &NetlabCluster, nodes: usize) -> Result<()> {
    let step = Step::new("L2Networks ready", 60, MOORING);
    let networks = Api::<L2Network>::all(cluster.admin.clone());
    console
        .run(step, async {
            let names = step
                .until(async || {
                    let mut names = Vec::new();
                    for network in networks.list(&ListParams::default()).await? {
                        let name = network.metadata.name.unwrap_or_default();
                        let status = network.status.unwrap_or_default();
                        let voters = status.voters.unwrap_or_default().nodes.len();
                        ensure!(
                            status.nodes.len() == nodes && voters == nodes,
                            "{name}: {} nodes, {voters} voters",
                            status.nodes.len()
                        );
                        names.push(name);
                    }
                    Ok(names)
                })
                .await?;
            Ok(((), format!("{} on {nodes} nodes", names.join(", "))))
        })
        .await
}

/// Central has put its record beside the addresses of so many Services.
async fn adopted(cluster: &NetlabCluster, count: usize) -> Result<()> {
    let services = Api::<Service>::all(cluster.admin.clone());
    let services = services.list(&ListParams::default()).await?;
    let marked = services.iter().filter(|service| {
        let annotations = service.metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(ALLOCATED_ADDRESSES))
    });
    let marked = marked.count();
    ensure!(marked == count, "{marked} of {count} Services are adopted");
    Ok(())
}

/// The L2Networks name a speaker for every address.
async fn announced(cluster: &NetlabCluster, served: &BTreeMap<String, Vec<IpAddr>>) -> Result<()> {
    let networks = Api::<L2Network>::all(cluster.admin.clone());
    let mut speakers = String::new();
    for network in networks.list(&ListParams::default()).await? {
        speakers += &network
            .status
            .and_then(|status| status.speakers)
            .unwrap_or_default();
        speakers += "\n";
    }
    for address in served.values().flatten() {
        ensure!(
            speakers.contains(&address.to_string()),
            "nobody announces {address}: {speakers}"
        );
    }
    Ok(())
}

async fn stop(central: &Process) -> Result<()> {
    central.terminate()?;
    let code = central.wait_for_code(super::LONGEST * 20).await;
    ensure!(code == 0, "mooring-central ended with {code}");
    Ok(())
}
