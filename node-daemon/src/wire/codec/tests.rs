use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::protocol::mac::Mac;
use crate::protocol::{
    Answer, Body, Claim, Contact, Digest, Echo, Flags, Grant, Heartbeat, Key, Owned, VoterSet,
    Weight,
};

const HERE: &str = "public";

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes())
}

fn node() -> impl Strategy<Value = NodeId> {
    any::<u64>().prop_map(NodeId)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    any::<u64>().prop_map(Incarnation)
}

fn keys(most: usize) -> impl Strategy<Value = Vec<Key>> {
    prop::collection::vec(any::<u64>().prop_map(Key), 0..=most)
}

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ]
}

fn echo() -> impl Strategy<Value = Echo> {
    let answer = prop_oneof![
        Just(Answer::None),
        (any::<u32>(), any::<u64>()).prop_map(|(seq, digest)| Answer::Accepted {
            seq,
            digest: Digest(digest)
        }),
        Just(Answer::Unknown),
        node().prop_map(|holder| Answer::Refused { holder }),
        Just(Answer::Stale),
    ];
    (node(), any::<u32>(), incarnation(), any::<bool>(), answer).prop_map(
        |(node, epoch, incarnation, on_segment, answer)| Echo {
            node,
            epoch: Epoch(epoch),
            incarnation,
            on_segment,
            answer,
        },
    )
}

fn contact() -> impl Strategy<Value = Contact> {
    (
        prop::option::of(any::<[u8; 6]>().prop_map(Mac::new)),
        prop::collection::vec(address(), 0..=2),
        prop::option::of((address(), any::<u16>()).prop_map(SocketAddr::from)),
        any::<u32>(),
    )
        .prop_map(|(mac, own_addresses, node_network, zone)| Contact {
            mac,
            own_addresses,
            node_network,
            zone,
        })
}

fn voters() -> impl Strategy<Value = VoterSet> {
    (
        any::<u64>(),
        prop::collection::btree_set(node(), 0..=VoterSet::MOST),
        prop::option::of(node()),
    )
        .prop_map(|(generation, voters, primary)| VoterSet {
            generation,
            voters,
            primary,
        })
}

prop_compose! {
    fn heartbeat()(
        flags in any::<[bool; 8]>(),
        (weight, digest, count, settled) in any::<(u16, u64, u32, u64)>(),
        voters in voters(),
        incarnations in prop::collection::vec((node(), incarnation()), 0..=7),
        echoes in prop::collection::vec(echo(), 0..=Heartbeat::MOST_ECHOES),
        suspects in prop::collection::vec(node(), 0..=Heartbeat::MOST_SUSPECTS),
        secrets in prop::collection::vec(any::<u32>().prop_map(KeyId), 0..=8),
        (contact, approved) in (contact(), any::<u64>()),
    ) -> Body {
        let [starting, released, draining, vlan_down, unfit, hears_quorum, segment_filtered, node_network_down] =
            flags;
        Body::Heartbeat(Arc::new(Heartbeat {
            flags: Flags {
                starting,
                released,
                draining,
                vlan_down,
                unfit,
                hears_quorum,
                segment_filtered,
                node_network_down,
            },
            weight: Weight::from_bits(weight),
            digest: Digest(digest),
            count,
            voters,
            settled,
            incarnations,
            echoes,
            suspects,
            secrets,
            contact,
            approved,
        }))
    }
}

fn body() -> impl Strategy<Value = Body> {
    let released = prop::collection::vec(
        (any::<u64>().prop_map(Key), prop::option::of(node())),
        0..=(Owned::MOST_BYTES - 60 * 8) / 17,
    );
    let owned = (any::<(u64, u16, u16, bool)>(), keys(60), released).prop_map(
        |((revision, part, parts, lapsed), keys, released)| {
            Body::Owned(Arc::new(Owned {
                revision,
                part,
                parts,
                keys,
                released,
                lapsed,
            }))
        },
    );
    let proof = prop::option::of((node(), incarnation(), any::<u64>()));
    let claim = (any::<u32>(), keys(128), proof).prop_map(|(nonce, keys, released_by)| {
        Body::Claim(Claim {
            nonce,
            keys,
            released_by,
        })
    });
    let holder = (0..8_u64).prop_map(NodeId);
    let refused = prop::collection::vec((any::<u64>().prop_map(Key), holder), 0..=64);
    let grant = (node(), incarnation(), any::<u32>(), keys(64), refused).prop_map(
        |(to, incarnation, nonce, granted, refused)| {
            Body::Grant(Grant {
                to,
                incarnation,
                nonce,
                granted,
                refused,
            })
        },
    );
    let hand_over =
        (any::<u32>(), node(), keys(128), any::<bool>()).prop_map(|(nonce, target, keys, loud)| {
            Body::HandOver {
                nonce,
                target,
                keys,
                loud,
            }
        });
    let ready = (any::<u32>(), node(), keys(128)).prop_map(|(nonce, to, keys)| Body::Ready {
        nonce,
        to,
        keys,
    });
    let prepared = (any::<u32>(), node(), keys(128)).prop_map(|(nonce, to, keys)| Body::Prepared {
        nonce,
        to,
        keys,
    });
    let late = keys(128).prop_map(|keys| Body::SpokeLate { keys });
    let counts = proptest::collection::vec(
        (any::<u64>().prop_map(Key), any::<u32>()),
        0..=Body::MOST_COUNTS,
    );
    let connections = (node(), counts).prop_map(|(to, counts)| Body::Connections { to, counts });
    prop_oneof![
        heartbeat(),
        owned,
        claim,
        grant,
        hand_over,
        ready,
        prepared,
        late,
        connections
    ]
}

fn message() -> impl Strategy<Value = Message> {
    (any::<(u64, u64, u32, u64, u64)>(), body()).prop_map(
        |((from, incarnation, epoch, seq, generation), body)| Message {
            from: NodeId(from),
            incarnation: Incarnation(incarnation),
            epoch: Epoch(epoch),
            seq,
            generation,
            body,
        },
    )
}

proptest! {
    #[test]
    fn round_trips(
        message in message(),
        signed in any::<bool>(),
        padding in 0..60_usize,
    ) {
        let secret = secret("a secret of twenty bytes");
        let segment = SegmentId::of(HERE);
        let mut bytes = encode(segment, &message, signed.then_some(&secret)).unwrap();
        prop_assert_eq!(SegmentId::in_message(&bytes), Some(segment));
        prop_assert!(bytes.len() <= MOST_BYTES && bytes.len() >= 46, "{}", bytes.len());
        bytes.resize(bytes.len() + padding, 0);
        let ring = KeyRing::new(signed.then_some(secret.clone()));
        let decoded = decode(segment, &bytes, &ring).unwrap();
        prop_assert_eq!(&decoded.message, &message);
        prop_assert_eq!(decoded.signed, signed.then_some(secret.id()));
        // Who holds no secret takes it without looking at the signature.
        prop_assert_eq!(decode(segment, &bytes, &KeyRing::default()).unwrap().message, message);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(SegmentId::of(HERE), &bytes, &KeyRing::default());
        let _ = SegmentId::in_message(&bytes);
    }

    #[test]
    fn damaged_message_never_verifies(
        message in message(),
        at in 0..1400_usize,
        flip in 1..=255_u8,
        length in 0..1400_usize,
        cut in any::<bool>(),
    ) {
        let segment = SegmentId::of(HERE);
        let secret = secret("a secret of twenty bytes");
        let whole = encode(segment, &message, Some(&secret)).unwrap();
        let mut bytes = whole.clone();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        if cut {
            bytes.truncate(length);
        }
        prop_assert!(decode(segment, &bytes, &KeyRing::new([secret])).is_err());
        // Without the signature the fields themselves are read.
        let _ = decode(segment, &bytes, &KeyRing::default());
    }
}

fn late(keys: usize) -> Message {
    Message {
        from: NodeId(7),
        incarnation: Incarnation(8),
        epoch: Epoch(9),
        seq: 10,
        generation: 11,
        body: Body::SpokeLate {
            keys: (0..keys as u64).map(Key).collect(),
        },
    }
}

#[test]
fn layout_is_stable() {
    let bytes = encode(SegmentId(0x0102_0304_0506_0708), &late(1), None).unwrap();
    let expected: &[u8] = &[
        2, 7, 0, 0, 0, 65, 0, 0, 0, 0, 0, 0, // version, kind, flags, length, secret
        1, 2, 3, 4, 5, 6, 7, 8, // segment
        0, 0, 0, 0, 0, 0, 0, 7, // sender
        0, 0, 0, 0, 0, 0, 0, 8, // incarnation
        0, 0, 0, 9, // epoch
        0, 0, 0, 0, 0, 0, 0, 10, // seq
        0, 0, 0, 0, 0, 0, 0, 11, // generation
        1, 0, 0, 0, 0, 0, 0, 0, 0, // one key
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn accepts_only_known_signatures() {
    let (segment, message) = (SegmentId::of(HERE), late(1));
    let (old, new, foreign) = (
        secret("the old secret, of old"),
        secret("the new secret, of new"),
        secret("a secret of another cluster"),
    );
    let ring = KeyRing::new([new.clone(), old.clone()]);
    let taken = |secret: Option<&Secret>| {
        let bytes = encode(segment, &message, secret).unwrap();
        decode(segment, &bytes, &ring).map(|decoded| decoded.signed)
    };
    assert_eq!(taken(Some(&new)), Ok(Some(new.id())));
    assert_eq!(taken(Some(&old)), Ok(Some(old.id())));
    assert_eq!(taken(None), Err(Refusal::Unsigned(NodeId(7))));
    assert_eq!(
        taken(Some(&foreign)),
        Err(Refusal::UnknownSecret(NodeId(7)))
    );
    let mut forged = encode(segment, &message, Some(&new)).unwrap();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    let refused = decode(segment, &forged, &ring);
    assert_eq!(refused, Err(Refusal::Forged(NodeId(7))));
}

#[test]
fn rejects_message_of_other_segment() {
    let secret = secret("a secret of both segments");
    let ring = KeyRing::new([secret.clone()]);
    let mut bytes = encode(SegmentId::of(HERE), &late(1), Some(&secret)).unwrap();
    let there = SegmentId::of("internal");
    assert_eq!(decode(there, &bytes, &ring), Err(Refusal::OtherSegment));
    bytes[12..20].copy_from_slice(&there.0.to_be_bytes());
    assert_eq!(
        decode(there, &bytes, &ring),
        Err(Refusal::Forged(NodeId(7)))
    );
}

#[test]
fn rejects_other_version() {
    let mut bytes = encode(SegmentId::of(HERE), &late(1), None).unwrap();
    bytes[0] = 1;
    let refused = decode(SegmentId::of(HERE), &bytes, &KeyRing::default());
    assert_eq!(refused, Err(Refusal::Version(1)));
}

#[test]
fn refuses_to_write_oversized_message() {
    let error = encode(SegmentId::of(HERE), &late(129), None).unwrap_err();
    assert_eq!(
        error,
        EncodeError::TooMany {
            field: "keys",
            count: 129,
            most: 128
        }
    );
}

#[test]
fn largest_set_parts_and_grants_fit() {
    let released = vec![(Key(1), Some(NodeId(1))); Owned::MOST_BYTES / 17];
    let keys = vec![Key(1); Owned::MOST_BYTES / 8];
    let secret = secret("a secret of twenty bytes");
    let fits = |body| {
        let message = Message { body, ..late(0) };
        let bytes = encode(SegmentId::of(HERE), &message, Some(&secret)).unwrap();
        let read = decode(SegmentId::of(HERE), &bytes, &KeyRing::default()).unwrap();
        assert_eq!(read.message, message);
    };
    for owned in [
        Owned {
            released,
            ..Owned::default()
        },
        Owned {
            keys,
            ..Owned::default()
        },
    ] {
        fits(Body::Owned(Arc::new(owned)));
    }
    let refused = (0..128).map(|n| (Key(n), NodeId(n % 8))).collect();
    fits(Body::Grant(Grant {
        to: NodeId(1),
        incarnation: Incarnation(1),
        nonce: 1,
        granted: Vec::new(),
        refused,
    }));
}

#[test]
fn largest_heartbeat_fits() {
    let ids = |count: u64| (0..count).map(NodeId);
    let fullest = Heartbeat {
        voters: VoterSet {
            generation: 1,
            voters: ids(7).collect::<BTreeSet<_>>(),
            primary: Some(NodeId(1)),
        },
        incarnations: ids(7).map(|node| (node, Incarnation(1))).collect(),
        echoes: ids(Heartbeat::MOST_ECHOES as u64)
            .map(|node| Echo {
                node,
                epoch: Epoch(1),
                incarnation: Incarnation(1),
                on_segment: true,
                answer: Answer::Accepted {
                    seq: 1,
                    digest: Digest(1),
                },
            })
            .collect(),
        suspects: ids(Heartbeat::MOST_SUSPECTS as u64).collect(),
        secrets: (0..8).map(KeyId).collect(),
        contact: Contact {
            mac: Some(Mac::BROADCAST),
            own_addresses: vec!["2001:db8::1".parse().unwrap(); 2],
            node_network: Some("[2001:db8::1]:1".parse().unwrap()),
            zone: 1,
        },
        approved: 1,
        ..Heartbeat::default()
    };
    let message = Message {
        body: Body::Heartbeat(Arc::new(fullest)),
        ..late(0)
    };
    let secret = secret("a secret of twenty bytes");
    let bytes = encode(SegmentId::of(HERE), &message, Some(&secret)).unwrap();
    assert!(bytes.len() > MOST_BYTES - 140, "{}", bytes.len());
}
