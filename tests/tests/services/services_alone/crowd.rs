//! Many Services at once, few addresses, two replicas, and a leader that is killed again and again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use mooring_common::names::reasons;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_cluster::test_namespace::{TestNamespace, ingress, is_served, is_untouched};
use mooring_test_support::wait::eventually;

const SERVICES: usize = 50;
const ADDRESSES: usize = 40;
/// How many are served when the leader is killed.
const KILLS: [usize; 3] = [5, 15, 28];
/// A takeover costs 3 s.
const LIMIT: Duration = Duration::from_secs(40);

/// How many Services are served. Panics if two have the same address at this moment.
async fn served(namespace: &TestNamespace) -> usize {
    let mut owners: HashMap<String, String> = HashMap::new();
    let mut served = 0;
    for service in namespace.all().await {
        let name = service.metadata.name.clone().unwrap_or_default();
        served += usize::from(is_served(&service).is_ok());
        for address in ingress(&service) {
            if let Some(other) = owners.insert(address.clone(), name.clone()) {
                panic!("{other} and {name} both have {address}");
            }
        }
    }
    served
}

async fn served_reach(namespace: &TestNamespace, count: usize) {
    let what = format!("{count} Services are served");
    eventually(&what, LIMIT, async || -> Result<(), String> {
        let found = served(namespace).await;
        if found >= count {
            Ok(())
        } else {
            Err(format!("{found} are"))
        }
    })
    .await;
}

/// Whoever leads, found by the log.
fn leader(replicas: &[Central]) -> Option<usize> {
    replicas.iter().position(|replica| {
        replica.process.is_running() && replica.process.log().contains("leading")
    })
}

#[tokio::test]
async fn no_address_is_given_out_twice_however_often_the_leader_is_killed() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(40).await;
    let flags = || CentralFlags::replica().with("--concurrent-service-syncs=8");
    let mut replicas = vec![
        cluster.start_central(flags()).await,
        cluster.start_central(flags()).await,
    ];
    let start = Instant::now();
    let names: Vec<_> = (0..SERVICES).map(|n| format!("web-{n}")).collect();
    let stage_ref = &namespace;
    let created = futures::stream::iter(&names)
        .for_each_concurrent(8, async |name| stage_ref.create(name).await);
    let killed = async {
        for count in KILLS {
            served_reach(stage_ref, count).await;
            // One whose lease has run out on a starved machine has ended.
            let leads = async || leader(&replicas).ok_or("nobody leads");
            let leading = eventually("somebody leads", LIMIT, leads).await;
            replicas[leading].process.kill();
            println!("killed the leader with {} served", served(stage_ref).await);
            replicas[leading] = cluster.start_central(flags()).await;
        }
    };
    tokio::join!(created, killed);
    served_reach(&namespace, ADDRESSES).await;
    mooring_test_support::figures::figure_time(
        "40 of 50 Services served despite three kills of the leader",
        start.elapsed(),
    );

    let mut lucky = Vec::new();
    let mut waiting = Vec::new();
    for service in namespace.all().await {
        let name = service.metadata.name.clone().unwrap();
        if is_served(&service).is_ok() {
            lucky.push(name);
        } else {
            assert!(ingress(&service).is_empty(), "{service:?}");
            waiting.push((name, is_untouched(&service)));
        }
    }
    assert_eq!(
        (lucky.len(), waiting.len()),
        (ADDRESSES, SERVICES - ADDRESSES)
    );
    for (name, _) in &waiting {
        namespace
            .told(name, reasons::SYNC_LOAD_BALANCER_FAILED)
            .await;
    }
    namespace.network_uses(&namespace.network, 40).await;
    for name in &lucky[..waiting.len()] {
        namespace.delete(name).await;
    }
    for (name, _) in &waiting {
        namespace.served(name).await;
    }
    assert_eq!(served(&namespace).await, ADDRESSES);
    namespace.network_uses(&namespace.network, 40).await;
    cluster.finish().await;
}
