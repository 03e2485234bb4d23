//! Many addresses on one node. (The specification's thousand are for a machine with more than two
//! cores: here two hundred, of a hundred Services.)

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use mooring_test_netlab::failover::FailoverCluster;
use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::netlab::{claims, raw::question};
use mooring_test_support::figures::figure_time;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::failover::alone::{MS, SOON};
use crate::failover::connections::keep;

const SERVICES: u8 = 100;

fn all(cluster: &FailoverCluster) -> Vec<IpAddr> {
    let numbers = FailoverCluster::FIRST..FailoverCluster::FIRST + SERVICES;
    numbers
        .flat_map(|number| cluster.numbered(number))
        .collect()
}

/// Who has spoken for each address since then, last.
fn speakers(cluster: &FailoverCluster, since: Instant) -> BTreeMap<IpAddr, String> {
    let frames = cluster.capture.since(since);
    let last = |address: IpAddr| {
        let claims = claims::claims(&frames, address);
        Some((address, cluster.name_of(claims.last()?.mac)))
    };
    all(cluster).into_iter().filter_map(last).collect()
}

/// Waits until n1 answers for all of them, and nobody else for any.
async fn one_node_speaks_for(cluster: &FailoverCluster, addresses: &[IpAddr]) {
    eventually("n1 speaks for all", SOON * 2, async || {
        let asked = Instant::now();
        for address in addresses {
            let frame = question(&cluster.netlab.client, *address);
            cluster.netlab.client.inject(&frame).ok()?;
        }
        until(asked + 300 * MS).await;
        let speakers = speakers(cluster, asked);
        let others = speakers.values().filter(|name| *name != "n1").count();
        (speakers.len() == addresses.len() && others == 0).then_some(())
    })
    .await;
}

pub async fn case_26_two_hundred_addresses_of_a_dead_node_are_all_announced_in_time(
    cluster: &mut FailoverCluster,
) {
    let addresses = all(cluster);
    for name in ["n2", "n3"] {
        cluster.exclude(name).await.unwrap();
    }
    one_node_speaks_for(cluster, &addresses).await;
    cluster.include_all().await.unwrap();
    cluster.members_take_part().await.unwrap();
    // They stay where they are.
    one_node_speaks_for(cluster, &addresses).await;

    let crash = Instant::now();
    cluster.crash("n1").unwrap();
    let dead = cluster.mac_of("n1");
    let first = |address: IpAddr| {
        let frames = cluster.capture.since(crash);
        let heirs = claims::announcements(&frames, address);
        heirs.iter().find(|claim| claim.mac != dead).copied()
    };
    eventually("all are announced", SOON, async || {
        addresses.iter().all(|address| first(*address).is_some())
    })
    .await;
    let times = addresses.iter().filter_map(|address| first(*address));
    let mut times: Vec<Duration> = times.map(|claim| claim.at - crash).collect();
    times.sort();
    let (first, last) = (times[0], times[times.len() - 1]);
    figure_time(
        "The first of 200 addresses of a crashed node is announced after",
        first,
    );
    figure_time(
        "The last of 200 addresses of a crashed node is announced after",
        last,
    );
    assert!(last - first <= 1000 * MS, "{first:?} to {last:?}");
    if cluster.watchdog.worst(crash, Instant::now()) <= 2 * mooring_test_netlab::netlab::TOLERABLE {
        assert!(last <= 1500 * MS, "{last:?}");
    }
}

/// Evening out leaves connections where they began: of one node's 100 Services two thirds move.
pub async fn connections_outlive_evening_out(cluster: &mut FailoverCluster) {
    const WATCHED: u8 = 10;
    keep(cluster, json!("15m")).await;
    let numbers = FailoverCluster::FIRST..=FailoverCluster::FIRST + WATCHED - 1;
    let seen = cluster.suffer_even_out(numbers, 20).await.unwrap();
    println!("{seen:?}");
    assert_eq!((seen.connections, seen.broken), (20, 0), "{seen:?}");
    keep(cluster, Value::Null).await;
}
