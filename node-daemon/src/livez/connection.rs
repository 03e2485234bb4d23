//! What one client may take: time, and one of a fixed number of connections.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep};

/// How long a request may take to arrive, from its first byte.
const REQUEST: Duration = Duration::from_secs(5);
/// How long a connection may be kept without a request.
const IDLE: Duration = Duration::from_secs(30);

/// A connection that ends when its client is too slow.
pub(super) struct Timed<S> {
    stream: S,
    timer: Pin<Box<Sleep>>,
    state: State,
    idle_since: Arc<AtomicU64>,
    epoch: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between requests.
    Idle,
    /// A request has begun to arrive.
    Reading,
}

impl<S> Timed<S> {
    /// `seat` learns since when the connection is idle.
    pub(super) fn new(stream: S, seat: &Seat) -> Self {
        Self {
            stream,
            timer: Box::pin(sleep(IDLE)),
            state: State::Idle,
            idle_since: Arc::clone(&seat.idle_since),
            epoch: seat.epoch,
        }
    }

    fn enter(&mut self, state: State) {
        if self.state == state {
            return;
        }
        self.state = state;
        let now = Instant::now();
        let (limit, idle_since) = match state {
            State::Idle => (IDLE, micros(now - self.epoch)),
            State::Reading => (REQUEST, BUSY),
        };
        self.timer.as_mut().reset(now + limit);
        self.idle_since.store(idle_since, Ordering::Relaxed);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Ready(result) => {
                self.enter(State::Reading);
                Poll::Ready(result)
            }
            Poll::Pending => self
                .timer
                .as_mut()
                .poll(cx)
                .map(|()| Err(io::ErrorKind::TimedOut.into())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        // An answer is written once its request has been read whole.
        self.enter(State::Idle);
        match Pin::new(&mut self.stream).poll_write(cx, buf) {
            Poll::Pending => self
                .timer
                .as_mut()
                .poll(cx)
                .map(|()| Err(io::ErrorKind::TimedOut.into())),
            ready => ready,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// In the place of a time: the connection is not idle.
const BUSY: u64 = u64::MAX;

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(BUSY - 1)
}

/// One of the connections that there may be. Dropping it frees it.
pub(super) struct Seat {
    room: Arc<Room>,
    number: u64,
    epoch: Instant,
    idle_since: Arc<AtomicU64>,
}

/// A fixed number of connections.
pub(super) struct Room {
    seats: Mutex<Seats>,
    most: usize,
    epoch: Instant,
}

#[derive(Default)]
struct Seats {
    next: u64,
    taken: BTreeMap<u64, (Arc<AtomicU64>, Option<AbortHandle>)>,
}

impl Room {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            seats: Mutex::default(),
            most,
            epoch: Instant::now(),
        })
    }

    /// Takes a seat. If all are taken, the one that has been idle for longest is cleared; `None`
    /// if none is idle.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Seat> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if seats.taken.len() >= self.most {
            let (number, since) = seats
                .taken
                .iter()
                .map(|(number, (since, _))| (*number, since.load(Ordering::Relaxed)))
                .min_by_key(|(_, since)| *since)?;
            if since == BUSY {
                return None;
            }
            if let Some((_, Some(connection))) = seats.taken.remove(&number) {
                connection.abort();
            }
        }
        let number = seats.next;
        seats.next += 1;
        let idle_since = Arc::new(AtomicU64::new(micros(self.epoch.elapsed())));
        seats.taken.insert(number, (Arc::clone(&idle_since), None));
        drop(seats);
        Some(Seat {
            room: Arc::clone(self),
            number,
            epoch: self.epoch,
            idle_since,
        })
    }

    /// Says which task to end if a seat must be cleared.
    pub(super) fn clear_by(&self, number: u64, connection: AbortHandle) {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = seats.taken.get_mut(&number) {
            *handle = Some(connection);
        }
    }
}

impl Seat {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self
            .room
            .seats
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        seats.taken.remove(&self.number);
    }
}
