//! etcd is restored from a backup, and the nodes go on.

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use mooring_test_netlab::failover::{APP, FailoverCluster};

use crate::failover::api::assert_unnoticed;

/// The Services that are made after the backup, and after it was restored.
const LATER: u8 = 114;
const AFTER: u8 = 115;

/// The backup names a voter that has died since. Nothing moves, that voter is replaced once more, and
/// central and the daemons hear of what is new.
pub async fn a_restored_backup_moves_nothing_and_freezes_nobody(cluster: &mut FailoverCluster) {
    let backup = cluster.netlab.back_up().await.unwrap();
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let voters = cluster.voters().await.unwrap();
    let mut others = voters.iter().filter(|name| **name != speaker);
    let dead = others.next().expect("there are three voters").clone();
    cluster.kill(&dead);
    cluster.replaced(&dead).await.unwrap();
    cluster.service("later", LATER, false).await.unwrap();

    watch.begin();
    cluster.netlab.restore(&backup).await.unwrap();
    // The backup is in force. Who votes may be right again already.
    let services = Api::<Service>::namespaced(cluster.netlab.admin(), APP);
    assert!(services.get_opt("later").await.unwrap().is_none());
    cluster.replaced(&dead).await.unwrap();
    cluster.restart_central_if_ended().await.unwrap();
    cluster.service("after", AFTER, false).await.unwrap();
    cluster.speaker_of(AFTER).await.unwrap();
    let seen = watch.end(cluster);
    println!("{seen}");
    assert_unnoticed(&seen);
    assert_eq!(cluster.lines_with_rust_values(), [""; 0]);
}
