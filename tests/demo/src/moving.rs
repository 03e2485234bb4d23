//! The demo of a move from MetalLB: its own controller and speakers serve a cluster, and the guide
//! `docs/how-to/move-from-metallb.md` is followed from its first step to its last, while clients ask
//! without a pause.
//!
//! ```text
//!   netlab: kube-apiserver, MetalLB's controller, mooring-central ── br0
//!             n1, n2, n3: MetalLB's speaker, mooring-node, kube-proxy ─┤
//!             one client per address: 100 datagrams a second, ─────────┘
//!               and 50 new neighbours a second that ask where it is
//! ```
//!
//! What is asserted: every Service has the addresses that it had, and no client waits longer than
//! a second. `METALLB` names the folder with MetalLB's programs, which `tests/replaced-programs/build.sh`
//! prints.

mod clients;
mod guide;
mod metallb;
mod services;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use super::console::{Console, Ink, short};
use super::run_demo;
use super::scenario::{NODES, check_refusals, start_cluster};
use clients::{Clients, Seen};
use metallb::MetalLb;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_netlab::netlab::Host;
use mooring_test_netlab::netlab_cluster::{Kubelet, NetlabCluster, Site};

/// How long no answer may come for a client.
const LONGEST: Duration = Duration::from_secs(1);

/// What `make demo-move` runs.
pub fn main() -> ExitCode {
    run_demo("demo-move", async |console, _keep| run(console).await)
}

async fn run(console: &Console) -> Result<()> {
    let cluster = start_cluster(console, Site::build(&NODES)?).await?;
    let _kubelets = try_join_all(cluster.nodes.iter().map(|node| register(&cluster, node))).await?;
    let mut metallb = MetalLb::install(console, &cluster).await?;
    let _backends = services::create(console, &cluster).await?;
    let clients = Clients::start(console, &cluster).await?;
    let _mooring = guide::follow(console, &cluster, &mut metallb, &clients).await?;
    let seen = clients.end(&cluster)?;
    check_refusals(console, &cluster).await?;
    console.print_table();
    print(console, &seen);
    judge(&seen)
}

/// As a kubelet without `--cloud-provider=external` does.
async fn register(cluster: &NetlabCluster, node: &Host) -> Result<Kubelet> {
    let described = NodeBuilder::new(node.name())
        .address("InternalIP", &node.ipv4().to_string())
        .address("InternalIP", &node.ipv6().to_string())
        .address("Hostname", node.name());
    Kubelet::register_as(cluster, node.name(), described).await
}

fn print(console: &Console, seen: &[Seen]) {
    let line = |cells: [&str; 7]| {
        let [service, address, before, after, silence, dark, two] = cells;
        format!(
            "{service:<10} {address:<12} {before:<8} {after:<8} {silence:>15} {dark:>15} {two:>13}"
        )
    };
    let heads = [
        "Service",
        "address",
        "MetalLB",
        "Mooring",
        "longest silence",
        "new neighbours",
        "two answered",
    ];
    println!("\n{}", console.paint(Ink::Bold, &line(heads)));
    for row in seen {
        let (dark, two) = row.neighbours.unzip();
        let text = |span: Option<Duration>| span.map_or("-".to_owned(), short);
        println!(
            "{}",
            line([
                &row.service,
                &row.address.to_string(),
                &row.before,
                &row.after,
                &short(row.silence),
                &text(dark),
                &text(two),
            ])
        );
    }
    let silence = seen.iter().map(|row| row.silence).max();
    let dark = seen.iter().filter_map(|row| row.neighbours).max();
    println!(
        "FIGURE Longest silence in a move from MetalLB: {} ms for clients, {} ms for new neighbours",
        silence.unwrap_or_default().as_millis(),
        dark.unwrap_or_default().0.as_millis(),
    );
}

fn judge(seen: &[Seen]) -> Result<()> {
    for row in seen {
        let (service, address, silence) = (&row.service, row.address, row.silence);
        ensure!(
            silence <= LONGEST,
            "{service} did not answer at {address} for {silence:?}"
        );
        let (dark, _) = row.neighbours.unwrap_or_default();
        ensure!(
            dark <= LONGEST,
            "nobody said where {address} of {service} is for {dark:?}"
        );
    }
    Ok(())
}
