//! Attributes of netlink as bytes, written and read.
//!
//! The crate `netlink-bindings` describes neither `dynset` nor `fwd`, which all of this stands on.

/// The kind of an attribute that has others in it.
const NESTED: u16 = 0x8000;
/// What is no flag in a kind.
const KIND: u16 = 0x3fff;
const HEADER: usize = 4;

/// Attributes that are being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds one with these bytes.
    #[must_use]
    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        // All that is written here is far below what a length can say.
        let length = u16::try_from(HEADER + value.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
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
        self.bytes(kind | NESTED, &inner.0)
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
pub fn read(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & KIND;
        let value = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
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
