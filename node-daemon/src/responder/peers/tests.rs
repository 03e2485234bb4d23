use super::*;
use crate::protocol::VoterSet;

const HER: NodeId = NodeId(2);
const START: Moment = Moment(3_600_000_000_000);
const INTERVAL: Duration = Duration::from_millis(100);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn beat(incarnation: u64, seq: u64) -> Message {
    Message {
        from: HER,
        incarnation: Incarnation(incarnation),
        epoch: Epoch(3),
        seq,
        generation: 4,
        body: Body::Heartbeat(Arc::new(Heartbeat {
            count: u32::try_from(seq).unwrap(),
            secrets: vec![KeyId(7)],
            ..Heartbeat::default()
        })),
    }
}

fn hear(peers: &mut Peers, message: &Message, path: Path, now: Moment) -> u64 {
    peers.heard(message, Some(KeyId(7)), path, INTERVAL, now)
}

fn only(peers: &Peers, view: &View, now: Moment) -> Member {
    let own = Heartbeat {
        voters: VoterSet {
            voters: [HER].into(),
            ..VoterSet::default()
        },
        ..Heartbeat::default()
    };
    let members = peers.members(NodeId(1), view, Some(&own), now);
    assert_eq!(members.len(), 1);
    members[0].clone()
}

#[test]
fn each_path_is_alive_for_a_second() {
    let (mut peers, view) = (Peers::default(), View::default());
    hear(&mut peers, &beat(1, 1), Path::Segment, START);
    hear(&mut peers, &beat(1, 2), Path::NodeNetwork, START + ms(500));
    let ways = |at| {
        let member = only(&peers, &view, START + ms(at));
        (member.alive, member.on_segment, member.on_node_network)
    };
    assert_eq!(ways(999), (true, true, true));
    assert_eq!(ways(1000), (true, false, true));
    assert_eq!(ways(1500), (false, false, false));
    let member = only(&peers, &view, START);
    assert_eq!(
        (member.epoch, member.generation, member.holds, member.signed),
        (Epoch(3), 4, 2, Some(KeyId(7)))
    );
    assert!(member.voter && !member.refused);
}

#[test]
fn replay_is_no_sign_of_life() {
    let (mut peers, view) = (Peers::default(), View::default());
    hear(&mut peers, &beat(1, 5), Path::Segment, START);
    // Of the same run, and of an earlier one.
    for recorded in [beat(1, 5), beat(1, 4), beat(9, 100)] {
        hear(&mut peers, &recorded, Path::Segment, START + ms(900));
    }
    assert!(!only(&peers, &view, START + ms(1000)).alive);
    assert_eq!(only(&peers, &view, START).holds, 5);
    // A new run begins to count anew.
    hear(&mut peers, &beat(2, 1), Path::Segment, START + ms(1100));
    let member = only(&peers, &view, START + ms(1100));
    assert_eq!((member.alive, member.holds), (true, 1));
}

#[test]
fn counts_lost_heartbeats_but_no_absence() {
    let mut peers = Peers::default();
    let mut now = START;
    let mut lost = Vec::new();
    for (seq, pause) in (1..).zip([0, 100, 104, 40, 210, 390, 5001, 100]) {
        now = now + ms(pause);
        lost.push(hear(&mut peers, &beat(1, seq), Path::Segment, now));
    }
    assert_eq!(lost, [0, 0, 0, 0, 1, 3, 0, 0]);
}

#[test]
fn lists_members_of_view_before_they_are_heard() {
    let mut peers = Peers::default();
    let contact = |host| Contact {
        mac: Some(Mac::new([2, 0, 0, 0, 0, 2])),
        node_network: Some(SocketAddr::from(([192, 0, 2, host], 1))),
        ..Contact::default()
    };
    let view_of = |known| View {
        known: [(HER, contact(known))].into(),
        ..View::default()
    };
    let view = view_of(1);
    assert!(!only(&peers, &view, START).alive);
    assert_eq!(peers.macs(&view).len(), 1);
    let socket = |host| contact(host).node_network;
    assert_eq!(peers.socket(HER, &view), socket(1));
    let said = Heartbeat {
        contact: contact(2),
        ..Heartbeat::default()
    };
    let message = Message {
        body: Body::Heartbeat(Arc::new(said)),
        ..beat(1, 1)
    };
    hear(&mut peers, &message, Path::Segment, START);
    assert_eq!(peers.socket(HER, &view), None, "they contradict each other");
    assert_eq!(peers.socket(HER, &view_of(2)), socket(2));
    assert_eq!(peers.socket(HER, &View::default()), socket(2), "said alone");
    peers.forget(&view, START + FORGET);
    assert_eq!(peers.socket(HER, &view), None);
    peers.forget(&View::default(), START + FORGET);
    assert_eq!(peers.socket(HER, &view), socket(1));
    assert_eq!(peers.socket(HER, &View::default()), None);
}

#[test]
fn reports_refused_messages_of_members_only() {
    let mut peers = Peers::default();
    peers.refused(HER, &View::default(), START);
    assert_eq!(peers.members(NodeId(1), &View::default(), None, START), []);
    let view = View {
        known: [(HER, Contact::default())].into(),
        ..View::default()
    };
    peers.refused(HER, &view, START);
    assert!(only(&peers, &view, START + ms(59_999)).refused);
    assert!(!only(&peers, &view, START + ms(60_000)).refused);
    assert!(!only(&peers, &view, START).alive);
}

#[test]
fn ignores_keys_of_absent_member() {
    let mut peers = Peers::default();
    hear(&mut peers, &beat(1, 1), Path::NodeNetwork, START);
    let count = |at| peers.secrets(START + ms(at)).count();
    assert_eq!((count(29_999), count(30_000)), (1, 0));
}
