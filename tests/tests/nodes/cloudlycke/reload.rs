//! Section 6.5, rules 1, 2, 6 and 11: the file changes while central runs.

use mooring_common::names::taints;
use mooring_test_cluster::cluster::{Cluster, SOON, addresses, has_taint, logged};
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::eventually;

use crate::cloudlycke::file;

fn machine(name: &str) -> Machine {
    Machine::named(name).internal("10.2.0.1")
}

/// Five machines, of which one may go at a time.
fn five(change: impl Fn(usize, Machine) -> Option<Machine>) -> Machines {
    let all = (0..5).map(|i| (i, Machine::named(&format!("m{i}"))));
    Machines::of(all.filter_map(|(i, machine)| change(i, machine)))
}

#[tokio::test]
async fn cl_6_5_2_a_change_is_taken_over_and_its_difference_logged() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let machines = file(&five(|_, machine| Some(machine)));
    let central = cluster.central().machines(&machines).start().await;
    let changed = five(|i, machine| match i {
        0 => None,
        1 => Some(machine.state("shutdown")),
        _ => Some(machine),
    });
    machines.replace(&changed).unwrap();
    logged(&central, "machines file reloaded").await;
    let log = central.log();
    let line = log.lines().find(|line| line.contains("reloaded")).unwrap();
    for part in [
        "generation=2",
        "added=\"\"",
        "removed=\"m0\"",
        "changed=\"m1\"",
    ] {
        assert!(line.contains(part), "{part} is missing: {line}");
    }
    cluster.finish().await;
}

/// Whatever is spoilt, a Node that registers now is initialised from the last good data.
async fn last_good_data_stay_after(spoil: impl FnOnce(&MachinesFile), told: &str) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let good = Machines::of([machine(&name), Machine::named("m1"), Machine::named("m2")]);
    let machines = file(&good);
    let central = cluster.central().machines(&machines).start().await;
    spoil(&machines);
    logged(&central, told).await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    let node = cluster.initialized(&name).await;
    assert_eq!(addresses(&node), ["InternalIP 10.2.0.1"]);
    // And a good file ends it.
    let better = Machines::of([
        machine(&name).internal("fd00::2"),
        Machine::named("m1"),
        Machine::named("m2"),
    ]);
    machines.replace(&better).unwrap();
    cluster
        .is(&name, "updated", |node| addresses(node).len() == 2)
        .await;
    assert!(central.is_running());
    cluster.finish().await;
}

#[tokio::test]
async fn cl_6_5_1_faults_at_a_reload_keep_the_last_good_data() {
    let faulty = "version: 1\nnodes: [{match: {name: a}, id: x}, {match: {name: b}, id: x}]";
    let told = "provider ID \\\"cloudlycke://x\\\" is that of two machines";
    last_good_data_stay_after(|file| file.replace_text(faulty).unwrap(), told).await;
}

#[tokio::test]
async fn cl_6_5_1_a_torn_file_keeps_the_last_good_data() {
    let torn = "version: 1\nnodes: [{match: {na";
    last_good_data_stay_after(|file| file.overwrite(torn).unwrap(), "this is no YAML").await;
}

#[tokio::test]
async fn cl_6_5_1_a_file_that_vanishes_keeps_the_last_good_data() {
    last_good_data_stay_after(
        |file| file.take_away().unwrap(),
        "cannot read the machines file",
    )
    .await;
}

#[tokio::test]
async fn cl_6_5_2_a_change_that_takes_away_too_much_keeps_the_last_good_data() {
    let lost = Machines::of([Machine::named("m1")]);
    let told = "would remove or terminate 2 of 3 machines";
    last_good_data_stay_after(|file| file.replace(&lost).unwrap(), told).await;
}

/// 6.5 rule 6: switched off is not gone.
#[tokio::test]
async fn cl_6_5_6_a_machine_that_is_switched_off_exists() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let content = Machines::of([machine(&name).state("shutdown")]).unknown("missing");
    let machines = file(&content);
    let id = format!("cloudlycke://{name}");
    let node = NodeBuilder::new(&name).provider_id(&id).not_ready();
    node.create(&cluster.admin).await.unwrap();
    let _central = cluster.central().machines(&machines).start().await;
    cluster
        .is(&name, "shut down", |node| has_taint(node, taints::SHUTDOWN))
        .await;
    let writes = cluster.written_on(&name).await;
    assert!(
        writes.with_verb("delete").is_empty(),
        "{}",
        writes.summary()
    );
    cluster.finish().await;
}

#[tokio::test]
async fn cl_6_5_11_metrics_tell_how_the_file_stands_and_which_nodes_it_lacks() {
    let cluster = Cluster::exclusive_with_controllers().await;
    for name in [unique("n"), unique("n")] {
        NodeBuilder::new(&name)
            .ready()
            .create(&cluster.admin)
            .await
            .unwrap();
    }
    let machines = file(&five(|_, machine| Some(machine)));
    let endpoints = cluster.endpoints();
    let central = cluster
        .central()
        .machines(&machines)
        .flag(&format!("--secure-port={}", endpoints.port()))
        .flag("--bind-address=127.0.0.1")
        .flag("--authorization-always-allow-paths=/metrics");
    let _central = central.start().await;
    let say = async |lines: &[&str]| {
        eventually(&format!("the metrics say {lines:?}"), SOON, async || {
            let (_, metrics) = endpoints.get("/metrics", None).await?;
            let missing = lines
                .iter()
                .find(|line| !metrics.lines().any(|l| l == **line));
            missing.map_or(Ok(()), |line| Err(anyhow::anyhow!("no {line}:\n{metrics}")))
        })
        .await;
    };
    say(&[
        "mooring_machines_file_generation 1",
        "mooring_machines_file_refused 0",
        "mooring_nodes_unmatched 2",
    ])
    .await;
    machines.replace_text("version: 7").unwrap();
    say(&[
        "mooring_machines_file_generation 1",
        "mooring_machines_file_refused 1",
    ])
    .await;
    machines
        .replace(&five(|i, machine| (i > 0).then_some(machine)))
        .unwrap();
    say(&[
        "mooring_machines_file_generation 2",
        "mooring_machines_file_refused 0",
    ])
    .await;
    cluster.finish().await;
}
