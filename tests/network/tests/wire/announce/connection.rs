//! A daemon holds one connection to the API server, and notices when it is dead.

use mooring_test_netlab::netlab::{Host, in_netlab};
use mooring_test_support::wait::eventually;

use crate::announce::cluster::{Addresses, AnnounceCluster, NODES, SOON};

#[test]
fn a_daemon_holds_one_connection_and_replaces_a_dead_one() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        cluster
            .service("first", Addresses::number(100), false)
            .await;
        for node in NODES {
            let node = cluster.netlab.node(node);
            eventually("it knows the Service", SOON, async || {
                knows(node, "first").await
            })
            .await;
            eventually("there is one connection", SOON, async || {
                let ports = connections(&cluster, node);
                anyhow::ensure!(ports.len() == 1, "from ports {ports:?}");
                anyhow::Ok(())
            })
            .await;
        }

        let [dead, alive, _] = NODES.map(|node| cluster.netlab.node(node));
        let port = connections(&cluster, dead).remove(0);
        // As where a node of the control plane loses its power: nobody resets the connection.
        let lost = format!(
            "table inet lost {{
                chain out {{ type filter hook output priority 0; tcp sport {port} drop
                }}
                chain in {{ type filter hook input priority 0; tcp dport {port} drop
                }}
            }}"
        );
        dead.run(&["nft", &lost]).unwrap();
        cluster
            .service("second", Addresses::number(101), false)
            .await;
        eventually("another daemon knows the Service", SOON, async || {
            knows(alive, "second").await
        })
        .await;
        assert!(!knows(dead, "second").await, "the connection is not dead");
        eventually("the daemon has a new connection", SOON, async || {
            knows(dead, "second").await
        })
        .await;
        assert!(!connections(&cluster, dead).contains(&port));
    });
}

/// Whether the daemon of this node has heard of a Service.
async fn knows(node: &Host, service: &str) -> bool {
    let url = format!("http://127.0.0.1:10266/services/app/{service}");
    node.get(&url)
        .await
        .is_ok_and(|answer| answer.status != 404)
}

/// The local ports of this node's connections to the API server.
fn connections(cluster: &AnnounceCluster, node: &Host) -> Vec<u16> {
    let url = cluster.netlab.url();
    let (_, server) = url.split_once("//").expect("a URL");
    let sockets = node
        .run(&[
            "ss",
            "--tcp",
            "--numeric",
            "--no-header",
            "state",
            "established",
            "dst",
            server,
        ])
        .unwrap();
    let port = |line: &str| {
        let local = line.split_whitespace().nth(2)?;
        local.rsplit_once(':')?.1.parse().ok()
    };
    sockets.lines().filter_map(port).collect()
}
