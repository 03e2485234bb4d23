//! The control plane's address: voters from files, and no API server at all.

use super::*;
use crate::protocol::members::{FileState, Heard, Observed, Remembered, compare, step};
use crate::protocol::random::SplitMix;

/// How often a node looks whether who votes is to change.
const LOOK: Duration = Duration::from_millis(100);
/// After that time everybody who lives has been heard.
const LISTENING: Duration = Duration::from_secs(1);

fn set(generation: u64, voters: &[u64]) -> VoterSet {
    VoterSet {
        generation,
        voters: voters.iter().copied().map(NodeId).collect(),
        primary: None,
    }
}

/// A world whose nodes have files and disks.
struct FileWorld {
    world: World,
    files: BTreeMap<u64, VoterSet>,
    memories: BTreeMap<u64, Remembered>,
    /// What is on disk: at worst nothing but what was accepted, and served then.
    disks: BTreeMap<u64, Remembered>,
    started: BTreeMap<u64, Moment>,
    witnesses: BTreeSet<u64>,
}

impl FileWorld {
    /// Nobody runs yet; there is one address.
    fn new() -> Self {
        let mut world = World::new(&[], 1);
        world.api_up = false;
        Self {
            world,
            files: BTreeMap::new(),
            memories: BTreeMap::new(),
            disks: BTreeMap::new(),
            started: BTreeMap::new(),
            witnesses: BTreeSet::new(),
        }
    }

    /// Three nodes that have begun together, one of which has the address.
    fn three() -> Self {
        let mut file = Self::new();
        for node in [1, 2, 3] {
            file.start(node, &set(1, &[1, 2, 3]));
        }
        file.run(ms(4000));
        file.world.expect_all_spoken();
        file.world.forget_gaps();
        file
    }

    fn start(&mut self, node: u64, file: &VoterSet) {
        self.files.insert(node, file.clone());
        let disk = self.disks.entry(node).or_default().clone();
        self.memories.insert(node, disk);
        self.world.known.insert(node);
        self.world.start(node);
        self.started.insert(node, self.world.now);
        if self.witnesses.contains(&node) {
            self.world.change_local(node, |local| {
                local.link_up = false;
                local.contact.mac = None;
            });
        }
        self.show(node);
    }

    /// Starts it again with the same file and disk.
    fn restart(&mut self, node: u64) {
        let file = self.files[&node].clone();
        self.start(node, &file);
    }

    fn write(&mut self, node: u64, file: &VoterSet) {
        self.files.insert(node, file.clone());
    }

    /// Writes a next file to some nodes, from what some node serves; it may contradict what others were given.
    fn write_next(&mut self, below: &mut impl FnMut(u64) -> u64) {
        let known: Vec<u64> = self.memories.keys().copied().collect();
        let base = usize::try_from(below(known.len() as u64)).unwrap();
        let base = self.served(known[base]).clone();
        let mut voters = base.voters;
        let name = NodeId(1 + below(6));
        if !voters.remove(&name) {
            voters.insert(name);
        }
        if base.generation == 0 || voters.is_empty() {
            return;
        }
        let next = VoterSet {
            generation: base.generation + 1,
            voters,
            primary: None,
        };
        for node in 1..=6 {
            if below(3) == 0 {
                continue;
            }
            if self.files.contains_key(&node) {
                self.write(node, &next);
            } else {
                self.start(node, &next);
            }
        }
    }

    fn show(&mut self, node: u64) {
        let memory = self.memories[&node].clone();
        let view = View {
            voters: (memory.served.generation > 0).then_some(memory.served),
            voters_from_file: true,
            accepted: memory.accepted,
            ..self.world.view()
        };
        self.world
            .act(node, |machine, now| machine.set_view(view, now));
    }

    fn heard_by(machine: &Machine) -> Vec<Heard> {
        let peers = machine.peers.iter().filter(|(_, peer)| !peer.suspected);
        let others = peers.map(|(node, peer)| Heard {
            node: *node,
            served: peer.last.voters.clone(),
            settled: peer.last.settled,
            approved: peer.last.approved,
        });
        let me = Heard {
            node: machine.me,
            served: machine.voter_sets.current.clone(),
            settled: machine.settled(),
            approved: 0,
        };
        others.chain([me]).collect()
    }

    fn look(&mut self, node: u64) {
        let host = &self.world.hosts[&node];
        if host.stopped {
            return;
        }
        let heard = Self::heard_by(&host.machine);
        let observed = Observed {
            me: NodeId(node),
            file: &self.files[&node],
            heard: &heard,
            has_listened: self.started[&node] + LISTENING <= self.world.now,
        };
        if let Some((rule, next)) = step(&self.memories[&node], observed) {
            if rule.is_promise() || self.disks[&node].served.generation == 0 {
                self.disks.insert(node, next.clone());
            }
            self.memories.insert(node, next);
            self.show(node);
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.world.now + duration;
        while self.world.now < end {
            self.world.run(LOOK.min(end.since(self.world.now)));
            let nodes: Vec<u64> = self.world.hosts.keys().copied().collect();
            for node in nodes {
                self.look(node);
            }
        }
    }

    fn drain(&mut self, node: u64, draining: bool) {
        self.world
            .change_local(node, |local| local.draining = draining);
    }

    fn speaker(&self) -> Option<u64> {
        self.world.speakers().into_values().next()
    }

    fn others(&self) -> Vec<u64> {
        let speaker = self.speaker();
        let nodes = self.world.hosts.keys().copied();
        nodes.filter(|node| Some(*node) != speaker).collect()
    }

    fn served(&self, node: u64) -> &VoterSet {
        &self.memories[&node].served
    }
}

#[test]
fn first_node_has_the_address_alone_and_keeps_it_while_others_join() {
    let mut file = FileWorld::new();
    file.start(1, &set(1, &[1]));
    file.run(ms(3000));
    assert_eq!(file.speaker(), Some(1));
    file.world.forget_gaps();
    for (generation, node) in [(2, 2), (3, 3)] {
        let voters: Vec<u64> = (1..=node).collect();
        let next = set(generation, &voters);
        file.start(node, &next);
        file.run(ms(2000));
        for older in 1..node {
            file.write(older, &next);
        }
        file.run(ms(3000));
        for node in &voters {
            assert_eq!(*file.served(*node), next);
        }
    }
    assert_eq!(file.speaker(), Some(1));
    assert!(file.world.gap() < ms(5), "{:?}", file.world.gap());
}

#[test]
fn replaces_crashed_node_in_half_a_second() {
    let mut file = FileWorld::three();
    let speaker = file.speaker().unwrap();
    file.world.crash(speaker);
    file.run(ms(1000));
    assert!(file.speaker().is_some_and(|now| now != speaker));
    assert!(file.world.gap() < ms(500), "{:?}", file.world.gap());
}

/// Two seconds later its node has the address no more, although its kernel answers.
#[test]
fn address_of_a_killed_process_is_announced_at_once() {
    let mut file = FileWorld::three();
    let key = *file.world.keys.keys().next().unwrap();
    let speaker = file.world.speaker(key).unwrap();
    file.world.kill(speaker);
    file.run(ms(1000));
    let heir = file.world.speaker(key).unwrap();
    let begun = file.world.begun(heir);
    assert!(begun.contains(&(true, Cause::TakenOver)), "{begun:?}");
}

/// Else it would be announced after its node has it no more.
#[test]
fn address_of_a_process_that_has_ended_is_announced_within_half_a_minute() {
    let mut file = FileWorld::three();
    let key = *file.world.keys.keys().next().unwrap();
    let speaker = file.world.speaker(key).unwrap();
    file.world
        .change_local(speaker, |local| local.ending = true);
    file.run(ms(1000));
    file.world.kill(speaker);
    let heir = file.world.speaker(key).unwrap();
    assert_eq!(file.world.begun(heir), [(false, Cause::HandedOver)].into());
    file.run(ms(23_000));
    assert_eq!(file.world.bursts(heir), 0);
    file.run(ms(3000));
    assert_eq!(file.world.bursts(heir), 1);
}

/// It failed while its process was exchanged, so that nobody could say so.
#[test]
fn address_is_announced_once_the_next_process_says_that_its_api_server_has_failed() {
    for has_failed in [false, true] {
        let mut file = FileWorld::three();
        let speaker = file.speaker().unwrap();
        file.world
            .change_local(speaker, |local| local.ending = true);
        file.run(ms(1000));
        file.world.kill(speaker);
        let heir = file.speaker().unwrap();
        file.run(ms(12_000));
        file.restart(speaker);
        // It does not know yet whether the API server is ready.
        file.drain(speaker, true);
        file.run(ms(1500));
        assert_eq!(file.world.bursts(heir), 0);
        file.drain(speaker, has_failed);
        file.run(ms(2000));
        let expected = if has_failed { (heir, 1) } else { (speaker, 0) };
        assert_eq!((file.speaker().unwrap(), file.world.bursts(heir)), expected);
    }
}

#[test]
fn node_whose_api_server_fails_hands_over_at_once() {
    let mut file = FileWorld::three();
    let speaker = file.speaker().unwrap();
    file.drain(speaker, true);
    file.run(ms(200));
    assert!(file.speaker().is_some_and(|now| now != speaker));
    assert!(file.world.gap() < ms(5), "{:?}", file.world.gap());
}

/// etcd has lost its quorum: no API server is ready.
#[test]
fn address_stays_where_it_is_while_nobody_is_fit() {
    let mut file = FileWorld::three();
    let speaker = file.speaker();
    for node in [1, 2, 3] {
        file.drain(node, true);
    }
    let all_at_once = file.speaker();
    assert_eq!(all_at_once, speaker);
    file.run(ms(60_000));
    assert_eq!(file.speaker(), speaker);
    assert!(file.world.gap() < ms(5), "{:?}", file.world.gap());
    let other = file.others()[0];
    file.drain(other, false);
    file.run(ms(500));
    assert_eq!(file.speaker(), Some(other), "one is fit again");
    assert!(file.world.gap() < ms(5), "{:?}", file.world.gap());
}

#[test]
fn all_three_restart_at_once_with_what_they_remember() {
    let mut file = FileWorld::three();
    for node in [1, 2, 3] {
        file.world.kill(node);
    }
    file.run(ms(5000));
    for node in [1, 2, 3] {
        file.restart(node);
    }
    file.run(ms(2000));
    file.world.expect_all_spoken();
}

#[test]
fn dead_node_is_replaced_by_one_of_another_name() {
    let mut file = FileWorld::three();
    let dead = file.others()[0];
    let left: Vec<u64> = [1, 2, 3].into_iter().filter(|node| *node != dead).collect();
    file.world.crash(dead);
    file.run(ms(2000));
    for node in &left {
        file.write(*node, &set(2, &left));
        file.run(ms(1000));
    }
    let mut all = left.clone();
    all.push(4);
    let last = set(3, &all);
    file.start(4, &last);
    for node in &left {
        file.write(*node, &last);
        file.run(ms(2000));
    }
    file.run(ms(2000));
    for node in &all {
        assert_eq!(*file.served(*node), last);
    }
    assert!(file.world.gap() < ms(5), "{:?}", file.world.gap());
    // The new one counts: without one of the old ones, two of three are left.
    let speaker = file.speaker().unwrap();
    let old = left.iter().copied().find(|node| *node != speaker).unwrap();
    file.world.crash(old);
    file.run(ms(2000));
    assert_eq!(file.speaker(), Some(speaker));
    assert!(file.world.gap() < ms(5), "{:?}", file.world.gap());
}

#[test]
fn two_nodes_fail_over_with_a_witness() {
    let mut file = FileWorld::new();
    file.witnesses.insert(9);
    for node in [1, 2, 9] {
        file.start(node, &set(1, &[1, 2, 9]));
    }
    file.run(ms(4000));
    file.world.forget_gaps();
    let speaker = file.speaker().unwrap();
    file.world.crash(speaker);
    file.run(ms(1500));
    let other = if speaker == 1 { 2 } else { 1 };
    assert_eq!(file.speaker(), Some(other));
    assert!(file.world.gap() < ms(500), "{:?}", file.world.gap());
}

/// As before a second control-plane node is there, or after it has left.
#[test]
fn a_node_alone_keeps_the_address_while_a_witness_joins() {
    let mut file = FileWorld::new();
    file.witnesses.insert(9);
    file.start(1, &set(1, &[1]));
    file.run(ms(3000));
    assert_eq!(file.speaker(), Some(1));
    file.world.forget_gaps();
    let next = set(2, &[1, 9]);
    file.start(9, &next);
    file.run(ms(2000));
    file.write(1, &next);
    file.run(ms(3000));
    for node in [1, 9] {
        assert_eq!(*file.served(node), next, "{node}");
        assert!(file.world.hosts[&node].machine.hears_quorum(), "{node}");
    }
    assert_eq!(file.speaker(), Some(1));
    assert!(file.world.gap() < ms(5), "{:?}", file.world.gap());
}

#[test]
fn minority_falls_silent_and_never_goes_on_by_itself() {
    let mut file = FileWorld::three();
    let speaker = file.speaker().unwrap();
    file.world.cut = Box::new(move |from, to, _| from == speaker || to == speaker);
    file.run(ms(60_000));
    assert!(file.speaker().is_some_and(|now| now != speaker));
    let others = file.others();
    for node in others {
        if node != speaker {
            file.world.crash(node);
        }
    }
    let now = file.speaker().unwrap();
    file.run(ms(120_000));
    assert_eq!(file.speaker(), None, "{now} is one of three");
}

/// Each of two nodes is given another third one.
#[test]
fn different_files_of_one_revision_change_nothing_and_are_told() {
    let mut file = FileWorld::new();
    for node in [1, 2] {
        file.start(node, &set(1, &[1, 2]));
    }
    file.run(ms(4000));
    file.world.expect_all_spoken();
    for (node, third) in [(1, 3), (2, 4)] {
        let next = set(2, &[1, 2, third]);
        file.write(node, &next);
        file.start(third, &next);
    }
    file.run(ms(10_000));
    for node in [1, 2] {
        assert_eq!(*file.served(node), set(1, &[1, 2]));
        let told = compare(&file.memories[&node], &file.files[&node]);
        assert_eq!(told, FileState::AwaitsAcceptance);
    }
    file.world.expect_all_spoken();
}

/// A node that was cut off still serves the first set. Two revisions later a voter of that set comes back with an empty
/// disk, on the same side: the two would be most of a set that the others have left.
#[test]
fn voter_that_lost_its_disk_does_not_help_one_that_was_left_behind() {
    let mut file = FileWorld::three();
    file.world.cut = Box::new(|from, to, _| (from == 3) != (to == 3));
    let second = set(2, &[1, 2, 3, 4]);
    file.start(4, &second);
    for next in [second, set(3, &[2, 3, 4])] {
        for node in [1, 2, 4] {
            file.write(node, &next);
        }
        file.run(ms(3000));
        assert_eq!(*file.served(2), next);
    }
    file.world.crash(1);
    file.disks.remove(&1);
    let side = |node: u64| matches!(node, 1 | 3);
    file.world.cut = Box::new(move |from, to, _| side(from) != side(to));
    file.run(ms(1000));
    file.world.dead_kernels.remove(&NodeId(1));
    file.restart(1);
    file.run(ms(10_000));
    assert_eq!(file.served(1).generation, 0);
    assert!(matches!(file.speaker(), Some(2 | 4)));
    file.world.cut = Box::new(|_, _, _| false);
    file.run(ms(3000));
    assert_eq!(*file.served(1), set(3, &[2, 3, 4]));
}

/// Random files, cuts, crashes, daemons that stand still, and returns with what was written last or with an empty disk.
/// That two never speak is checked at each instant.
#[test]
fn no_schedule_makes_two_speakers() {
    let seeds = std::env::var("SEEDS").map_or(60, |seeds| seeds.parse().unwrap());
    let mut met = Met::default();
    for seed in 0..seeds {
        run_at_random(seed, &mut met);
    }
    println!("{seeds} schedules, never two speakers: {met:?}");
    assert!(
        met.lost > seeds / 3 && met.joined > seeds / 6 && met.revision > 5,
        "{met:?}"
    );
}

/// What random schedules have met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    /// Disks that were lost.
    lost: u64,
    /// Nodes that were told again who votes.
    joined: u64,
    /// The latest revision that was served.
    revision: u64,
}

fn run_at_random(seed: u64, met: &mut Met) {
    let mut random = SplitMix::new(seed);
    let mut below = |bound: u64| random.next() % bound;
    let mut file = FileWorld::new();
    let first: Vec<u64> = (1..=1 + below(4)).collect();
    for node in &first {
        file.start(*node, &set(1, &first));
    }
    file.run(ms(3000));
    let mut without_disk = None;
    for _ in 0..60 {
        let node = 1 + below(6);
        let runs = file.world.hosts.contains_key(&node);
        match below(8) {
            0 if runs => file.world.crash(node),
            0 if file.files.contains_key(&node) => {
                file.world.dead_kernels.remove(&NodeId(node));
                // Of several disks that are lost at once nothing is promised.
                if without_disk.is_none() && below(3) == 0 {
                    file.disks.remove(&node);
                    without_disk = Some(node);
                    met.lost += 1;
                }
                file.restart(node);
            }
            1 => {
                let (one, other) = (below(64), below(2) == 0);
                let side = move |node: u64| one >> node & 1;
                file.world.cut = Box::new(move |from, to, _| other && side(from) != side(to));
            }
            2 => file.world.cut = Box::new(|_, _, _| false),
            3 if runs => file.drain(node, below(2) == 0),
            4 if runs => {
                file.world.stop(node);
                file.run(ms(below(2500)));
                file.world.resume(node);
            }
            _ => file.write_next(&mut below),
        }
        file.run(ms(50 + below(1500)));
        if without_disk.is_some_and(|node| file.served(node).generation > 0) {
            without_disk = None;
            met.joined += 1;
        }
    }
    let served = file
        .memories
        .values()
        .map(|memory| memory.served.generation);
    met.revision = served.fold(met.revision, u64::max);
}
