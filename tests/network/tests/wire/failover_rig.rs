//! The rig that measures fail-overs measures right: faults of known length and kind, without any of
//! Mooring's programs.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use mooring_test_netlab::netlab::claims::{announcements, heartbeats};
use mooring_test_netlab::netlab::raw::ArpToSend;
use mooring_test_netlab::netlab::{
    Direction, Echo, Host, Netlab, Prober, Quota, SPACING, TOLERABLE, UdpFlow, Watchdog, in_netlab,
};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::eventually;

const LIMIT: Duration = Duration::from_secs(20);

/// An artificial silence.
const SILENCE: Duration = Duration::from_millis(300);

/// How far a measured silence may be off: commands take their time, and clients their turns.
const EXACT: Duration = Duration::from_millis(30);

/// So many attempts, of which one must come at a time when the machine lets the rig keep time.
const ATTEMPTS: usize = 10;

struct Rig {
    lab: Netlab,
    node: Host,
    client: Host,
    asker: Host,
    watchdog: Watchdog,
    _echo: Echo,
}

impl Rig {
    fn new() -> Self {
        let lab = Netlab::new().unwrap();
        let (node, client, asker) = (
            lab.node("n1").unwrap(),
            lab.client("client").unwrap(),
            lab.client("asker").unwrap(),
        );
        let echo = node.echo((node.ipv4(), 7).into()).unwrap();
        Self {
            lab,
            node,
            client,
            asker,
            watchdog: Watchdog::start(),
            _echo: echo,
        }
    }

    fn address(&self) -> SocketAddr {
        (self.node.ipv4(), 7).into()
    }

    async fn flow(&self) -> UdpFlow {
        let flow = self.client.udp_flow(self.address(), 1000).unwrap();
        eventually("the datagrams flow", LIMIT, async || {
            flow.flows_since(SILENCE)
        })
        .await;
        flow
    }

    async fn prober(&self, target: impl Into<IpAddr>) -> Prober {
        let prober = self.asker.prober(target.into()).unwrap();
        eventually("somebody answers", LIMIT, async || {
            prober.only_speaker(SILENCE)
        })
        .await;
        prober
    }

    fn keeps_time_since(&self, start: Instant) -> bool {
        self.watchdog.worst(start, Instant::now()) < EXACT / 2
    }
}

async fn until(moment: Instant) {
    eventually("the time has come", LIMIT, async || {
        Instant::now() >= moment
    })
    .await;
}

#[test]
fn a_silence_is_measured_as_long_as_it_was() {
    in_netlab(async || {
        let rig = Rig::new();
        let port = rig.node.port();
        for _ in 0..ATTEMPTS {
            let (flow, prober) = (rig.flow().await, rig.prober(rig.node.ipv4()).await);
            let start = Instant::now();
            port.lose_all(Direction::Sends).unwrap();
            let silent = Instant::now();
            until(silent + SILENCE).await;
            let mending = Instant::now();
            port.mend().unwrap();
            let mended = Instant::now();
            eventually("all is well", LIMIT, async || {
                flow.flows_since(SILENCE) && prober.only_speaker(SILENCE).is_some()
            })
            .await;
            let keeps_time = rig.keeps_time_since(start);
            let (outage, answers) = (flow.end(start), prober.end(start));
            println!(
                "silent for {:?} to {:?}: {outage:?}, dark {:?}, on time: {keeps_time}",
                mending - silent,
                mended - start,
                answers.dark()
            );
            assert!(answers.two().is_zero() && answers.late().is_empty());
            assert_eq!(outage.lost, outage.longest, "one silence, in one piece");
            if keeps_time {
                let within = |measured: Duration, tolerance: Duration| {
                    measured + tolerance >= mending - silent
                        && measured <= mended - start + tolerance
                };
                assert!(within(outage.lost, Duration::from_millis(5)), "{outage:?}");
                assert!(within(answers.dark(), SPACING), "{:?}", answers.dark());
                return;
            }
        }
        panic!("the machine is too busy to measure anything on it");
    });
}

#[test]
fn without_a_fault_nothing_is_missed() {
    in_netlab(async || {
        let rig = Rig::new();
        let flow = rig.flow().await;
        let probers = [
            rig.prober(rig.node.ipv4()).await,
            rig.prober(rig.node.ipv6()).await,
        ];
        let connections = rig.client.tcp_flows(rig.address(), 4).unwrap();
        let start = Instant::now();
        until(start + Duration::from_secs(2)).await;
        assert!(connections.told_since(start));
        assert_eq!(connections.broken(), 0);
        let outage = flow.end(start);
        assert_eq!((outage.lost, outage.longest), Default::default());
        assert!((1900..2300).contains(&outage.packets), "{outage:?}");
        for prober in probers {
            let answers = prober.end(start);
            assert_eq!((answers.dark(), answers.two()), Default::default());
            assert_eq!(answers.speakers(), [rig.node.mac()]);
            assert!((95..130).contains(&answers.questions.len()));
        }
    });
}

#[test]
fn two_who_answer_are_seen_as_two_and_one_after_the_other_as_a_move() {
    in_netlab(async || {
        let rig = Rig::new();
        let second = rig.lab.node("n2").unwrap();
        rig.node.ip("address add 10.77.0.200/32 dev eth0").unwrap();
        let prober = rig.prober([10, 77, 0, 200]).await;
        let start = Instant::now();
        second.ip("address add 10.77.0.200/32 dev eth0").unwrap();
        eventually("both answer", LIMIT, async || {
            prober.so_far(start).two() >= SPACING * 5
        })
        .await;
        rig.node.ip("address del 10.77.0.200/32 dev eth0").unwrap();
        eventually("only the second answers", LIMIT, async || {
            prober.only_speaker(SILENCE) == Some(second.mac())
        })
        .await;
        let answers = prober.end(start);
        assert!(
            answers.two() <= Duration::from_secs(3),
            "{:?}",
            answers.two()
        );
        assert_eq!(answers.speakers().last(), Some(&second.mac()));
        assert!(answers.dark() <= SPACING);
    });
}

#[test]
fn one_direction_can_be_cut_and_one_pair_be_blinded() {
    in_netlab(async || {
        let rig = Rig::new();
        let second = rig.lab.node("n2").unwrap();
        let from_asker = rig.prober(rig.node.ipv4()).await;
        let reaches = |from: &Host, to: &Host| {
            // Nobody listens there: who is reached refuses.
            let answer = from.connect((to.ipv4(), 9).into(), SILENCE).unwrap_err();
            let error = answer.root_cause().downcast_ref::<std::io::Error>();
            error.is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        };
        assert!(reaches(&rig.node, &second));
        rig.node.port().lose_of(second.mac()).unwrap();
        second.port().lose_of(rig.node.mac()).unwrap();
        assert!(!reaches(&rig.node, &second) && !reaches(&second, &rig.node));
        assert!(from_asker.only_speaker(SPACING * 2).is_some());
        assert!(reaches(&rig.client, &second));
        for node in [&rig.node, &second] {
            node.port().mend().unwrap();
        }
        assert!(reaches(&rig.node, &second));

        // What it hears it still answers, but nobody hears that.
        let capture = rig.node.capture().unwrap();
        rig.node.port().lose_all(Direction::Sends).unwrap();
        let cut = Instant::now();
        eventually("it goes on to be asked", LIMIT, async || {
            let frames = capture.since(cut);
            let asked = frames.iter().filter_map(|frame| frame.arp());
            asked.filter(|arp| arp.is_request).count() >= 5
        })
        .await;
        assert_eq!(from_asker.only_speaker(SPACING), None);
        rig.node.port().mend().unwrap();
        rig.node.port().lose_all(Direction::Receives).unwrap();
        let deaf = Instant::now();
        let claim = ArpToSend::who_has(rig.node.ipv4(), rig.node.ipv4(), rig.node.mac());
        let heard = rig.lab.capture_control().unwrap();
        rig.node.inject(&claim.bytes()).unwrap();
        eventually("it is heard though it is deaf", LIMIT, async || {
            !announcements(&heard.since(deaf), rig.node.ipv4().into()).is_empty()
        })
        .await;
        let frames = capture.since(deaf + Duration::from_millis(5));
        let received = frames
            .iter()
            .filter(|frame| frame.source() != Some(rig.node.mac()));
        assert_eq!(received.count(), 0);
    });
}

#[test]
fn loss_at_random_is_about_what_was_asked_for() {
    in_netlab(async || {
        let rig = Rig::new();
        let flow = rig.flow().await;
        let start = Instant::now();
        rig.node.port().lose_some(Direction::Sends, 20).unwrap();
        until(start + Duration::from_secs(2)).await;
        let outage = flow.end(start);
        let percent = outage.lost.as_millis() * 100 / outage.packets as u128;
        assert!((14..27).contains(&percent), "{percent} %: {outage:?}");
        assert!(outage.longest < outage.lost / 10);
        rig.node.port().mend().unwrap();

        // Heartbeats are lost, and nothing else.
        rig.node
            .port()
            .lose_heartbeats(Direction::Sends, 100)
            .unwrap();
        let capture = rig.lab.capture_control().unwrap();
        let mut beat = vec![0x33, 0x33, 0, 0, 0, 1];
        beat.extend(rig.node.mac().0);
        beat.extend([0x88, 0xb5]);
        beat.resize(60, 0);
        rig.node.inject(&beat).unwrap();
        let flow = rig.flow().await;
        assert!(heartbeats(&capture.frames()).is_empty());
        rig.node.port().mend().unwrap();
        rig.node.inject(&beat).unwrap();
        eventually("the next one is heard", LIMIT, async || {
            heartbeats(&capture.frames()).get(&rig.node.mac()) == Some(&1)
        })
        .await;
        drop(flow);
    });
}

#[test]
fn a_reset_connection_counts_as_broken() {
    in_netlab(async || {
        let rig = Rig::new();
        let connections = rig.client.tcp_flows(rig.address(), 4).unwrap();
        let start = Instant::now();
        eventually("all have talked", LIMIT, async || {
            connections.told_since(start)
        })
        .await;
        assert_eq!(connections.broken(), 0);
        let script = "add table inet x\nadd chain inet x in { type filter hook input priority 0; }\n\
                      add rule inet x in tcp dport 7 reject with tcp reset";
        rig.node.run(&["nft", script]).unwrap();
        eventually("all are broken", LIMIT, async || connections.broken() == 4).await;
    });
}

#[test]
fn a_program_with_a_quota_gets_no_more() {
    in_netlab(async || {
        let rig = Rig::new();
        let log = rig.lab.folder().join("busy.log");
        let spec = Spec::new("a busy program", "sh", log).args(["-c", "while :; do :; done"]);
        let busy = Process::start(&spec).unwrap();
        let used = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", busy.pid())).unwrap();
            let fields = stat.rsplit(')').next().unwrap().split_whitespace();
            let ticks = fields.skip(11).take(2);
            ticks.map(|text| text.parse::<u32>().unwrap()).sum::<u32>() * 10
        };
        eventually("it works", LIMIT, async || used() >= 100).await;
        let quota = Quota::of(&busy, 5).unwrap();
        let (start, before) = (Instant::now(), used());
        until(start + Duration::from_secs(2)).await;
        let with_quota = used() - before;
        // 5 % of 2 s, and the kernel counts in steps of 10 ms.
        assert!(with_quota <= 200, "{with_quota} ms");
        drop(quota);
        let before = used();
        eventually("it has its fill again", LIMIT, async || {
            used() - before >= 200
        })
        .await;
    });
}

// In a netlab the test is the first process, which nobody there can stop.
#[tokio::test]
async fn a_machine_that_stands_still_is_noticed() {
    let watchdog = Watchdog::start();
    let start = Instant::now();
    let myself = std::process::id();
    let script = format!("kill -STOP {myself}; sleep 0.2; kill -CONT {myself}");
    let helper = std::process::Command::new("sh")
        .args(["-c", &script])
        .spawn();
    let stalled = eventually("the stall is noted", LIMIT, async || {
        let worst = watchdog.worst(start, Instant::now());
        (worst > TOLERABLE).then_some(worst)
    })
    .await;
    helper.unwrap().wait().unwrap();
    assert!(stalled >= Duration::from_millis(150), "{stalled:?}");
}
