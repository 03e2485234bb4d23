//! How many connections there may be, and which one makes room for another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

/// One of the connections that there may be. Dropping it frees it.
pub(super) struct Seat {
    room: Arc<Room>,
    number: u64,
    epoch: Instant,
    use_: Arc<AtomicU64>,
}

/// A fixed number of connections. There is always a seat for a new one: somebody who only sits, or
/// sends slowly, makes room.
pub(super) struct Room {
    seats: Mutex<Seats>,
    most: usize,
    epoch: Instant,
}

#[derive(Default)]
struct Seats {
    next: u64,
    taken: BTreeMap<u64, Taken>,
}

struct Taken {
    /// See [`Use`].
    use_: Arc<AtomicU64>,
    connection: Option<AbortHandle>,
}

/// How a seat is used, and since when, in one number: the smallest makes room first, those who have
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

impl Room {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            seats: Mutex::default(),
            most,
            epoch: Instant::now(),
        })
    }

    /// Takes a seat, another one's if need be.
    pub(super) fn enter(self: &Arc<Self>) -> Seat {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.taken.len() >= self.most {
            let uses = seats.taken.iter();
            let uses = uses.map(|(number, seat)| (seat.use_.load(Ordering::Relaxed), *number));
            if let Some((_, number)) = uses.min()
                && let Some(seat) = seats.taken.remove(&number)
                && let Some(connection) = seat.connection
            {
                connection.abort();
            }
        }
        let number = seats.next;
        seats.next += 1;
        let since = Use::since(self.epoch, Instant::now());
        let use_ = Arc::new(AtomicU64::new(Use::READING | since));
        let taken = Taken {
            use_: Arc::clone(&use_),
            connection: None,
        };
        seats.taken.insert(number, taken);
        drop(seats);
        Seat {
            room: Arc::clone(self),
            number,
            epoch: self.epoch,
            use_,
        }
    }

    /// Says which task to end if a seat must be cleared.
    pub(super) fn clear_by(&self, number: u64, connection: AbortHandle) {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = seats.taken.get_mut(&number) {
            seat.connection = Some(connection);
        }
    }
}

impl Seat {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// A request was answered.
    pub(super) fn idle(&self, now: Instant) {
        self.use_
            .store(Use::since(self.epoch, now), Ordering::Relaxed);
    }

    /// A request begins, and is not whole yet.
    pub(super) fn reading(&self, now: Instant) {
        let since = Use::since(self.epoch, now);
        self.use_.store(Use::READING | since, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let room = &self.room;
        let mut seats = room.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a seat whose connection is a task that never ends by itself.
    fn sit(room: &Arc<Room>) -> (Seat, tokio::task::JoinHandle<()>) {
        let seat = room.enter();
        let task = tokio::spawn(std::future::pending());
        room.clear_by(seat.number(), task.abort_handle());
        (seat, task)
    }

    #[tokio::test]
    async fn who_sits_for_longest_makes_room_and_then_who_sends_for_longest() {
        let room = Room::new(3);
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let (slow, slow_task) = sit(&room);
        let (slower, slower_task) = sit(&room);
        let (idle, idle_task) = sit(&room);
        slow.reading(at(20));
        slower.reading(at(10));
        idle.idle(at(30));
        let (new, _) = sit(&room);
        assert!(idle_task.await.unwrap_err().is_cancelled());
        new.reading(at(40));
        let (newer, _) = sit(&room);
        assert!(slower_task.await.unwrap_err().is_cancelled());
        newer.reading(at(50));
        assert!(!slow_task.is_finished());
        drop((slow, slower, idle, new, newer));
        assert!(room.seats.lock().unwrap().taken.is_empty());
    }
}
