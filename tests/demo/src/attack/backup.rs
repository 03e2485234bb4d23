//! etcd is restored from a backup.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::Api;

use super::super::console::short;
use super::{Attack, Demo};
use mooring_test_netlab::failover::{APP, FailoverCluster};

/// The number of the Service that is made after the backup was restored.
const AFTER: u8 = 115;

/// One that is made between the backup and that.
const LATER: u8 = 116;

/// A voter dies after the backup, and the backup is restored.
pub(super) async fn restore(demo: &mut Demo<'_>, cluster: &mut FailoverCluster) -> Result<()> {
    demo.console
        .chapter("A restored backup: etcd goes back in time");
    let attack = Attack {
        who: "a restored backup",
        tried: "of the voters that it names, one has died since",
        before: "the voters were frozen: no proposal fitted, and dead voters were never replaced",
        limit: 150,
    };
    let console = demo.console;
    demo.withstand(attack, async |_| {
        let control_plane = cluster.netlab.control_plane();
        let backup = control_plane.back_up().await?;
        console.event("etcd is backed up");
        let (mut watch, speaker) = cluster.watch_speaker().await?;
        let voters = cluster.voters().await?;
        let mut others = voters.iter().filter(|name| **name != speaker);
        let dead = others.next().context("there is one voter only")?.clone();
        cluster.kill(&dead);
        cluster.replaced(&dead).await?;
        let now = cluster.voters().await?.join(", ");
        console.event(&format!("the daemon on {dead} is killed; {now} vote now"));
        cluster.service("later", LATER, false).await?;

        watch.begin();
        cluster.netlab.restore(&backup).await?;
        // Who votes may be right again already.
        let services = Api::<Service>::namespaced(cluster.netlab.admin(), APP);
        let later = services.get_opt("later").await?;
        ensure!(later.is_none(), "the backup is not in force");
        let names = voters.join(", ");
        console.event(&format!("the backup is restored, which names {names} as voters"));
        cluster.replaced(&dead).await?;
        let took = watch.began().elapsed();
        let now = cluster.voters().await?.join(", ");
        console.event(&format!("{dead} is replaced once more: {now} vote"));
        cluster.service("after", AFTER, false).await?;
        let speaks = cluster.speaker_of(AFTER).await?;
        console.event(&format!("a Service made by now has an address, and {speaks} speaks for it"));
        let seen = watch.end(cluster);
        ensure!(seen.two.is_zero(), "two nodes answered: {seen}");
        ensure!(
            (seen.moves, seen.broken) == (0, 0),
            "an address moved, or a connection broke: {seen}"
        );
        ensure!(
            !seen.counts() || (seen.outage.is_zero() && seen.dark.is_zero()),
            "the clients noticed it: {seen}"
        );
        Ok(format!(
            "the clients noticed nothing, the dead voter was replaced again {} after the restore began, and a \
             new Service is served",
            short(took)
        ))
    })
    .await
}
