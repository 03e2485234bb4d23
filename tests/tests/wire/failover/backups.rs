//! etcd is restored from a backup, and the nodes go on.

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use mooring_tests::failover::{APP, Scene};

use crate::failover::api::assert_unnoticed;

/// The Services that are made after the backup, and after it was restored.
const LATER: u8 = 114;
const AFTER: u8 = 115;

/// The backup names a voter that has died since. Nothing moves, that voter is replaced once more, and
/// central and the daemons hear of what is new.
pub async fn a_restored_backup_moves_nothing_and_freezes_nobody(scene: &mut Scene) {
    let backup = scene.cluster.back_up().await.unwrap();
    let (mut watch, speaker) = scene.watch_speaker().await.unwrap();
    let voters = scene.voters().await.unwrap();
    let mut others = voters.iter().filter(|name| **name != speaker);
    let dead = others.next().expect("there are three voters").clone();
    scene.kill(&dead);
    scene.replaced(&dead).await.unwrap();
    scene.service("later", LATER, false).await.unwrap();

    watch.begin();
    scene.cluster.restore(&backup).await.unwrap();
    // The backup is in force. Who votes may be right again already.
    let services = Api::<Service>::namespaced(scene.cluster.admin(), APP);
    assert!(services.get_opt("later").await.unwrap().is_none());
    scene.replaced(&dead).await.unwrap();
    scene.service("after", AFTER, false).await.unwrap();
    scene.speaker_of(AFTER).await.unwrap();
    let seen = watch.end(scene);
    println!("{seen}");
    assert_unnoticed(&seen);
    assert_eq!(scene.lines_with_rust_values(), [""; 0]);
}
