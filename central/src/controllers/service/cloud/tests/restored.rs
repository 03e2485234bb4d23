//! A status that somebody else overwrites.

use super::*;

fn overwrite(world: &World, address: &str) {
    world.cluster.edit(&key("web"), |service| {
        let ingress = json!([{"ip": address, "ipMode": "VIP"}]);
        service["status"]["loadBalancer"]["ingress"] = ingress;
    });
}

fn shown(world: &World) -> Value {
    let service = world.cluster.json(&key("web"));
    service["status"]["loadBalancer"]["ingress"][0]["ip"].clone()
}

/// Two controllers that both insist would write as fast as the API server lets them.
#[tokio::test(start_paused = true)]
async fn overwritten_status_is_restored_at_once_and_then_ever_more_rarely() {
    let world = World::served().await;
    overwrite(&world, "198.51.100.1");
    assert_eq!(world.pass("web").await, Outcome::Done);
    assert_eq!(shown(&world), json!("192.0.2.1"));
    let patches = world.patches();
    for address in ["198.51.100.1", "198.51.100.2"] {
        overwrite(&world, address);
        let outcome = world.pass("web").await;
        let waits = matches!(outcome, Outcome::DoneFor(delay) if delay <= Duration::from_secs(5));
        assert!(waits, "{outcome:?}");
        assert_eq!(shown(&world), json!(address));
    }
    assert_eq!(world.patches(), patches);
    assert!(world.cluster.reasons().is_empty(), "it is no news");
}

/// What is new of the load balancer itself does not wait.
#[tokio::test(start_paused = true)]
async fn another_address_is_written_at_once() {
    let world = World::served().await;
    overwrite(&world, "198.51.100.1");
    assert_eq!(world.pass("web").await, Outcome::Done);
    for address in ["192.0.2.2", "192.0.2.3"] {
        world.cloud.state.lock().unwrap().address = Some(address.to_owned());
        assert_eq!(world.pass("web").await, Outcome::Done);
        assert_eq!(shown(&world), json!(address));
    }
}
