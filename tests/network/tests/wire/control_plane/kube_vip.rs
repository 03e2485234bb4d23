//! A real kube-vip that has the address of the control plane: how to move from it, and what it does at faults. Started
//! by `make test-kube-vip`, since kube-vip is built from its Go module.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use mooring_test_netlab::control_plane_nodes::{ADDRESSES, ControlPlaneNodes, Members, Part};
use mooring_test_netlab::failover::{Seen, millis};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::figures::figure;
use mooring_test_support::wait::eventually;

use super::clients::Clients;
use super::{MS, SOON, THREE};

/// How long kube-vip may take to find another node: more than its longest Lease.
const LIMIT: Duration = Duration::from_secs(90);

fn kube_vip() -> PathBuf {
    let folder = std::env::var_os("KUBE_VIP");
    let folder = folder.expect("the folder that tests/replaced-programs/build.sh kube-vip prints");
    PathBuf::from(folder).join("kube-vip")
}

/// Three nodes with API servers, and a kube-vip on each, one of which has the address.
async fn nodes_with_kube_vip(lease: Option<[u32; 3]>) -> ControlPlaneNodes {
    let mut nodes = ControlPlaneNodes::with_api_servers(&THREE).await.unwrap();
    nodes.add_kube_vip(&kube_vip(), lease).unwrap();
    run_all(&mut nodes).await;
    nodes
}

/// Runs everything but Mooring until writes are done, as a kubelet does: what ends is started again.
async fn run_all(nodes: &mut ControlPlaneNodes) {
    for name in THREE {
        nodes.node(name).host.plug_cable().unwrap();
        nodes.node(name).host.unsilence().unwrap();
    }
    let writer = nodes.writer().await.unwrap();
    eventually("writes are done", LIMIT, async || {
        for name in THREE {
            for part in [Part::Etcd, Part::ApiServer, Part::KubeVip] {
                nodes.node_mut(name).start(part).unwrap();
            }
        }
        writer.is_well(1000 * MS)
    })
    .await;
}

/// Writes the file on all nodes and runs Mooring's static Pod on each: it takes the address on the node that has it.
async fn add_mooring(nodes: &mut ControlPlaneNodes, members: &Members, holder: &str) {
    nodes.write_file(&THREE, members).unwrap();
    for name in THREE {
        nodes.node_mut(name).start(Part::Announcer).unwrap();
    }
    nodes.settled(members).await.unwrap();
    let state = nodes.node(holder).state().await.unwrap();
    assert_eq!(
        state.announced,
        ADDRESSES.len(),
        "{holder} has it, and kube-vip there"
    );
}

/// Removes kube-vip on the nodes that do not have the address.
async fn remove_idle(nodes: &mut ControlPlaneNodes, holder: &str) {
    for name in THREE.into_iter().filter(|name| *name != holder) {
        nodes.node_mut(name).remove(Part::KubeVip).await.unwrap();
    }
}

/// The address moves to Mooring by the steps of the page, of which the last one is `end`: it stays on its node.
async fn move_from_kube_vip(end: impl AsyncFnOnce(&mut ControlPlaneNodes, &str)) {
    let mut nodes = nodes_with_kube_vip(None).await;
    let members = Members::new(1, &THREE);
    let clients = Clients::at_work(&nodes).await;
    let holder = clients.speaker.clone();
    add_mooring(&mut nodes, &members, &holder).await;
    remove_idle(&mut nodes, &holder).await;
    end(&mut nodes, &holder).await;
    let (seen, noticed) = clients.end(&nodes, SOON).await;
    assert!(seen.two.is_zero(), "{seen}");
    assert_eq!(seen.speakers, [holder], "{seen}");
    figure(
        "Move of the control plane's address from kube-vip",
        format_args!(
            "{} ms without an answer, {} ms without a write",
            millis(seen.dark),
            millis(noticed.longest)
        ),
    );
    assert!(!seen.counts() || seen.dark <= 1000 * MS, "{seen}");
    nodes.settled(&members).await.unwrap();
}

#[test]
#[ignore = "make test-kube-vip starts it"]
fn the_address_moves_from_kube_vip_while_it_runs() {
    in_netlab(async || {
        move_from_kube_vip(async |nodes, holder| {
            nodes.node_mut(holder).remove(Part::KubeVip).await.unwrap();
        })
        .await;
    });
}

#[test]
#[ignore = "make test-kube-vip starts it"]
fn an_address_that_a_killed_kube_vip_has_left_is_removed_without_a_gap() {
    in_netlab(async || {
        move_from_kube_vip(async |nodes, holder| {
            nodes.node_mut(holder).kill(Part::KubeVip);
            let node = nodes.node(holder);
            let on = node.host.ip("-oneline address show dev eth0").unwrap();
            assert!(on.contains(" 10.77.0.100/32 "), "the address has stayed");
            node.remove_addresses("eth0").unwrap();
        })
        .await;
    });
}

type Strike = fn(&mut ControlPlaneNodes, &str) -> Result<()>;

const FAULTS: [(&str, Strike); 4] = [
    ("its API server is killed", |nodes, speaker| {
        nodes.node_mut(speaker).kill(Part::ApiServer);
        Ok(())
    }),
    ("its API server hangs", |nodes, speaker| {
        nodes.node(speaker).process(Part::ApiServer)?.freeze()
    }),
    ("its node crashes", |nodes, speaker| {
        nodes.node_mut(speaker).crash()?;
        nodes.node(speaker).remove_addresses("eth0")
    }),
    ("its cable is pulled", |nodes, speaker| {
        nodes.node(speaker).host.pull_cable()
    }),
];

/// For each fault: the longest time without a write, and with no answer or two, of all repetitions.
async fn measure(
    nodes: &mut ControlPlaneNodes,
    of: &str,
    restore: impl AsyncFn(&mut ControlPlaneNodes),
) {
    let repetitions = std::env::var("REPETITIONS").map_or(Ok(3), |text| text.parse());
    let repetitions: usize = repetitions.expect("REPETITIONS is a number");
    for (fault, strike) in FAULTS {
        let (mut longest, mut worst) = (Vec::new(), Seen::default());
        for _ in 0..repetitions {
            let clients = Clients::at_work(nodes).await;
            strike(nodes, &clients.speaker).unwrap();
            let (seen, noticed) = clients.end(nodes, LIMIT).await;
            longest.push(noticed.longest);
            worst.dark = worst.dark.max(seen.dark);
            worst.two = worst.two.max(seen.two);
            restore(nodes).await;
        }
        longest.sort();
        figure(
            &format!("{of}, {fault}"),
            format_args!(
                "no write for {} ms, p50, {} ms, max, of {repetitions}; nobody says where it is for {} ms, two do for {} ms",
                millis(longest[(repetitions - 1) / 2]),
                millis(longest[repetitions - 1]),
                millis(worst.dark),
                millis(worst.two),
            ),
        );
    }
}

async fn measure_kube_vip(lease: [u32; 3]) {
    let mut nodes = nodes_with_kube_vip(Some(lease)).await;
    let [duration, deadline, retry] = lease;
    let of = format!("kube-vip {duration}/{deadline}/{retry}");
    measure(&mut nodes, &of, async |nodes| run_all(nodes).await).await;
}

#[test]
#[ignore = "make test-kube-vip starts it"]
fn kube_vip_is_measured_with_a_lease_of_15_s() {
    in_netlab(async || measure_kube_vip([15, 10, 2]).await);
}

#[test]
#[ignore = "make test-kube-vip starts it"]
fn kube_vip_is_measured_with_the_lease_of_its_manifest() {
    in_netlab(async || measure_kube_vip([5, 3, 1]).await);
}

#[test]
#[ignore = "make test-kube-vip starts it"]
fn mooring_is_measured_in_the_same_way() {
    in_netlab(async || {
        let mut nodes = ControlPlaneNodes::with_api_servers(&THREE).await.unwrap();
        let members = Members::new(1, &THREE);
        nodes.start(&members).await.unwrap();
        measure(&mut nodes, "Mooring", async |nodes| {
            nodes.restore(&members).await.unwrap();
        })
        .await;
    });
}
