//! Servers in the public network.

use super::*;

const SERVERS: [&str; 2] = ["5f1b0c2509268bc77fd06d21", "5f1b0c2509268bc77fd06d22"];

/// A cluster whose Nodes run on these servers.
fn nodes(servers: &[&str]) -> OpenGuard {
    OpenGuard {
        nodes: servers.iter().map(|server| node(server)).collect(),
        ..OpenGuard::default()
    }
}

impl TestCluster {
    /// A process that attaches Nodes or does not, and has an address in the network.
    async fn serving(attaches_nodes: bool) -> (Self, IpBlocks) {
        let mut cluster = Self::new(true).with(&["web"]);
        cluster.settings.flags.attaches_nodes = attaches_nodes;
        let blocks = cluster.start("one");
        cluster.provided(&blocks, "web").await;
        cluster.cloud.writes();
        (cluster, blocks)
    }

    /// The servers in the network.
    fn members(&self) -> Vec<String> {
        let account = self.cloud.0.lock().unwrap();
        account.network.as_ref().unwrap().servers.clone().unwrap()
    }

    /// Somebody makes a server a member.
    fn add_member(&self, server: &str) {
        let mut account = self.cloud.0.lock().unwrap();
        let members = account.network.as_mut().unwrap().servers.as_mut();
        members.unwrap().push(server.to_owned());
    }
}

#[tokio::test(start_paused = true)]
async fn servers_join_a_busy_network_within_seconds() {
    let (cluster, blocks) = TestCluster::serving(true).await;
    let told = tokio::time::timeout(
        Duration::ZERO,
        blocks.lock().await.state.has_garbage.notified(),
    )
    .await;
    assert!(told.is_ok(), "somebody is to look after them at once");
    cluster.cloud.0.lock().unwrap().busy = 3;
    let context = nodes(&SERVERS);
    let mut took = Duration::ZERO;
    while cluster.members().len() < 2 {
        let pause = blocks.round(&context).await.unwrap();
        advance(pause).await;
        took += pause;
    }
    let [first, second] = SERVERS.map(|server| format!("add {server} to net"));
    let tries = [&first, &first, &first, &first, &second];
    assert_eq!(cluster.cloud.writes().iter().collect::<Vec<_>>(), tries);
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn judges_membership_by_a_listing_younger_than_the_node() {
    for attaches_nodes in [false, true] {
        let (cluster, blocks) = TestCluster::serving(attaches_nodes).await;
        // The server is set up outside of the cluster, and then its kubelet registers.
        let [member, non_member] = SERVERS;
        cluster.add_member(member);
        let context = nodes(&[member]);
        blocks.round_of_nodes(&context).await.unwrap();
        assert_eq!(*context.told.lock().unwrap(), []);
        assert!(cluster.cloud.writes().is_empty());
        let context = nodes(&[member, non_member]);
        blocks.round_of_nodes(&context).await.unwrap();
        let told = context.told.lock().unwrap().clone();
        let added = cluster.cloud.writes();
        if attaches_nodes {
            assert_eq!(added, [format!("add {non_member} to net")]);
        } else {
            let [(reason, note)] = &told[..] else {
                panic!("{told:?}")
            };
            assert_eq!(*reason, reasons::NODE_NOT_IN_NETWORK);
            assert!(
                note.contains(non_member) && !note.contains(member),
                "{note}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn asks_once_about_nodes_that_stay_outside() {
    let (cluster, blocks) = TestCluster::serving(false).await;
    let context = nodes(&SERVERS);
    for _ in 0..5 {
        blocks.round_of_nodes(&context).await.unwrap();
        advance(Duration::from_secs(1)).await;
    }
    let calls = cluster.cloud.0.lock().unwrap().calls.clone();
    assert_eq!(calls, ["get network net"]);
    assert_eq!(context.told.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn takes_already_a_member_for_success() {
    let (cluster, blocks) = TestCluster::serving(true).await;
    let [server, next] = SERVERS;
    cluster.add_member(server);
    cluster.cloud.0.lock().unwrap().hides_members = true;
    let context = nodes(&SERVERS);
    for _ in 0..5 {
        let pause = blocks.round_of_nodes(&context).await.unwrap();
        advance(pause).await;
    }
    assert_eq!(*context.told.lock().unwrap(), []);
    let added = [server, next].map(|server| format!("add {server} to net"));
    assert_eq!(cluster.cloud.writes(), added);
}

/// The cloud refuses one server although the network takes changes.
#[tokio::test(start_paused = true)]
async fn refused_server_keeps_no_other_out() {
    let (cluster, blocks) = TestCluster::serving(true).await;
    let [refused, other] = SERVERS;
    cluster
        .cloud
        .0
        .lock()
        .unwrap()
        .refused
        .insert(refused.to_owned());
    let context = nodes(&SERVERS);
    blocks.round_of_nodes(&context).await.unwrap();
    assert_eq!(cluster.members(), [other]);
    assert_eq!(*context.told.lock().unwrap(), [], "it may be over soon");
    for _ in 0..5 {
        let pause = blocks.round_of_nodes(&context).await.unwrap();
        advance(pause).await;
    }
    let told = context.told.lock().unwrap().clone();
    let [(reason, note)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(*reason, reasons::NODE_NOT_IN_NETWORK);
    assert!(
        note.contains(refused) && note.contains("in use by a member"),
        "{note}"
    );
    cluster.cloud.0.lock().unwrap().refused.clear();
    advance(LONG).await;
    blocks.round_of_nodes(&context).await.unwrap();
    assert_eq!(cluster.members(), [other, refused]);
}
