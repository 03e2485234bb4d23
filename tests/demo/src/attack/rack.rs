//! Cables are pulled, and the addresses go with the carrier.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use super::super::console::{Step, short};
use super::{Attack, Demo};
use mooring_test_netlab::failover::FailoverCluster;
use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::netlab::Unplugged;
use mooring_test_support::wait::try_eventually;

const WHO: &str = "an unplugged rack";

/// For how long a cable is out.
const OUT: Duration = Duration::from_secs(2);

/// Within which a node takes part again once its address is back.
const BACK: Duration = Duration::from_secs(1);

/// When is given up that all be well again.
const LIMIT: Duration = Duration::from_secs(15);

/// Cables one after the other, and then all at once.
pub(super) async fn unplug(demo: &mut Demo<'_>, cluster: &mut FailoverCluster) -> Result<()> {
    demo.console
        .chapter("An unplugged rack: cables are pulled, and the addresses go with the carrier");
    let first = cluster.speaker().await?;
    one_by_one(demo, cluster).await?;
    all_at_once(demo, cluster).await?;
    let step = Step::new("all nodes ready", 60, super::MOORING);
    demo.console
        .run(step, async {
            cluster.members_take_part().await?;
            Ok(((), "status.nodes of the L2Network says so".to_owned()))
        })
        .await?;
    move_back(cluster, &first).await
}

/// Moves the address back to where it was first. It would move by itself a minute after the rack came
/// back, since shares are evened out, and that would be taken for a consequence of what follows.
async fn move_back(cluster: &mut FailoverCluster, first: &str) -> Result<()> {
    let others: Vec<_> = cluster.members().filter(|name| *name != first).collect();
    for name in others {
        cluster.exclude(name).await?;
    }
    let moved = try_eventually(LIMIT, async || {
        let speaker = cluster.speaker().await?;
        ensure!(speaker == first, "{speaker} speaks");
        Ok(())
    });
    moved
        .await
        .map_err(|reason| anyhow!("the address does not move to {first}: {reason}"))?;
    cluster.include_all().await?;
    cluster.settled().await
}

/// What had gone wrong: of three voters two are unplugged and plugged in, one after the other.
async fn one_by_one(demo: &mut Demo<'_>, cluster: &FailoverCluster) -> Result<()> {
    let attack = Attack {
        who: WHO,
        tried: "two of three voters are unplugged and plugged in, one after the other",
        before: "all addresses dark, for as long as the daemons had run: a node that came back was not heard",
        limit: 45,
    };
    let console = demo.console;
    demo.withstand(attack, async |_| {
        let (mut watch, speaker) = cluster.watch_speaker().await?;
        let mut voters = cluster.voters().await?;
        // The speaker first, if it votes.
        voters.sort_by_key(|name| *name != speaker);
        ensure!(voters.len() == 3, "the voters are {voters:?}");
        watch.begin();
        let mut longest = Duration::ZERO;
        for name in voters.iter().take(2) {
            let host = cluster.netlab.node(name);
            let pulled = Instant::now();
            let unplugged = host.unplug()?;
            until(pulled + OUT).await;
            watch.is_well(Duration::from_millis(300), LIMIT).await?;
            let back = host.plug_in(&unplugged)?;
            let took = takes_part(cluster, name, back).await?;
            console.event(&format!(
                "{name}: out for {}; takes part {} after its address was back",
                short(back - pulled),
                short(took)
            ));
            longest = longest.max(took);
        }
        watch.is_well(Duration::from_millis(500), LIMIT).await?;
        let seen = watch.end(cluster);
        ensure!(seen.two.is_zero(), "two nodes answered: {seen}");
        ensure!(
            seen.dark <= BACK + seen.stall,
            "nobody answered for too long: {seen}"
        );
        Ok(format!(
            "packets were lost for {} in all; each node takes part again within {} of its \
             address being back",
            short(seen.outage),
            short(longest)
        ))
    })
    .await
}

/// All nodes lose their cables, and come back one after the other.
async fn all_at_once(demo: &mut Demo<'_>, cluster: &FailoverCluster) -> Result<()> {
    let step = Step::new("the whole rack comes back", 60, super::MOORING);
    let console = demo.console;
    let comes_back = console.run(step, async {
        let (mut watch, _) = cluster.watch_speaker().await?;
        // Voters first: the second of three makes a majority.
        let mut names = cluster.voters().await?;
        let others = cluster
            .members()
            .filter(|name| !names.iter().any(|voter| voter == name));
        let others: Vec<String> = others.map(ToOwned::to_owned).collect();
        names.extend(others);
        watch.begin();
        let mut cables: Vec<(&String, Unplugged)> = Vec::new();
        for name in &names {
            cables.push((name, cluster.netlab.node(name).unplug()?));
        }
        until(watch.began() + OUT).await;
        console.event(&format!("{} are out: nobody answers", names.join(", ")));
        let (mut plugged, mut longest) = (Vec::new(), Duration::ZERO);
        for (name, unplugged) in &cables {
            let back = cluster.netlab.node(name).plug_in(unplugged)?;
            plugged.push(*name);
            if plugged.len() == 1 {
                console.event(&format!(
                    "{name}: plugged in; one voter of three is no majority"
                ));
                continue;
            }
            // The first one could not before.
            let waiting = if plugged.len() == 2 {
                &plugged[..]
            } else {
                &plugged[plugged.len() - 1..]
            };
            for name in waiting {
                let took = takes_part(cluster, name, back).await?;
                console.event(&format!(
                    "{name}: takes part {} after the address was back",
                    short(took)
                ));
                longest = longest.max(took);
            }
        }
        watch.is_well(Duration::from_millis(500), LIMIT).await?;
        let seen = watch.end(cluster);
        ensure!(seen.two.is_zero(), "two nodes answered: {seen}");
        let told = format!(
            "dark for {}, of which {} without any cable; the last node took {}",
            short(seen.dark),
            short(OUT),
            short(longest)
        );
        Ok(((), told))
    });
    comes_back.await
}

/// How long it takes from then until a node says in a heartbeat that it hears most of the voters, and
/// they hear it.
async fn takes_part(cluster: &FailoverCluster, name: &str, since: Instant) -> Result<Duration> {
    let took = try_eventually(LIMIT, async || cluster.took_part(name, since)).await;
    let missing = || {
        format!(
            "{name} takes no part {} after its address was back",
            short(LIMIT)
        )
    };
    let at = took.ok().with_context(missing)?;
    let took = at - since;
    // Where the machine was late itself, by so much later.
    let limit = BACK + cluster.watchdog.worst(since, at);
    ensure!(
        took <= limit,
        "{name} takes part {} after its address was back",
        short(took)
    );
    Ok(took)
}
