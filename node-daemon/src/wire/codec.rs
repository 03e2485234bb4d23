//! Messages as bytes: how members write what they say to each other.
//!
//! Every number is big-endian. A message is a header, a body by kind, and a tag if it is signed:
//!
//! ```text
//!  0 version     1 kind        2 flags (bit 0: signed)     3 zero
//!  4 length of all, with the tag (2 bytes)                 6 zero (2 bytes)
//!  8 secret's name (4 bytes; 0 if unsigned)
//! 12 segment (8)  20 sender (8)  28 incarnation (8)  36 epoch (4)  40 seq (8)  48 generation (8)
//! 56 body …       tag: the first 16 bytes of an HMAC-SHA-256 of all before it
//! ```
//!
//! What follows `length` is not looked at: Ethernet pads short frames. The segment is under the tag,
//! so that a message of one segment does not count on another, although they share a secret.
//!
//! # Guarantees
//! * What [`encode`] writes fits a frame of [`MOST_BYTES`], and [`decode`] reads it back.
//! * No bytes make [`decode`] panic, or take more memory than they are long, a few times over.

mod read;
mod write;

use sha2::{Digest as _, Sha256};

use self::read::Reader;
use self::write::Writer;
use super::keys::{KeyRing, Secret, TAG_LENGTH};
use crate::protocol::{Epoch, Incarnation, KeyId, Message, NodeId};

/// The longest message. It leaves room for Ethernet, IPv6 and UDP, and for tunnels below.
pub const MOST_BYTES: usize = 1400;

/// Goes up when a message, or what a key in it stands for, would be read wrongly by others.
const VERSION: u8 = 2;
const HEADER: usize = 56;
const SIGNED: u8 = 1;

/// What tells the messages of one segment from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(u64);

impl SegmentId {
    /// That of the L2Network with this `metadata.uid`: clusters may well have equal names for them.
    #[must_use]
    pub fn of(uid: &str) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(uid));
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// That of a message, if it has one. Nothing is known of whether the message is valid.
    #[must_use]
    pub fn in_message(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(12..20)?.try_into().ok()?;
        Some(Self(u64::from_be_bytes(bytes)))
    }
}

/// Why a message cannot be written: it has more of something than fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A list is too long.
    #[error("the list {field:?} has {count} entries, and may have {most}")]
    TooMany {
        /// Which.
        field: &'static str,
        /// How many entries it has.
        count: usize,
        /// How many it may have.
        most: usize,
    },
    /// All together is.
    #[error("the message has {0} bytes, and may have {MOST_BYTES}")]
    TooLong(usize),
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is of another segment.
    #[error("it is of another segment")]
    OtherSegment,
    /// It is of another version of the protocol.
    #[error("it is of version {0} of the protocol")]
    Version(u8),
    /// It bears no signature, although secrets are held here.
    #[error("it is not signed")]
    Unsigned(NodeId),
    /// It is signed with a secret that is not held here.
    #[error("it is signed with a secret that is not held here")]
    UnknownSecret(NodeId),
    /// Its signature is wrong.
    #[error("its signature is wrong")]
    Forged(NodeId),
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Malformed(#[from] Malformed),
}

impl Refusal {
    /// A word for it, for metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::OtherSegment => "other_segment",
            Self::Version(_) => "version",
            Self::Unsigned(_) => "unsigned",
            Self::UnknownSecret(_) => "unknown_secret",
            Self::Forged(_) => "forged",
            Self::Malformed(_) => "malformed",
        }
    }
}

/// How the bytes of a message are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends too early.
    #[error("it ends within {0}")]
    Truncated(&'static str),
    /// Something comes after its end.
    #[error("{0} bytes follow its body")]
    Trailing(usize),
    /// A value is none of those that there are.
    #[error("{0} has a value that there is not")]
    Value(&'static str),
    /// A list is longer than it may be.
    #[error("the list {0} is too long")]
    TooMany(&'static str),
}

/// A message that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// It.
    pub message: Message,
    /// What it is signed with.
    pub signed: Option<KeyId>,
}

/// Writes a message, signed if there is a secret.
///
/// # Errors
/// [`EncodeError`] if it does not fit.
pub fn encode(
    segment: SegmentId,
    message: &Message,
    secret: Option<&Secret>,
) -> Result<Vec<u8>, EncodeError> {
    let mut writer = Writer::default();
    let kind = writer.kind(&message.body);
    writer.u8(VERSION);
    writer.u8(kind);
    writer.u8(if secret.is_some() { SIGNED } else { 0 });
    writer.u8(0);
    writer.u32(0);
    writer.u32(secret.map_or(0, |secret| secret.id().0));
    writer.u64(segment.0);
    writer.u64(message.from.0);
    writer.u64(message.incarnation.0);
    writer.u32(message.epoch.0);
    writer.u64(message.seq);
    writer.u64(message.generation);
    writer.body(&message.body)?;
    let mut bytes = writer.into_bytes();
    let length = bytes.len() + if secret.is_some() { TAG_LENGTH } else { 0 };
    let stated = u16::try_from(length).ok();
    let stated = stated.filter(|_| length <= MOST_BYTES);
    let stated = stated.ok_or(EncodeError::TooLong(length))?;
    if let Some(place) = bytes.get_mut(4..6) {
        place.copy_from_slice(&stated.to_be_bytes());
    }
    if let Some(secret) = secret {
        let tag = secret.sign(&bytes);
        bytes.extend(tag);
    }
    Ok(bytes)
}

/// Reads a message of a segment. Who holds secrets takes only what is signed with one of them; who
/// holds none takes everything.
///
/// # Errors
/// [`Refusal`]: it is not to be looked at.
pub fn decode(segment: SegmentId, bytes: &[u8], ring: &KeyRing) -> Result<Decoded, Refusal> {
    let mut header = Reader::new(bytes);
    let version = header.u8("version")?;
    if version != VERSION {
        return Err(Refusal::Version(version));
    }
    let kind = header.u8("kind")?;
    let signed = header.u8("flags")? & SIGNED != 0;
    header.u8("reserved")?;
    let length = usize::from(header.u16("length")?);
    header.u16("reserved")?;
    let secret = KeyId(header.u32("secret")?);
    if SegmentId(header.u64("segment")?) != segment {
        return Err(Refusal::OtherSegment);
    }
    let from = NodeId(header.u64("sender")?);
    let incarnation = Incarnation(header.u64("incarnation")?);
    let epoch = Epoch(header.u32("epoch")?);
    let seq = header.u64("seq")?;
    let generation = header.u64("generation")?;

    let message = bytes.get(..length).ok_or(Malformed::Truncated("message"))?;
    let end = if signed {
        length.checked_sub(TAG_LENGTH)
    } else {
        Some(length)
    };
    let end = end.ok_or(Malformed::Truncated("tag"))?;
    let (under_tag, tag) = message
        .split_at_checked(end)
        .ok_or(Malformed::Truncated("tag"))?;
    if !ring.is_empty() {
        if !signed {
            return Err(Refusal::Unsigned(from));
        }
        let tag = tag.try_into().map_err(|_| Malformed::Truncated("tag"))?;
        if ring.named(secret).next().is_none() {
            return Err(Refusal::UnknownSecret(from));
        }
        if !ring.named(secret).any(|held| held.verifies(under_tag, tag)) {
            return Err(Refusal::Forged(from));
        }
    }
    let body = under_tag
        .get(HEADER..)
        .ok_or(Malformed::Truncated("header"))?;
    let mut reader = Reader::new(body);
    let body = reader.body(kind)?;
    reader.finish()?;
    Ok(Decoded {
        message: Message {
            from,
            incarnation,
            epoch,
            seq,
            generation,
            body,
        },
        signed: signed.then_some(secret),
    })
}

/// The kinds of bodies.
mod kind {
    pub(super) const HEARTBEAT: u8 = 1;
    pub(super) const OWNED: u8 = 2;
    pub(super) const CLAIM: u8 = 3;
    pub(super) const GRANT: u8 = 4;
    pub(super) const HAND_OVER: u8 = 5;
    pub(super) const READY: u8 = 6;
    pub(super) const SPOKE_LATE: u8 = 7;
    pub(super) const CONNECTIONS: u8 = 8;
    pub(super) const PREPARED: u8 = 9;
}

/// The answers of an echo.
mod answer {
    pub(super) const NONE: u8 = 0;
    pub(super) const ACCEPTED: u8 = 1;
    pub(super) const UNKNOWN: u8 = 2;
    pub(super) const REFUSED: u8 = 3;
    pub(super) const STALE: u8 = 4;
    /// Added to any of them: heard on the segment itself.
    pub(super) const ON_SEGMENT: u8 = 0x80;
}

/// The longest lists that are not bounded elsewhere.
mod most {
    pub(super) const INCARNATIONS: usize = crate::protocol::VoterSet::MOST;
    pub(super) const OWN_ADDRESSES: usize = 2;
}

#[cfg(test)]
mod tests;
