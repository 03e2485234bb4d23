//! What goes wrong with L2Networks and the machines file.

use kube::api::DeleteParams;
use mooring_common::names::annotations;
use mooring_test_netlab::netlab_cluster::Network;

use super::cluster::Monitored;

/// Networks with fewer addresses than are asked for, and with just a few more; and how many Services ask for
/// addresses of each.
const NETWORKS: [(&str, &str, usize); 2] = [
    ("tiny", "10.77.0.120-10.77.0.120", 2),
    ("narrow", "10.77.0.130-10.77.0.140", 10),
];
/// A network, its range, and one that another network has too.
const OVERLAPPING: (&str, [&str; 2]) = (
    "overlapping",
    ["10.77.0.160-10.77.0.169", "10.77.0.105-10.77.0.114"],
);

fn services() -> impl Iterator<Item = (String, &'static str)> {
    let of_one = |(network, _, count): (&'static str, _, usize)| {
        (0..count).map(move |number| (format!("{network}-{number}"), network))
    };
    NETWORKS.into_iter().flat_map(of_one)
}

/// The networks, with which nothing is wrong yet.
pub(super) async fn make(cluster: &Monitored) {
    for (name, range, _) in NETWORKS {
        cluster.make(Network::new(name, &[range]), name).await;
    }
    let (name, [range, _]) = OVERLAPPING;
    cluster.make(Network::new(name, &[range]), name).await;
}

pub(super) async fn break_all(cluster: &Monitored) {
    let (name, [_, range]) = OVERLAPPING;
    cluster.set_ranges(name, &[range]).await;
    for (name, network) in services() {
        cluster
            .ask(&name, |service| {
                service.annotation(annotations::L2_NETWORK_REQUEST, network)
            })
            .await;
    }
    let file = cluster.netlab.machines_file();
    file.replace_text("this is no machines file").unwrap();
}

pub(super) async fn mend_all(cluster: &Monitored, machines: &str) {
    let (name, [range, _]) = OVERLAPPING;
    cluster.set_ranges(name, &[range]).await;
    for (name, _) in services() {
        let params = DeleteParams::default();
        cluster.services().delete(&name, &params).await.unwrap();
    }
    let file = cluster.netlab.machines_file();
    file.replace_text(machines).unwrap();
}

/// Takes the networks away, so that a node that is cut off is missed on one segment only.
pub(super) async fn delete(cluster: &Monitored) {
    let names = NETWORKS.map(|(name, _, _)| name);
    for name in names.into_iter().chain([OVERLAPPING.0]) {
        let params = DeleteParams::default();
        cluster.networks().delete(name, &params).await.unwrap();
    }
}
