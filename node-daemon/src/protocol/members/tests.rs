use std::collections::BTreeMap;

use super::super::random::SplitMix;
use super::*;

fn set(generation: u64, voters: &[u64]) -> VoterSet {
    VoterSet {
        generation,
        voters: voters.iter().copied().map(NodeId).collect(),
        primary: None,
    }
}

/// A node with its disk and its file. What it serves has settled at the next turn.
#[derive(Clone, Debug)]
struct Host {
    remembered: Remembered,
    /// What is on disk: at worst nothing but what it has accepted, and served then.
    disk: Remembered,
    settled: u64,
    file: VoterSet,
}

/// Nodes that hear each other as `cut` permits.
#[derive(Default)]
struct Hosts {
    hosts: BTreeMap<u64, Host>,
    down: BTreeSet<u64>,
    cut: BTreeSet<(u64, u64)>,
    /// Of each generation, the sets that were ever served.
    ever: BTreeMap<u64, BTreeSet<BTreeSet<NodeId>>>,
}

impl Hosts {
    fn with(files: &[(u64, VoterSet)]) -> Self {
        let mut hosts = Self::default();
        for (node, file) in files {
            hosts.write(*node, file);
        }
        hosts
    }

    /// Writes a file; a node that is not there yet starts with it.
    fn write(&mut self, node: u64, file: &VoterSet) {
        let new = || Host {
            remembered: Remembered::default(),
            disk: Remembered::default(),
            settled: 0,
            file: file.clone(),
        };
        self.hosts.entry(node).or_insert_with(new).file = file.clone();
    }

    fn heard_by(&self, me: u64) -> Vec<Heard> {
        let hears = |node: &u64| {
            *node == me
                || !(self.down.contains(node)
                    || self.cut.contains(&(*node.min(&me), *node.max(&me))))
        };
        let heard = self.hosts.iter().filter(|(node, _)| hears(node));
        heard
            .map(|(node, host)| Heard {
                node: NodeId(*node),
                served: host.remembered.served.clone(),
                settled: host.settled,
                approved: host
                    .remembered
                    .accepted
                    .as_ref()
                    .map_or(0, VoterSet::fingerprint),
            })
            .collect()
    }

    fn turn(&mut self, me: u64) -> Option<Rule> {
        if self.down.contains(&me) {
            return None;
        }
        let heard = self.heard_by(me);
        let host = self.hosts.get_mut(&me).unwrap();
        let observed = Observed {
            me: NodeId(me),
            file: &host.file,
            heard: &heard,
            has_listened: true,
        };
        let stepped = step(&host.remembered, observed);
        host.settled = host.remembered.served.generation;
        let (rule, remembered) = stepped?;
        host.remembered = remembered;
        // The first write comes soon, and the others may never.
        if rule.is_promise() || host.disk.served.generation == 0 {
            host.disk = host.remembered.clone();
        }
        let served = &host.remembered.served;
        let ever = self.ever.entry(served.generation).or_default();
        ever.insert(served.voters.clone());
        Some(rule)
    }

    /// Its process dies, and comes back with what is on disk.
    fn restart(&mut self, node: u64) {
        if let Some(host) = self.hosts.get_mut(&node) {
            host.remembered = host.disk.clone();
            host.settled = 0;
        }
    }

    fn settle(&mut self) {
        let nodes: Vec<u64> = self.hosts.keys().copied().collect();
        for _ in 0..10 {
            for node in &nodes {
                self.turn(*node);
                self.check();
            }
        }
    }

    /// The sets that a majority of their voters serves.
    fn majorities(&self) -> Vec<VoterSet> {
        let served: BTreeSet<_> = self
            .hosts
            .values()
            .map(|host| {
                let set = &host.remembered.served;
                (set.generation, set.voters.clone())
            })
            .collect();
        let sets = served.into_iter().map(|(generation, voters)| VoterSet {
            generation,
            voters,
            primary: None,
        });
        let has_majority = |set: &VoterSet| {
            let serves = |(node, host): &(&u64, &Host)| {
                host.remembered.served == *set && set.voters.contains(&NodeId(**node))
            };
            set.generation > 0 && self.hosts.iter().filter(serves).count() >= set.majority()
        };
        sets.filter(has_majority).collect()
    }

    fn check(&self) {
        assert!(self.majorities().len() <= 1, "{:#?}", self.hosts);
        for (generation, sets) in &self.ever {
            assert!(
                *generation == 0 || sets.len() == 1,
                "{generation}: {sets:?}"
            );
        }
    }

    fn served(&self, node: u64) -> &VoterSet {
        &self.hosts[&node].remembered.served
    }

    fn compare(&self, node: u64) -> FileState {
        let host = &self.hosts[&node];
        compare(&host.remembered, &host.file)
    }
}

#[test]
fn first_node_begins_alone_and_others_join_one_by_one() {
    let mut hosts = Hosts::with(&[(1, set(1, &[1]))]);
    hosts.settle();
    assert_eq!(*hosts.served(1), set(1, &[1]));
    for (generation, node) in [(2, 2), (3, 3)] {
        let voters: Vec<u64> = (1..=node).collect();
        let file = set(generation, &voters);
        hosts.write(node, &file);
        hosts.settle();
        assert_eq!(
            hosts.served(node).generation,
            generation - 1,
            "it joins, and does not vote"
        );
        assert_eq!(hosts.compare(node), FileState::AwaitsAcceptance);
        for older in 1..node {
            hosts.write(older, &file);
        }
        hosts.settle();
        assert!(voters.iter().all(|node| *hosts.served(*node) == file));
    }
    assert_eq!(hosts.compare(3), FileState::Served);
}

/// The set of two would have no majority as long as the second node does not run.
#[test]
fn file_may_name_node_before_it_runs() {
    let mut hosts = Hosts::with(&[(1, set(1, &[1]))]);
    hosts.settle();
    hosts.write(1, &set(2, &[1, 2]));
    hosts.settle();
    assert_eq!(hosts.served(1).generation, 1);
    assert_eq!(hosts.compare(1), FileState::AwaitsAcceptance);
    hosts.write(2, &set(2, &[1, 2]));
    hosts.settle();
    for node in [1, 2] {
        assert_eq!(*hosts.served(node), set(2, &[1, 2]), "{node}");
    }
}

/// What one of two serves, the other cannot join.
#[test]
fn next_set_waits_until_enough_of_its_voters_have_joined_the_present_one() {
    let mut hosts = Hosts::with(&[(1, set(1, &[1]))]);
    hosts.settle();
    let next = set(2, &[1, 2]);
    hosts.write(1, &next);
    hosts.write(2, &next);
    assert_eq!(hosts.turn(1), Some(Rule::Accept));
    assert_eq!(hosts.turn(1), None, "node 2 runs, and serves nothing");
    assert_eq!(hosts.turn(2), Some(Rule::Join));
    assert_eq!(hosts.turn(1), Some(Rule::Succeed));
    assert_eq!(hosts.turn(2), Some(Rule::Follow));
}

#[test]
fn three_begin_together_whoever_is_first() {
    let file = set(1, &[1, 2, 3]);
    let mut hosts = Hosts::with(&[(1, file.clone()), (2, file.clone()), (3, file.clone())]);
    hosts.settle();
    for node in 1..=3 {
        assert_eq!(*hosts.served(node), file);
    }
}

#[test]
fn node_that_joins_never_begins_by_itself() {
    let mut hosts = Hosts::with(&[(4, set(2, &[1, 2, 3, 4])), (5, set(1, &[1, 2, 3]))]);
    hosts.settle();
    assert_eq!(hosts.served(4).generation, 0, "revision 2 is not the first");
    assert_eq!(hosts.served(5).generation, 0, "it is not named");
    assert_eq!(hosts.compare(4), FileState::AwaitsOthers);
}

fn three() -> Hosts {
    let file = set(1, &[1, 2, 3]);
    let mut hosts = Hosts::with(&[(1, file.clone()), (2, file.clone()), (3, file)]);
    hosts.settle();
    hosts
}

/// A dead node is taken out, and another with a new name put in, one file at a time.
#[test]
fn dead_node_is_replaced_file_by_file() {
    let mut hosts = three();
    hosts.down.insert(3);
    hosts.write(1, &set(2, &[1, 2]));
    hosts.settle();
    assert_eq!(hosts.served(1).generation, 1, "one of three is no majority");
    hosts.write(2, &set(2, &[1, 2]));
    hosts.settle();
    assert_eq!(*hosts.served(1), set(2, &[1, 2]));
    let last = set(3, &[1, 2, 4]);
    for node in [4, 2, 1] {
        hosts.write(node, &last);
        hosts.settle();
    }
    for node in [1, 2, 4] {
        assert_eq!(*hosts.served(node), last);
    }
    // The dead one comes back with its old file, and disturbs nobody.
    hosts.down.clear();
    hosts.settle();
    assert_eq!(*hosts.served(3), last);
    assert_eq!(hosts.compare(3), FileState::Outdated);
}

#[test]
fn accepts_one_set_of_a_revision_only() {
    let mut hosts = three();
    hosts.write(1, &set(2, &[1, 2, 3, 4]));
    hosts.settle();
    hosts.write(1, &set(2, &[1, 2, 3, 5]));
    hosts.settle();
    assert_eq!(hosts.compare(1), FileState::AcceptedOther);
    // The two others agree on what the first has given up.
    for node in [2, 3, 5] {
        hosts.write(node, &set(2, &[1, 2, 3, 5]));
    }
    hosts.settle();
    assert_eq!(
        *hosts.served(1),
        set(2, &[1, 2, 3, 5]),
        "it follows the majority"
    );
}

#[test]
fn tells_how_file_is_wrong() {
    let mut hosts = three();
    for (file, told) in [
        (set(1, &[1, 2]), FileState::Contradicts),
        (set(2, &[1, 2, 4]), FileState::TooManyChanges),
        (set(3, &[1, 2]), FileState::SkipsRevisions),
    ] {
        hosts.write(1, &file);
        hosts.settle();
        assert_eq!(hosts.compare(1), told);
        assert_eq!(*hosts.served(1), set(1, &[1, 2, 3]));
    }
}

/// One of two cannot know whether the other, whose disk is empty, had gone on.
#[test]
fn voter_without_memory_needs_majority_of_others() {
    let mut hosts = three();
    hosts.hosts.get_mut(&3).unwrap().remembered = Remembered::default();
    hosts.write(3, &set(2, &[1, 2, 3, 4]));
    hosts.down.insert(2);
    hosts.settle();
    assert_eq!(hosts.served(3).generation, 0);
    hosts.down.clear();
    hosts.settle();
    assert_eq!(*hosts.served(3), set(1, &[1, 2, 3]));
}

/// Random files, cuts, deaths, and returns with what was written last: of one revision one set, and one majority at a time.
#[test]
fn no_schedule_makes_two_majorities() {
    for seed in 0..200 {
        let mut random = SplitMix::new(seed);
        let mut below = |bound: u64| random.next() % bound;
        let first: Vec<u64> = (1..=1 + below(4)).collect();
        let files: Vec<_> = first.iter().map(|node| (*node, set(1, &first))).collect();
        let mut hosts = Hosts::with(&files);
        hosts.settle();
        for _ in 0..300 {
            match below(9) {
                0 => {
                    // Somebody writes a next file, from what some node serves, and perhaps another than others do.
                    let nodes: Vec<u64> = hosts.hosts.keys().copied().collect();
                    let base = hosts
                        .served(nodes[usize::try_from(below(nodes.len() as u64)).unwrap()])
                        .clone();
                    let mut voters = base.voters.clone();
                    let name = NodeId(1 + below(7));
                    if !voters.remove(&name) {
                        voters.insert(name);
                    }
                    if voters.is_empty() || base.generation == 0 {
                        continue;
                    }
                    let next = VoterSet {
                        generation: base.generation + 1,
                        voters,
                        primary: None,
                    };
                    for node in 1..=7 {
                        if below(2) == 0 {
                            hosts.write(node, &next);
                        }
                    }
                }
                1 => {
                    let node = 1 + below(7);
                    if !hosts.down.remove(&node) {
                        hosts.down.insert(node);
                    }
                }
                2 => hosts.cut.clear(),
                4 => hosts.restart(1 + below(7)),
                3 => {
                    let (a, b) = (1 + below(7), 1 + below(7));
                    hosts.cut.insert((a.min(b), a.max(b)));
                }
                _ => {
                    let nodes: Vec<u64> = hosts.hosts.keys().copied().collect();
                    hosts.turn(nodes[usize::try_from(below(nodes.len() as u64)).unwrap()]);
                }
            }
            hosts.check();
        }
    }
}

/// Promises made under the set before may count until then.
#[test]
fn next_set_waits_until_present_one_has_settled() {
    let (served, next) = (set(2, &[1, 2, 3]), set(3, &[1, 2]));
    let remembered = Remembered {
        served: served.clone(),
        accepted: Some(next.clone()),
    };
    let heard = |settled: [u64; 2]| {
        let of = |(node, settled): (u64, u64)| Heard {
            node: NodeId(node),
            served: served.clone(),
            settled,
            approved: next.fingerprint(),
        };
        [(1, settled[0]), (2, settled[1])].map(of)
    };
    let steps = |settled| {
        let observed = Observed {
            me: NodeId(1),
            file: &next,
            heard: &heard(settled),
            has_listened: true,
        };
        step(&remembered, observed).map(|(rule, _)| rule)
    };
    assert_eq!(steps([2, 1]), None);
    assert_eq!(steps([2, 2]), Some(Rule::Succeed));
}
