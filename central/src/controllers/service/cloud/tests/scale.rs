//! What one Node's change costs each Service, in a small cluster and in a large one.

use mooring_common::node_view::NodeView;

use super::*;

/// A cluster of so many Nodes and Services, all served.
async fn served(nodes: usize, services: usize) -> World {
    let world = World::new();
    for number in 0..nodes {
        world.cluster.join(&format!("node-{number:05}"));
    }
    let mut members: Vec<String> = world
        .cluster
        .nodes
        .lock()
        .unwrap()
        .iter()
        .map(name_of)
        .collect();
    members.sort();
    for name in names(services) {
        let balancers = &mut world.cloud.state.lock().unwrap().balancers;
        balancers.insert(name.clone(), members.clone());
    }
    for name in names(services) {
        world.add(&name);
        assert_eq!(world.pass(&name).await, Outcome::Done);
    }
    world
}

fn name_of(node: &Arc<NodeView>) -> String {
    node.name.clone()
}

fn names(services: usize) -> impl Iterator<Item = String> {
    (0..services).map(|number| format!("web-{number:05}"))
}

/// How many Nodes and Services are listed for each Service when one Node more joins.
async fn listed_for_each(nodes: usize, services: usize) -> f64 {
    let world = served(nodes, services).await;
    world.cluster.join("one-more");
    world.services.node_changes.bump();
    let before = world.cluster.listed.load(Ordering::SeqCst);
    for name in names(services) {
        assert_eq!(world.pass(&name).await, Outcome::Done);
    }
    let members = world.cloud.members("web-00000").unwrap();
    assert_eq!(members.len(), nodes + 3);
    let listed = world.cluster.listed.load(Ordering::SeqCst) - before;
    let each = f64::from(u32::try_from(listed).unwrap()) / services as f64;
    println!(
        "{nodes:>6} Nodes, {services:>5} Services, one Node joins: {each:>7.1} objects listed for \
         each Service"
    );
    each
}

/// Ten times as many Nodes and Services: a Service costs the same.
async fn costs_the_same(nodes: usize, services: usize) {
    let small = listed_for_each(nodes / 10, services / 10).await;
    let large = listed_for_each(nodes, services).await;
    assert!(large <= 2.0 * small, "{small} became {large}");
}

#[tokio::test(start_paused = true)]
async fn service_costs_the_same_in_large_cluster() {
    costs_the_same(200, 40).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes a minute: make bench-services"]
async fn change_of_5000_nodes_costs_each_of_1000_services_the_same() {
    costs_the_same(5_000, 1_000).await;
}
