//! A few of what takes seconds to make, for tests that each need one to themselves for a while.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// How many there are at most. One that nobody needs is not made.
const MOST: usize = 12;

/// What is lent to one test after the other. Keep it in a `static`.
pub(super) struct Pool<T> {
    made: [OnceCell<T>; MOST],
    /// Their indices; `None` until the first is lent.
    free: Mutex<Option<Vec<usize>>>,
    permits: Semaphore,
}

/// One of them, for one test. Dropping it gives it back.
pub(super) struct Lent<T: 'static> {
    value: &'static T,
    _slot: Slot<T>,
}

/// A slot in the pool, which is free again when this is dropped.
struct Slot<T: 'static> {
    pool: &'static Pool<T>,
    index: usize,
    _permit: SemaphorePermit<'static>,
}

impl<T> Lent<T> {
    /// What is lent. It outlives the loan, but is somebody else's then.
    #[must_use]
    pub(super) const fn value(&self) -> &'static T {
        self.value
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.pool.with_free(|free| free.push(self.index));
    }
}

impl<T> Pool<T> {
    /// Nothing has been made yet.
    #[must_use]
    pub(super) const fn empty() -> Self {
        Self {
            made: [const { OnceCell::const_new() }; MOST],
            free: Mutex::new(None),
            permits: Semaphore::const_new(MOST),
        }
    }

    /// Waits until one is free, and makes it if it has not been made yet.
    pub(super) async fn lend<F: Future<Output = T>>(
        &'static self,
        make: impl FnOnce() -> F,
    ) -> Lent<T> {
        let permit = self.permits.acquire().await;
        let permit = permit.expect("nobody closes the semaphore");
        let slot = Slot {
            pool: self,
            index: self.with_free(Vec::pop).expect("a permit is a free slot"),
            _permit: permit,
        };
        let value = self.made[slot.index].get_or_init(make).await;
        Lent { value, _slot: slot }
    }

    fn with_free<R>(&self, change: impl FnOnce(&mut Vec<usize>) -> R) -> R {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        change(free.get_or_insert_with(|| (0..MOST).rev().collect()))
    }
}
