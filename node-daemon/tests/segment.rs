//! Announcing on a real segment: a bridge, two nodes and a client on it, real sockets, and the
//! client's own kernel as the judge. There is no API server; the test passes Leases on by hand.
//!
//! Each test runs itself again in a network namespace of its own, for which no root is needed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test states what must hold by panicking; clippy knows only functions marked as tests"
)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures::FutureExt;
use k8s_openapi::api::core::v1::ObjectReference;
use mooring_common::k8s::{EventKind, ObjectKey, Slim};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use mooring_common::node_view::NodeView;
use mooring_node::announce::apply::Conductor;
use mooring_node::announce::frames::{self, Claim};
use mooring_node::announce::lease::Wish;
use mooring_node::announce::mac::Mac;
use mooring_node::announce::members::Members;
use mooring_node::announce::observe::{
    LeaseView, NetworkView, ServiceView, SliceView, Snapshot, Synced, TrafficPolicy,
};
use mooring_node::announce::wire::Wire;
use mooring_node::announce::{EventSink, Metrics, links};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const V4: &str = "192.0.2.17";
const V6: &str = "2001:db8::117";
const IN_A_WORLD: &str = "MOORING_TEST_IN_A_WORLD";

/// Runs `body` in network and mount namespaces of its own, by running this very test there.
fn in_a_world(test: &str, body: impl Future<Output = ()>) {
    if std::env::var_os(IN_A_WORLD).is_some() {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async { tokio::time::timeout(Duration::from_secs(60), body).await })
            .expect("the test takes no minute");
        return;
    }
    let status = Command::new("unshare")
        .args(["-Urnm", "--propagation", "private", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(IN_A_WORLD, "1")
        .status()
        .expect("this test needs `unshare` (Debian package util-linux) and user namespaces");
    assert!(
        status.success(),
        "the test failed in its namespace; its output is above"
    );
}

/// Runs a command line, words separated by spaces.
fn sh(line: &str) -> String {
    let words: Vec<_> = line.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "`{}` is needed (Debian package iproute2): {error}",
                words[0]
            )
        });
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{line}: {out}{err}");
    out
}

/// A bridge with the interfaces `n1` and `n2` of two nodes, `tap` to listen at, and a client in a
/// namespace of its own.
fn build_segment() {
    sh("mount -t tmpfs tmpfs /run");
    sh("ip link set lo up");
    sh("ip link add br0 type bridge forward_delay 0 mcast_snooping 0");
    sh("ip link set br0 up");
    sh("ip netns add client");
    for name in ["n1", "n2", "tap", "c"] {
        sh(&format!("ip link add {name} type veth peer name {name}-b"));
        sh(&format!("ip link set {name}-b master br0 up"));
        if name != "c" {
            // All nodes live in one namespace here: their kernels must not speak for each other.
            sh(&format!("ip link set {name} up"));
        }
    }
    sh("ip link set c netns client");
    sh("ip -n client link set c up");
    sh("ip -n client address add 192.0.2.200/24 dev c");
    sh("ip -n client address add 2001:db8::200/64 dev c nodad");
}

/// What the client's kernel believes, after it was made to ask if `ask`.
fn neighbour(address: &str, ask: bool) -> Option<Mac> {
    if ask {
        let line = format!("echo x > /dev/udp/{address}/9");
        // Nobody answers the datagram; what counts is that the kernel looks for its receiver.
        let _ = Command::new("ip")
            .args(["netns", "exec", "client", "bash", "-c", &line])
            .output()
            .unwrap();
    }
    let entry = sh(&format!("ip -n client neigh show {address} dev c"));
    let words: Vec<_> = entry.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "lladdr")?;
    words[at + 1].parse().ok()
}

async fn eventually<T>(what: &str, mut test: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = test() {
            return value;
        }
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{what}: not within 15 s"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Event>>>);

/// The name of what it is about, the reason, and the note.
type Event = (String, &'static str, String);

impl EventSink for Told {
    fn event(&self, about: ObjectReference, _: EventKind, reason: &'static str, note: String) {
        let name = about.name.unwrap_or_default();
        self.0.lock().unwrap().push((name, reason, note));
    }
}

/// One node daemon without its API server.
struct Daemon {
    name: &'static str,
    snapshot: Arc<ArcSwap<Snapshot>>,
    published: watch::Sender<u64>,
    wish: watch::Receiver<Wish>,
    renew_now: Arc<Notify>,
    told: Told,
    cancel: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Daemon {
    /// A daemon whose node is on the segment by the interface of the same name.
    fn start(name: &'static str) -> Arc<Self> {
        let snapshot = Arc::new(ArcSwap::from_pointee(world_of(name)));
        let (published, publications) = watch::channel(0);
        let (wish, wishes) = watch::channel(Wish::None);
        let (links_sender, links) = watch::channel(Arc::default());
        let (told, cancel) = (Told::default(), CancellationToken::new());
        let renew_now = Arc::new(Notify::new());
        let lease = Duration::from_secs(30);
        let conductor = Conductor {
            node_name: name.into(),
            snapshot: Arc::clone(&snapshot),
            published: publications,
            links,
            wish,
            entries: watch::Sender::new(BTreeMap::new()),
            renew_now: Arc::clone(&renew_now),
            members: Members::new(name, &format!("{name}_1"), lease),
            lease_duration: lease,
            events: told.clone(),
            metrics: Metrics::default(),
            seed: 1,
        };
        let stop = cancel.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = conductor.run(stop) => {}
                () = links::follow(links_sender) => {}
            }
        });
        Arc::new(Self {
            name,
            snapshot,
            published,
            wish: wishes,
            renew_now,
            told,
            cancel,
            task: Mutex::new(Some(task)),
        })
    }

    fn edit(&self, edit: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = (*self.snapshot.load_full()).clone();
        edit(&mut snapshot);
        self.snapshot.store(Arc::new(snapshot));
        self.published.send_modify(|count| *count += 1);
    }

    fn mac(&self) -> Option<Mac> {
        self.on_segments().get("public").copied()
    }

    fn on_segments(&self) -> BTreeMap<String, Mac> {
        match &*self.wish.borrow() {
            Wish::Hold(content) => content.segments.clone(),
            Wish::LetGo | Wish::None => BTreeMap::new(),
        }
    }
}

fn world_of(name: &'static str) -> Snapshot {
    let spec = L2NetworkSpec {
        parent: Some(name.into()),
        subnets: vec![
            Subnet {
                cidr: "192.0.2.0/24".into(),
                gateway: Some("192.0.2.1".into()),
            },
            Subnet {
                cidr: "2001:db8::/64".into(),
                gateway: None,
            },
        ],
        ranges: vec!["192.0.2.16/28".into(), "2001:db8::100/120".into()],
        ..L2NetworkSpec::default()
    };
    let network = NetworkView::read(L2Network::new("public", spec), "me");
    let key = ObjectKey::new("shop", "web");
    let service = ServiceView {
        uid: "u".into(),
        network: Some("public".into()),
        addresses: vec![V4.parse().unwrap(), V6.parse().unwrap()],
        policy: TrafficPolicy::Cluster,
    };
    let slice = SliceView {
        service: "web".into(),
        any_ready: true,
        ..SliceView::default()
    };
    let node = json!({"metadata": {"name": name, "uid": "u"}});
    Snapshot {
        services: Arc::new([(key.clone(), Arc::new(service))].into()),
        slices: Arc::new([(key, vec![Arc::new(slice)])].into()),
        networks: Arc::new([(ObjectKey::cluster_wide("public"), Arc::new(network))].into()),
        leases: Arc::default(),
        node: Some(Arc::new(NodeView::slim(
            serde_json::from_value(node).unwrap(),
        ))),
        synced: Synced {
            services: true,
            slices: true,
            networks: true,
            leases: true,
            node: true,
        },
        may_write: true,
        heard: None,
        ..Snapshot::default()
    }
}

/// Keeps the Leases as the daemons wish, as their keepers and the API server would: written anew
/// when a wish changes, when a daemon asks for it, and when it ends.
fn keep_leases(daemons: &[&Arc<Daemon>]) {
    let daemons: Vec<_> = daemons.iter().map(|daemon| Arc::clone(daemon)).collect();
    let mut leases = BTreeMap::new();
    let mut version = 0;
    tokio::spawn(async move {
        loop {
            let mut written = false;
            for daemon in &daemons {
                let asked = daemon.renew_now.notified().now_or_never().is_some();
                let released = daemon.cancel.is_cancelled();
                let holder = if released {
                    String::new()
                } else {
                    format!("{}_1", daemon.name)
                };
                version += 1;
                let lease = LeaseView {
                    node: daemon.name.into(),
                    version: version.to_string(),
                    holder,
                    segments: daemon.on_segments(),
                };
                let key = ObjectKey::new("ns", daemon.name);
                let same = leases.get(&key).is_some_and(|known: &Arc<LeaseView>| {
                    known.holder == lease.holder && known.segments == lease.segments
                });
                if asked || !same {
                    leases.insert(key, Arc::new(lease));
                    written = true;
                }
            }
            if written {
                let leases = Arc::new(leases.clone());
                for daemon in &daemons {
                    daemon.edit(|snapshot| snapshot.leases = Arc::clone(&leases));
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

fn link_index(name: &str) -> u32 {
    let line = sh(&format!("ip -o link show {name}"));
    line.split(':').next().unwrap().trim().parse().unwrap()
}

/// Listens at `tap` from now on, and collects who claims the service addresses when.
fn listen() -> Arc<Mutex<Vec<(Instant, IpAddr, Mac)>>> {
    let wire = Wire::open("tap", link_index("tap")).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let claims = Arc::clone(&heard);
    std::thread::spawn(move || {
        loop {
            wire.receive(100, |frame| {
                let now = Instant::now();
                let heard = frames::parse(frame, Mac::UNKNOWN).unwrap_or_default();
                let of_service =
                    |claim: &Claim| [V4, V6].contains(&claim.address.to_string().as_str());
                if let Some(claim) = heard.claim.filter(of_service) {
                    claims.lock().unwrap().push((now, claim.address, claim.mac));
                }
            });
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    heard
}

#[test]
fn one_node_speaks_and_another_takes_over() {
    in_a_world("one_node_speaks_and_another_takes_over", async {
        build_segment();
        let claims = listen();
        let (a, b) = (Daemon::start("n1"), Daemon::start("n2"));
        eventually("both on air", || a.mac().and(b.mac())).await;
        assert_ne!(a.mac(), b.mac());
        assert_eq!(neighbour(V4, true), None, "nobody speaks without a Lease");

        keep_leases(&[&a, &b]);
        let first = eventually("an answer to ARP", || neighbour(V4, true)).await;
        let (speaker, other, link) = if a.mac() == Some(first) {
            (a, b, "n1")
        } else {
            (b, a, "n2")
        };
        assert_eq!(speaker.mac(), Some(first));
        let second = other.mac().unwrap();
        let six = eventually("an answer to NDP", || neighbour(V6, true)).await;
        assert_eq!(six, first, "both families are on one node");

        // The cable is pulled: the Lease loses the segment, the other node takes over, and the
        // client learns it without asking.
        let pulled = Instant::now();
        sh(&format!("ip link set {link}-b down"));
        eventually("the segment is given up", || {
            speaker.mac().is_none().then_some(())
        })
        .await;
        for address in [V4, V6] {
            let told = || (neighbour(address, false) == Some(second)).then_some(());
            eventually("the client is told of the new node", told).await;
        }
        println!("taken over after {:?}", pulled.elapsed());

        // It is plugged in again: by the hash the address goes back.
        sh(&format!("ip link set {link}-b up"));
        eventually("on air again", || speaker.mac()).await;
        let back = || (neighbour(V4, false) == Some(first)).then_some(());
        eventually("the client is told that it is back", back).await;

        // The daemon ends in order.
        speaker.cancel.cancel();
        let told = || (neighbour(V4, false) == Some(second)).then_some(());
        eventually("the client is told of the last move", told).await;
        let task = speaker.task.lock().unwrap().take().unwrap();
        task.await.unwrap();
        let ended = Instant::now();
        assert_eq!(neighbour(V4, true), Some(second));

        let claims = claims.lock().unwrap();
        assert!(
            claims
                .iter()
                .all(|(_, _, mac)| [first, second].contains(mac))
        );
        assert!(
            !claims
                .iter()
                .any(|(at, _, mac)| *at > ended && *mac == first)
        );
        let announced = other.told.0.lock().unwrap();
        assert!(announced.iter().any(|(name, reason, note)| {
            name == "web" && *reason == "AddressAnnounced" && note.contains(V4) && note.contains(V6)
        }));
    });
}

#[test]
fn a_burst_is_on_time_and_in_both_forms() {
    in_a_world("a_burst_is_on_time_and_in_both_forms", async {
        build_segment();
        let claims = listen();
        let daemon = Daemon::start("n1");
        eventually("on air", || daemon.mac()).await;
        keep_leases(&[&daemon]);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let claims = claims.lock().unwrap();
        let times = |address: &str| -> Vec<u128> {
            let address: IpAddr = address.parse().unwrap();
            let mine = claims.iter().filter(|(_, claimed, _)| *claimed == address);
            let times: Vec<Instant> = mine.map(|(at, _, _)| *at).collect();
            times
                .iter()
                .map(|at| (*at - times[0]).as_millis())
                .collect()
        };
        // Prime, request and reply form in primed rounds; IPv6 has no router here.
        let four: &[u128] = &[
            0, 0, 0, 50, 50, 200, 200, 200, 600, 600, 1100, 1100, 1100, 2000, 2000,
        ];
        let six: &[u128] = &[0, 50, 200, 600, 1100, 2000];
        for (address, expected) in [(V4, four), (V6, six)] {
            let times = times(address);
            assert_eq!(times.len(), expected.len(), "{address}: {times:?}");
            for (time, expected) in times.iter().zip(expected) {
                // Never early. How late depends on what else this machine has to do.
                let in_time = expected.saturating_sub(20)..expected + 400;
                assert!(
                    in_time.contains(time),
                    "{address}: {times:?} is not {expected:?}"
                );
            }
        }
    });
}

#[test]
fn a_foreign_station_is_reported_and_the_address_defended() {
    in_a_world(
        "a_foreign_station_is_reported_and_the_address_defended",
        async {
            build_segment();
            let claims = listen();
            let daemon = Daemon::start("n1");
            let own = eventually("on air", || daemon.mac()).await;
            keep_leases(&[&daemon]);
            eventually("an answer", || neighbour(V4, true)).await;
            tokio::time::sleep(Duration::from_millis(2200)).await;
            sh("ip -n client address add 192.0.2.17/32 dev c");
            let foreign = Wire::open("n2", link_index("n2")).unwrap();
            let mac: Mac = "02:66:66:66:66:66".parse().unwrap();
            claims.lock().unwrap().clear();
            for frame in frames::announcement(mac, V4.parse().unwrap()) {
                foreign.send(&frame).unwrap();
            }
            let defended = || {
                let claims = claims.lock().unwrap();
                claims.iter().any(|(_, _, mac)| *mac == own).then_some(())
            };
            eventually("a defence", defended).await;
            let told = || {
                let told = daemon.told.0.lock().unwrap();
                let found = told
                    .iter()
                    .find(|(_, reason, _)| *reason == "AddressConflict");
                found.map(|(_, _, note)| note.clone())
            };
            let note = eventually("an Event", told).await;
            assert!(
                note.contains("02:66:66:66:66:66") && note.contains(V4),
                "{note}"
            );
        },
    );
}

#[test]
fn a_wrong_interface_is_told_by_an_event() {
    in_a_world("a_wrong_interface_is_told_by_an_event", async {
        let daemon = Daemon::start("nowhere");
        let told = || {
            let told = daemon.told.0.lock().unwrap();
            told.first().cloned()
        };
        let (name, reason, note) = eventually("an Event", told).await;
        assert_eq!((name.as_str(), reason), ("public", "SegmentUnavailable"));
        assert!(note.contains("there is no interface \"nowhere\""), "{note}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(
            daemon.told.0.lock().unwrap().len(),
            1,
            "each fault is told once"
        );
        // It keeps its Lease, being on the segment.
        assert!(matches!(*daemon.wish.borrow(), Wish::Hold(_)));
        assert!(daemon.on_segments().is_empty());
    });
}
