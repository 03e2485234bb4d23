//! Reading.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use super::{Malformed, answer, kind, most};
use crate::protocol::mac::Mac;
use crate::protocol::{
    Answer, Body, Claim, Contact, Digest, Echo, Epoch, Flags, Grant, Heartbeat, Incarnation, Key,
    KeyId, Message, NodeId, Owned, VoterSet, Weight,
};

type Result<T> = std::result::Result<T, Malformed>;

/// Bytes that are read from the front.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Nothing may be left.
    pub(super) const fn finish(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Malformed::Trailing(left)),
        }
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8> {
        self.array(field).map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64> {
        self.array(field).map(u64::from_be_bytes)
    }

    pub(super) fn body(&mut self, kind: u8) -> Result<Body> {
        Ok(match kind {
            kind::HEARTBEAT => Body::Heartbeat(Arc::new(self.heartbeat()?)),
            kind::OWNED => Body::Owned(Arc::new(self.owned()?)),
            kind::CLAIM => Body::Claim(self.claim()?),
            kind::GRANT => Body::Grant(self.grant()?),
            kind::HAND_OVER => Body::HandOver {
                nonce: self.u32("nonce")?,
                target: self.node("target")?,
                loud: self.bool("loud")?,
                keys: self.keys()?,
            },
            kind::READY => Body::Ready {
                nonce: self.u32("nonce")?,
                to: self.node("to")?,
                keys: self.keys()?,
            },
            kind::PREPARED => Body::Prepared {
                nonce: self.u32("nonce")?,
                to: self.node("to")?,
                keys: self.keys()?,
            },
            kind::SPOKE_LATE => Body::SpokeLate { keys: self.keys()? },
            kind::CONNECTIONS => Body::Connections {
                to: self.node("to")?,
                counts: self.list("counts", Body::MOST_COUNTS, |reader| {
                    Ok((Key(reader.u64("key")?), reader.u32("count")?))
                })?,
            },
            _ => return Err(Malformed::Value("kind")),
        })
    }

    fn heartbeat(&mut self) -> Result<Heartbeat> {
        Ok(Heartbeat {
            flags: flags(self.u8("flags")?),
            weight: Weight::from_bits(self.u16("weight")?),
            digest: Digest(self.u64("digest")?),
            count: self.u32("count")?,
            voters: self.voters()?,
            settled: self.u64("settled")?,
            incarnations: self.list("incarnations", most::INCARNATIONS, |reader| {
                Ok((reader.node("voter")?, reader.incarnation()?))
            })?,
            echoes: self.list("echoes", Heartbeat::MOST_ECHOES, Self::echo)?,
            suspects: self.list("suspects", Heartbeat::MOST_SUSPECTS, |reader| {
                reader.node("suspect")
            })?,
            secrets: self.list("secrets", Heartbeat::MOST_SECRETS, |reader| {
                reader.u32("secret").map(KeyId)
            })?,
            contact: self.contact()?,
            // Where voters come from the API server nobody writes it.
            approved: if self.0.is_empty() {
                0
            } else {
                self.u64("approved")?
            },
        })
    }

    fn voters(&mut self) -> Result<VoterSet> {
        let generation = self.u64("generation of voters")?;
        let mut voters = BTreeSet::new();
        for _ in 0..self.count("voters", VoterSet::MOST)? {
            if !voters.insert(self.node("voter")?) {
                return Err(Malformed::Value("voters"));
            }
        }
        Ok(VoterSet {
            generation,
            voters,
            primary: self.optional("primary", |reader| reader.node("primary"))?,
        })
    }

    fn echo(&mut self) -> Result<Echo> {
        let node = self.node("echo")?;
        let epoch = Epoch(self.u32("echo's epoch")?);
        let incarnation = self.incarnation()?;
        let stated = self.u8("answer")?;
        let answer = match stated & !answer::ON_SEGMENT {
            answer::NONE => Answer::None,
            answer::ACCEPTED => Answer::Accepted {
                seq: self.u32("echo's seq")?,
                digest: Digest(self.u64("echo's digest")?),
            },
            answer::UNKNOWN => Answer::Unknown,
            answer::REFUSED => Answer::Refused {
                holder: self.node("holder")?,
            },
            answer::STALE => Answer::Stale,
            _ => return Err(Malformed::Value("answer")),
        };
        Ok(Echo {
            node,
            epoch,
            incarnation,
            on_segment: stated & answer::ON_SEGMENT != 0,
            answer,
        })
    }

    fn contact(&mut self) -> Result<Contact> {
        Ok(Contact {
            mac: self.optional("MAC", |reader| reader.array("MAC").map(Mac::new))?,
            own_addresses: self.list("own_addresses", most::OWN_ADDRESSES, Self::address)?,
            node_network: self.optional("node network", |reader| {
                let address = reader.address()?;
                Ok(SocketAddr::new(address, reader.u16("port")?))
            })?,
            zone: self.u32("zone")?,
        })
    }

    fn owned(&mut self) -> Result<Owned> {
        Ok(Owned {
            revision: self.u64("revision")?,
            part: self.u16("part")?,
            parts: self.u16("parts")?,
            lapsed: self.bool("lapsed")?,
            keys: self.list("keys", usize::from(u8::MAX), Self::key)?,
            released: self.list("released", usize::from(u8::MAX), |reader| {
                let key = reader.key()?;
                let target = reader.optional("target", |reader| reader.node("target"))?;
                Ok((key, target))
            })?,
        })
    }

    fn claim(&mut self) -> Result<Claim> {
        Ok(Claim {
            nonce: self.u32("nonce")?,
            released_by: self.optional("released_by", |reader| {
                Ok((
                    reader.node("released_by")?,
                    reader.incarnation()?,
                    reader.u64("released_by")?,
                ))
            })?,
            keys: self.keys()?,
        })
    }

    fn grant(&mut self) -> Result<Grant> {
        let (to, incarnation) = (self.node("to")?, self.incarnation()?);
        let nonce = self.u32("nonce")?;
        let granted = self.keys()?;
        let count = usize::from(self.u8("refused")?);
        if granted.len() + count > Message::MOST_KEYS {
            return Err(Malformed::TooMany("refused"));
        }
        let holders = self.list("holders", Message::MOST_KEYS, |reader| {
            reader.node("holder")
        })?;
        let refused = (0..count).map(|_| {
            let key = self.key()?;
            let holder = holders.get(usize::from(self.u8("holder")?));
            Ok((key, *holder.ok_or(Malformed::Value("holder"))?))
        });
        Ok(Grant {
            to,
            incarnation,
            nonce,
            refused: refused.collect::<Result<_>>()?,
            granted,
        })
    }

    fn keys(&mut self) -> Result<Vec<Key>> {
        self.list("keys", Message::MOST_KEYS, Self::key)
    }

    fn key(&mut self) -> Result<Key> {
        self.u64("key").map(Key)
    }

    fn node(&mut self, field: &'static str) -> Result<NodeId> {
        self.u64(field).map(NodeId)
    }

    fn incarnation(&mut self) -> Result<Incarnation> {
        self.u64("incarnation").map(Incarnation)
    }

    fn bool(&mut self, field: &'static str) -> Result<bool> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value(field)),
        }
    }

    fn optional<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        self.bool(field)?.then(|| read(self)).transpose()
    }

    fn address(&mut self) -> Result<IpAddr> {
        match self.u8("address")? {
            4 => self.array::<4>("address").map(IpAddr::from),
            6 => self.array::<16>("address").map(IpAddr::from),
            _ => Err(Malformed::Value("address")),
        }
    }

    fn list<T>(
        &mut self,
        field: &'static str,
        most: usize,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.count(field, most)?;
        // Room for all at once: dozens of messages a second have dozens of echoes.
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    fn count(&mut self, field: &'static str, most: usize) -> Result<usize> {
        let count = usize::from(self.u8(field)?);
        if count > most {
            return Err(Malformed::TooMany(field));
        }
        Ok(count)
    }

    fn array<const LENGTH: usize>(&mut self, field: &'static str) -> Result<[u8; LENGTH]> {
        let (array, rest) = self
            .0
            .split_first_chunk()
            .ok_or(Malformed::Truncated(field))?;
        self.0 = rest;
        Ok(*array)
    }
}

/// Each bit is one; a former version leaves out those that it does not know.
const fn flags(bits: u8) -> Flags {
    Flags {
        starting: bits & 1 != 0,
        released: bits & 1 << 1 != 0,
        draining: bits & 1 << 2 != 0,
        vlan_down: bits & 1 << 3 != 0,
        unfit: bits & 1 << 4 != 0,
        hears_quorum: bits & 1 << 5 != 0,
        segment_filtered: bits & 1 << 6 != 0,
        node_network_down: bits & 1 << 7 != 0,
    }
}
