//! The Secret that the node daemons sign their heartbeats with: made where it is missing, by the
//! leader alone, and never changed.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_common::names::NAMESPACE;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::shipped::{CENTRAL_USER, Central, CentralFlags};
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::{TAKEOVER, new_holder};
use crate::leadership::lease::assert_only_leaders_wrote;

const NAME: &str = "mooring-heartbeat";

fn secrets(cluster: &Cluster) -> Api<Secret> {
    Api::namespaced(cluster.admin.clone(), NAMESPACE)
}

async fn replica(cluster: &Cluster) -> Central {
    let flag = format!("--heartbeat-secret={NAMESPACE}/{NAME}");
    cluster
        .start_central(CentralFlags::replica().with(flag))
        .await
}

/// The Secret, once it is there, and its only key.
async fn made(cluster: &Cluster) -> (Secret, String) {
    let secrets = secrets(cluster);
    let limit = SOON * 4;
    let secret = eventually("the Secret is made", limit, async || {
        secrets.get_opt(NAME).await.expect("an answer")
    })
    .await;
    let mut data = secret.data.clone().unwrap().into_iter();
    let (name, ByteString(key)) = data.next().unwrap();
    assert!(data.next().is_none(), "one key");
    assert_eq!(name, "key-1");
    let key = String::from_utf8(key).unwrap();
    assert!(key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()));
    (secret, key)
}

/// How often this replica has looked for the Secret.
async fn looks(cluster: &Cluster, central: &Central) -> usize {
    let log = cluster.audit().await;
    let looks = log.with_credential(&central.credential).of("secrets");
    looks.with_verb("get").len()
}

/// Waits until it has looked more often than so. It does so every 30 s.
async fn looked(cluster: &Cluster, central: &Central, before: usize) {
    eventually("it looks for the Secret", SOON * 6, async || {
        looks(cluster, central).await > before
    })
    .await;
}

#[tokio::test]
async fn pr_10_the_leader_makes_the_heartbeat_secret_once_and_never_changes_it() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let first = replica(&cluster).await;
    let before = new_holder(&cluster, None, SOON).await;
    let (secret, key) = made(&cluster).await;
    let version = |secret: &Secret| secret.metadata.resource_version.clone();

    // The next leader leaves it as it is.
    let second = replica(&cluster).await;
    first.process.kill();
    new_holder(&cluster, Some(&before), TAKEOVER).await;
    looked(&cluster, &second, 0).await;
    let kept = secrets(&cluster).get(NAME).await.unwrap();
    assert_eq!(version(&kept), version(&secret));

    // Nor does it mend one that its user has changed.
    let own =
        json!({ "data": { "key-1": null }, "stringData": { "mine": "a secret of their own" } });
    let (all, patch) = (secrets(&cluster), Patch::Merge(&own));
    let patched = all.patch(NAME, &PatchParams::default(), &patch).await;
    let changed = patched.unwrap();
    let before = looks(&cluster, &second).await;
    looked(&cluster, &second, before).await;
    let kept = secrets(&cluster).get(NAME).await.unwrap();
    assert_eq!(version(&kept), version(&changed));

    // One that is deleted is made again, with another key.
    let gone = DeleteParams::default();
    secrets(&cluster).delete(NAME, &gone).await.unwrap();
    let (_, next) = made(&cluster).await;
    assert_ne!(next, key);

    let log = cluster.audit().await.since(start);
    let writes = log.writes_by(CENTRAL_USER).of("secrets");
    assert_eq!(writes.len(), 2, "{}", writes.summary());
    assert!(
        writes
            .iter()
            .all(|record| record.verb == "create" && record.code == 201)
    );
    assert_only_leaders_wrote(&log);
    for log in [first.process.log(), second.process.log()] {
        assert!(!log.contains(&key) && !log.contains(&next));
    }
    drop(second);
    secrets(&cluster).delete(NAME, &gone).await.unwrap();
    cluster.finish().await;
}
