//! Transactions: messages that the kernel takes all or none of.

use crate::announce::forwarding::attributes::Attributes;

const NFPROTO_NETDEV: u8 = 5;
const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

/// A transaction, and the sequence number of its last message that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// All messages.
    pub bytes: Vec<u8>,
    /// The number of the one that the kernel acknowledges.
    pub last: u32,
}

pub(super) struct Batch {
    bytes: Vec<u8>,
    pub(super) sequence: u32,
    /// Where the flags of the last message are.
    flags: usize,
}

impl Batch {
    pub(super) fn begin() -> Self {
        let mut batch = Self {
            bytes: Vec::new(),
            sequence: 0,
            flags: 0,
        };
        batch.message(BATCH_BEGIN, 0, [0, 0, 0, 10], &Attributes::default());
        batch
    }

    fn message(&mut self, kind: u16, flags: u16, header: [u8; 4], attributes: &Attributes) {
        self.sequence += 1;
        let length = u32::try_from(20 + attributes.len()).unwrap_or(u32::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.flags = self.bytes.len();
        self.bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        self.bytes.extend(self.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend(header);
        self.bytes.extend(attributes.as_bytes());
    }

    pub(super) fn add(&mut self, kind: u16, flags: u16, attributes: &Attributes) {
        let kind = SUBSYSTEM << 8 | kind;
        self.message(kind, flags, [NFPROTO_NETDEV, 0, 0, 0], attributes);
    }

    /// Has the last message answered: the kernel answers in order, and a refusal in any case.
    pub(super) fn end(mut self) -> Transaction {
        let last = self.sequence;
        let place = self.bytes.get_mut(self.flags..);
        if let Some(flags) = place.and_then(<[u8]>::first_chunk_mut) {
            *flags = (u16::from_ne_bytes(*flags) | NLM_F_ACK).to_ne_bytes();
        }
        self.message(BATCH_END, 0, [0, 0, 0, 10], &Attributes::default());
        Transaction {
            bytes: self.bytes,
            last,
        }
    }
}
