//! A server's connections: how many there may be, and which one is closed for another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

/// One of the connections that there may be. Dropping it frees it.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    epoch: Instant,
    use_: Arc<AtomicU64>,
}

/// A fixed number of connections. There is always a slot for a new one: the connection that has been idle
/// for longest is closed for it, or the one whose request has been on its way for longest.
#[derive(Debug)]
pub struct ConnectionSlots {
    all: Mutex<All>,
    most: usize,
    epoch: Instant,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    /// See [`Use`].
    use_: Arc<AtomicU64>,
    connection: Option<AbortHandle>,
}

/// How a slot is used, and since when, in one number: the smallest is closed first, those who have
/// been idle for longest since an answer, and then those whose request has been on its way for longest.
/// The first is on its way when its connection is there.
struct Use;

impl Use {
    /// A request is on its way.
    const READING: u64 = 1 << 63;

    fn since(epoch: Instant, now: Instant) -> u64 {
        let micros = now.duration_since(epoch).min(Self::LONGEST).as_micros();
        u64::try_from(micros).unwrap_or_default()
    }

    const LONGEST: Duration = Duration::from_micros(Self::READING - 1);
}

impl ConnectionSlots {
    /// So many connections.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Mutex::default(),
            most,
            epoch: Instant::now(),
        })
    }

    /// Takes a slot, another one's if need be.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Slot {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.taken.len() >= self.most {
            let uses = all.taken.iter();
            let uses = uses.map(|(number, slot)| (slot.use_.load(Ordering::Relaxed), *number));
            if let Some((_, number)) = uses.min()
                && let Some(slot) = all.taken.remove(&number)
                && let Some(connection) = slot.connection
            {
                connection.abort();
            }
        }
        let number = all.next;
        all.next += 1;
        let since = Use::since(self.epoch, Instant::now());
        let use_ = Arc::new(AtomicU64::new(Use::READING | since));
        let taken = Taken {
            use_: Arc::clone(&use_),
            connection: None,
        };
        all.taken.insert(number, taken);
        drop(all);
        Slot {
            slots: Arc::clone(self),
            number,
            epoch: self.epoch,
            use_,
        }
    }

    /// Says which task to end if this slot is given to another connection.
    pub fn close_by(&self, number: u64, connection: AbortHandle) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = all.taken.get_mut(&number) {
            slot.connection = Some(connection);
        }
    }
}

impl Slot {
    /// Which one it is.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// A request was answered.
    pub fn idle(&self, now: Instant) {
        self.use_
            .store(Use::since(self.epoch, now), Ordering::Relaxed);
    }

    /// A request begins, and is not whole yet.
    pub fn reading(&self, now: Instant) {
        let since = Use::since(self.epoch, now);
        self.use_.store(Use::READING | since, Ordering::Relaxed);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut all = self
            .slots
            .all
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a slot whose connection is a task that never ends by itself.
    fn sit(slots: &Arc<ConnectionSlots>) -> (Slot, tokio::task::JoinHandle<()>) {
        let slot = slots.take();
        let task = tokio::spawn(std::future::pending());
        slots.close_by(slot.number(), task.abort_handle());
        (slot, task)
    }

    #[tokio::test]
    async fn closes_longest_idle_then_slowest() {
        let slots = ConnectionSlots::new(3);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let (slow, slow_task) = sit(&slots);
        let (slower, slower_task) = sit(&slots);
        let (idle, idle_task) = sit(&slots);
        slow.reading(at(20));
        slower.reading(at(10));
        idle.idle(at(30));
        let (new, _) = sit(&slots);
        assert!(idle_task.await.unwrap_err().is_cancelled());
        new.reading(at(40));
        let (newer, _) = sit(&slots);
        assert!(slower_task.await.unwrap_err().is_cancelled());
        newer.reading(at(50));
        assert!(!slow_task.is_finished());
        drop((slow, slower, idle, new, newer));
        assert!(slots.all.lock().unwrap().taken.is_empty());
    }
}
