//! Whatever happens, and in whatever order.

use proptest::prelude::*;

use super::*;

const ALL: [&str; 3] = [V4, V6, "192.0.2.12"];

#[derive(Clone, Debug)]
enum InputEvent {
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

fn happening() -> impl Strategy<Value = InputEvent> {
    prop_oneof![
        (0..4000_u64).prop_map(InputEvent::Pass),
        (0..3_usize, any::<bool>()).prop_map(|(n, quiet)| InputEvent::Begin(n, quiet)),
        (0..3_usize).prop_map(InputEvent::Stop),
        (0..3_usize).prop_map(InputEvent::Burst),
        (0..3_usize, prop::option::of(0..3000_u64)).prop_map(|(n, t)| InputEvent::Right(n, t)),
        (0..3_usize, any::<bool>()).prop_map(|(n, on)| InputEvent::Known(n, on)),
        any::<bool>().prop_map(InputEvent::Link),
        (0..3_usize, 0..3_usize).prop_map(|(n, who)| InputEvent::Claim(n, who)),
        (0..3_usize).prop_map(InputEvent::Ask),
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
        let mut fixture = Fixture::silent(&known);
        let mut link = true;
        let mut book = [Entry { known: true, ..Entry::default() }; 3];
        for happening in story {
            match happening {
                InputEvent::Pass(time) => fixture.run(ms(time)),
                InputEvent::Begin(n, quiet) => {
                    book[n] = Entry { begun: true, announced: !quiet, ..book[n] };
                    let mode = if quiet { AnnounceMode::OnRequest } else { AnnounceMode::Unsolicited };
                    fixture.begin(n, mode, Cause::Unclaimed);
                }
                InputEvent::Stop(n) => {
                    book[n] = Entry { begun: false, contested: false, ..book[n] };
                    fixture.stop(n, Cause::Lapsed);
                }
                InputEvent::Burst(n) => {
                    book[n].announced |= book[n].begun;
                    fixture.responder.burst(key(n), fixture.now);
                }
                InputEvent::Right(n, time) => {
                    let until = time.map_or(Moment::NEVER, |time| fixture.now + ms(time));
                    fixture.rights.0.insert(key(n), until);
                }
                InputEvent::Known(n, on) => {
                    book[n].known = on;
                    if on {
                        fixture.addresses.insert(key(n), [(ip(ALL[n]), None)].into());
                    } else {
                        fixture.addresses.remove(&key(n));
                    }
                    fixture.view();
                }
                InputEvent::Link(up) => {
                    link = up;
                    fixture.responder.set_link(up.then_some(OWN), fixture.now);
                }
                InputEvent::Claim(n, who) => {
                    let mac = [OWN, PEER, FOREIGN][who];
                    book[n].contested |= mac == FOREIGN;
                    fixture.announced_by(mac, ALL[n]);
                }
                InputEvent::Ask(n) => {
                    let asker = if n == 1 { "fe80::66" } else { "192.0.2.99" };
                    let frame = frames::prime(FOREIGN, ip(asker), ip(ALL[n])).unwrap();
                    fixture.hear(&frame);
                }
            }
            fixture.collect();
            for (at, transmit) in std::mem::take(&mut fixture.sent) {
                // What was sent while time passed was sent under the same circumstances.
                let n = ALL.iter().position(|a| ip(a) == transmit.address).unwrap();
                let Entry { begun, known, announced, contested } = book[n];
                prop_assert!(link, "without a link: {transmit:?}");
                prop_assert!(begun && known, "not ours: {transmit:?}");
                prop_assert!(fixture.rights.permits(key(n), START + at), "no right: {transmit:?}");
                let unasked = transmit.kind != TransmitKind::Answer;
                prop_assert!(announced || contested || !unasked, "not quiet: {transmit:?}");
            }
        }
    }
}
