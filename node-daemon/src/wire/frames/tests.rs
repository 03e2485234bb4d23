use proptest::prelude::*;

use super::*;

const OWN: Mac = Mac::new([2, 0, 0, 0, 0x0a, 0x0a]);
const ROUTER: Mac = Mac::new([2, 0, 0, 0, 0, 0xfe]);

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

const ARP_REQUEST_FORM: &str = "ff ff ff ff ff ff 02 00 00 00 0a 0a 08 06 00 01 08 00 06 04 00 01 \
    02 00 00 00 0a 0a c0 00 02 0a 00 00 00 00 00 00 c0 00 02 0a";
const ARP_REPLY_FORM: &str = "ff ff ff ff ff ff 02 00 00 00 0a 0a 08 06 00 01 08 00 06 04 00 02 \
    02 00 00 00 0a 0a c0 00 02 0a 02 00 00 00 0a 0a c0 00 02 0a";
const ARP_PROBE: &str = "ff ff ff ff ff ff 02 00 00 00 0a 0a 08 06 00 01 08 00 06 04 00 01 \
    02 00 00 00 0a 0a 00 00 00 00 00 00 00 00 00 00 c0 00 02 0a";
const ARP_PRIME: &str = "ff ff ff ff ff ff 02 00 00 00 0a 0a 08 06 00 01 08 00 06 04 00 01 \
    02 00 00 00 0a 0a c0 00 02 0a 00 00 00 00 00 00 c0 00 02 01";
const ARP_ANSWER: &str = "02 00 00 00 00 fe 02 00 00 00 0a 0a 08 06 00 01 08 00 06 04 00 02 \
    02 00 00 00 0a 0a c0 00 02 0a 02 00 00 00 00 fe c0 00 02 01";

const NA_FROM_LINK_LOCAL: &str = "33 33 00 00 00 01 02 00 00 00 0a 0a 86 dd 60 00 00 00 00 20 3a ff \
    fe 80 00 00 00 00 00 00 00 00 00 ff fe 00 0a 0a ff 02 00 00 00 00 00 00 00 00 00 00 00 00 00 01 \
    88 00 15 42 20 00 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10 02 01 02 00 00 00 0a 0a";
const NA_FROM_SERVICE: &str = "33 33 00 00 00 01 02 00 00 00 0a 0a 86 dd 60 00 00 00 00 20 3a ff \
    20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10 ff 02 00 00 00 00 00 00 00 00 00 00 00 00 00 01 \
    88 00 ef 03 20 00 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10 02 01 02 00 00 00 0a 0a";
/// As others send it, with the override flag.
const NA_SOLICITED_OVERRIDING: &str = "02 00 00 00 00 fe 02 00 00 00 0a 0a 86 dd 60 00 00 00 00 20 3a \
    ff 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10 fe 80 00 00 00 00 00 00 00 00 00 00 00 00 00 01 \
    88 00 af 85 60 00 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10 02 01 02 00 00 00 0a 0a";
const NS_PRIME: &str = "33 33 ff 00 00 01 02 00 00 00 0a 0a 86 dd 60 00 00 00 00 20 3a ff \
    20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10 ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 01 \
    87 00 12 11 00 00 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01 01 01 02 00 00 00 0a 0a";
const NS_DAD: &str = "33 33 ff 00 00 10 02 00 00 00 0a 0a 86 dd 60 00 00 00 00 18 3a ff \
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ff 02 00 00 00 00 00 00 00 00 00 01 ff 00 00 10 \
    87 00 4c cf 00 00 00 00 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 10";

#[test]
fn arp_frames_match_specification() {
    let address = ip("192.0.2.10");
    assert_eq!(
        announcement(OWN, address),
        [bytes(ARP_REQUEST_FORM), bytes(ARP_REPLY_FORM)]
    );
    assert_eq!(prime(OWN, address, ip("192.0.2.1")), Some(bytes(ARP_PRIME)));
    let probe = prime(OWN, ip("0.0.0.0"), address);
    assert_eq!(probe, Some(bytes(ARP_PROBE)), "as others probe");
    let question = Question {
        target: address,
        asker: ip("192.0.2.1"),
        asker_mac: ROUTER,
    };
    assert_eq!(answer(OWN, &question), Some(bytes(ARP_ANSWER)));
}

#[test]
fn ndp_frames_match_specification() {
    let address = v6("2001:db8::10");
    assert_eq!(
        advertise_unsolicited(OWN, address, v6("fe80::ff:fe00:a0a")),
        bytes(NA_FROM_LINK_LOCAL)
    );
    assert_eq!(announcement(OWN, address.into()), [bytes(NA_FROM_SERVICE)]);
    assert_eq!(
        prime(OWN, address.into(), ip("2001:db8::1")),
        Some(bytes(NS_PRIME))
    );
}

#[test]
fn solicited_advertisement_does_not_override() {
    let question = Question {
        target: ip("2001:db8::10"),
        asker: ip("fe80::1"),
        asker_mac: ROUTER,
    };
    let mut expected = bytes(NA_SOLICITED_OVERRIDING);
    // Without O the flags word is 40000000, and the checksum grows by what the word lost.
    expected[58] = 0x40;
    expected[56..58].copy_from_slice(&(0xaf85_u16 + 0x2000).to_be_bytes());
    assert_eq!(answer(OWN, &question), Some(expected));
}

#[test]
fn answers_unspecified_source_via_all_nodes() {
    let question = parse(&bytes(NS_DAD), ROUTER).unwrap().question.unwrap();
    assert_eq!(question.target, ip("2001:db8::10"));
    assert!(question.asker.is_unspecified());
    let frame = answer(ROUTER, &question).unwrap();
    assert_eq!(frame[..6], bytes("33 33 00 00 00 01"));
    assert_eq!(frame[38..54], v6("ff02::1").octets());
    // RFC 4861 section 7.2.4: not solicited, and here not overriding either.
    assert_eq!(frame[58..62], [0, 0, 0, 0]);
    assert_eq!(
        parse(&frame, OWN).unwrap().claim,
        Some(Claim {
            address: ip("2001:db8::10"),
            mac: ROUTER
        })
    );
}

#[test]
fn request_is_claim_and_question() {
    let heard = parse(&bytes(ARP_PRIME), ROUTER).unwrap();
    assert_eq!(
        heard.claim,
        Some(Claim {
            address: ip("192.0.2.10"),
            mac: OWN
        })
    );
    assert_eq!(
        heard.question,
        Some(Question {
            target: ip("192.0.2.1"),
            asker: ip("192.0.2.10"),
            asker_mac: OWN
        })
    );
    let heard = parse(&bytes(NS_PRIME), ROUTER).unwrap();
    assert_eq!(
        heard.claim,
        Some(Claim {
            address: ip("2001:db8::10"),
            mac: OWN
        })
    );
    assert_eq!(heard.question.unwrap().target, ip("2001:db8::1"));
}

#[test]
fn announcement_is_claim_only() {
    for frame in [ARP_REQUEST_FORM, ARP_REPLY_FORM] {
        let heard = parse(&bytes(frame), ROUTER).unwrap();
        assert_eq!(
            heard.claim,
            Some(Claim {
                address: ip("192.0.2.10"),
                mac: OWN
            })
        );
        assert_eq!(heard.question, None);
    }
    for frame in [NA_FROM_LINK_LOCAL, NA_FROM_SERVICE, NA_SOLICITED_OVERRIDING] {
        let heard = parse(&bytes(frame), ROUTER).unwrap();
        assert_eq!(
            heard.claim,
            Some(Claim {
                address: ip("2001:db8::10"),
                mac: OWN
            })
        );
        assert_eq!(heard.question, None);
    }
}

#[test]
fn unicast_question_reaches_one_station() {
    let station = Mac::new([2, 0, 0, 0, 0, 0x77]);
    for (source, target) in [
        (None, ip("192.0.2.17")),
        (Some(ip("fe80::1")), ip("2001:db8::117")),
    ] {
        let asked = probe_station(OWN, source, target, station).unwrap();
        assert_eq!(parse(&asked, Mac::new([2, 0, 0, 0, 0, 0x78])), None);
        let question = parse(&asked, station).unwrap().question.unwrap();
        assert_eq!((question.target, question.asker_mac), (target, OWN));
        assert!(answer(station, &question).is_some());
    }
    let group = bytes(NS_DAD);
    let asked = probe_station(OWN, None, ip("2001:db8::10"), station).unwrap();
    assert_eq!(asked[..6], [2, 0, 0, 0, 0, 0x77]);
    assert_eq!(asked[6..], group[6..]);
    assert_eq!(
        probe_station(OWN, Some(ip("192.0.2.1")), ip("2001:db8::1"), station),
        None
    );
}

#[test]
fn probe_is_question_only() {
    let heard = parse(&bytes(ARP_PROBE), ROUTER).unwrap();
    assert_eq!(heard.claim, None);
    let question = heard.question.unwrap();
    // RFC 5227: the answer names 0.0.0.0 as its target.
    assert_eq!(&answer(ROUTER, &question).unwrap()[38..], [0, 0, 0, 0]);
}

#[test]
fn question_without_address_claims_nothing() {
    let target = ip("192.0.2.10");
    assert_eq!(probe(OWN, None, target).unwrap(), bytes(ARP_PROBE));
    let asked = probe(OWN, Some(ip("192.0.2.1")), target).unwrap();
    assert_eq!(asked, prime(OWN, ip("192.0.2.1"), target).unwrap());
    // RFC 4861 section 4.3: who asks from no address does not state its MAC, and is answered to all.
    let asked = probe(OWN, None, ip("2001:db8::10"));
    assert_eq!(asked.unwrap(), bytes(NS_DAD));
    assert_eq!(probe(OWN, Some(target), ip("2001:db8::1")), None);
}

#[test]
fn reads_unicast_question_for_this_station() {
    let mut frame = bytes(ARP_PRIME);
    frame[..6].copy_from_slice(&bytes("02 00 00 00 00 fe"));
    assert!(parse(&frame, ROUTER).unwrap().question.is_some());
    assert_eq!(parse(&frame, Mac::new([2, 0, 0, 0, 0, 1])), None);
}

#[test]
fn ignores_invalid_frames() {
    let damaged: [(&str, usize, u8); 9] = [
        (NS_PRIME, 21, 254),  // crossed a router
        (NS_PRIME, 56, 0x13), // checksum
        (NS_DAD, 53, 0x11),   // asks another group than the target's
        (NS_PRIME, 20, 17),   // UDP
        (ARP_PRIME, 15, 6),   // not Ethernet
        (ARP_PRIME, 17, 1),   // not IPv4
        (ARP_PRIME, 22, 3),   // a group's MAC as source
        (ARP_PRIME, 21, 3),   // neither request nor reply
        (ARP_PRIME, 13, 7),   // not ARP
    ];
    for (hex, at, value) in damaged {
        let mut frame = bytes(hex);
        assert!(parse(&frame, ROUTER).is_some());
        frame[at] = value;
        assert_eq!(parse(&frame, ROUTER), None, "byte {at} of {hex}");
    }
}

#[test]
fn ignores_padding() {
    for hex in [ARP_PRIME, NS_PRIME, NS_DAD] {
        let mut frame = bytes(hex);
        let plain = parse(&frame, ROUTER);
        frame.extend([0xaa; 18]);
        assert_eq!(parse(&frame, ROUTER), plain);
    }
}

#[test]
fn solicited_node_group_has_last_three_bytes() {
    assert_eq!(
        solicited_node(v6("2001:db8::12:3456:789a")),
        v6("ff02::1:ff56:789a")
    );
}

proptest! {
    #[test]
    fn arbitrary_frames_never_panic(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&frame, OWN);
    }

    #[test]
    fn damaged_frames_never_panic(
        which in 0..6_usize,
        edits in prop::collection::vec((0..120_usize, any::<u8>()), 0..6),
        length in 0..120_usize,
    ) {
        let all = [ARP_PRIME, ARP_PROBE, NA_FROM_SERVICE, NS_PRIME, NS_DAD, ARP_ANSWER];
        let mut frame = bytes(all[which]);
        for (at, value) in edits {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(length);
        let _ = parse(&frame, ROUTER);
    }

    #[test]
    fn parses_own_announcements(octets in any::<[u8; 16]>(), four in any::<bool>()) {
        let v6 = Ipv6Addr::from(octets);
        let [a, b, c, d, ..] = octets;
        let address = if four { IpAddr::from([a, b, c, d]) } else { v6.into() };
        prop_assume!(!address.is_multicast() && !address.is_unspecified());
        for frame in announcement(OWN, address) {
            let heard = parse(&frame, ROUTER).unwrap();
            prop_assert_eq!(heard.claim, Some(Claim { address, mac: OWN }));
            prop_assert_eq!(heard.question, None);
        }
    }
}
