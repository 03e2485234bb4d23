//! Whatever happens, and in whatever order.

use proptest::prelude::*;

use super::*;

const ALL: [&str; 3] = [V4, V6, "192.0.2.12"];

#[derive(Clone, Debug)]
enum Happening {
    Pass(u64),
    Begin(usize, bool),
    Stop(usize),
    Burst(usize),
    /// The right to a key runs out after so many milliseconds, or is given again.
    Right(usize, Option<u64>),
    Known(usize, bool),
    Link(bool),
    Claim(usize, usize),
    Ask(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0..4000_u64).prop_map(Happening::Pass),
        (0..3_usize, any::<bool>()).prop_map(|(n, quiet)| Happening::Begin(n, quiet)),
        (0..3_usize).prop_map(Happening::Stop),
        (0..3_usize).prop_map(Happening::Burst),
        (0..3_usize, prop::option::of(0..3000_u64)).prop_map(|(n, t)| Happening::Right(n, t)),
        (0..3_usize, any::<bool>()).prop_map(|(n, on)| Happening::Known(n, on)),
        any::<bool>().prop_map(Happening::Link),
        (0..3_usize, 0..3_usize).prop_map(|(n, who)| Happening::Claim(n, who)),
        (0..3_usize).prop_map(Happening::Ask),
    ]
}

/// What the property test knows of a key.
#[derive(Clone, Copy, Default)]
struct Entry {
    begun: bool,
    known: bool,
    announced: bool,
    /// A foreign station has claimed it since it began.
    contested: bool,
}

proptest! {
    /// Whatever happens, no frame leaves for an address without a right that has not run out, that
    /// was not begun, or without a link; and none unasked for what is quiet.
    #[test]
    fn no_frame_leaves_without_lease(story in prop::collection::vec(happening(), 1..60)) {
        let known: Vec<_> = ALL.iter().map(|address| (*address, None)).collect();
        let mut bench = Bench::silent(&known);
        let mut link = true;
        let mut book = [Entry { known: true, ..Entry::default() }; 3];
        for happening in story {
            match happening {
                Happening::Pass(time) => bench.run(ms(time)),
                Happening::Begin(n, quiet) => {
                    book[n] = Entry { begun: true, announced: !quiet, ..book[n] };
                    let mode = if quiet { AnnounceMode::OnRequest } else { AnnounceMode::Unsolicited };
                    bench.begin(n, mode, Cause::Unclaimed);
                }
                Happening::Stop(n) => {
                    book[n] = Entry { begun: false, contested: false, ..book[n] };
                    bench.stop(n, Cause::Lapsed);
                }
                Happening::Burst(n) => {
                    book[n].announced |= book[n].begun;
                    bench.responder.burst(key(n), bench.now);
                }
                Happening::Right(n, time) => {
                    let until = time.map_or(Moment::NEVER, |time| bench.now + ms(time));
                    bench.rights.0.insert(key(n), until);
                }
                Happening::Known(n, on) => {
                    book[n].known = on;
                    if on {
                        bench.addresses.insert(key(n), [(ip(ALL[n]), None)].into());
                    } else {
                        bench.addresses.remove(&key(n));
                    }
                    bench.view();
                }
                Happening::Link(up) => {
                    link = up;
                    bench.responder.set_link(up.then_some(OWN), bench.now);
                }
                Happening::Claim(n, who) => {
                    let mac = [OWN, PEER, FOREIGN][who];
                    book[n].contested |= mac == FOREIGN;
                    bench.announced_by(mac, ALL[n]);
                }
                Happening::Ask(n) => {
                    let asker = if n == 1 { "fe80::66" } else { "192.0.2.99" };
                    let frame = frames::prime(FOREIGN, ip(asker), ip(ALL[n])).unwrap();
                    bench.hear(&frame);
                }
            }
            bench.collect();
            for (at, transmit) in std::mem::take(&mut bench.sent) {
                // What was sent while time passed was sent under the same circumstances.
                let n = ALL.iter().position(|a| ip(a) == transmit.address).unwrap();
                let Entry { begun, known, announced, contested } = book[n];
                prop_assert!(link, "without a link: {transmit:?}");
                prop_assert!(begun && known, "not ours: {transmit:?}");
                prop_assert!(bench.rights.permits(key(n), START + at), "no right: {transmit:?}");
                let unasked = transmit.kind != TransmitKind::Answer;
                prop_assert!(announced || contested || !unasked, "not quiet: {transmit:?}");
            }
        }
    }
}
