//! The announcing node is taken down, and another answers.

use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::service::{Addresses, REQUEST_LIMIT, neighbours};
use super::stage::{Stage, Step};
use super::story::{Cast, MOORING};

/// Takes the node down at which the client sees the addresses, and waits for the answers of
/// another.
pub(super) async fn take_down(stage: &Stage, cast: &mut Cast, addresses: &Addresses) -> Result<()> {
    let seen = cast.cluster.seen_at(addresses.v4)?;
    let name = seen
        .context("no node is known to announce")?
        .name()
        .to_owned();
    stage.chapter(&format!("The node that announces goes down: {name}"));
    let start = Instant::now();
    cast.cluster.node(&name).pull_cable()?;
    // As in a power cut: nobody has time to say anything.
    for processes in [&mut cast.daemons, &mut cast.proxies] {
        if let Some(process) = processes.remove(&name) {
            process.kill();
        }
    }
    cast.kubelets.remove(&name);
    stage.event(&format!(
        "{name}: cable pulled, mooring-node, kube-proxy and kubelet killed"
    ));
    stage.event("the others miss its heartbeats, and agree that one of them speaks in its place");
    let cluster = &cast.cluster;
    let [v4, v6] = addresses.urls();
    let step = Step::new("answers come back", 30, MOORING);
    let client = &cluster.client;
    let ask = async |url: &str| {
        let answer = step
            .until(async || client.get_within(url, REQUEST_LIMIT).await)
            .await?;
        anyhow::Ok((start.elapsed(), answer.body))
    };
    stage
        .perform(step, async {
            let ((v4_outage, v4_body), (v6_outage, _)) = tokio::try_join!(ask(&v4), ask(&v6))?;
            let seen = format!(
                "outage {:.1} s over IPv4, {:.1} s over IPv6; {v4_body:?}",
                v4_outage.as_secs_f64(),
                v6_outage.as_secs_f64()
            );
            Ok(((), seen))
        })
        .await?;
    let step = Step::new("another MAC seen by the client", 10, MOORING);
    stage
        .perform(step, async {
            for address in [IpAddr::from(addresses.v4), addresses.v6.into()] {
                let now = cluster.seen_at(address)?;
                let now = now.context("the client knows no neighbour")?.name();
                ensure!(now != name, "the client still believes in {name}");
            }
            Ok(((), neighbours(stage, cluster, addresses)?))
        })
        .await?;
    Ok(())
}
