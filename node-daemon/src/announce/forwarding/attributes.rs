//! Attributes of netlink by number, written and read.
//!
//! The crate `netlink-bindings` describes neither `dynset` nor `fwd`, which all of this stands on.

use netlink_packet_core::{DefaultNla, Emitable as _, NLA_F_NESTED, NLA_HEADER_SIZE, NlasIterator};

/// Attributes that are being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds one with these bytes.
    #[must_use]
    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        let attribute = DefaultNla::new(kind, value.to_vec());
        let mut bytes = vec![0; attribute.buffer_len()];
        attribute.emit(&mut bytes);
        self.0.extend(bytes);
        self
    }

    /// Adds a text that ends with zero.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// Adds a number, in the network's byte order.
    #[must_use]
    pub fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Adds a large number, in the network's byte order.
    #[must_use]
    pub fn large(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Adds one that has others in it.
    #[must_use]
    pub fn nested(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NLA_F_NESTED, &inner.0)
    }

    /// How long they are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reads attributes, each with its kind. What cannot be read ends it.
pub fn read(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(|attribute| {
        let attribute = attribute.ok()?;
        let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
        Some((kind, attribute.into_inner().get(NLA_HEADER_SIZE..length)?))
    })
}

/// The value of the first attribute of a kind.
#[must_use]
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    read(bytes).find_map(|(found, value)| (found == kind).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_is_written() {
        let inner = Attributes::default().text(1, "abc").number(2, 7);
        let all = Attributes::default().bytes(3, &[9]).nested(4, &inner);
        assert_eq!(all.len() % 4, 0);
        assert_eq!(find(all.as_bytes(), 3), Some(&[9][..]));
        let inner = find(all.as_bytes(), 4).unwrap();
        let read: Vec<_> = read(inner).collect();
        assert_eq!(read, [(1, &b"abc\0"[..]), (2, &[0, 0, 0, 7][..])]);
    }

    #[test]
    fn ends_at_what_cannot_be_read() {
        let all = Attributes::default().number(1, 1);
        for length in 0..all.len() {
            assert_eq!(read(&all.as_bytes()[..length]).count(), 0, "{length}");
        }
        assert_eq!(read(&[0, 0, 0, 0, 0, 0]).count(), 0, "a length of nothing");
    }
}
