//! etcd is restored from a backup, and the nodes go on.

use std::time::Duration;

use anyhow::ensure;
use mooring_tests::failover::Scene;
use mooring_tests::wait::eventually;

use crate::alone::{MS, SOON};
use crate::api::assert_unnoticed;

/// Long enough for a voter that has died to be replaced.
const REPLACED: Duration = Duration::from_secs(60);

/// The Services that are made after the backup, and after it was restored.
const LATER: u8 = 114;
const AFTER: u8 = 115;

/// The backup names a voter that has died since. Nothing moves, that voter is replaced once more, and
/// central and the daemons hear of what is new.
pub async fn a_restored_backup_moves_nothing_and_freezes_nobody(scene: &mut Scene) {
    let backup = scene.cluster.control_plane.back_up().await.unwrap();
    let (mut watch, speaker) = scene.watch_speaker().await.unwrap();
    let voters = scene.voters().await.unwrap();
    let mut others = voters.iter().filter(|name| **name != speaker);
    let dead = others.next().expect("there are three voters").clone();
    scene.kill(&dead);
    without(scene, &dead).await;
    scene.service("later", LATER, false).await.unwrap();

    watch.begin();
    scene.cluster.control_plane.restore(&backup).await.unwrap();
    let restored = scene.voters().await.unwrap();
    assert!(restored.contains(&dead), "{restored:?} is of the backup");
    without(scene, &dead).await;
    scene.service("after", AFTER, false).await.unwrap();
    let [v4, _] = scene.numbered(AFTER);
    let prober = scene.asker.prober_on(scene.interface(), v4).unwrap();
    eventually("somebody speaks for the new address", SOON, async || {
        prober.only_speaker(200 * MS)
    })
    .await;
    let seen = watch.end(scene);
    println!("{seen}");
    assert_unnoticed(&seen);
    assert_eq!(scene.lines_with_rust_values(), [""; 0]);
}

/// Waits until the API server names a majority of others as voters.
async fn without(scene: &Scene, dead: &str) {
    eventually("the dead voter is replaced", REPLACED, async || {
        let voters = scene.voters().await?;
        ensure!(
            voters.len() == 3 && !voters.iter().any(|name| name == dead),
            "{voters:?}"
        );
        Ok(())
    })
    .await;
}
