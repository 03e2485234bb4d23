//! Which cases are done.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use super::case::Case;
use super::disturbance::Disturbance;
use super::reference::Reference;
use super::swept_cloud::Operation;

/// Which cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<O> {
    /// All of them.
    All,
    /// Each operation with a central that is killed, and each other disturbance with some
    /// operation: the seed says which, and at which call.
    Sample,
    /// This one.
    One(Case<O>),
}

/// Which cases, and how.
#[derive(Clone, Copy, Debug)]
pub struct Scale<O> {
    /// Which.
    pub choice: Choice<O>,
    /// What chance goes by.
    pub seed: u64,
    /// How many run side by side.
    pub at_once: usize,
}

impl<O: Operation> Choice<O> {
    /// What is done undisturbed first.
    pub(super) fn operations(self) -> Vec<O> {
        match self {
            Self::All | Self::Sample => O::ALL.to_vec(),
            Self::One(case) => vec![case.operation],
        }
    }
}

impl<O: Operation> Scale<O> {
    /// All cases, or `CASE=`, by `SEED=` and `AT_ONCE=`.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub(super) fn from_environment() -> Result<Self> {
        let choice = match variable("CASE") {
            Some(case) => Choice::One(Case::parse(&case)?),
            None => Choice::All,
        };
        let scale = Self {
            choice,
            seed: number("SEED")?.unwrap_or_else(a_seed),
            at_once: usize::try_from(number("AT_ONCE")?.unwrap_or(12))?,
        };
        ensure!(scale.at_once > 0, "AT_ONCE is 0: nothing would be done");
        Ok(scale)
    }

    /// A sample by `SEED=`, or by chance.
    ///
    /// # Errors
    /// If that cannot be read.
    pub fn sample() -> Result<Self> {
        Ok(Self {
            choice: Choice::Sample,
            seed: number("SEED")?.unwrap_or_else(a_seed),
            at_once: 8,
        })
    }
}

/// The cases of a choice, in the order of their seed.
pub(super) fn cases<O: Operation>(
    scale: &Scale<O>,
    disturbances: &[Disturbance],
    references: &BTreeMap<O, Reference>,
) -> Result<Vec<Case<O>>> {
    let mut chance = Chance(scale.seed);
    let targets = |operation: &O, disturbance: Disturbance| {
        let reference = references.get(operation);
        reference.map_or(0, |reference| disturbance.targets(reference))
    };
    let mut cases = Vec::new();
    match scale.choice {
        Choice::One(case) => {
            let most = targets(&case.operation, case.disturbance);
            ensure!(
                (1..=most).contains(&case.call),
                "{case}: there are {most} such calls, counted from 1"
            );
            cases.push(case);
        }
        Choice::All => {
            for &operation in O::ALL {
                for &disturbance in disturbances {
                    let calls = 1..=targets(&operation, disturbance);
                    cases.extend(calls.map(|call| Case {
                        operation,
                        disturbance,
                        call,
                    }));
                }
            }
        }
        Choice::Sample => {
            let mut operations = O::ALL.to_vec();
            chance.shuffle(&mut operations);
            let mut next = operations.iter().copied().cycle();
            for &disturbance in disturbances {
                let chosen = if disturbance.kills() {
                    operations.clone()
                } else {
                    next.by_ref().take(1).collect()
                };
                for operation in chosen {
                    let call = 1 + chance.below(targets(&operation, disturbance));
                    cases.push(Case {
                        operation,
                        disturbance,
                        call,
                    });
                }
            }
        }
    }
    chance.shuffle(&mut cases);
    Ok(cases)
}

/// Numbers that look like chance, the same for the same seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one; 0 if that is 0.
    fn below(&mut self, limit: u64) -> u64 {
        self.next().checked_rem(limit).unwrap_or(0)
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for index in (1..all.len()).rev() {
            let other = self.below(index as u64 + 1) as usize;
            all.swap(index, other);
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn number(name: &str) -> Result<Option<u64>> {
    let text = variable(name);
    let number = text.map(|text| {
        text.parse()
            .with_context(|| format!("{name} is {text:?}; write a whole number"))
    });
    number.transpose()
}

fn a_seed() -> u64 {
    u64::from(uuid::Uuid::new_v4().as_fields().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_shuffles_alike_and_keeps_all() {
        let shuffled = |seed| {
            let mut all: Vec<u32> = (0..20).collect();
            Chance(seed).shuffle(&mut all);
            all
        };
        assert_eq!(shuffled(7), shuffled(7));
        assert_ne!(shuffled(7), shuffled(8));
        let mut all = shuffled(9);
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<u32>>());
        assert_eq!(Chance(1).below(0), 0);
    }
}
