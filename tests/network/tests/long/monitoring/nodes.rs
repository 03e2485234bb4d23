//! What goes wrong at the nodes and on the wire.

use std::net::{Ipv4Addr, TcpListener};

use mooring_test_netlab::fake_proxy::FakeProxy;
use mooring_test_netlab::netlab::Direction;
use mooring_test_netlab::netlab::raw::ArpToSend;

use super::cluster::Monitored;

/// Where daemons ask their node's kube-proxy.
const KUBE_PROXY: &str = "127.0.0.1:10256";

/// The kube-proxy of n3.
pub(super) fn service_proxy(cluster: &Monitored) -> FakeProxy {
    let n3 = cluster.netlab.node("n3");
    let listener = n3.inside(|| Ok(TcpListener::bind(KUBE_PROXY)?));
    FakeProxy::on(listener.expect("its port is free"))
}

/// The kube-proxy of n3 fails, n3 is cut off from the other daemons, n2 loses heartbeats, and a host that is no node
/// claims an address.
pub(super) fn break_all(cluster: &Monitored, proxy: &FakeProxy, address: Ipv4Addr) {
    proxy.says(503);
    let port = |node: &str| cluster.netlab.node(node).port();
    for direction in [Direction::Sends, Direction::Receives] {
        port("n3").lose_heartbeats(direction, 100).unwrap();
    }
    port("n2").lose_heartbeats(Direction::Receives, 30).unwrap();
    let client = &cluster.netlab.client;
    let claim = ArpToSend::who_has(address, address, client.mac());
    client.inject(&claim.bytes()).unwrap();
}

pub(super) fn mend_all(cluster: &Monitored, proxy: &FakeProxy) {
    proxy.says(200);
    for node in ["n2", "n3"] {
        cluster.netlab.node(node).port().mend().unwrap();
    }
}
