//! Nodes whose machines are not known, not known yet, or known twice.

use mooring_common::names::{reasons, taints::UNINITIALIZED};
use mooring_test_cluster::cluster::{Cluster, Initializer, has_taint, label, provider_id};
use mooring_test_cluster::machines_file::{Machine, Machines};
use mooring_test_cluster::objects::{NodeBuilder, unique};

use crate::node_init::{by_either_program, file, file_of, machine};

by_either_program! {
    ni_03_a_node_without_a_machine_stays_tainted_and_is_kept
    ni_21_a_machine_that_becomes_known_is_taken_up_without_a_nudge
    ni_22_two_machines_that_match_are_named_and_none_is_chosen
}

async fn ni_03_a_node_without_a_machine_stays_tainted_and_is_kept(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machines = file_of(machine("another"));
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let before = node.create(&cluster.admin).await.unwrap();

    let node = cluster.node(&name).await.expect("the Node is kept");
    assert!(has_taint(&node, UNINITIALIZED));
    assert_eq!(node.metadata.labels, before.metadata.labels);
    assert!(cluster.written_on(&name).await.is_empty());
    cluster.finish().await;
}

/// Before the API server has answered for the first time, nobody knows whether it has registered.
#[tokio::test]
async fn a_node_that_has_registered_is_not_said_to_be_missing() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let machines = file_of(machine(&name));
    let daemon = cluster.daemon(&name).machines(&machines).start().await;
    cluster.initialized(&name).await;
    let log = daemon.log();
    assert!(!log.contains("registered"), "{log}");
    cluster.finish().await;
}

/// This provider can always give a provider ID, unless that would be longer than one may be. The
/// daemon leaves such a Node to central.
#[tokio::test]
async fn ni_16_a_node_without_provider_id_stays_tainted_until_one_is_known() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, scheme) = (unique(&["long"; 40].join(".")), "s".repeat(60));
    let described = |id: Option<&str>| {
        let machine = machine(&name).without_id();
        let machine = id.into_iter().fold(machine, Machine::id);
        Machines::of([machine]).scheme(&scheme)
    };
    let machines = file(&described(None));
    let _central = cluster.central().machines(&machines).start().await;
    let _daemon = cluster.daemon(&name).machines(&machines).start().await;
    let node = NodeBuilder::new(&name)
        .label("kubernetes.io/hostname", "long")
        .tainted()
        .ready();
    node.create(&cluster.admin).await.unwrap();

    let note = cluster.told(&name, reasons::INITIALIZATION_REFUSED).await;
    assert!(note.contains("provider ID is not known"), "{note}");
    let node = cluster.node(&name).await.unwrap();
    assert!(has_taint(&node, UNINITIALIZED));
    assert_eq!(provider_id(&node), None);

    machines.replace(&described(Some("short"))).unwrap();
    let node = cluster.initialized(&name).await;
    assert_eq!(provider_id(&node), Some(&*format!("{scheme}://short")));
    // Not `leave`: the fence does not let daemons write provider IDs of such a scheme, and who
    // comes first is open.
}

async fn ni_21_a_machine_that_becomes_known_is_taken_up_without_a_nudge(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machines = file_of(machine("another"));
    let program = cluster.initializer(by, &name).machines(&machines);
    // No period may help.
    let _program = program
        .flag("--node-status-update-frequency=1h")
        .start()
        .await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let before = node.create(&cluster.admin).await.unwrap();
    cluster.told(&name, reasons::INITIALIZATION_REFUSED).await;
    let now = cluster.node(&name).await.unwrap();
    assert_eq!(
        now.metadata.resource_version,
        before.metadata.resource_version
    );

    machines
        .replace(&Machines::of([
            machine("another"),
            machine(&name).internal("10.1.0.2"),
        ]))
        .unwrap();
    cluster.initialized(&name).await;
    cluster.finish().await;
}

async fn ni_22_two_machines_that_match_are_named_and_none_is_chosen(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let (first, second) = (unique("first"), unique("second"));
    let by_name = Machine::matching("name", &name).id(&first);
    let by_address = Machine::matching("ip", "10.1.0.2").id(&second);
    let machines = file(&Machines::of([
        by_name.internal("10.1.0.1"),
        by_address.internal("10.1.0.2"),
    ]));
    let _program = cluster
        .initializer(by, &name)
        .machines(&machines)
        .start()
        .await;
    let node = NodeBuilder::new(&name)
        .tainted()
        .provided_node_ip("10.1.0.2")
        .ready();
    node.create(&cluster.admin).await.unwrap();

    let note = cluster.told(&name, reasons::AMBIGUOUS_INSTANCE).await;
    for known_as in [&name, &format!("cloudlycke://{second}")] {
        assert!(note.contains(&**known_as), "{known_as} is missing: {note}");
    }
    let node = cluster.node(&name).await.unwrap();
    assert!(has_taint(&node, UNINITIALIZED));
    assert_eq!(provider_id(&node), None);
    assert_eq!(label(&node, "topology.kubernetes.io/zone"), None);
    assert!(cluster.written_on(&name).await.is_empty());
    cluster.finish().await;
}
