//! Addresses that Services ask for.

use super::*;

impl World {
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
        let world = World::new(true).with(&["web"]);
        let blocks = world.start("one");
        assert_eq!(world.provided(&blocks, "web").await, "203.0.113.10");
        world.put(ServiceView {
            load_balancer_ip: Some("203.0.113.12".to_owned()),
            ..service("other")
        });
        assert_eq!(world.provided(&blocks, "other").await, "203.0.113.12");
        world.ask("web", wish);
        let _ = world.pass(&blocks, "web").await;
        // Whoever leads next keeps to it.
        for process in [&blocks, &world.start("two")] {
            let _ = world.pass(process, "web").await;
            assert_eq!(world.shows("web"), "203.0.113.10", "{wish}");
            world.put(service("new"));
            assert_eq!(
                world.provided(process, "new").await,
                "203.0.113.11",
                "{wish}"
            );
            world.remove("new");
            process.forget("new");
            world.put(ServiceView {
                load_balancer_ip: Some("203.0.113.10".to_owned()),
                ..service("envious")
            });
            let refused = world.pass(process, "envious").await;
            assert!(
                matches!(refused, Err(ReconcileError::Refused(_))),
                "{wish}: {refused:?}"
            );
            world.remove("envious");
        }
        // The block is not given back with the last one that has an address of it by our record.
        world.cloud.writes();
        world.removed(&blocks, "other").await;
        assert!(world.cloud.writes().is_empty(), "{wish}");
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_status_frees_former_address() {
    let world = World::new(true).with(&["web"]);
    let blocks = world.start("one");
    world.provided(&blocks, "web").await;
    world.ask("web", "192.0.2.1");
    world.pass(&blocks, "web").await.unwrap();
    // Whoever announces it writes so.
    let mut written = world.service("web");
    written.ingress[0].ip = Some("192.0.2.1".to_owned());
    world.put(written);
    world.put(service("new"));
    assert_eq!(world.provided(&blocks, "new").await, "203.0.113.10");
}
