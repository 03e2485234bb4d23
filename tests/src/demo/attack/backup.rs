//! etcd is restored from a backup.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::Api;

use super::super::stage::short;
use super::{Attack, Demo};
use crate::failover::{APP, Scene};

/// The number of the Service that is made after the backup was restored.
const AFTER: u8 = 115;

/// One that is made between the backup and that.
const LATER: u8 = 116;

/// A voter dies after the backup, and the backup is restored.
pub(super) async fn restore(demo: &mut Demo<'_>, scene: &mut Scene) -> Result<()> {
    demo.stage
        .chapter("A restored backup: etcd goes back in time");
    let attack = Attack {
        who: "a restored backup",
        tried: "of the voters that it names, one has died since",
        before: "the voters were frozen: no proposal fitted, and dead voters were never replaced",
        limit: 150,
    };
    let stage = demo.stage;
    demo.withstand(attack, async |_| {
        let control_plane = scene.cluster.control_plane();
        let backup = control_plane.back_up().await?;
        stage.event("etcd is backed up");
        let (mut watch, speaker) = scene.watch_speaker().await?;
        let voters = scene.voters().await?;
        let mut others = voters.iter().filter(|name| **name != speaker);
        let dead = others.next().context("there is one voter only")?.clone();
        scene.kill(&dead);
        scene.replaced(&dead).await?;
        let now = scene.voters().await?.join(", ");
        stage.event(&format!("the daemon on {dead} is killed; {now} vote now"));
        scene.service("later", LATER, false).await?;

        watch.begin();
        scene.cluster.restore(&backup).await?;
        // Who votes may be right again already.
        let services = Api::<Service>::namespaced(scene.cluster.admin(), APP);
        let later = services.get_opt("later").await?;
        ensure!(later.is_none(), "the backup is not in force");
        let names = voters.join(", ");
        stage.event(&format!("the backup is restored, which names {names} as voters"));
        scene.replaced(&dead).await?;
        let took = watch.began().elapsed();
        let now = scene.voters().await?.join(", ");
        stage.event(&format!("{dead} is replaced once more: {now} vote"));
        scene.service("after", AFTER, false).await?;
        let speaks = scene.speaker_of(AFTER).await?;
        stage.event(&format!("a Service made by now has an address, and {speaks} speaks for it"));
        let seen = watch.end(scene);
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
