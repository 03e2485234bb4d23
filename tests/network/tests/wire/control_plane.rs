//! The address of the control plane, seen as its clients see it: three namespaces as control-plane nodes, with
//! `mooring-node control-plane` and something that answers `/readyz` on each. There is no API server to ask.

mod api_servers;
mod clients;
mod entry;
mod kube_vip;
mod networks;

use std::time::Duration;

use mooring_test_netlab::control_plane_nodes::{ADDRESSES, ControlPlaneNodes, Members, Part};
use mooring_test_netlab::failover::faults::until_measured;
use mooring_test_netlab::failover::{Seen, millis};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::figures::figure;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

use super::kernel_address::add_marked;
use super::netns::link_index;

const MS: Duration = Duration::from_millis(1);
const SOON: Duration = Duration::from_secs(20);

const THREE: [&str; 3] = ["cp1", "cp2", "cp3"];

/// Three control-plane nodes that have come to rest.
async fn three_nodes() -> (ControlPlaneNodes, Members) {
    let mut nodes = ControlPlaneNodes::new(&THREE).unwrap();
    let members = Members::new(1, &THREE);
    nodes.start(&members).await.unwrap();
    (nodes, members)
}

/// Half a second in the middle, and a second at most.
fn assert_short(what: &str, seen: &[Seen]) {
    let mut outages: Vec<Duration> = seen.iter().map(|seen| seen.outage).collect();
    outages.sort();
    let (p50, worst) = (outages[(outages.len() - 1) / 2], outages[outages.len() - 1]);
    let text = format!("p50 {} ms, max {} ms", millis(p50), millis(worst));
    figure(
        &format!("Outage of the control plane's address: {what}"),
        &text,
    );
    assert!(p50 <= 500 * MS && worst <= 1000 * MS, "{what}: {text}");
    for seen in seen {
        assert!(seen.dark <= 1000 * MS, "{what}: {seen}");
    }
}

#[test]
fn whatever_fails_another_node_has_the_address_within_a_second() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;

        let killed = nodes.measure(3, &members, |nodes, speaker| {
            nodes.node_mut(speaker).kill(Part::ApiServer);
            Ok(())
        });
        assert_short("its API server is killed", &killed.await.unwrap());

        let hung = nodes.measure(3, &members, |nodes, speaker| {
            nodes.node(speaker).process(Part::ApiServer)?.freeze()
        });
        assert_short("its API server hangs", &hung.await.unwrap());

        let without_etcd = nodes.measure(1, &members, |nodes, speaker| {
            nodes.node(speaker).be_ready(false)
        });
        assert_short("its etcd member is lost", &without_etcd.await.unwrap());

        let crashed = nodes.measure(3, &members, |nodes, speaker| {
            nodes.node_mut(speaker).crash()
        });
        assert_short("its node crashes", &crashed.await.unwrap());

        let unplugged = nodes.measure(3, &members, |nodes, speaker| {
            nodes.node(speaker).host.pull_cable()
        });
        assert_short("its cable is pulled", &unplugged.await.unwrap());
    });
}

#[test]
fn nodes_whose_links_have_flapped_take_the_address_from_one_whose_api_server_is_killed() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;
        let killed = until_measured(1, async || {
            let (_, speaker) = nodes.watch_speaker().await?;
            for name in THREE.iter().filter(|name| **name != speaker) {
                nodes.node(name).flap().await?;
            }
            let kill = |nodes: &mut ControlPlaneNodes, killed: &str| {
                assert_eq!(killed, speaker, "no address was to move before");
                nodes.node_mut(killed).kill(Part::ApiServer);
                Ok(())
            };
            nodes.measure_once(&members, kill).await
        });
        assert_short(
            "its API server is killed after the others' links have flapped",
            &killed.await.unwrap(),
        );
    });
}

#[test]
fn where_no_api_server_is_ready_the_address_stays_and_outlives_its_node() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;

        let (mut watch, speaker) = nodes.watch_speaker().await.unwrap();
        watch.begin();
        for name in THREE {
            nodes.node(name).be_ready(false).unwrap();
        }
        for name in THREE {
            eventually(&format!("{name} is not ready"), SOON, async || {
                nodes
                    .node(name)
                    .state()
                    .await
                    .is_ok_and(|state| !state.ready)
            })
            .await;
        }
        let said = "no API server of the control plane is ready";
        eventually("the speaker says so", SOON, async || {
            nodes.node(&speaker).log().contains(said)
        })
        .await;
        watch.is_well(400 * MS, SOON).await.unwrap();
        let seen = watch.end(&nodes);
        assert_eq!(seen.speakers, [speaker.as_str()], "{seen}");
        assert!(seen.outage.is_zero() && seen.dark.is_zero(), "{seen}");

        // Etcd elects another leader after a node is lost, and until then no API server is ready.
        let mut watch = nodes.watch().await.unwrap();
        watch.begin();
        nodes.node_mut(&speaker).crash().unwrap();
        watch.settle(1500 * MS, SOON).await;
        let seen = watch.end(&nodes);
        println!("{seen}");
        seen.assert_safe();
        assert!(!seen.counts() || seen.outage <= 1000 * MS, "{seen}");
        let heir = seen.speakers.last().unwrap().clone();
        assert_ne!(heir, speaker, "{seen}");
        nodes.restore(&members).await.unwrap();
        let (_, speaker) = nodes.watch_speaker().await.unwrap();
        assert_eq!(
            speaker, heir,
            "nothing moves since API servers are ready again"
        );
    });
}

/// Gives the next file to a new node, which waits then, and after that to the others.
async fn join(nodes: &mut ControlPlaneNodes, newest: &str, members: &Members) {
    nodes.write_file(&[newest], members).unwrap();
    let serves = members.members.contains(&newest);
    nodes.node_mut(newest).boot(serves).unwrap();
    // Off the segment, a witness sends only to those that its file names: where there is one, the new node joins
    // once the others have the file.
    eventually("the new node waits", SOON, async || {
        let log = nodes.node(newest).log();
        log.contains("waiting for the other members")
    })
    .await;
    let others: Vec<&str> = members.voters().filter(|name| *name != newest).collect();
    nodes.write_file(&others, members).unwrap();
    nodes.settled(members).await.unwrap();
}

#[test]
fn first_node_is_alone_and_others_join_without_a_loss() {
    in_netlab(async || {
        let mut nodes = ControlPlaneNodes::new(&THREE).unwrap();
        nodes.start(&Members::new(1, &["cp1"])).await.unwrap();
        let mut watch = nodes.watch().await.unwrap();
        watch.begin();
        for count in [2, 3] {
            let members = Members::new(count as u64, &THREE[..count]);
            join(&mut nodes, THREE[count - 1], &members).await;
        }
        watch.is_well(400 * MS, SOON).await.unwrap();
        let seen = watch.end(&nodes);
        assert_eq!(seen.speakers, ["cp1"], "{seen}");
        assert!(seen.two.is_zero(), "{seen}");
        assert!(!seen.counts() || seen.outage.is_zero(), "{seen}");
    });
}

#[test]
fn a_dead_node_is_replaced_by_one_of_another_name() {
    in_netlab(async || {
        let mut nodes = ControlPlaneNodes::new(&["cp1", "cp2", "cp3", "cp4"]).unwrap();
        nodes.start(&Members::new(1, &THREE)).await.unwrap();
        nodes.node_mut("cp3").crash().unwrap();
        let without = Members::new(2, &["cp1", "cp2"]);
        nodes.write_file(&["cp1", "cp2"], &without).unwrap();
        nodes.settled(&without).await.unwrap();
        let with = Members::new(3, &["cp1", "cp2", "cp4"]);
        nodes.write_file(&["cp1", "cp2", "cp4"], &with).unwrap();
        nodes.node_mut("cp4").boot(true).unwrap();
        nodes.settled(&with).await.unwrap();

        let crashed = nodes.measure(1, &with, |nodes, speaker| nodes.node_mut(speaker).crash());
        assert_short(
            "a node crashes after another was replaced",
            &crashed.await.unwrap(),
        );

        // Who comes back with a file that names him, and is none of the voters any more, has no say.
        let mut watch = nodes.watch().await.unwrap();
        watch.begin();
        nodes.node_mut("cp3").boot(true).unwrap();
        eventually(
            "the one that was removed has heard of it",
            SOON,
            async || {
                let state = nodes.node("cp3").state().await;
                state.is_ok_and(|state| state.ready && state.revision == 3)
            },
        )
        .await;
        watch.is_well(400 * MS, SOON).await.unwrap();
        let seen = watch.end(&nodes);
        assert!(seen.two.is_zero() && seen.speakers.len() == 1, "{seen}");
    });
}

#[test]
fn all_nodes_restarted_at_once_agree_again() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;
        let mut watch = nodes.watch().await.unwrap();
        watch.begin();
        for name in THREE {
            nodes.node_mut(name).crash().unwrap();
        }
        nodes.restore(&members).await.unwrap();
        watch.is_well(400 * MS, SOON).await.unwrap();
        let seen = watch.end(&nodes);
        println!("{seen}");
        seen.assert_safe();
    });
}

#[test]
fn a_node_that_has_lost_its_disk_votes_again_by_the_word_of_the_others() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;
        let (mut watch, speaker) = nodes.watch_speaker().await.unwrap();
        watch.begin();
        nodes.node_mut(&speaker).crash().unwrap();
        nodes.node(&speaker).forget().unwrap();
        nodes.restore(&members).await.unwrap();
        watch.is_well(400 * MS, SOON).await.unwrap();
        watch.end(&nodes).assert_safe();
        let log = nodes.node(&speaker).log();
        for name in THREE {
            let log = nodes.node(name).log();
            assert!(!log.contains("are not signed"), "refused by {name}: {log}");
        }
        let since = log.rsplit("waiting for the other members").next();
        assert!(
            since.is_some_and(|log| log.contains("joining the others")),
            "it has begun by itself: {log}"
        );
    });
}

#[test]
fn of_two_nodes_with_a_witness_one_goes_on() {
    in_netlab(async || {
        let mut nodes = ControlPlaneNodes::new(&["cp1", "cp2", "w1"]).unwrap();
        nodes.start(&Members::new(1, &["cp1"])).await.unwrap();
        let with_witness = Members::new(2, &["cp1"]).with_witness("w1");
        join(&mut nodes, "w1", &with_witness).await;
        let members = Members::new(3, &["cp1", "cp2"]).with_witness("w1");
        join(&mut nodes, "cp2", &members).await;
        let crashed = nodes.measure(2, &members, |nodes, speaker| {
            nodes.node_mut(speaker).crash()
        });
        assert_short(
            "one of two nodes crashes, with a witness",
            &crashed.await.unwrap(),
        );
    });
}

#[test]
fn an_update_of_the_static_pod_moves_nothing() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;
        let (mut watch, speaker) = nodes.watch_speaker().await.unwrap();
        watch.begin();
        // As the kubelet does: the old one ends before the new one starts.
        let old = nodes.node_mut(&speaker).take(Part::Announcer).unwrap();
        old.terminate().unwrap();
        assert!(old.wait_for_exit(SOON).await.success());
        nodes.node_mut(&speaker).start(Part::Announcer).unwrap();
        nodes.settled(&members).await.unwrap();
        eventually("the address is given back", SOON, async || {
            watch.speaker().map(|mac| nodes.name_of(mac)) == Some(speaker.clone())
        })
        .await;
        // Beside the old one, as who is told to go on for it.
        let new = nodes.node(&speaker).new_process(Part::Announcer).unwrap();
        eventually("the new one has found the old one", SOON, async || {
            new.log().contains("another daemon runs on this node")
        })
        .await;
        let old = nodes.node_mut(&speaker).replace(Part::Announcer, new);
        let old = old.unwrap();
        old.terminate().unwrap();
        assert!(old.wait_for_exit(SOON).await.success());
        nodes.settled(&members).await.unwrap();
        watch.is_well(400 * MS, SOON).await.unwrap();
        let seen = watch.end(&nodes);
        println!("{seen}");
        seen.assert_safe();
        assert!(!seen.counts() || seen.outage.is_zero(), "{seen}");
        assert_eq!(seen.speakers.last(), Some(&speaker), "{seen}");
    });
}

/// All that runs on the node is told to end at the same time. What the address is left to has no API server then.
#[test]
fn a_node_that_shuts_down_in_order_leaves_its_address_to_no_dead_api_server() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;
        let stopped = nodes.measure(1, &members, |nodes, speaker| {
            let node = nodes.node(speaker);
            node.process(Part::Announcer)?.terminate()?;
            node.process(Part::ApiServer)?.terminate()
        });
        assert_short("its node shuts down in order", &stopped.await.unwrap());
    });
}

#[test]
fn a_killed_process_is_replaced_where_nodes_forward_nothing() {
    in_netlab(async || {
        let (mut nodes, members) = three_nodes().await;
        for name in THREE {
            let host = &nodes.node(name).host;
            for family in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                host.set(&format!("net/{family}"), "0").unwrap();
            }
        }
        let killed = until_measured(1, async || {
            let (mut watch, speaker) = nodes.watch_speaker().await?;
            watch.begin();
            nodes.node_mut(&speaker).kill(Part::Announcer);
            // Two seconds later its kernel has the address no more.
            watch.settle(4000 * MS, SOON).await;
            let seen = watch.end(&nodes);
            println!("{seen}");
            seen.assert_safe();
            nodes.restore(&members).await?;
            Ok(seen)
        });
        assert_short("its process is killed", &killed.await.unwrap());
    });
}

/// As kube-vip has it, or has left it (`kube_vip` has the real one): Mooring takes the address on that node, and nobody
/// notices that it goes from the interface.
#[test]
fn an_address_that_is_on_an_interface_is_taken_on_that_node() {
    in_netlab(async || {
        let mut nodes = ControlPlaneNodes::new(&THREE).unwrap();
        let members = Members::new(1, &THREE);
        let holder = "cp2";
        nodes.node(holder).add_addresses("eth0").unwrap();
        nodes.start(&members).await.unwrap();
        let state = nodes.node(holder).state().await.unwrap();
        assert_eq!(state.announced, ADDRESSES.len(), "{state:?}");
        let (mut watch, speaker) = nodes.watch_speaker().await.unwrap();
        assert_eq!(speaker, holder);
        watch.begin();
        nodes.node(holder).remove_addresses("eth0").unwrap();
        watch.settle(1500 * MS, SOON).await;
        let seen = watch.end(&nodes);
        println!("{seen}");
        seen.assert_safe();
        assert_eq!(seen.speakers, [holder], "{seen}");
        assert!(!seen.counts() || seen.outage.is_zero(), "{seen}");
    });
}

#[test]
fn a_daemon_of_the_daemonset_that_starts_and_ends_beside_it_is_not_noticed() {
    in_netlab(async || {
        let (nodes, _) = three_nodes().await;
        let (mut watch, speaker) = nodes.watch_speaker().await.unwrap();
        watch.begin();
        let host = &nodes.node(&speaker).host;
        let leave = host.thread(leave_on_eth0);
        leave.join().unwrap().unwrap();
        let kubeconfig = nodes.lab.folder().join("kubeconfig");
        std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
        let flags = [
            format!("--node-name={speaker}"),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!(
                "--state-dir={}",
                nodes.lab.folder().join("daemon").display()
            ),
        ];
        let daemon = host.start_program(Program::Node, flags).unwrap();
        eventually("the daemon has removed what was left", SOON, async || {
            let addresses = host.ip("address show dev eth0");
            addresses.is_ok_and(|addresses| !addresses.contains("10.77.0.250"))
        })
        .await;
        watch.is_well(400 * MS, SOON).await.unwrap();
        daemon.terminate().unwrap();
        daemon.wait_for_exit(SOON).await;
        watch.is_well(400 * MS, SOON).await.unwrap();
        let seen = watch.end(&nodes);
        assert_eq!(seen.speakers, [speaker.as_str()], "{seen}");
        assert!(seen.two.is_zero(), "{seen}");
        assert!(!seen.counts() || seen.outage.is_zero(), "{seen}");
    });
}

/// An address as a daemon that died has left it: whoever starts removes it.
fn leave_on_eth0() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let address = "10.77.0.250".parse().unwrap();
        add_marked(link_index("eth0"), address, 32).await;
    });
}

/// The API server of the node itself, which answers nothing but `/readyz`.
const KUBECONFIG: &str = "{apiVersion: v1, kind: Config, current-context: own, \
    clusters: [{name: own, cluster: {server: \"https://127.0.0.1:6443\", insecure-skip-tls-verify: true}}], \
    contexts: [{name: own, context: {cluster: own, user: nobody}}], users: [{name: nobody, user: {}}]}";
