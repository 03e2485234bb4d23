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
