//! Writing.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::{EncodeError, answer, kind, most};
use crate::protocol::{
    Answer, Body, Claim, Contact, Echo, Flags, Grant, Heartbeat, Key, Message, NodeId, Owned,
    VoterSet,
};

/// Bytes that grow.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_be_bytes());
    }

    pub(super) const fn kind(&self, body: &Body) -> u8 {
        match body {
            Body::Heartbeat(_) => kind::HEARTBEAT,
            Body::Owned(_) => kind::OWNED,
            Body::Claim(_) => kind::CLAIM,
            Body::Grant(_) => kind::GRANT,
            Body::HandOver { .. } => kind::HAND_OVER,
            Body::Ready { .. } => kind::READY,
            Body::Prepared { .. } => kind::PREPARED,
            Body::SpokeLate { .. } => kind::SPOKE_LATE,
            Body::Connections { .. } => kind::CONNECTIONS,
        }
    }

    pub(super) fn body(&mut self, body: &Body) -> Result<(), EncodeError> {
        match body {
            Body::Heartbeat(heartbeat) => self.heartbeat(heartbeat),
            Body::Owned(owned) => self.owned(owned),
            Body::Claim(claim) => self.claim(claim),
            Body::Grant(grant) => self.grant(grant),
            Body::HandOver {
                nonce,
                target,
                keys,
                loud,
            } => {
                self.u32(*nonce);
                self.u64(target.0);
                self.bool(*loud);
                self.keys(keys)
            }
            Body::Ready { nonce, to, keys } | Body::Prepared { nonce, to, keys } => {
                self.u32(*nonce);
                self.u64(to.0);
                self.keys(keys)
            }
            Body::SpokeLate { keys } => self.keys(keys),
            Body::Connections { to, counts } => {
                self.u64(to.0);
                self.count("counts", counts.len(), Body::MOST_COUNTS)?;
                for (key, count) in counts {
                    self.u64(key.0);
                    self.u32(*count);
                }
                Ok(())
            }
        }
    }

    fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<(), EncodeError> {
        self.u8(flags(heartbeat.flags));
        self.u16(heartbeat.weight.bits());
        self.u64(heartbeat.digest.0);
        self.u32(heartbeat.count);
        self.voters(&heartbeat.voters)?;
        self.u64(heartbeat.settled);
        let incarnations = &heartbeat.incarnations;
        self.count("incarnations", incarnations.len(), most::INCARNATIONS)?;
        for (node, incarnation) in incarnations {
            self.u64(node.0);
            self.u64(incarnation.0);
        }
        let echoes = &heartbeat.echoes;
        self.count("echoes", echoes.len(), Heartbeat::MOST_ECHOES)?;
        for echo in echoes {
            self.echo(echo);
        }
        let suspects = &heartbeat.suspects;
        self.count("suspects", suspects.len(), Heartbeat::MOST_SUSPECTS)?;
        for node in suspects {
            self.u64(node.0);
        }
        let secrets = &heartbeat.secrets;
        self.count("secrets", secrets.len(), Heartbeat::MOST_SECRETS)?;
        for id in secrets {
            self.u32(id.0);
        }
        self.contact(&heartbeat.contact)?;
        if heartbeat.approved != 0 {
            self.u64(heartbeat.approved);
        }
        Ok(())
    }

    fn voters(&mut self, set: &VoterSet) -> Result<(), EncodeError> {
        self.u64(set.generation);
        self.count("voters", set.voters.len(), VoterSet::MOST)?;
        for node in &set.voters {
            self.u64(node.0);
        }
        self.optional(set.primary, |writer, NodeId(id)| writer.u64(id));
        Ok(())
    }

    fn echo(&mut self, echo: &Echo) {
        let on_segment = if echo.on_segment {
            answer::ON_SEGMENT
        } else {
            0
        };
        self.u64(echo.node.0);
        self.u32(echo.epoch.0);
        self.u64(echo.incarnation.0);
        match echo.answer {
            Answer::None => self.u8(answer::NONE | on_segment),
            Answer::Accepted { seq, digest } => {
                self.u8(answer::ACCEPTED | on_segment);
                self.u32(seq);
                self.u64(digest.0);
            }
            Answer::Unknown => self.u8(answer::UNKNOWN | on_segment),
            Answer::Refused { holder } => {
                self.u8(answer::REFUSED | on_segment);
                self.u64(holder.0);
            }
            Answer::Stale => self.u8(answer::STALE | on_segment),
        }
    }

    fn contact(&mut self, contact: &Contact) -> Result<(), EncodeError> {
        self.optional(contact.mac, |writer, mac| writer.0.extend(mac.octets()));
        let own = &contact.own_addresses;
        self.count("own_addresses", own.len(), most::OWN_ADDRESSES)?;
        for address in own {
            self.address(*address);
        }
        self.optional(contact.node_network, |writer, socket: SocketAddr| {
            writer.address(socket.ip());
            writer.u16(socket.port());
        });
        self.u32(contact.zone);
        Ok(())
    }

    fn owned(&mut self, owned: &Owned) -> Result<(), EncodeError> {
        self.u64(owned.revision);
        self.u16(owned.part);
        self.u16(owned.parts);
        self.bool(owned.lapsed);
        self.list_of_keys(&owned.keys, usize::from(u8::MAX))?;
        let released = &owned.released;
        self.count("released", released.len(), usize::from(u8::MAX))?;
        for (key, target) in released {
            self.u64(key.0);
            self.optional(*target, |writer, NodeId(id)| writer.u64(id));
        }
        Ok(())
    }

    fn claim(&mut self, claim: &Claim) -> Result<(), EncodeError> {
        self.u32(claim.nonce);
        self.optional(claim.released_by, |writer, (node, incarnation, seq)| {
            writer.u64(node.0);
            writer.u64(incarnation.0);
            writer.u64(seq);
        });
        self.keys(&claim.keys)
    }

    fn grant(&mut self, grant: &Grant) -> Result<(), EncodeError> {
        self.u64(grant.to.0);
        self.u64(grant.incarnation.0);
        self.u32(grant.nonce);
        self.keys(&grant.granted)?;
        let left = Message::MOST_KEYS.saturating_sub(grant.granted.len());
        self.count("refused", grant.refused.len(), left)?;
        // There are few holders, so each is written once.
        let holders: BTreeSet<_> = grant.refused.iter().map(|(_, holder)| *holder).collect();
        self.count("holders", holders.len(), Message::MOST_KEYS)?;
        for holder in &holders {
            self.u64(holder.0);
        }
        for (key, holder) in &grant.refused {
            let index = holders.range(..holder).count();
            self.u64(key.0);
            self.u8(u8::try_from(index).unwrap_or(u8::MAX));
        }
        Ok(())
    }

    fn keys(&mut self, keys: &[Key]) -> Result<(), EncodeError> {
        self.list_of_keys(keys, Message::MOST_KEYS)
    }

    fn list_of_keys(&mut self, keys: &[Key], most: usize) -> Result<(), EncodeError> {
        self.count("keys", keys.len(), most)?;
        for key in keys {
            self.u64(key.0);
        }
        Ok(())
    }

    fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.u8(4);
                self.0.extend(address.octets());
            }
            IpAddr::V6(address) => {
                self.u8(6);
                self.0.extend(address.octets());
            }
        }
    }

    fn count(&mut self, field: &'static str, count: usize, most: usize) -> Result<(), EncodeError> {
        match u8::try_from(count) {
            Ok(stated) if count <= most => {
                self.u8(stated);
                Ok(())
            }
            _ => Err(EncodeError::TooMany { field, count, most }),
        }
    }
}

fn flags(flags: Flags) -> u8 {
    let Flags {
        starting,
        released,
        draining,
        vlan_down,
        unfit,
        hears_quorum,
        segment_filtered,
        node_network_down,
    } = flags;
    [
        starting,
        released,
        draining,
        vlan_down,
        unfit,
        hears_quorum,
        segment_filtered,
        node_network_down,
    ]
    .into_iter()
    .rev()
    .fold(0, |bits, flag| bits << 1 | u8::from(flag))
}
