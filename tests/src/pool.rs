//! A few of what takes seconds to make, for tests that each need one to themselves for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

/// How many there are at most. One that nobody needs is not made.
const MOST: usize = 4;

/// What is lent to one test after the other. Keep it in a `static`.
pub struct Pool<T> {
    made: [OnceCell<T>; MOST],
    free: Mutex<Vec<usize>>,
    permits: Semaphore,
}

/// One of them, for one test. Dropping it gives it back.
pub struct Lent<T: 'static> {
    value: &'static T,
    _place: Place<T>,
}

/// A place in the pool, which is free again when this is dropped.
struct Place<T: 'static> {
    pool: &'static Pool<T>,
    index: usize,
    _permit: SemaphorePermit<'static>,
}

impl<T> Lent<T> {
    /// What is lent. It outlives the loan, but is somebody else's then.
    #[must_use]
    pub const fn value(&self) -> &'static T {
        self.value
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        self.pool.free().push(self.index);
    }
}

impl<T> Pool<T> {
    /// Nothing has been made yet.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            made: [const { OnceCell::const_new() }; MOST],
            free: Mutex::new((0..MOST).rev().collect()),
            permits: Semaphore::const_new(MOST),
        }
    }

    /// Waits until one is free, and makes it if it has not been made yet.
    pub async fn lend<F: Future<Output = T>>(&'static self, make: impl FnOnce() -> F) -> Lent<T> {
        let permit = self.permits.acquire().await;
        let permit = permit.expect("nobody closes the semaphore");
        let place = Place {
            pool: self,
            index: self.free().pop().expect("a permit is a free place"),
            _permit: permit,
        };
        let value = self.made[place.index].get_or_init(make).await;
        Lent {
            value,
            _place: place,
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
