use std::collections::BTreeSet;

use super::counts::NONE_FOR;
use super::*;

const NOW: Moment = Moment(1_000_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);
const C: NodeId = NodeId(3);

fn address() -> IpAddr {
    IpAddr::from([192, 0, 2, 10])
}

fn mac(node: NodeId) -> Mac {
    Mac::new([2, 0, 0, 0, 0, u8::try_from(node.0).unwrap()])
}

fn member(node: NodeId, nodes: u64) -> Forwarding {
    let mut forwarding = Forwarding::default();
    let device = Device {
        name: "eth0".to_owned(),
        mac: mac(node),
    };
    forwarding.configure(Some(device), HOUR);
    let others = (1..=nodes).map(NodeId).filter(|other| *other != node);
    forwarding.set_members(others.map(|other| (other, mac(other))).collect());
    forwarding
}

fn former(forwarding: &Forwarding, now: Moment) -> Option<Mac> {
    let groups = forwarding.groups(now);
    groups.first().map(|group| group.former)
}

/// B as the new speaker after A.
fn speaking() -> Forwarding {
    let mut b = member(B, 3);
    assert!(b.prepare(address(), A, NOW));
    b.began(address(), Some(A), true, NOW);
    b
}

/// It is handed over to C, which is prepared.
fn hand_to_c(b: &mut Forwarding) {
    b.handing_on(address(), C, NOW);
    b.handed_on(address(), C, NOW);
}

#[test]
fn passes_on_from_offer_until_former_has_none() {
    let mut b = member(B, 3);
    assert_eq!(former(&b, NOW), None);
    assert!(b.prepare(address(), A, NOW));
    assert_eq!(former(&b, NOW), Some(mac(A)));
    b.began(address(), Some(A), true, NOW);
    b.told(C, address(), 0, NOW);
    b.told(A, address(), 3, NOW);
    assert_eq!(former(&b, NOW), Some(mac(A)));
    b.told(A, address(), 0, NOW);
    assert_eq!(former(&b, NOW), None);
}

#[test]
fn offer_that_is_not_taken_ends() {
    let mut b = member(B, 3);
    b.prepare(address(), A, NOW);
    b.tick(NOW + PREPARED - Duration::from_nanos(1));
    assert_eq!(former(&b, NOW), Some(mac(A)));
    b.tick(NOW + PREPARED);
    assert_eq!(former(&b, NOW), None);
}

#[test]
fn unplanned_begin_passes_nothing_on() {
    let mut b = speaking();
    b.handed_on(address(), C, NOW);
    // C died, and B takes over without having been offered anything.
    b.began(address(), Some(C), true, NOW);
    assert_eq!(former(&b, NOW), None);
    b.prepare(address(), A, NOW);
    b.began(address(), Some(C), true, NOW);
    assert_eq!(former(&b, NOW), None, "it was another who spoke last");
}

#[test]
fn nothing_goes_to_somebody_who_is_no_member() {
    let mut b = speaking();
    b.set_members([(C, mac(C))].into());
    assert_eq!(former(&b, NOW), None);
    assert!(!b.prepare(address(), A, NOW));
}

#[test]
fn ends_with_time_silence_death_and_configuration() {
    let mut timed = speaking();
    timed.told(A, address(), 1, NOW + HOUR - Duration::from_secs(1));
    timed.tick(NOW + HOUR - Duration::from_secs(1));
    assert!(former(&timed, NOW).is_some());
    timed.tick(NOW + HOUR);
    assert_eq!(former(&timed, NOW), None);

    let mut silent = speaking();
    silent.tick(NOW + UNTOLD);
    assert_eq!(former(&silent, NOW), None);

    let mut dead = speaking();
    dead.gone(A);
    assert_eq!(former(&dead, NOW), None);

    let mut off = speaking();
    let device = off.device.clone();
    off.configure(device, Duration::ZERO);
    assert_eq!(former(&off, NOW), None);

    let mut moved = speaking();
    moved.configure(None, HOUR);
    assert_eq!(former(&moved, NOW), None);
}

#[test]
fn speaker_takes_nothing_from_members_and_former_only_from_successor() {
    let mut b = speaking();
    let all: BTreeSet<Mac> = [A, B, C].map(mac).into();
    assert_eq!(b.groups(NOW)[0].never_from, all);
    hand_to_c(&mut b);
    assert_eq!(b.groups(NOW)[0].never_from, [A, B].map(mac).into());
}

#[test]
fn whoever_takes_an_address_unprepared_ends_what_was_passed_on() {
    for prepared in [None, Some(NodeId(4))] {
        let mut b = member(B, 4);
        b.prepare(address(), A, NOW);
        b.began(address(), Some(A), true, NOW);
        if let Some(other) = prepared {
            b.handing_on(address(), other, NOW);
        }
        b.handed_on(address(), C, NOW);
        assert_eq!(former(&b, NOW), None);
        assert_eq!(b.counts_for().count(), 1, "its own are told all the same");
    }
}

#[test]
fn next_speaker_is_let_through_before_this_one_lets_go() {
    let mut b = speaking();
    b.handing_on(address(), C, NOW);
    let before = b.groups(NOW);
    assert_eq!(before[0].never_from, [A, B].map(mac).into());
    let mut handed = b.clone();
    handed.handed_on(address(), C, NOW);
    assert_eq!(handed.groups(NOW), before, "nothing is left to be written");

    let all: BTreeSet<Mac> = [A, B, C].map(mac).into();
    let mut kept = b.clone();
    kept.tick(NOW + PREPARED);
    assert_eq!(kept.groups(NOW)[0].never_from, all, "it was not taken");
    let mut unannounced = b;
    unannounced.left_unannounced(address());
    unannounced.began(address(), Some(C), false, NOW);
    assert_eq!(unannounced.groups(NOW)[0].never_from, all);
}

#[test]
fn nothing_is_let_through_of_former_speaker_that_returns() {
    let mut b = speaking();
    let before = b.groups(NOW);
    b.handing_on(address(), A, NOW);
    assert_eq!(b.groups(NOW), before);
}

#[test]
fn returned_address_is_not_passed_back() {
    let mut b = speaking();
    b.handed_on(address(), A, NOW);
    assert_eq!(former(&b, NOW), None);
    assert_eq!(b.counts_for().collect::<Vec<_>>(), [address()]);
}

#[test]
fn learns_udp_flows_for_a_while() {
    let b = speaking();
    assert!(b.groups(NOW)[0].learns);
    assert!(!b.groups(NOW + LEARNS)[0].learns);
}

#[test]
fn kernel_is_given_no_more_than_its_lease_and_what_is_left() {
    let mut b = speaking();
    assert_eq!(b.groups(NOW)[0].addresses[&address()], KERNEL_LEASE);
    let near = NOW + HOUR - Duration::from_secs(7);
    b.told(A, address(), 1, near);
    assert_eq!(
        b.groups(near)[0].addresses[&address()],
        Duration::from_secs(7)
    );
}

#[test]
fn says_none_only_when_none_is_found_for_a_while_and_nothing_is_passed_on() {
    let mut b = speaking();
    assert!(b.counts(NOW).is_empty());
    hand_to_c(&mut b);
    assert!(b.counts(NOW).is_empty(), "not counted yet");
    let count = |b: &Forwarding, now| b.counts(now)[0].connections;
    b.counted(address(), 0, NOW);
    assert_eq!(count(&b, NOW), 1);
    assert_eq!(
        count(&b, NOW + NONE_FOR),
        1,
        "A's connections pass through here"
    );
    b.told(A, address(), 0, NOW);
    assert_eq!(count(&b, NOW + NONE_FOR - Duration::from_nanos(1)), 1);
    assert_eq!(count(&b, NOW + NONE_FOR), 0);
    b.counted(address(), 5, NOW + NONE_FOR);
    assert_eq!(count(&b, NOW + NONE_FOR), 5);
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// The daemon of a speaker ends and returns; meanwhile another one answers.
fn restart(nodes: &mut BTreeMap<NodeId, Forwarding>, speaker: NodeId, other: NodeId) {
    if speaker == other {
        return;
    }
    let node = nodes.get_mut(&speaker).unwrap();
    node.left_unannounced(address());
    node.stopped(address());
    let members = node.members.clone();
    let saved = serde_json::to_string(node).unwrap();
    *node = serde_json::from_str(&saved).unwrap();
    node.restore(NOW);
    node.set_members(members);
    let answers = nodes.get_mut(&other).unwrap();
    answers.began(address(), Some(speaker), false, NOW);
    answers.left_unannounced(address());
    answers.stopped(address());
    let node = nodes.get_mut(&speaker).unwrap();
    node.began(address(), Some(other), false, NOW);
}

#[test]
fn restarted_daemon_goes_on_where_nothing_was_announced() {
    let mut nodes = BTreeMap::from([(A, member(A, 3)), (B, speaking()), (C, member(C, 3))]);
    let before = nodes[&B].groups(NOW);
    assert_eq!(before.len(), 1);
    // Also if the one that answers meanwhile is the one that frames are passed on to.
    for other in [A, C] {
        restart(&mut nodes, B, other);
        assert_eq!(nodes[&B].groups(NOW), before);
        assert!(nodes[&other].groups(NOW).is_empty());
    }
    let b = nodes.get_mut(&B).unwrap();
    b.left_unannounced(address());
    b.began(address(), Some(C), true, NOW);
    assert_eq!(former(b, NOW), None, "C has announced it");
}

/// A speaker before the last one answers for a daemon that is restarted: it goes on to pass on what it did, and to tell
/// of its own.
#[test]
fn whoever_answers_meanwhile_passes_on_what_it_did_until_it_announces() {
    let mut b = speaking();
    hand_to_c(&mut b);
    b.stopped(address());
    let (before, counted) = (b.groups(NOW), b.counts_for().count());
    assert_eq!((before.len(), counted), (1, 1));

    b.began(address(), Some(C), false, NOW);
    assert_eq!((b.groups(NOW), b.counts_for().count()), (before.clone(), 1));
    let answers = b.clone();
    b.left_unannounced(address());
    b.stopped(address());
    assert_eq!((b.groups(NOW), b.counts_for().count()), (before, 1));

    let mut announces = answers.clone();
    announces.announced(address());
    assert_eq!(former(&announces, NOW), None, "a new time has begun");
    let mut hands_on = answers.clone();
    hands_on.handed_on(address(), NodeId(4), NOW);
    assert_eq!(former(&hands_on, NOW), None, "a new time has ended");
    let mut stops = answers;
    stops.stopped(address());
    assert_eq!(former(&stops, NOW), None);
    let mut speaks = speaking();
    speaks.announced(address());
    assert_eq!(
        former(&speaks, NOW),
        Some(mac(A)),
        "it is announced again and again"
    );
}

/// The daemon has ended, and another one goes on.
fn restarted(forwarding: &Forwarding, now: Moment) -> Forwarding {
    let saved = serde_json::to_string(forwarding).unwrap();
    let mut restored: Forwarding = serde_json::from_str(&saved).unwrap();
    restored.restore(now);
    restored
}

#[test]
fn restored_table_is_whole_before_anybody_is_heard() {
    let mut before = speaking();
    before.left_unannounced(address());
    let mut b = restarted(&before, NOW);
    assert_eq!(b.groups(NOW), before.groups(NOW));
    b.set_members([(C, mac(C))].into());
    assert_eq!(b.groups(NOW), before.groups(NOW));
    // Also if this one ends before it has heard all.
    assert_eq!(restarted(&b, NOW).groups(NOW), before.groups(NOW));
    let moved = mac(NodeId(9));
    b.set_members([(A, moved), (C, mac(C))].into());
    assert_eq!(former(&b, NOW), Some(moved), "what is heard counts");
}

#[test]
fn restored_pointer_to_a_node_that_is_not_heard_ends_with_the_first_lease() {
    let until = NOW + KERNEL_LEASE;
    let later = NOW + Duration::from_secs(50);
    let left = |b: &Forwarding| b.groups(later)[0].addresses[&address()];
    let mut b = restarted(&speaking(), NOW);
    assert_eq!(left(&b), Duration::from_secs(10));
    let mut again = restarted(&b, later);
    assert_eq!(left(&again), Duration::from_secs(10), "not prolonged");
    for b in [&mut b, &mut again] {
        b.tick(until);
        assert!(!b.is_restored() && b.is_empty());
    }
    let mut heard = restarted(&speaking(), NOW);
    heard.set_members([(A, mac(A)), (C, mac(C))].into());
    assert_eq!(left(&heard), KERNEL_LEASE);
    heard.told(A, address(), 1, later);
    heard.tick(until);
    assert_eq!(former(&heard, until), Some(mac(A)));
}

/// Each process is there for less than a lease. What one has heard, the next has a whole lease to hear again; what none
/// has heard is not prolonged.
#[test]
fn restarts_in_a_row_end_only_what_goes_to_a_node_that_is_not_heard() {
    let until = NOW + KERNEL_LEASE;
    let later = NOW + Duration::from_secs(50);
    for (heard, left) in [(A, Some(Duration::from_secs(50))), (C, None)] {
        let mut first = restarted(&speaking(), NOW);
        first.set_members([(heard, mac(heard))].into());
        let mut second = restarted(&first, later);
        second.tick(until);
        let groups = second.groups(until);
        let found = groups.first().map(|group| group.addresses[&address()]);
        assert_eq!(found, left, "only {heard:?} was heard");
    }
}

const NODES: u64 = 5;

/// Nodes of a segment, and what each has not done yet of what it was told: who spoke before it when it began.
struct Segment {
    nodes: BTreeMap<NodeId, Forwarding>,
    late: BTreeMap<NodeId, NodeId>,
}

impl Segment {
    fn new() -> Self {
        let nodes = (1..=NODES).map(NodeId);
        Self {
            nodes: nodes.map(|node| (node, member(node, NODES))).collect(),
            late: BTreeMap::new(),
        }
    }

    /// A node that has done all that it was told.
    fn node(&mut self, node: NodeId) -> &mut Forwarding {
        let forwarding = self.nodes.get_mut(&node).unwrap();
        if let Some(former) = self.late.remove(&node) {
            forwarding.began(address(), Some(former), true, NOW);
        }
        forwarding
    }

    /// Where a frame that only `owner` knows comes to rest, and after how many hops.
    fn come_to_rest(&self, entered: NodeId, owner: Option<NodeId>) -> (NodeId, u64) {
        let (mut at, mut from, mut hops) = (entered, None, 0);
        loop {
            let groups = self.nodes[&at].groups(NOW);
            let group = groups.first().filter(|group| {
                Some(at) != owner && from.is_none_or(|from| !group.never_from.contains(&from))
            });
            let Some(group) = group else {
                return (at, hops);
            };
            from = Some(mac(at));
            at = NodeId(u64::from(group.former.octets()[5]));
            hops += 1;
            assert!(hops <= NODES, "from {entered:?}: {:?}", self.nodes);
        }
    }

    /// Whichever node a frame that nobody knows gets to: it comes to rest.
    fn all_come_to_rest(&self) {
        for entered in (1..=NODES).map(NodeId) {
            self.come_to_rest(entered, None);
        }
    }
}

/// Whatever the history of moves, whichever of them were prepared or made known, and however late a kernel that was
/// not waited for is told: a frame that nobody knows comes to rest; and what nobody has missed is served where it began.
#[test]
fn frames_come_to_rest_after_any_history() {
    let mut dice = Dice(7);
    let (mut hops_at_most, mut chains, mut behind) = (0, 0, 0);
    for _ in 0..8_000 {
        let mut segment = Segment::new();
        let mut speaker = A;
        let mut faithful = true;
        let mut spoke = vec![A];
        for _ in 0..1 + dice.below(8) {
            let next = NodeId(1 + dice.below(NODES));
            if next == speaker {
                continue;
            }
            let mut one_of_five_not = || dice.below(5) > 0;
            let (prepared, heard, told) = (one_of_five_not(), one_of_five_not(), one_of_five_not());
            faithful &= prepared && heard && told;
            if prepared {
                segment.node(next).prepare(address(), speaker, NOW);
            }
            let before = segment.node(speaker);
            if prepared && heard {
                before.handing_on(address(), next, NOW);
                if dice.below(4) == 0 {
                    // It comes to nothing, and the speaker goes on.
                    faithful = false;
                    continue;
                }
            }
            if told {
                before.handed_on(address(), next, NOW);
            }
            before.stopped(address());
            segment.all_come_to_rest();
            segment.late.insert(next, speaker);
            if prepared || dice.below(2) == 0 {
                segment.node(next);
            }
            behind += usize::from(!segment.late.is_empty());
            segment.all_come_to_rest();
            speaker = next;
            spoke.push(next);
            if dice.below(3) == 0 {
                let other = NodeId(1 + dice.below(NODES));
                segment.node(speaker);
                segment.node(other);
                restart(&mut segment.nodes, speaker, other);
                segment.all_come_to_rest();
            }
        }
        for entered in (1..=NODES).map(NodeId) {
            hops_at_most = hops_at_most.max(segment.come_to_rest(entered, None).1);
        }
        // No node twice: a second time as speaker forgets where the first one's connections came from.
        let distinct: BTreeSet<_> = spoke.iter().collect();
        if faithful && distinct.len() == spoke.len() {
            let (at, hops) = segment.come_to_rest(speaker, Some(spoke[0]));
            assert_eq!(at, spoke[0], "{spoke:?}");
            chains += u32::from(hops > 1);
        }
    }
    assert!(
        hops_at_most > 2 && chains > 100 && behind > 1_000,
        "{hops_at_most} {chains} {behind}"
    );
}
