//! How much of what there is to hold a node shall have.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A node's weight in the choice of holders: how much it is preferred, and its share among those that are
/// equally preferred.
///
/// Each node states its own in its heartbeats, and all others go by that. So they agree even where one
/// reads a newer L2Network than another. A member that knows of no preferences takes the whole for a share:
/// a preferred node's is then larger than those of all others, not the only one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weight(u16);

impl Weight {
    /// Of a node that is like most.
    pub const USUAL: Self = Self(100);
    /// The largest share.
    const MOST_SHARE: u16 = (1 << Self::SHARE_BITS) - 1;
    /// The largest preference.
    const MOST_PREFERENCE: u16 = u16::MAX >> Self::SHARE_BITS;
    const SHARE_BITS: u32 = 7;

    /// Puts both together; what is too large becomes the largest that there is.
    #[must_use]
    pub const fn new(preference: u16, share: u16) -> Self {
        let preference = if preference > Self::MOST_PREFERENCE {
            Self::MOST_PREFERENCE
        } else {
            preference
        };
        let share = if share > Self::MOST_SHARE {
            Self::MOST_SHARE
        } else {
            share
        };
        Self(preference << Self::SHARE_BITS | share)
    }

    /// From what a heartbeat has.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// What a heartbeat has.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Of those that can hold a key, the ones with the largest get it.
    #[must_use]
    pub const fn preference(self) -> u16 {
        self.0 >> Self::SHARE_BITS
    }

    /// Its part of what goes to those with the same preference. Zero: nothing.
    #[must_use]
    pub const fn share(self) -> u16 {
        self.0 & Self::MOST_SHARE
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.share())?;
        match self.preference() {
            0 => Ok(()),
            preference => write!(f, " preferred by {preference}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use mooring_common::l2_network::Segment;

    use super::*;

    #[test]
    fn keeps_both_parts() {
        for (preference, share) in [(0, 100), (0, 25), (1, 100), (Segment::MOST_PREFERENCE, 127)] {
            let weight = Weight::from_bits(Weight::new(preference, share).bits());
            assert_eq!((weight.preference(), weight.share()), (preference, share));
        }
        assert_eq!(Weight::new(0, 100), Weight::USUAL);
        assert_eq!(Weight::new(600, 200), Weight::new(511, 127));
    }

    /// As daemons without preferences state theirs.
    #[test]
    fn plain_weight_is_share_alone() {
        for bits in [100, 25] {
            let weight = Weight::from_bits(bits);
            assert_eq!((weight.preference(), weight.share()), (0, bits));
        }
    }
}
