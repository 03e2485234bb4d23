//! Connections when an address moves from a node that lives: `spec.keepConnections`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::L2Network;
use mooring_common::names::segment_notices;
use mooring_test_netlab::failover::{FailoverCluster, Watch, repeat};
use mooring_test_netlab::netlab::TcpFlows;
use mooring_test_netlab::netlab_cluster::NETWORK;
use mooring_test_support::process::Spec;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::failover::alone::{MS, SOON};
use crate::failover::operations::assert_lossless;

/// How many times the same is done.
const MOVES: usize = 2;

/// Waits until all daemons have heard what was written before, of L2Networks and of their own Nodes: they
/// say of an L2Network that is made after it, for Nodes that are labelled after it, that they are on it.
async fn all_have_heard(cluster: &mut FailoverCluster) {
    let networks = Api::<L2Network>::all(cluster.netlab.admin.clone());
    let marker: L2Network = serde_json::from_value(json!({
        "apiVersion": "mooring.dev/v1alpha1",
        "kind": "L2Network",
        "metadata": { "name": "marker" },
        "spec": {
            "parent": "nowhere",
            "subnets": [{ "cidr": "198.51.100.0/24" }],
            "ranges": ["198.51.100.0/30"],
            "nodeSelector": { "matchLabels": { "marker": "yes" } },
        },
    }))
    .unwrap();
    networks
        .create(&PostParams::default(), &marker)
        .await
        .unwrap();
    let names: Vec<&'static str> = cluster.members().collect();
    let labelled = |value: Value| json!({ "metadata": { "labels": { "marker": value } } });
    for name in &names {
        cluster
            .change_node(name, labelled(json!("yes")), labelled(Value::Null))
            .await
            .unwrap();
    }
    eventually("all daemons are on the marker", SOON, async || {
        let status = networks.get("marker").await.ok()?.status?;
        let heard = |name: &&str| status.nodes.iter().any(|node| node.name == **name);
        names.iter().all(heard).then_some(())
    })
    .await;
    networks
        .delete("marker", &DeleteParams::default())
        .await
        .unwrap();
}

/// Sets `spec.keepConnections`, and waits until all daemons have heard of it.
pub async fn keep(cluster: &mut FailoverCluster, keep: Value) {
    let patch = Patch::Merge(json!({ "spec": { "keepConnections": keep } }));
    Api::<L2Network>::all(cluster.netlab.admin.clone())
        .patch(NETWORK, &PatchParams::default(), &patch)
        .await
        .unwrap();
    all_have_heard(cluster).await;
}

/// Connections over IPv6: a [`Watch`] has those over IPv4.
async fn talk_over_ipv6(cluster: &FailoverCluster) -> TcpFlows {
    let [_, v6] = cluster.addresses();
    let to = SocketAddr::new(v6, FailoverCluster::PORT);
    eventually("connections over IPv6", SOON, async || {
        cluster.tcp.tcp_flows(to, 4).ok()
    })
    .await
}

/// Whether a node's kernel passes connections on.
fn passes_on(cluster: &FailoverCluster, node: &str) -> bool {
    let host = cluster.netlab.node(node);
    let listed = host.run(&["nft", "list", "tables", "netdev"]);
    listed.is_ok_and(|tables| tables.contains("mooring"))
}

/// For how long a node's kernel would pass on to somebody without its daemon: the longest time of an address.
fn kernel_lease(cluster: &FailoverCluster, node: &str) -> Option<Duration> {
    let host = cluster.netlab.node(node);
    let text = host
        .run(&["nft", "-j", "list", "table", "netdev", "mooring"])
        .ok()?;
    let table: Value = serde_json::from_str(&text).ok()?;
    let sets = table["nftables"].as_array()?.iter();
    let sets = sets.filter_map(|entry| {
        let set = entry.get("set")?;
        let name = set["name"].as_str()?;
        name.starts_with("a4").then(|| set["elem"].as_array())?
    });
    let seconds = sets.flatten().filter_map(|e| e["elem"]["expires"].as_u64());
    seconds.max().map(Duration::from_secs)
}

/// Whether a node says of itself on the L2Network that connections are not kept there.
async fn says_not_kept(cluster: &FailoverCluster, node: &str) -> Option<bool> {
    let networks = Api::<L2Network>::all(cluster.netlab.admin.clone());
    let status = networks.get(NETWORK).await.ok()?.status?;
    let entry = status.nodes.into_iter().find(|entry| entry.name == node)?;
    let notices = entry.notices.iter();
    Some(
        notices
            .map(String::as_str)
            .any(|notice| notice == segment_notices::CONNECTIONS_NOT_KEPT),
    )
}

pub async fn a_drain_resets_connections_where_none_are_kept(cluster: &mut FailoverCluster) {
    keep(cluster, json!("0s")).await;
    let seen = cluster.suffer_drain().await.unwrap();
    println!("{seen}");
    assert_eq!(seen.broken, seen.connections, "{seen}");
    keep(cluster, Value::Null).await;
}

pub async fn drains_break_no_connection(cluster: &mut FailoverCluster) {
    keep(cluster, json!("15m")).await;
    let seen = repeat(cluster, MOVES, |cluster| Box::pin(cluster.suffer_drain()))
        .await
        .unwrap();
    for seen in &seen {
        assert_lossless(seen);
        assert_eq!((seen.moves, seen.broken), (1, 0), "{seen}");
    }
    keep(cluster, Value::Null).await;
}

/// Connections of both families that are kept, and a first move: from where, and to where.
async fn talk_and_move(cluster: &mut FailoverCluster) -> (Watch, TcpFlows, [String; 2]) {
    keep(cluster, json!("15m")).await;
    let (mut watch, first) = cluster.watch_speaker().await.unwrap();
    let sixes = talk_over_ipv6(cluster).await;
    watch.begin();
    let second = cluster.move_away(&watch, &first).await.unwrap();
    watch.is_well(500 * MS, SOON).await.unwrap();
    (watch, sixes, [first, second])
}

/// The same connections stay through a move, and through the return to where they began.
pub async fn connections_outlive_a_move_and_the_return(cluster: &mut FailoverCluster) {
    let (watch, sixes, [first, second]) = talk_and_move(cluster).await;
    assert!(passes_on(cluster, &second), "{second} passes nothing on");
    // There is only one way from there.
    let mut others = cluster.members();
    let third = others.find(|name| *name != first && *name != second);
    drop(others);
    cluster.exclude(third.unwrap()).await.unwrap();
    cluster.include(&first).await.unwrap();
    let last = cluster.move_away(&watch, &second).await.unwrap();
    assert_eq!(last, first);
    end_unbroken(cluster, watch, sixes).await;
}

/// The same connections stay through a chain of two moves, and through the return to where they began.
pub async fn connections_outlive_moves_over_all_nodes_and_back(cluster: &mut FailoverCluster) {
    let (watch, sixes, [first, second]) = talk_and_move(cluster).await;
    let third = cluster.move_away(&watch, &second).await.unwrap();
    assert_ne!(third, first);
    watch.is_well(500 * MS, SOON).await.unwrap();
    for name in [&second, &third] {
        assert!(passes_on(cluster, name), "{name} passes nothing on");
    }
    cluster.include(&first).await.unwrap();
    let last = cluster.move_away(&watch, &third).await.unwrap();
    assert_eq!(last, first);
    end_unbroken(cluster, watch, sixes).await;
}

/// Lets each connection have its turn, and none of them is broken.
async fn end_unbroken(cluster: &mut FailoverCluster, watch: Watch, sixes: TcpFlows) {
    let back = watch.began().elapsed();
    watch.settle(back + 2500 * MS, SOON).await;
    let told = Instant::now();
    eventually(
        "each connection over IPv6 has had its turn",
        SOON,
        async || sixes.told_since(told).then_some(()),
    )
    .await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    assert_eq!((seen.broken, sixes.broken()), (0, 0), "{seen}");
    if seen.counts() {
        assert_eq!(seen.outage, Duration::ZERO, "{seen}");
    }
    keep(cluster, Value::Null).await;
}

pub async fn with_iptables_connections_outlive_a_move_and_the_return(
    cluster: &mut FailoverCluster,
) {
    connections_outlive_a_move_and_the_return(cluster).await;
}

/// A rolling update with `maxSurge: 0` while connections are passed on.
pub async fn connections_outlive_restarts_of_the_daemons_that_pass_them_on(
    cluster: &mut FailoverCluster,
) {
    keep(cluster, json!("15m")).await;
    let (mut watch, first) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    let second = cluster.move_away(&watch, &first).await.unwrap();
    watch.is_well(500 * MS, SOON).await.unwrap();
    for name in [&second, &first] {
        cluster.terminate(name).await.unwrap();
        let started = Instant::now();
        cluster.start_daemon(name).unwrap();
        eventually("it takes part", SOON, async || {
            cluster.took_part(name, started)
        })
        .await;
        eventually("the voice is back", SOON, async || {
            let speaker = watch.speaker(300 * MS)?;
            (cluster.name_of(speaker) == second).then_some(())
        })
        .await;
    }
    // The table is of the process before, which would have let it run out: this one renews it.
    let left = kernel_lease(cluster, &second).unwrap();
    eventually("the kernel is told again", 2 * SOON, async || {
        (kernel_lease(cluster, &second)? > left).then_some(())
    })
    .await;
    let back = watch.began().elapsed();
    watch.settle(back + 500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    assert_eq!(seen.broken, 0, "{seen}");
    keep(cluster, Value::Null).await;
}

pub async fn the_table_goes_with_the_last_connection(cluster: &mut FailoverCluster) {
    keep(cluster, json!("15m")).await;
    // Else the former speaker would count a flow of UDP for two minutes.
    set_udp_timeout(cluster, 3);
    let seen = cluster.suffer_drain().await.unwrap();
    assert_eq!(seen.broken, 0, "{seen}");
    let speaker = cluster.speaker().await.unwrap();
    assert!(passes_on(cluster, &speaker), "{speaker} passes nothing on");
    // The clients have ended with the watch: the former speaker finds no connection of theirs.
    eventually("nothing is passed on any more", SOON * 4, async || {
        (!passes_on(cluster, &speaker)).then_some(())
    })
    .await;
    set_udp_timeout(cluster, 120);
    keep(cluster, Value::Null).await;
}

/// How long conntrack knows a flow of UDP after its last datagram, in seconds.
fn set_udp_timeout(cluster: &FailoverCluster, seconds: u32) {
    for name in cluster.members() {
        let host = cluster.netlab.node(name);
        let setting = "net/netfilter/nf_conntrack_udp_timeout_stream";
        host.set(setting, &seconds.to_string()).unwrap();
    }
}

pub async fn connections_end_with_the_node_that_they_began_at(cluster: &mut FailoverCluster) {
    keep(cluster, json!("15m")).await;
    let (mut watch, former) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    let speaker = cluster.move_away(&watch, &former).await.unwrap();
    watch.is_well(500 * MS, SOON).await.unwrap();
    assert!(passes_on(cluster, &speaker), "{speaker} passes nothing on");
    cluster.crash(&former).unwrap();
    // Sooner than its silence alone would end it.
    eventually("nothing is passed on any more", SOON, async || {
        (!passes_on(cluster, &speaker)).then_some(())
    })
    .await;
    let gone = watch.began().elapsed();
    watch.settle(gone + 500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    // They are told at once, and need not wait for a time-out of their own.
    assert_eq!(seen.broken, seen.connections, "{seen}");
    cluster.restore().await.unwrap();
    keep(cluster, Value::Null).await;
}

/// The table's name is taken by a program that lets nobody else touch it.
pub async fn a_kernel_that_refuses_lets_addresses_move_as_before(cluster: &mut FailoverCluster) {
    let names: Vec<&'static str> = cluster.members().collect();
    let mut owners = Vec::new();
    for name in &names {
        let table = "add table netdev mooring { flags owner; }";
        let script = format!("exec nft -i < <(echo '{table}'; exec sleep infinity)");
        let log = cluster
            .netlab
            .lab
            .folder()
            .join(format!("owner-{name}.log"));
        let spec = Spec::new(format!("nft on {name}"), "/bin/bash", log).args(["-c", &script]);
        let owner = cluster.netlab.node(name).start(spec).unwrap();
        eventually("the table is there", SOON, async || {
            passes_on(cluster, name).then_some(())
        })
        .await;
        owners.push(owner);
    }
    keep(cluster, json!("15m")).await;
    for name in &names {
        eventually("the status says so", SOON, async || {
            (says_not_kept(cluster, name).await?).then_some(())
        })
        .await;
    }
    let seen = cluster.suffer_drain().await.unwrap();
    println!("{seen}");
    seen.assert_safe();
    assert_eq!(seen.broken, seen.connections, "{seen}");
    if seen.counts() {
        assert_lossless(&seen);
    }
    drop(owners);
    keep(cluster, json!("10m")).await;
    for name in &names {
        eventually("the status says it no more", SOON, async || {
            (!says_not_kept(cluster, name).await?).then_some(())
        })
        .await;
    }
    keep(cluster, Value::Null).await;
}

/// A daemon without the capability says so, and the others keep connections all the same.
pub async fn a_daemon_without_net_admin_says_that_it_keeps_no_connections(
    cluster: &mut FailoverCluster,
) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let other = cluster.members().find(|name| *name != speaker).unwrap();
    let whole = cluster.specs[other].clone();
    let mut without = whole.clone();
    without.program = "setpriv".into();
    without.args = ["--bounding-set=-net_admin", "--inh-caps=-net_admin", "--"]
        .map(str::to_owned)
        .to_vec();
    without.args.push(whole.program.display().to_string());
    without.args.extend(whole.args.iter().cloned());
    watch.begin();
    for (spec, is_without) in [(without, true), (whole, false)] {
        cluster.terminate(other).await.unwrap();
        cluster.specs.insert(other.to_owned(), spec);
        cluster.start_daemon(other).unwrap();
        cluster.members_take_part().await.unwrap();
        keep(cluster, json!("15m")).await;
        eventually("the status says so", SOON, async || {
            (says_not_kept(cluster, other).await? == is_without).then_some(())
        })
        .await;
        assert_eq!(says_not_kept(cluster, &speaker).await, Some(false));
        keep(cluster, Value::Null).await;
    }
    watch.is_well(500 * MS, SOON).await.unwrap();
    let seen = watch.end(cluster);
    seen.assert_safe();
    assert_eq!((seen.moves, seen.broken), (0, 0), "{seen}");
}

/// `kubectl drain` and reboot: the daemon is told to end, and the network goes right behind.
pub async fn a_cordoned_node_that_shuts_down_loses_no_datagram(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let cordon = |value: bool| json!({ "spec": { "unschedulable": value } });
    cluster
        .change_node(&speaker, cordon(true), cordon(false))
        .await
        .unwrap();
    all_have_heard(cluster).await;
    watch.begin();
    // It has ended when this returns.
    cluster.terminate(&speaker).await.unwrap();
    cluster.port(&speaker).pull().unwrap();
    let gone = watch.began().elapsed();
    watch.settle(gone + 2500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    if seen.counts() {
        assert_lossless(&seen);
    }
}
