//! Marks of packets and connections, and the mask that keeps them off those of others.

use std::fmt;
use std::str::FromStr;

/// The bits of packet and connection marks that the return path uses. Contiguous.
///
/// The default is `0xf0`: 15 subnets on the VLANs of a node. Other users of marks leave these bits
/// alone: kube-proxy has 0x4000 and 0x8000, the port mapping of CNI 0x2000, Cilium 0x0f00 and the
/// upper half (identities), Calico the upper half (its `IptablesMarkMask` is 0xffff0000 unless
/// changed), OVN-Kubernetes numbers above 0x3f0; small numbers (1, 2, 3) are what people choose by
/// hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkMask(u32);

impl Default for MarkMask {
    fn default() -> Self {
        Self(0xf0)
    }
}

/// Text that is no mask.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no mask of adjacent bits; write it like 0xf0")]
pub struct NoMask(String);

impl FromStr for MarkMask {
    type Err = NoMask;

    fn from_str(text: &str) -> Result<Self, NoMask> {
        let no_mask = || NoMask(text.to_owned());
        let bits = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        let bits = bits.map_err(|_| no_mask())?;
        let width = bits.count_ones();
        let adjacent = bits
            .checked_shr(bits.trailing_zeros())
            .is_some_and(|low| low.trailing_ones() == width);
        if adjacent {
            Ok(Self(bits))
        } else {
            Err(no_mask())
        }
    }
}

impl fmt::Display for MarkMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl MarkMask {
    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// How many different marks there are, 0 not being one.
    #[must_use]
    pub const fn room(self) -> u32 {
        self.0 >> self.0.trailing_zeros()
    }

    /// The mark of a number from 1 to [`Self::room`].
    #[must_use]
    pub const fn mark(self, number: u32) -> u32 {
        (number << self.0.trailing_zeros()) & self.0
    }

    /// The number of a mark.
    #[must_use]
    pub const fn number(self, mark: u32) -> u32 {
        (mark & self.0) >> self.0.trailing_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_bits_are_adjacent() {
        let mask: MarkMask = "0xf0".parse().unwrap();
        assert_eq!(mask, MarkMask::default());
        assert_eq!(
            (mask.room(), mask.mark(3), mask.number(0x4030)),
            (15, 0x30, 3)
        );
        assert_eq!("16".parse::<MarkMask>().unwrap().room(), 1);
        assert_eq!("0xffffffff".parse::<MarkMask>().unwrap().room(), u32::MAX);
        for wrong in ["0", "0x", "0x101", "red", "0x1ffffffff"] {
            assert!(wrong.parse::<MarkMask>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn default_mask_avoids_well_known_marks() {
        let others = 0xc000 | 0x2000 | 0x0f00 | 0xffff_0000;
        assert_eq!(MarkMask::default().bits() & others, 0);
    }
}
