//! Addresses that Services ask for.

use super::*;

impl TestCluster {
    /// A user asks for an address.
    fn ask(&self, name: &str, address: &str) {
        self.put(ServiceView {
            load_balancer_ip: Some(address.to_owned()),
            ..self.service(name)
        });
    }

    fn shows(&self, name: &str) -> String {
        let service = self.service(name);
        service.ingress[0].ip.clone().unwrap()
    }
}

/// Whatever a Service asks for that it cannot have: what its status shows is nobody else's.
#[tokio::test(start_paused = true)]
async fn refused_request_keeps_current_address() {
    for wish in ["203.0.113.9", "203.0.113.12", "192.0.2.1", "2001:db8::1"] {
        let cluster = TestCluster::new(true).with(&["web"]);
        let blocks = cluster.start("one");
        assert_eq!(cluster.provided(&blocks, "web").await, "203.0.113.10");
        cluster.put(ServiceView {
            load_balancer_ip: Some("203.0.113.12".to_owned()),
            ..service("other")
        });
        assert_eq!(cluster.provided(&blocks, "other").await, "203.0.113.12");
        cluster.ask("web", wish);
        let _ = cluster.pass(&blocks, "web").await;
        // Whoever leads next keeps to it.
        for process in [&blocks, &cluster.start("two")] {
            let _ = cluster.pass(process, "web").await;
            assert_eq!(cluster.shows("web"), "203.0.113.10", "{wish}");
            cluster.put(service("new"));
            assert_eq!(
                cluster.provided(process, "new").await,
                "203.0.113.11",
                "{wish}"
            );
            cluster.remove("new");
            process.forget("new");
            cluster.put(ServiceView {
                load_balancer_ip: Some("203.0.113.10".to_owned()),
                ..service("envious")
            });
            let refused = cluster.pass(process, "envious").await;
            assert!(
                matches!(refused, Err(ReconcileError::Refused(_))),
                "{wish}: {refused:?}"
            );
            cluster.remove("envious");
        }
        // The block is not given back with the last one that has an address of it by our record.
        cluster.cloud.writes();
        cluster.removed(&blocks, "other").await;
        assert!(cluster.cloud.writes().is_empty(), "{wish}");
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_status_frees_former_address() {
    let cluster = TestCluster::new(true).with(&["web"]);
    let blocks = cluster.start("one");
    cluster.provided(&blocks, "web").await;
    cluster.ask("web", "192.0.2.1");
    cluster.pass(&blocks, "web").await.unwrap();
    // Whoever announces it writes so.
    let mut written = cluster.service("web");
    written.ingress[0].ip = Some("192.0.2.1".to_owned());
    cluster.put(written);
    cluster.put(service("new"));
    assert_eq!(cluster.provided(&blocks, "new").await, "203.0.113.10");
}

/// A server has joined the network with an address of the Services' block.
#[tokio::test(start_paused = true)]
async fn address_of_a_member_is_given_to_no_service() {
    let cluster = TestCluster::new(true).with(&["first"]);
    let blocks = cluster.start("one");
    assert_eq!(cluster.provided(&blocks, "first").await, "203.0.113.10");
    {
        let mut account = cluster.cloud.0.lock().unwrap();
        let used = ["203.0.113.11", "203.0.113.10"].map(|text| text.parse().unwrap());
        let network = account.network.as_mut().unwrap();
        network.used = used.map(|address| (address, address)).to_vec();
    }
    advance(LONG).await;
    cluster.put(service("next"));
    assert_eq!(cluster.provided(&blocks, "next").await, "203.0.113.12");
    cluster.put(service("asks"));
    cluster.ask("asks", "203.0.113.11");
    let refused = cluster.pass(&blocks, "asks").await.unwrap_err();
    assert!(refused.to_string().contains("of a server"), "{refused}");
    // Who shows one keeps it.
    advance(LONG).await;
    blocks.observe_anew();
    assert_eq!(cluster.provided(&blocks, "first").await, "203.0.113.10");
}

/// Without a network only the Nodes say which addresses servers have, whether or not they carry traffic.
#[tokio::test(start_paused = true)]
async fn address_of_a_node_is_given_to_no_service_of_bgp() {
    for carries_traffic in [true, false] {
        leaves_nodes_their_addresses(carries_traffic).await;
    }
}

async fn leaves_nodes_their_addresses(carries_traffic: bool) {
    let mut cluster = TestCluster::new(true).with(&["web"]);
    cluster.settings.setting = "bgp://".parse().unwrap();
    cluster.settings.location = Some("PHX".to_owned());
    let blocks = cluster.start("one");
    let node = serde_json::json!({
        "metadata": {"name": "a", "uid": "a"},
        "status": {"addresses": [{"type": "ExternalIP", "address": "203.0.113.10"}]},
    });
    let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(node).unwrap();
    let mut request = cluster.request("web");
    match carries_traffic {
        true => request.nodes = [Arc::new(NodeView::slim(node))].into(),
        false => request.other_nodes = [Arc::new(NodeView::slim(node))].into(),
    }
    for _ in 0..10 {
        let prepared = blocks.prepare(&request).await.unwrap();
        match prepared.carry_out(&OpenGuard::default()).await.unwrap() {
            Progress::Wait { after, .. } => advance(after).await,
            Progress::Ensured(provided) => {
                assert_eq!(provided.ingress[0].ip.as_deref(), Some("203.0.113.11"));
                return;
            }
            Progress::Removed => panic!("removed"),
        }
    }
    panic!("it has no address");
}
