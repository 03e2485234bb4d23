//! The thread of the segments on a real segment: a bridge, nodes and a client on it, real sockets,
//! and the client's own kernel as the judge. There is no API server: what it would answer about
//! voters is kept by the test.
//!
//! Each test runs itself again in a network namespace of its own, for which no root is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use mooring_node::protocol::mac::Mac;
use mooring_node::protocol::{
    ApiAnswer, Candidates, Cause, Contact, Group, Key, Moment, NodeId, Parameters, Request,
    Transition, View, VoterSet, Wanted, Weight,
};
use mooring_node::responder::metrics::Metrics;
use mooring_node::responder::metrics::{PathLabels, SegmentLabels};
use mooring_node::responder::upgrade_state::UpgradeState;
use mooring_node::responder::{
    Attachment, DesiredSegment, Member, Report, Responder, Rights, Setup,
};
use mooring_node::wire::clock;
use mooring_node::wire::frames::{self, Claim, solicited_node};
use mooring_node::wire::keys::{KeyRing, Secret};
use mooring_node::wire::packet_socket::PacketSocket;
use tokio::sync::mpsc;

use super::netns::{build_segment, eventually, in_netns, link_index, link_mac, neighbour, sh};

/// The client.
const ROUTER: &str = "192.0.2.200";
const V4: &str = "192.0.2.17";
const V6: &str = "2001:db8::117";
const SEGMENT: &str = "public";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// What the API server knows: the voters.
type Api = Arc<Mutex<VoterSet>>;

/// A daemon: its thread, and somebody who reads what it reports and answers what it asks.
struct Node {
    name: String,
    responder: Arc<Mutex<Option<Responder>>>,
    metrics: Metrics,
    told: Arc<Mutex<Vec<Report>>>,
    desired: Arc<DesiredSegment>,
    rights: Rights,
}

struct Start<'a> {
    name: &'a str,
    uid: &'a str,
    api: &'a Api,
    secrets: KeyRing,
    inherited: Option<UpgradeState>,
    witness: bool,
    /// How many reports may wait.
    room: usize,
}

impl<'a> Start<'a> {
    fn new(name: &'a str, api: &'a Api) -> Self {
        Self {
            name,
            uid: "3f1a",
            api,
            secrets: KeyRing::default(),
            inherited: None,
            witness: false,
            room: 4096,
        }
    }

    fn run(self) -> Node {
        let (sender, mut reports) = mpsc::channel(self.room);
        let metrics = Metrics::default();
        let desired = Arc::new(DesiredSegment {
            uid: self.uid.to_owned(),
            ..desired(self.name, self.witness)
        });
        let rights = Rights::default();
        let responder = Responder::start(Setup {
            node: NodeId::of(self.name),
            desired: Arc::new([(SEGMENT.to_owned(), Arc::clone(&desired))].into()),
            reports: sender,
            metrics: metrics.clone(),
            seed: NodeId::of(self.name).0 ^ clock::now().0,
            heartbeat_port: 0,
            secrets: Arc::new(ArcSwap::from_pointee(self.secrets)),
            parameters: Parameters::default(),
            inherited: self.inherited,
            prepared: BTreeMap::new(),
            rights: rights.clone(),
        });
        let node = Node {
            name: self.name.to_owned(),
            responder: Arc::new(Mutex::new(Some(responder.unwrap()))),
            metrics,
            told: Arc::default(),
            desired,
            rights,
        };
        let (api, responder) = (Arc::clone(self.api), Arc::clone(&node.responder));
        let told = Arc::clone(&node.told);
        std::thread::spawn(move || {
            while let Some((segment, report)) = reports.blocking_recv() {
                assert_eq!(segment, SEGMENT);
                if let Report::Ask(request, asked, _) = report {
                    let answer = answer(&api, request);
                    if let Some(responder) = &*responder.lock().unwrap() {
                        responder.answer(&segment, answer, asked);
                    }
                } else {
                    told.lock().unwrap().push(report);
                }
            }
        });
        node
    }
}

fn answer(api: &Api, request: Request) -> ApiAnswer {
    let mut voters = api.lock().unwrap();
    match request {
        Request::ReadVoters => ApiAnswer::Voters(voters.clone()),
        Request::Propose {
            replacing,
            voters: proposed,
            ..
        } if replacing == voters.generation => {
            voters.clone_from(&proposed);
            ApiAnswer::Written(proposed)
        }
        Request::Propose { .. } => ApiAnswer::Conflict(voters.clone()),
        Request::Approve(_) => ApiAnswer::Approved,
        Request::ReadLeases(_) => ApiAnswer::LeasesUnchanged(BTreeSet::new()),
    }
}

fn desired(name: &str, witness: bool) -> DesiredSegment {
    let keys = [V4, V6].map(|address| Key::of(SEGMENT, ip(address)));
    let gateway = Some(ip("192.0.2.1"));
    let wanted = |key| Wanted {
        spoken_here: false,
        group: Group::of("shop/web"),
        ..Wanted::alone(key, Candidates::All)
    };
    let IpAddr::V6(v6) = ip(V6) else {
        unreachable!()
    };
    DesiredSegment {
        attachment: (!witness).then(|| Attachment {
            name: name.to_owned(),
            index: link_index(name),
            mac: link_mac(name),
        }),
        witness,
        view: View {
            keys: keys.map(|key| (key, wanted(key))).into(),
            voters: Some(VoterSet::default()),
            ..View::default()
        },
        addresses: [
            (keys[0], [(ip(V4), gateway)].into()),
            (keys[1], [(ip(V6), None)].into()),
        ]
        .into(),
        groups: [solicited_node(v6)].into(),
        node_address: Some(ip("127.0.0.1")),
        ..DesiredSegment::default()
    }
}

impl Node {
    fn mac(&self) -> Mac {
        link_mac(&self.name)
    }

    fn set_desired(&self, change: impl FnOnce(&mut DesiredSegment)) {
        let mut desired = (*self.desired).clone();
        change(&mut desired);
        let all = [(SEGMENT.to_owned(), Arc::new(desired))].into();
        let responder = self.responder.lock().unwrap();
        responder.as_ref().unwrap().set_desired(Arc::new(all));
    }

    /// Closes the segment, as where the Node or its L2Network is gone.
    fn close(&self) {
        let responder = self.responder.lock().unwrap();
        responder.as_ref().unwrap().set_desired(Arc::default());
    }

    /// What this node knows of another member.
    fn member(&self, name: &str) -> Option<Member> {
        let members = self.members();
        let known = members.iter().find(|m| m.node == NodeId::of(name));
        known.cloned()
    }

    /// Whether it hears another one that takes part.
    fn hears(&self, name: &str) -> Option<()> {
        let member = self.member(name)?;
        (member.alive && member.epoch.0 > 0 && member.flags.hears_quorum).then_some(())
    }

    /// As if it were killed: nothing more is said.
    fn kill(&self) {
        let responder = self.responder.lock().unwrap().take();
        responder.unwrap().stop();
    }

    fn export(&self) -> UpgradeState {
        let responder = self.responder.lock().unwrap().take();
        responder.unwrap().export().unwrap()
    }

    fn told<T>(&self, pick: impl Fn(&Report) -> Option<T>) -> Vec<T> {
        self.told.lock().unwrap().iter().filter_map(pick).collect()
    }

    /// Why it has begun to speak for an address, each time.
    fn beginnings(&self, of: &str) -> Vec<Cause> {
        self.told(|report| match report {
            Report::Began { address, cause, .. } if *address == ip(of) => Some(*cause),
            _ => None,
        })
    }

    fn members(&self) -> Arc<Vec<Member>> {
        let members = self.told(|report| match report {
            Report::Members(members) => Some(Arc::clone(members)),
            _ => None,
        });
        members.last().cloned().unwrap_or_default()
    }

    fn received(&self, path: &'static str) -> u64 {
        let labels = PathLabels {
            segment: SEGMENT.to_owned(),
            path,
        };
        self.metrics.segments.received.get_or_create(&labels).get()
    }

    fn dropped(&self, reason: &'static str) -> u64 {
        let labels = mooring_node::responder::metrics::DropLabels {
            segment: SEGMENT.to_owned(),
            reason,
        };
        self.metrics.segments.dropped.get_or_create(&labels).get()
    }
}

/// Listens at `tap` from now on, and collects who claims the service addresses when.
fn listen() -> Arc<Mutex<Vec<(Moment, IpAddr, Mac)>>> {
    let wire = PacketSocket::open("tap", link_index("tap")).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let claims = Arc::clone(&heard);
    std::thread::spawn(move || {
        loop {
            wire.receive(100, |frame, _| {
                let now = clock::now();
                let heard = frames::parse(frame, Mac::UNKNOWN).unwrap_or_default();
                let of_service = |claim: &Claim| [ip(V4), ip(V6)].contains(&claim.address);
                if let Some(claim) = heard.claim.filter(of_service) {
                    claims.lock().unwrap().push((now, claim.address, claim.mac));
                }
            });
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    heard
}

/// Waits until one of them has begun to speak for both addresses, and takes it out.
fn speaker(nodes: &mut Vec<Node>) -> Node {
    let at = eventually("a speaker", || {
        let begun = |node: &Node| [V4, V6].iter().all(|a| !node.beginnings(a).is_empty());
        nodes.iter().position(begun)
    });
    nodes.remove(at)
}

fn all_vote(api: &Api) {
    eventually("all three vote", || {
        (api.lock().unwrap().voters.len() == 3).then_some(())
    });
}

/// Three nodes on a segment of their own, all of them voters: the API, the other two, and the one that
/// speaks.
fn three_that_vote() -> (Api, Vec<Node>, Node) {
    three_with_room(4096)
}

/// The same, where no more reports may wait.
fn three_with_room(room: usize) -> (Api, Vec<Node>, Node) {
    build_segment(3);
    let api = Api::default();
    let start = |name| Start {
        room,
        ..Start::new(name, &api)
    };
    let mut nodes: Vec<_> = ["n1", "n2", "n3"].map(|name| start(name).run()).into();
    let first = speaker(&mut nodes);
    all_vote(&api);
    (api, nodes, first)
}

/// Answers, as some fabrics do, what is asked of all stations about this address for the station that
/// they have seen there, dead or not.
fn answer_broadcasts(address: IpAddr, station: Mac) {
    let wire = PacketSocket::open("tap", link_index("tap")).unwrap();
    std::thread::spawn(move || {
        loop {
            let mut answers = Vec::new();
            wire.receive(100, |frame, _| {
                let question = frames::parse(frame, Mac::UNKNOWN).and_then(|heard| heard.question);
                let to_all = frame.starts_with(&[0xff; 6]);
                let question = question.filter(|question| to_all && question.target == address);
                answers.extend(question.and_then(|question| frames::answer(station, &question)));
            });
            for answer in answers {
                wire.send(&answer).unwrap();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn detects_dead_kernel_despite_fabric_answers() {
    let name = "detects_dead_kernel_despite_fabric_answers";
    in_netns(name, || {
        let (_, mut nodes, first) = three_that_vote();
        let own = ip("192.0.2.5");
        first.set_desired(|desired| desired.own_addresses = vec![own]);
        let contact = |node: &Node| {
            let members = node.members();
            let member = members.iter().find(|m| m.node == NodeId::of(&first.name))?;
            member.contact.own_addresses.contains(&own).then_some(())
        };
        for node in &nodes {
            eventually("the others know its own address", || contact(node));
        }
        let first_mac = first.mac();
        let told = || (neighbour(V4, true) == Some(first_mac)).then_some(());
        eventually("an answer", told);
        answer_broadcasts(own, first_mac);
        first.kill();
        let second = speaker(&mut nodes);
        let told = || (neighbour(V4, false) == Some(second.mac())).then_some(());
        eventually("the client is told of the new node", told);
    });
}

#[test]
fn another_node_takes_over() {
    in_netns("another_node_takes_over", || {
        build_segment(3);
        let claims = listen();
        let api = Api::default();
        let mut nodes: Vec<_> = ["n1", "n2", "n3"]
            .map(|name| Start::new(name, &api).run())
            .into();
        let first = speaker(&mut nodes);
        let first_mac = first.mac();
        let rights = first.rights.clone();
        let place = (link_index(&first.name), ip(V4));
        eventually("the right is told", || rights.held(place).then_some(()));
        assert!(!rights.held((place.0, ip("192.0.2.18"))));
        for address in [V4, V6] {
            let told = || (neighbour(address, true) == Some(first_mac)).then_some(());
            eventually("an answer", told);
        }
        all_vote(&api);

        let killed = Instant::now();
        first.kill();
        assert!(!rights.held(place));
        let second = speaker(&mut nodes);
        println!("taken over after {:?}", killed.elapsed());
        assert_eq!(second.beginnings(V4), [Cause::TakenOver]);
        for address in [V4, V6] {
            let told = || (neighbour(address, false) == Some(second.mac())).then_some(());
            eventually("the client is told of the new node", told);
        }
        assert_eq!(nodes[0].beginnings(V4), []);
        let claims = claims.lock().unwrap();
        let speakers: Vec<_> = claims.iter().map(|(_, _, mac)| *mac).collect();
        let changes = speakers.windows(2).filter(|pair| pair[0] != pair[1]);
        assert_eq!(changes.count(), 1, "{claims:?}");
    });
}

/// The client is the router of a VLAN here: it is asked for until it answers, and again before the kernel may
/// forget it.
#[test]
fn keeps_asking_for_vlan_router() {
    let name = "keeps_asking_for_vlan_router";
    in_netns(name, || {
        build_segment(1);
        sh("ip -n client link set c address 02:00:00:00:00:99");
        let api = Api::default();
        let node = Start::new("n1", &api).run();
        let key = Key::of(SEGMENT, ip(V4));
        node.set_desired(|desired| {
            desired.tells_routers = true;
            desired.gateways = [ip(ROUTER)].into();
            desired.addresses = [(key, [(ip(V4), Some(ip(ROUTER)))].into())].into();
        });
        let heard = || {
            node.told(|report| match report {
                Report::Router { address, mac } => Some((*address, *mac)),
                _ => None,
            })
        };
        let router: Mac = "02:00:00:00:00:99".parse().unwrap();
        eventually("the router is told of", || {
            (!heard().is_empty()).then_some(())
        });
        // The burst takes two seconds, and asks for the router in them: this one comes later.
        eventually("it is told of again", || (heard().len() >= 2).then_some(()));
        assert!(heard().iter().all(|told| *told == (ip(ROUTER), router)));
    });
}

#[test]
fn draining_node_hands_over_without_overlap() {
    in_netns("draining_node_hands_over_without_overlap", || {
        let (_, mut nodes, first) = three_that_vote();
        first.set_desired(|desired| desired.draining = true);
        let second = speaker(&mut nodes);
        assert_eq!(second.beginnings(V4), [Cause::HandedOver]);
        let told = || (neighbour(V4, true) == Some(second.mac())).then_some(());
        eventually("the client is told of the new node", told);
        let stopped = first.told(|report| match report {
            Report::Stopped { address, cause } => Some((*address, *cause)),
            _ => None,
        });
        assert!(
            stopped.contains(&(ip(V4), Cause::HandedOver)),
            "{stopped:?}"
        );
        second.set_desired(|desired| desired.ending = true);
        eventually("it has ended", || {
            let ended = second.told(|report| (*report == Report::Ended).then_some(()));
            (ended.len() == 1).then_some(())
        });
        assert_eq!(speaker(&mut nodes).beginnings(V4), [Cause::HandedOver]);
    });
}

/// Whoever reads reports is busy for a while.
#[test]
fn reports_of_speakers_wait_for_room() {
    in_netns("reports_of_speakers_wait_for_room", || {
        let (_, nodes, first) = three_with_room(4);
        let busy: Vec<_> = nodes.iter().map(|node| node.told.lock().unwrap()).collect();
        first.set_desired(|desired| desired.draining = true);
        eventually("both addresses are handed over", || {
            let is_other = |address: &str| {
                let known = neighbour(address, true);
                known.is_some_and(|mac| mac != first.mac())
            };
            (is_other(V4) && is_other(V6)).then_some(())
        });
        drop(busy);
        let mut nodes = nodes;
        let second = speaker(&mut nodes);
        assert_eq!(second.beginnings(V6), [Cause::HandedOver]);
    });
}

#[test]
fn pulled_cable_releases_at_once() {
    in_netns("pulled_cable_releases_at_once", || {
        let (_, mut nodes, first) = three_that_vote();
        sh(&format!("ip link set {} down", first.name));
        first.set_desired(|desired| desired.attachment = None);
        let second = speaker(&mut nodes);
        let told = || (neighbour(V4, true) == Some(second.mac())).then_some(());
        eventually("the client is told of the new node", told);
        // It is plugged in again. Nothing moves back by itself.
        sh(&format!("ip link set {} up", first.name));
        first.set_desired(|_| {});
        eventually("it is heard again", || {
            let members = second.members();
            let her = members.iter().find(|m| m.node == NodeId::of(&first.name))?;
            (her.on_segment && !her.flags.vlan_down && !her.flags.starting).then_some(())
        });
        assert_eq!(first.beginnings(V4).len(), 1);
    });
}

/// The others have heard thousands of messages of each: a run that counted from one again would be mute
/// until it had said as many.
#[test]
fn reopened_segment_is_heard_at_once() {
    let name = "reopened_segment_is_heard_at_once";
    in_netns(name, || {
        build_segment(3);
        let api = Api::default();
        let [n1, n2, n3] = ["n1", "n2", "n3"].map(|name| Start::new(name, &api).run());
        all_vote(&api);
        // Each change is told at once: so much is said in minutes otherwise.
        eventually("much was said", || {
            for weight in 90..110 {
                for node in [&n1, &n2] {
                    node.set_desired(|desired| desired.weight = Weight::new(0, weight));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            (n3.received("segment") > 8000).then_some(())
        });
        let start = Instant::now();
        for node in [&n1, &n2] {
            node.close();
            eventually("it is silent", || {
                n3.member(&node.name).filter(|member| !member.alive)
            });
            node.set_desired(|_| ());
        }
        eventually("they are heard", || n3.hears("n1").and(n3.hears("n2")));
        n3.kill();
        eventually("one of the two speaks", || {
            let speaks = |node: &Node| node.rights.held((link_index(&node.name), ip(V4)));
            (speaks(&n1) || speaks(&n2)).then_some(())
        });
        let took = start.elapsed();
        assert!(took < Duration::from_secs(8), "it took {took:?}");
        let anew = |node: &Node| {
            let anew = Report::Noted(Transition::BegunAnew);
            node.told(|report| (*report == anew).then_some(())).len()
        };
        assert_eq!([&n1, &n2].map(anew), [0, 0], "nothing was refused");
    });
}

/// Their L2Networks have one name, and their heartbeats are not signed.
#[test]
fn clusters_on_one_wire_ignore_each_other() {
    let name = "clusters_on_one_wire_ignore_each_other";
    in_netns(name, || {
        build_segment(3);
        let (api, other_api) = (Api::default(), Api::default());
        let here = ["n1", "n2"].map(|name| Start::new(name, &api).run());
        let there = Start {
            uid: "77c0",
            ..Start::new("n3", &other_api)
        };
        let there = there.run();
        let key = Key::of(SEGMENT, ip("192.0.2.18"));
        there.set_desired(|desired| {
            desired.uid = "77c0".to_owned();
            desired.view.keys = [(key, Wanted::alone(key, Candidates::All))].into();
            desired.addresses = [(key, [(ip("192.0.2.18"), None)].into())].into();
        });
        eventually("each cluster has its speaker", || {
            let here = here.iter().any(|node| !node.beginnings(V4).is_empty());
            (here && !there.beginnings("192.0.2.18").is_empty()).then_some(())
        });
        eventually("both of the one cluster vote", || {
            (api.lock().unwrap().voters.len() == 2).then_some(())
        });
        let sent = PathLabels {
            segment: SEGMENT.to_owned(),
            path: "segment",
        };
        let sent = || there.metrics.segments.sent.get_or_create(&sent).get();
        eventually("the other one was there to be heard", || {
            (sent() > 50).then_some(())
        });
        for node in &here {
            assert_eq!(node.member("n3"), None);
        }
        assert_eq!(there.members().len(), 1, "{:?}", there.members());
        assert_eq!(other_api.lock().unwrap().voters, [NodeId::of("n3")].into());

        // Made again under its name, it is another segment, even while one goes by what was before.
        here[0].set_desired(|desired| desired.uid = "again".to_owned());
        eventually("the others do not hear it any more", || {
            here[1].member("n1").filter(|member| !member.alive)
        });
        here[1].set_desired(|desired| desired.uid = "again".to_owned());
        eventually("they hear each other", || {
            here[0].hears("n2").and(here[1].hears("n1"))
        });
    });
}

/// It was made again under its name before the next process knew what is desired.
#[test]
fn recreated_segment_inherits_nothing() {
    in_netns("recreated_segment_inherits_nothing", || {
        build_segment(1);
        let api = Api::default();
        let first = Start::new("n1", &api).run();
        eventually("it speaks", || first.beginnings(V4).first().copied());
        let start = Start {
            inherited: Some(first.export()),
            uid: "again",
            ..Start::new("n1", &api)
        };
        let second = start.run();
        eventually("it speaks", || second.beginnings(V4).first().copied());
        assert_eq!(second.beginnings(V4), [Cause::Unclaimed]);
    });
}

#[test]
fn successor_continues_as_same_member() {
    in_netns("successor_continues_as_same_member", || {
        build_segment(2);
        let api = Api::default();
        let mut nodes: Vec<_> = ["n1", "n2"].map(|name| Start::new(name, &api).run()).into();
        let first = speaker(&mut nodes);
        let last = |node: &Node| {
            node.members()
                .iter()
                .find(|m| m.node == NodeId::of(&first.name))
                .cloned()
        };
        let before = eventually("it is known", || last(&nodes[0]).filter(|m| m.epoch.0 > 0));
        eventually("both vote", || {
            (api.lock().unwrap().voters.len() == 2).then_some(())
        });
        let labels = SegmentLabels::new(SEGMENT);
        let rounds = || first.metrics.ndp.unsolicited.get_or_create(&labels).get();
        eventually("the burst is over", || (rounds() == 6).then_some(()));
        let claims = listen();
        let bytes = serde_json::to_vec(&first.export()).unwrap();
        let start = Start {
            inherited: Some(serde_json::from_slice(&bytes).unwrap()),
            ..Start::new(&first.name, &api)
        };
        let second = start.run();
        let causes = eventually("it goes on", || {
            Some(second.beginnings(V4)).filter(|b| !b.is_empty())
        });
        assert_eq!(causes, [Cause::Inherited]);
        assert_eq!(neighbour(V4, true), Some(second.mac()));
        // For much longer than it takes to take over.
        let heard = nodes[0].received("segment");
        eventually("it is heard for a while", || {
            (nodes[0].received("segment") > heard + 15).then_some(())
        });
        assert_eq!(nodes[0].beginnings(V4), [], "nobody else has begun");
        let after = last(&nodes[0]).unwrap();
        assert_eq!(after.epoch, before.epoch);
        let told = second.told(|report| matches!(report, Report::Stopped { .. }).then_some(()));
        assert_eq!(told, []);
        let claims = claims.lock().unwrap();
        // What it is asked it answers, to the client alone.
        assert!(claims.is_empty(), "{claims:?}");
    });
}

/// It still forwards for those that know it, and its connections would break.
#[test]
fn new_speaker_announces_nothing_while_old_kernel_answers() {
    in_netns(
        "new_speaker_announces_nothing_while_old_kernel_answers",
        || {
            build_segment(3);
            let api = Api::default();
            let names = ["n1", "n2", "n3"];
            let mut nodes: Vec<_> = names.map(|name| Start::new(name, &api).run()).into();
            for (n, node) in nodes.iter().enumerate() {
                let own = format!("192.0.2.{}", 100 + n);
                sh(&format!("ip address add {own}/32 dev n{}", n + 1));
                node.set_desired(|desired| desired.own_addresses = vec![ip(&own)]);
            }
            let first = speaker(&mut nodes);
            let own = eventually("its own address is known", || {
                let members = nodes[0].members();
                let her = members.iter().find(|m| m.node == NodeId::of(&first.name))?;
                her.contact.own_addresses.first().copied()
            });
            all_vote(&api);
            eventually("the client knows it", || {
                (neighbour(V4, true) == Some(first.mac())).then_some(())
            });
            first.kill();
            let claims = listen();
            let second = speaker(&mut nodes);
            assert_eq!(second.beginnings(V4), [Cause::TakenOver]);
            let heard = second.received("segment");
            eventually("a while has passed", || {
                (second.received("segment") > heard + 15).then_some(())
            });
            assert_eq!(*claims.lock().unwrap(), [], "nobody is told");
            assert_eq!(neighbour(V4, false), Some(first.mac()));
            // New neighbours are answered.
            sh(&format!("ip -n client neigh del {V4} dev c"));
            eventually("an answer", || {
                (neighbour(V4, true) == Some(second.mac())).then_some(())
            });

            sh(&format!("ip address del {own}/32 dev {}", first.name));
            let told = || {
                let claims = claims.lock().unwrap();
                let second = second.mac();
                let all = [V4, V6].iter().all(|address| {
                    claims
                        .iter()
                        .any(|claim| claim.1 == ip(address) && claim.2 == second)
                });
                all.then_some(())
            };
            eventually("everybody is told once the kernel is gone too", told);
        },
    );
}

/// What is seen of it is only that nobody hears it on the segment any more.
#[test]
fn isolated_node_releases_although_link_is_up() {
    in_netns("isolated_node_releases_although_link_is_up", || {
        build_segment(3);
        let api = Api::default();
        let names = ["n1", "n2", "n3"];
        let mut nodes: Vec<_> = names.map(|name| Start::new(name, &api).run()).into();
        for node in &nodes {
            node.set_desired(|desired| desired.gateways = [ip("192.0.2.200")].into());
        }
        let first = speaker(&mut nodes);
        all_vote(&api);
        // The switch stops to forward for it, and tells nobody.
        sh(&format!("ip link set {}-b nomaster", first.name));
        let second = speaker(&mut nodes);
        let stopped = eventually("it has let go", || {
            let stopped = first.told(|report| match report {
                Report::Stopped { address, cause } if *address == ip(V4) => Some(*cause),
                _ => None,
            });
            stopped.first().copied()
        });
        assert_eq!(stopped, Cause::SegmentLost);
        eventually("the client is told of the new node", || {
            (neighbour(V4, true) == Some(second.mac())).then_some(())
        });
        let labels = SegmentLabels::new(SEGMENT);
        let reachable = &first.metrics.segments.gateway_reachable;
        assert_eq!(reachable.get_or_create(&labels).get(), 0);
    });
}

#[test]
fn ignores_node_without_key() {
    in_netns("ignores_node_without_key", || {
        build_segment(3);
        let api = Api::default();
        let secret = |text: &str| Secret::new(text.as_bytes());
        let (old, new) = (
            secret("the secret of last year"),
            secret("the secret of this year"),
        );
        let start = |name, secrets: Vec<Secret>| {
            let start = Start {
                secrets: KeyRing::new(secrets),
                ..Start::new(name, &api)
            };
            start.run()
        };
        let a = start("n1", vec![new.clone(), old.clone()]);
        let b = start("n2", vec![old.clone()]);
        let foreign = start("n3", Vec::new());
        // Both have the old one, so they sign with it.
        for (node, other) in [(&a, "n2"), (&b, "n1")] {
            eventually("they hear each other", || {
                let members = node.members();
                let her = members.iter().find(|m| m.node == NodeId::of(other))?;
                (her.on_segment && her.signed == Some(old.id())).then_some(())
            });
        }
        eventually("who does not sign is refused", || {
            (a.dropped("unsigned") > 10 && b.dropped("unsigned") > 10).then_some(())
        });
        for node in [&a, &b] {
            let members = node.members();
            assert!(
                members.iter().all(|m| m.node != NodeId::of("n3")),
                "{members:?}"
            );
        }
        assert!(foreign.dropped("unsigned") == 0);
    });
}

#[test]
fn kernel_reports_frame_age() {
    in_netns("kernel_reports_frame_age", || {
        build_segment(1);
        // The kernel says something of its own on a new interface.
        let opened = clock::now();
        let wire = PacketSocket::open("tap", link_index("tap")).unwrap();
        for address in [V4, V6] {
            assert_eq!(neighbour(address, true), None);
        }
        let waited = Duration::from_millis(500);
        let came = eventually("both are asked for", || {
            // Nothing is read before.
            (clock::now().since(opened) > waited).then_some(())?;
            let mut came = Vec::new();
            wire.receive(100, |_, at| came.push(at));
            (!came.is_empty()).then_some(came)
        });
        let read = clock::now();
        let first = came.iter().min().copied().unwrap();
        assert!(first + Duration::from_millis(1) >= opened, "{came:?}");
        assert!(read.since(first) > waited / 2, "it came just now: {came:?}");
    });
}

#[test]
fn hears_witness_over_node_network() {
    in_netns("hears_witness_over_node_network", || {
        build_segment(1);
        let api = Api::default();
        let member = Start::new("n1", &api).run();
        let port = eventually("its port", || {
            let members = member.members();
            let own = members.iter().find(|m| m.node == NodeId::of("n1"))?;
            own.contact.node_network
        });
        let witness = Start {
            witness: true,
            ..Start::new("w", &api)
        };
        let witness = witness.run();
        let contact = Contact {
            node_network: Some(port),
            ..Contact::default()
        };
        witness.set_desired(|desired| {
            desired.view.known.insert(NodeId::of("n1"), contact);
        });
        eventually("both are heard", || {
            let heard = member.received("node_network") > 10;
            (heard && witness.received("node_network") > 10).then_some(())
        });
        assert_eq!(
            (member.received("segment"), witness.received("segment")),
            (0, 0)
        );
        let labels = SegmentLabels::new(SEGMENT);
        let errors = member.metrics.send_errors.get_or_create(&labels);
        assert_eq!(errors.get(), 0);
    });
}
