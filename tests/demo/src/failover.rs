//! The announcing node is taken down, and another answers.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::api::Api;
use mooring_common::l2_network::L2Network;

use super::console::{Console, Step};
use super::scenario::{Cast, MOORING};
use super::service::{Addresses, REQUEST_LIMIT, neighbours};

/// Who answers all questions for so long is the speaker.
const STEADY: Duration = Duration::from_millis(100);

/// Takes the node down at which the client sees the addresses, and waits for the answers of
/// another.
pub(super) async fn take_down(
    console: &Console,
    cast: &mut Cast,
    addresses: &Addresses,
) -> Result<()> {
    let seen = cast.cluster.seen_at(addresses.v4)?;
    let name = seen
        .context("no node is known to announce")?
        .name()
        .to_owned();
    console.chapter(&format!("The node that announces goes down: {name}"));
    let gone = cast.cluster.node(&name).mac();
    let client = &cast.cluster.client;
    let probers = [
        client.prober(addresses.v4.into())?,
        client.prober(addresses.v6.into())?,
    ];
    let step = Step::new("new neighbours ask, 50 times a second", 10, MOORING);
    console
        .run(step, async {
            for prober in &probers {
                let asked = async || {
                    let speaker = prober.only_speaker(STEADY);
                    ensure!(speaker == Some(gone), "answers come from {speaker:?}");
                    Ok(())
                };
                step.until(asked).await?;
            }
            Ok(((), format!("each is answered, by {name} alone")))
        })
        .await?;
    let start = Instant::now();
    cast.cluster.node(&name).pull_cable()?;
    // As in a power cut: nobody has time to say anything.
    for processes in [&mut cast.daemons, &mut cast.proxies] {
        if let Some(process) = processes.remove(&name) {
            process.kill();
        }
    }
    cast.kubelets.remove(&name);
    console.event(&format!(
        "{name}: cable pulled, mooring-node, kube-proxy and kubelet killed"
    ));
    console.event("the others miss its heartbeats, and agree that one of them speaks in its place");
    let step = Step::new("another node answers", 10, MOORING);
    console
        .run(step, async {
            for prober in &probers {
                let answered = async || {
                    let speaker = prober.only_speaker(STEADY);
                    let other = speaker.is_some_and(|mac| mac != gone);
                    ensure!(other, "answers come from {speaker:?}");
                    Ok(())
                };
                step.until(answered).await?;
            }
            let [v4, v6] = probers.map(|prober| prober.end(start).dark().as_secs_f64());
            Ok((
                (),
                format!("nobody answered for {v4:.2} s over IPv4, {v6:.2} s over IPv6"),
            ))
        })
        .await?;
    let cluster = &cast.cluster;
    let [v4, v6] = addresses.urls();
    let step = Step::new("answers come back", 30, MOORING);
    let client = &cluster.client;
    let ask = async |url: &str| {
        let answer = step
            .until(async || client.get_within(url, REQUEST_LIMIT).await)
            .await?;
        anyhow::Ok(answer.body)
    };
    console
        .run(step, async {
            let (v4_body, _) = tokio::try_join!(ask(&v4), ask(&v6))?;
            Ok(((), format!("{v4_body:?}, over IPv4 and IPv6")))
        })
        .await?;
    let step = Step::new("another MAC seen by the client", 10, MOORING);
    console
        .run(step, async {
            for address in [IpAddr::from(addresses.v4), addresses.v6.into()] {
                let now = cluster.seen_at(address)?;
                let now = now.context("the client knows no neighbour")?.name();
                ensure!(now != name, "the client still believes in {name}");
            }
            Ok(((), neighbours(console, cluster, addresses)?))
        })
        .await?;
    let step = Step::new("the L2Network says who speaks", 10, MOORING);
    let networks: Api<L2Network> = Api::all(cluster.admin());
    console
        .run(step, async {
            let told = step
                .until(async || {
                    let network = networks.get("lab").await?;
                    let speakers = network.status.and_then(|status| status.speakers);
                    let speakers = speakers.unwrap_or_default();
                    ensure!(speakers.contains("TakenOver"), "it says {speakers:?}");
                    Ok(speakers)
                })
                .await?;
            Ok(((), told))
        })
        .await?;
    Ok(())
}
