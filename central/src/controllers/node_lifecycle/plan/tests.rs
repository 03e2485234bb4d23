use std::time::Duration;

use mooring_common::k8s::Slim;
use serde_json::json;

use super::*;

const FLAGS: NodeFlags = NodeFlags {
    daemon_grace: Duration::ZERO,
    address_period: Duration::from_secs(300),
    monitor_period: Duration::from_secs(5),
    deletion_grace: Duration::from_secs(30),
    max_deletions_percent: 20,
    concurrent_syncs: 1,
};

struct Given(Observed);

fn node(name: &str) -> Given {
    node_of("cloudlycke", name)
}

fn node_of(cloud: &str, name: &str) -> Given {
    let id = format!("{cloud}://{name}");
    let object = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"providerID": id},
    });
    Given(Observed {
        node: Arc::new(NodeView::slim(serde_json::from_value(object).unwrap())),
        ours: Some(id.parse().unwrap()),
        presence: Presence::Running,
        unmatched: false,
        foreign: false,
        seen_for: Duration::from_secs(3600),
        settling: false,
        reprieved: false,
    })
}

impl Given {
    fn with(mut self, change: impl FnOnce(&mut NodeView)) -> Self {
        change(Arc::make_mut(&mut self.0.node));
        self
    }
    fn readiness(self, readiness: Readiness) -> Self {
        self.with(|node| node.readiness = readiness)
    }
    fn presence(mut self, presence: Presence) -> Self {
        self.0.presence = presence;
        self
    }
    fn shutdown_taint(self) -> Self {
        self.with(|node| node.taints.push(taints::shutdown()))
    }
    fn foreign(mut self) -> Self {
        self.0.ours = None;
        self.0.foreign = true;
        self
    }
    fn planned(self) -> Vec<String> {
        plan(&[self.0], &HashMap::new(), &FLAGS)
            .plan
            .steps()
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

const READINESS: [Readiness; 3] = [Readiness::Ready, Readiness::NotReady, Readiness::Unknown];

#[test]
fn deletes_only_unready_node_whose_machine_is_gone() {
    for readiness in READINESS {
        for presence in [
            Presence::Running,
            Presence::Stopped,
            Presence::Gone,
            Presence::Unsure,
        ] {
            let planned = node("a").readiness(readiness).presence(presence).planned();
            let expected: &[&str] = match (readiness, presence) {
                (Readiness::Ready, _) => &[],
                (_, Presence::Gone) => &["delete a, whose machine cloudlycke://a is gone"],
                (_, Presence::Stopped) => &["add the shutdown taint to a"],
                (_, Presence::Running | Presence::Unsure) => &[],
            };
            assert_eq!(planned, expected, "{readiness:?} {presence:?}");
        }
    }
}

#[test]
fn removes_shutdown_taint_once_node_is_ready() {
    let tainted = || node("a").shutdown_taint();
    assert_eq!(
        tainted().readiness(Readiness::Ready).planned(),
        ["take the shutdown taint off a"]
    );
    for presence in [Presence::Running, Presence::Stopped, Presence::Unsure] {
        assert!(tainted().presence(presence).planned().is_empty());
    }
}

#[test]
fn leaves_foreign_deleted_and_young_nodes_alone() {
    assert!(
        node("a")
            .presence(Presence::Gone)
            .foreign()
            .planned()
            .is_empty()
    );
    let dying = node("a")
        .presence(Presence::Gone)
        .with(|node| node.deleting = true);
    assert!(dying.planned().is_empty());
    let mut young = node("a").presence(Presence::Gone).with(|node| {
        node.taints.push(k8s_openapi::api::core::v1::Taint {
            key: keys::UNINITIALIZED.to_owned(),
            ..Default::default()
        });
    });
    young.0.seen_for = Duration::from_secs(5);
    assert!(young.planned().is_empty());
}

#[test]
fn deletes_none_when_too_many_seem_gone() {
    for (gone, total, deleted) in [(1, 1, 1), (1, 3, 1), (2, 10, 2), (3, 10, 0), (3, 5, 0)] {
        let nodes: Vec<Observed> = (0..total)
            .map(|i| {
                let presence = if i < gone {
                    Presence::Gone
                } else {
                    Presence::Running
                };
                node(&format!("n{i}")).presence(presence).0
            })
            .collect();
        let decisions = plan(&nodes, &HashMap::new(), &FLAGS);
        assert_eq!(decisions.plan.steps().len(), deleted, "{gone} of {total}");
        assert_eq!(decisions.held.len(), gone - deleted, "{gone} of {total}");
    }
}

/// A listing that lacks most machines is not to be believed for the one Node that is not Ready.
#[test]
fn ready_nodes_count_for_the_deletion_guard() {
    let nodes: Vec<Observed> = (0..5)
        .map(|i| {
            let readiness = if i == 0 {
                Readiness::NotReady
            } else {
                Readiness::Ready
            };
            node(&format!("n{i}"))
                .presence(Presence::Gone)
                .readiness(readiness)
                .0
        })
        .collect();
    assert!(plan(&nodes, &HashMap::new(), &FLAGS).plan.is_empty());
}

#[test]
fn waits_for_own_write_to_show() {
    let mut given = node("a")
        .readiness(Readiness::NotReady)
        .presence(Presence::Gone);
    given.0.settling = true;
    let decisions = plan(&[given.0], &HashMap::new(), &FLAGS);
    assert!(decisions.plan.is_empty() && decisions.look_again);
}

#[test]
fn kept_node_is_not_looked_up_again_at_once() {
    let mut kept = node("a")
        .readiness(Readiness::NotReady)
        .presence(Presence::Gone);
    kept.0.reprieved = true;
    let decisions = plan(&[kept.0], &HashMap::new(), &FLAGS);
    assert!(decisions.plan.is_empty() && decisions.look_again);
}

#[test]
fn slow_steps_come_last() {
    let gone = node("a").readiness(Readiness::Unknown);
    let stopped = node("b").readiness(Readiness::Unknown);
    let nodes = [
        gone.presence(Presence::Gone).0,
        stopped.presence(Presence::Stopped).0,
    ];
    let decisions = plan(&nodes, &HashMap::new(), &FLAGS);
    assert!(matches!(
        decisions.plan.steps(),
        [
            LifecycleStep::AddShutdownTaint(_),
            LifecycleStep::Delete { .. }
        ]
    ));
}

/// As many Nodes of one cloud: the machines of the first `gone` seem gone, and the first `unready` are not
/// Ready.
fn cloud(name: &str, total: usize, gone: usize, unready: usize) -> Vec<Observed> {
    let one = |i: usize| {
        let presence = if i < gone {
            Presence::Gone
        } else {
            Presence::Running
        };
        let readiness = if i < unready {
            Readiness::NotReady
        } else {
            Readiness::Ready
        };
        let node = node_of(name, &format!("{name}-{i}"));
        node.presence(presence).readiness(readiness).0
    };
    (0..total).map(one).collect()
}

/// With the token of another project, a small cloud lists none of its few machines.
#[test]
fn large_cloud_does_not_outweigh_missing_machines_of_small_one() {
    let mut nodes = cloud("linode", 20, 0, 0);
    nodes.extend(cloud("cloudscale", 3, 3, 1));
    let decisions = plan(&nodes, &HashMap::new(), &FLAGS);
    assert!(decisions.plan.is_empty(), "{}", decisions.plan);
    let held = decisions.held.iter().map(|(_, gone, of)| (*gone, *of));
    assert_eq!(held.collect::<Vec<_>>(), [(3, 3)]);
}

#[test]
fn missing_machines_of_one_cloud_keep_no_node_of_another() {
    let mut nodes = cloud("a", 5, 3, 3);
    nodes.extend(cloud("b", 5, 1, 1));
    let decisions = plan(&nodes, &HashMap::new(), &FLAGS);
    let planned = decisions.plan.steps().iter().map(ToString::to_string);
    let planned: Vec<_> = planned.collect();
    assert_eq!(planned, ["delete b-0, whose machine b://b-0 is gone"]);
    assert_eq!(decisions.held.len(), 3);
}

/// One machine that vanishes every few seconds is many machines.
#[test]
fn counts_deletions_over_time() {
    let nodes: Vec<Observed> = (0..30)
        .map(|i| {
            let presence = if i == 0 {
                Presence::Gone
            } else {
                Presence::Running
            };
            let node = node(&format!("n{i}")).readiness(Readiness::NotReady);
            node.presence(presence).0
        })
        .collect();
    for (lately, deleted) in [(0, 1), (9, 1), (10, 0)] {
        let lately_here = [("cloudlycke".to_owned(), lately)].into();
        let decisions = plan(&nodes, &lately_here, &FLAGS);
        assert_eq!(decisions.plan.steps().len(), deleted, "{lately} lately");
        let lately_elsewhere = [("linode".to_owned(), lately)].into();
        let decisions = plan(&nodes, &lately_elsewhere, &FLAGS);
        assert_eq!(decisions.plan.steps().len(), 1, "{lately} of another cloud");
    }
}

#[test]
fn keeps_shutdown_taint_of_other_providers_node() {
    let node = node("a")
        .shutdown_taint()
        .readiness(Readiness::Ready)
        .foreign();
    assert!(node.planned().is_empty());
}
