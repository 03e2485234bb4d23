//! What people do to an account by hand, and what an older controller has left in it.

use mooring_common::names::phoenixnap_tags as tags;

use super::super::super::api::Tag;
use super::super::super::api::ip_blocks::{Block, BlockStatus};
use super::super::ownership::{self, Owner};
use super::super::testing::{Account, CLUSTER, block, in_network, key};
use super::*;

/// What the Go controller leaves: a block of the Service's own, and its address in the spec.
fn upstream(cluster: &TestCluster, name: &str, number: u8) {
    let id = format!("up-{name}");
    let cidr = format!("203.0.113.{}/29", number * 8);
    let owner = Owner::Service(key(name));
    let block = Block {
        tags: ownership::of_new(CLUSTER, &owner),
        status: BlockStatus::Assigned,
        holder: in_network(NETWORK),
        ..block(&id, &cidr)
    };
    let mut account = cluster.cloud.0.lock().unwrap();
    let network = account.network.as_mut().unwrap();
    network.blocks.push((id.clone(), block.cidr));
    account.blocks.insert(id, block);
    drop(account);
    let address = format!("203.0.113.{}", number * 8 + 2);
    cluster.put(ServiceView {
        load_balancer_ip: Some(address),
        ..service(name)
    });
}

#[tokio::test(start_paused = true)]
async fn adopts_go_controllers_blocks_unchanged() {
    for sharing in [true, false] {
        let cluster = TestCluster::new(sharing);
        upstream(&cluster, "a", 20);
        upstream(&cluster, "b", 21);
        let blocks = cluster.start("one");
        assert_eq!(cluster.provided(&blocks, "a").await, "203.0.113.162");
        assert_eq!(cluster.provided(&blocks, "b").await, "203.0.113.170");
        assert!(cluster.cloud.writes().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn releases_block_marked_by_go_controller() {
    let cluster = TestCluster::new(true);
    upstream(&cluster, "a", 20);
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        let block = account.blocks.get_mut("up-a").unwrap();
        block.tags = ownership::marked(&block.tags);
    }
    let blocks = cluster.start("one");
    cluster.tended(&blocks).await;
    assert_eq!(
        cluster.cloud.writes(),
        ["detach up-a from net", "release up-a"]
    );
}

#[tokio::test(start_paused = true)]
async fn replaces_block_released_by_hand_after_two_listings() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        account.blocks.clear();
        account.network.as_mut().unwrap().blocks.clear();
    }
    cluster.cloud.writes();
    advance(Duration::from_secs(1)).await;
    blocks.observe_anew();
    let waiting = cluster.pass(&blocks, "web").await.unwrap();
    assert!(matches!(waiting, Progress::Wait { .. }), "{waiting:?}");
    assert_eq!(cluster.bought(), 1);
    advance(crate::engine::ip_allocation::APART).await;
    let shown = cluster.summary(&blocks, "web").await;
    assert_eq!(shown.notices[0].reason, reasons::IP_BLOCK_LOST);
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.18");
    assert_eq!(cluster.bought(), 2);
    advance(LONG).await;
    assert!(cluster.summary(&blocks, "web").await.notices.is_empty());
}

#[tokio::test(start_paused = true)]
async fn false_empty_listing_buys_nothing() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.cloud.0.lock().unwrap().shows_nothing = true;
    advance(Duration::from_secs(1)).await;
    blocks.observe_anew();
    // The network still says that it has the block.
    let provided = cluster.pass(&blocks, "web").await.unwrap();
    assert!(matches!(provided, Progress::Ensured(_)), "{provided:?}");
    let notices = cluster.summary(&blocks, "web").await.notices;
    assert_eq!(notices[0].reason, reasons::IP_BLOCK_UNTAGGED);
    advance(LONG).await;
    advance(Duration::from_secs(1)).await;
    blocks.observe_anew();
    cluster.pass(&blocks, "web").await.unwrap();
    assert_eq!(cluster.bought(), 1);
}

#[tokio::test(start_paused = true)]
async fn reports_and_reassigns_block_detached_by_hand() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        let block = account.blocks.get_mut("b1").unwrap();
        (block.status, block.holder) = (BlockStatus::Unassigned, None);
        account.network.as_mut().unwrap().blocks.clear();
    }
    cluster.cloud.writes();
    advance(Duration::from_secs(1)).await;
    blocks.observe_anew();
    let shown = cluster.summary(&blocks, "web").await;
    assert_eq!(shown.notices[0].reason, reasons::IP_BLOCK_DETACHED);
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
    assert_eq!(cluster.cloud.writes(), ["attach b1 to net"]);
}

#[tokio::test(start_paused = true)]
async fn blocks_move_to_newly_configured_network() {
    let mut cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.cloud.writes();
    cluster.settings.setting = "kube-vip://new".parse().unwrap();
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        let network = account.network.as_mut().unwrap();
        network.id = "new".to_owned();
        network.blocks.clear();
    }
    let blocks = cluster.start("two");
    let shown = cluster.summary(&blocks, "web").await;
    assert_eq!(shown.notices[0].reason, reasons::IP_BLOCK_MOVED);
    assert_eq!(shown.impact(), mooring_common::engine::Impact::Major);
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
    assert_eq!(
        cluster.cloud.writes(),
        ["detach b1 from net", "attach b1 to new"]
    );
}

#[tokio::test(start_paused = true)]
async fn leaves_old_block_in_foreign_network_until_removal() {
    let cluster = TestCluster::new(true);
    upstream(&cluster, "a", 20);
    cluster
        .cloud
        .0
        .lock()
        .unwrap()
        .blocks
        .get_mut("up-a")
        .unwrap()
        .holder = in_network("strange");
    let blocks = cluster.start("one");
    let refused = cluster.pass(&blocks, "a").await;
    assert!(
        matches!(refused, Err(ReconcileError::Refused(_))),
        "{refused:?}"
    );
    assert!(cluster.cloud.writes().is_empty());
    cluster.removed(&blocks, "a").await;
    cluster.tended(&blocks).await;
    let expected = [
        "tag delete",
        "mark up-a",
        "detach up-a from strange",
        "release up-a",
    ];
    assert_eq!(cluster.cloud.writes(), expected);
}

#[tokio::test(start_paused = true)]
async fn ignores_listed_blocks_of_other_clusters() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let foreign = Block {
        tags: vec![
            Tag::new("usage", "cloud-provider-phoenixnap-auto"),
            Tag::new("cluster", "another"),
            Tag::new("delete", "true"),
        ],
        ..block("foreign", "198.51.100.8/29")
    };
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        account.blocks.insert("foreign".to_owned(), foreign.clone());
    }
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.removed(&blocks, "web").await;
    let context = OpenGuard::default();
    for _ in 0..5 {
        blocks.round(&context).await.unwrap();
        advance(LONG).await;
    }
    let left = cluster.cloud.0.lock().unwrap().blocks.clone();
    assert_eq!(left.into_values().collect::<Vec<_>>(), [foreign]);
}

#[tokio::test(start_paused = true)]
async fn recreated_service_gets_new_block() {
    let cluster = TestCluster::new(false).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.removed(&blocks, "web").await;
    cluster.put(service("web"));
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.18");
    cluster.removed(&blocks, "web").await;
    cluster.tended(&blocks).await;
}

#[tokio::test(start_paused = true)]
async fn recreates_deleted_tag() {
    let cluster = TestCluster::new(false).with(&["a", "b"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "a").await;
    let has = |name| cluster.cloud.0.lock().unwrap().tags.contains(name);
    for (name, is_deletion) in [(ownership::names(false)[0], false), (tags::DELETE, true)] {
        cluster.cloud.0.lock().unwrap().take_tag(name);
        if is_deletion {
            cluster.removed(&blocks, "a").await;
        } else {
            cluster.provided(&blocks, "b").await;
        }
        assert!(has(name), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn reports_cloud_failure_and_backs_off() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    let fail = || {
        let mut account = cluster.cloud.0.lock().unwrap();
        for block in account.blocks.values_mut() {
            if block.status == BlockStatus::Assigning {
                (block.status, block.holder) = (BlockStatus::ErrorAssigning, None);
            }
        }
    };
    let mut attempts = 0;
    for _ in 0..60 {
        let _ = cluster.pass(&blocks, "web").await;
        let writes = cluster.cloud.writes();
        attempts += writes
            .iter()
            .filter(|call| call.starts_with("attach"))
            .count();
        fail();
        advance(Duration::from_secs(2)).await;
    }
    assert!((4..=8).contains(&attempts), "{attempts} in two minutes");
    let notices = cluster.summary(&blocks, "web").await.notices;
    assert_eq!(notices[0].reason, reasons::IP_BLOCK_FAILED);
    assert_eq!(cluster.bought(), 1);
}

const SERVER: &str = "5f1b0c2509268bc77fd06d21";

/// A cluster of one Node with an address, announced by BGP or on a network.
async fn serving(setting: &str) -> TestCluster {
    let mut cluster = TestCluster::new(false).with(&["web"]);
    cluster.settings.setting = setting.parse().unwrap();
    cluster.settings.location = Some("PHX".to_owned());
    cluster.nodes = vec![SERVER];
    cluster.cloud.0.lock().unwrap().servers = vec![SERVER.to_owned()];
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.cloud.writes();
    cluster
}

/// The credentials are those of another account, where there is nothing. Gives what was in the right one.
fn changes_account(cluster: &TestCluster) -> Account {
    let mut empty = Account::default();
    empty.servers.push("5f1b0c2509268bc77fd06dff".to_owned());
    std::mem::replace(&mut *cluster.cloud.0.lock().unwrap(), empty)
}

#[tokio::test(start_paused = true)]
async fn credentials_of_another_account_lose_no_address_of_bgp() {
    let cluster = serving("bgp://").await;
    let original = changes_account(&cluster);
    cluster.put(service("new"));
    let blocks = cluster.start("two");
    for _ in 0..4 {
        for name in ["web", "new"] {
            let refused = cluster.pass(&blocks, name).await.unwrap_err().to_string();
            assert!(refused.contains("another account"), "{refused}");
            assert!(refused.contains("PNAP_CLIENT_ID"), "{refused}");
        }
        advance(crate::engine::ip_allocation::APART).await;
        blocks.observe_anew();
    }
    assert!(cluster.cloud.writes().is_empty());
    assert!(
        blocks
            .prepare_removal(&cluster.request("web"))
            .await
            .is_err()
    );
    *cluster.cloud.0.lock().unwrap() = original;
    advance(LONG).await;
    blocks.observe_anew();
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
    assert!(cluster.cloud.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn keeps_service_under_credentials_of_another_account() {
    let network = format!("kube-vip://{NETWORK}");
    for setting in ["bgp://", &network] {
        let cluster = serving(setting).await;
        let original = changes_account(&cluster);
        let blocks = cluster.start("two");
        let refused = blocks.prepare_removal(&cluster.request("web")).await;
        let refused = refused.map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("another account"), "{refused}");
        *cluster.cloud.0.lock().unwrap() = original;
        advance(LONG).await;
        cluster.removed(&blocks, "web").await;
        assert_eq!(cluster.cloud.writes(), ["mark b1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn replaces_bgp_block_released_by_hand() {
    let cluster = serving("bgp://").await;
    cluster.cloud.0.lock().unwrap().blocks.clear();
    let blocks = cluster.start("two");
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.18");
    assert_eq!(cluster.bought(), 2);
}

#[tokio::test(start_paused = true)]
async fn removes_service_whose_network_and_block_are_gone() {
    let cluster = serving(&format!("kube-vip://{NETWORK}")).await;
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        account.blocks.clear();
        account.network = None;
    }
    let blocks = cluster.start("two");
    cluster.removed(&blocks, "web").await;
    assert!(cluster.cloud.writes().is_empty());
}

/// Without a network only a listing of all blocks shows one whose tags are gone, or that listings by tags lack.
#[tokio::test(start_paused = true)]
async fn bgp_block_without_tags_stays_with_its_service() {
    for has_tags in [false, true] {
        let cluster = serving("bgp://").await;
        {
            let mut account = cluster.cloud.0.lock().unwrap();
            account.shows_nothing = has_tags;
            if !has_tags {
                account.blocks.get_mut("b1").unwrap().tags.clear();
            }
        }
        let blocks = cluster.start("two");
        assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
        let notices = cluster.summary(&blocks, "web").await.notices;
        assert_eq!(notices[0].reason, reasons::IP_BLOCK_UNTAGGED);
        let calls = std::mem::take(&mut cluster.cloud.0.lock().unwrap().calls);
        let of_all = calls.iter().filter(|call| *call == "list all blocks");
        assert_eq!(of_all.count(), 1, "{calls:?}");
        for _ in 0..3 {
            advance(LONG).await;
            blocks.observe_anew();
            assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
        }
        assert_eq!(cluster.bought(), 1);
        // It is given back by hand.
        {
            let mut account = cluster.cloud.0.lock().unwrap();
            account.shows_nothing = false;
            account.blocks.clear();
        }
        advance(LONG).await;
        blocks.observe_anew();
        assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.18");
    }
}

/// What the cloud shows without its location was bought once, and is not bought again at each pass.
#[tokio::test(start_paused = true)]
async fn block_without_location_is_bought_once() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    for _ in 0..8 {
        for block in cluster.cloud.0.lock().unwrap().blocks.values_mut() {
            block.location.clear();
        }
        match cluster.pass(&blocks, "web").await {
            Ok(Progress::Wait { after, .. }) => advance(after).await,
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                let told = error.to_string();
                assert!(
                    told.contains("IP block b1") && told.contains("give it back"),
                    "{told}"
                );
                advance(LONG).await;
                blocks.observe_anew();
            }
        }
    }
    assert_eq!(cluster.bought(), 1);
}

/// The network spells its location otherwise than the configuration.
#[tokio::test(start_paused = true)]
async fn network_location_is_compared_without_case() {
    let mut cluster = TestCluster::new(true).with(&["web"]);
    cluster.settings.location = Some("PHX".to_owned());
    let spell = |location: &str| {
        let mut account = cluster.cloud.0.lock().unwrap();
        location.clone_into(&mut account.network.as_mut().unwrap().location);
    };
    spell("phx");
    let blocks = cluster.start("one");
    assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
    spell("ASH");
    let refused = cluster
        .pass(&cluster.start("two"), "web")
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("PNAP_LOCATION=PHX"),
        "{refused}"
    );
}
