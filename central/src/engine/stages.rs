//! What is done to one part of a load balancer, before and after what is done to others.

use super::step::PoolRef;

/// The steps about one part.
#[derive(Debug)]
pub struct Stages<S> {
    /// How the steps about other parts refer to it.
    pub reference: PoolRef,
    /// Before other parts follow.
    pub first: Vec<S>,
    /// After them.
    pub last: Vec<S>,
}

impl<S> Stages<S> {
    /// Nothing so far.
    #[must_use]
    pub const fn of(reference: PoolRef) -> Self {
        Self {
            reference,
            first: Vec::new(),
            last: Vec::new(),
        }
    }

    /// This step makes it.
    pub fn making(step: S, made: &mut Made) -> Self {
        made.0 += 1;
        Self {
            reference: PoolRef::Planned(made.0 - 1),
            first: vec![step],
            last: Vec::new(),
        }
    }
}

/// How many parts a plan makes that its other steps refer to.
#[derive(Debug, Default)]
pub struct Made(usize);
