//! What the cloud lists in a way that cannot be read hides nothing else, and counts as there.

use super::*;

/// A cluster of two Services, each with a block, of which the first cannot be read any more.
async fn half_readable(setting: &str) -> (TestCluster, IpBlocks) {
    let mut cluster = TestCluster::new(false).with(&["a", "b"]);
    cluster.settings.setting = setting.parse().unwrap();
    cluster.settings.location = Some("PHX".to_owned());
    let blocks = cluster.start("one");
    for name in ["a", "b"] {
        cluster.provided(&blocks, name).await;
    }
    cluster.cloud.writes();
    is_odd(&cluster, "b1");
    // Whoever leads next knows nothing but what is listed.
    let blocks = cluster.start("two");
    (cluster, blocks)
}

fn is_odd(cluster: &TestCluster, id: &str) {
    let mut account = cluster.cloud.0.lock().unwrap();
    account.unreadable.insert(id.to_owned());
    let network = account.network.as_mut().unwrap();
    network.unread = vec!["an entry of a listing is a text, and no object".to_owned()];
    network.blocks.retain(|(listed, _)| listed != id);
}

fn is_readable(cluster: &TestCluster) {
    let mut account = cluster.cloud.0.lock().unwrap();
    account.unreadable.clear();
    let cidr = account.blocks["b1"].cidr;
    let network = account.network.as_mut().unwrap();
    network.unread.clear();
    network.blocks.push(("b1".to_owned(), cidr));
}

fn settings_of_all() -> [String; 2] {
    ["bgp://".to_owned(), format!("kube-vip://{NETWORK}")]
}

#[tokio::test(start_paused = true)]
async fn unreadable_block_counts_as_there_and_hides_no_other() {
    for setting in settings_of_all() {
        let (cluster, blocks) = half_readable(&setting).await;
        for _ in 0..4 {
            let waiting = cluster.pass(&blocks, "a").await.unwrap();
            assert!(matches!(waiting, Progress::Wait { .. }), "{waiting:?}");
            assert_eq!(cluster.provided(&blocks, "b").await, "203.0.113.18");
            assert!(cluster.summary(&blocks, "a").await.notices.is_empty());
            blocks.round(&OpenGuard::default()).await.unwrap();
            advance(LONG).await;
            blocks.observe_anew();
        }
        assert!(cluster.cloud.writes().is_empty(), "{setting}");
        is_readable(&cluster);
        advance(LONG).await;
        blocks.observe_anew();
        assert_eq!(cluster.provided(&blocks, "a").await, "203.0.113.10");
        assert!(cluster.cloud.writes().is_empty(), "{setting}");
    }
}

/// The network shows that it is there, and nobody says that it bears no tags.
#[tokio::test(start_paused = true)]
async fn unreadable_block_of_the_network_serves_on() {
    let (cluster, _) = half_readable(&format!("kube-vip://{NETWORK}")).await;
    is_readable(&cluster);
    let unreadable = "b1".to_owned();
    cluster
        .cloud
        .0
        .lock()
        .unwrap()
        .unreadable
        .insert(unreadable);
    let blocks = cluster.start("three");
    assert_eq!(cluster.provided(&blocks, "a").await, "203.0.113.10");
    assert!(cluster.summary(&blocks, "a").await.notices.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_bought_while_a_block_cannot_be_read() {
    let (cluster, blocks) = half_readable("bgp://").await;
    cluster.put(service("new"));
    match cluster.pass(&blocks, "new").await {
        Err(ReconcileError::Refused(why)) => assert!(why.contains("b1 is odd"), "{why}"),
        other => panic!("{other:?}"),
    }
    let context = OpenGuard::default();
    let pause = blocks.round(&context).await.unwrap();
    assert!(pause <= Duration::from_secs(60), "{pause:?}");
    is_readable(&cluster);
    advance(pause).await;
    blocks.round(&context).await.unwrap();
    assert_eq!(*context.freed.lock().unwrap(), 1);
    assert_eq!(cluster.provided(&blocks, "new").await, "203.0.113.26");
}

#[tokio::test(start_paused = true)]
async fn service_of_an_unreadable_block_does_not_go() {
    for setting in settings_of_all() {
        let (cluster, blocks) = half_readable(&setting).await;
        let refused = blocks.prepare_removal(&cluster.request("a")).await;
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("b1 is odd"), "{refused}");
        cluster.removed(&blocks, "b").await;
        assert_eq!(cluster.cloud.writes(), ["mark b2"]);
        is_readable(&cluster);
        advance(LONG).await;
        cluster.removed(&blocks, "a").await;
        assert_eq!(cluster.cloud.writes(), ["mark b1"]);
    }
}

/// What was just bought is believed in, however it is described.
#[tokio::test(start_paused = true)]
async fn block_that_is_described_oddly_after_its_purchase_fails_no_listing() {
    let cluster = TestCluster::new(false).with(&["a", "b"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "b").await;
    while cluster.bought() < 2 {
        if let Progress::Wait { after, .. } = cluster.pass(&blocks, "a").await.unwrap() {
            advance(after).await;
        }
    }
    is_odd(&cluster, "b2");
    advance(LONG).await;
    blocks.observe_anew();
    assert_eq!(cluster.provided(&blocks, "b").await, "203.0.113.10");
    assert_eq!(cluster.bought(), 2);
}
