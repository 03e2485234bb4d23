//! Randomness that comes out the same for the same seed (SplitMix64).
//!
//! <https://prng.di.unimi.it/splitmix64.c>

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A generator. Good enough to spread things out; not for secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A generator that always gives the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        let mixed = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed
    }

    /// A random part of a duration.
    pub fn up_to(&mut self, limit: Duration) -> Duration {
        let nanoseconds = u128::from(self.next() >> 32).saturating_mul(limit.as_nanos()) >> 32;
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// Mixes the bits of a number so well that neighbours have nothing in common.
#[must_use]
pub const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_published_numbers() {
        let mut random = SplitMix::new(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn part_is_at_most_whole() {
        let mut random = SplitMix::new(7);
        let limit = Duration::from_millis(50);
        let parts: Vec<_> = (0..100).map(|_| random.up_to(limit)).collect();
        assert!(parts.iter().all(|part| *part < limit));
        assert!(parts.iter().any(|part| *part > limit / 2));
    }
}
