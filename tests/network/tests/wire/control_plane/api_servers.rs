//! `make demo-control-plane` in small: real API servers with real members of etcd, and a client that writes.

use std::time::Duration;

use anyhow::Result;
use mooring_test_netlab::control_plane_nodes::{ControlPlaneNodes, Members, Noticed, Part};
use mooring_test_netlab::failover::Seen;
use mooring_test_netlab::netlab::in_netlab;

use super::clients::Clients;
use super::{MS, SOON, THREE};

/// What new neighbours and a client that writes notice of a fault.
async fn suffer(
    nodes: &mut ControlPlaneNodes,
    members: &Members,
    fault: impl Fn(&mut ControlPlaneNodes, &str) -> Result<()>,
) -> (Seen, Noticed) {
    let clients = Clients::at_work(nodes).await;
    let speaker = clients.speaker.clone();
    fault(nodes, &speaker).unwrap();
    let (seen, noticed) = clients.end(nodes, SOON).await;
    seen.assert_safe();
    assert_ne!(seen.speakers.last(), Some(&speaker), "{seen}");
    assert!(!seen.counts() || seen.dark <= 1000 * MS, "{seen}");
    nodes.restore(members).await.unwrap();
    (seen, noticed)
}

#[test]
fn a_client_that_writes_goes_on_when_an_api_server_or_its_node_is_lost() {
    in_netlab(async || {
        let mut nodes = ControlPlaneNodes::with_api_servers(&THREE).await.unwrap();
        let members = Members::new(1, &THREE);
        nodes.start(&members).await.unwrap();
        let (seen, noticed) = suffer(&mut nodes, &members, |nodes, speaker| {
            nodes.node_mut(speaker).kill(Part::ApiServer);
            Ok(())
        })
        .await;
        let longest = Duration::from_secs(2);
        assert!(!seen.counts() || noticed.longest <= longest, "{noticed:?}");
        // As the kubelet does when the whole node shuts down.
        let (seen, noticed) = suffer(&mut nodes, &members, |nodes, speaker| {
            let node = nodes.node(speaker);
            node.process(Part::Announcer)?.terminate()?;
            node.process(Part::ApiServer)?.terminate()
        })
        .await;
        assert!(!seen.counts() || noticed.longest <= longest, "{noticed:?}");
        // Etcd may have to elect another leader first: the address does not wait for that, writes do.
        suffer(&mut nodes, &members, |nodes, speaker| {
            nodes.node_mut(speaker).crash()
        })
        .await;
    });
}
