//! Whether the rig itself could keep time.
//!
//! What is measured on a busy machine may be the machine. A thread that wants to run every few
//! milliseconds notes how late it was: what was measured while it was late for long is measured again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it wants to run.
const TURN: Duration = Duration::from_millis(2);

/// Lateness that is worth noting.
const NOTABLE: Duration = Duration::from_millis(5);

/// How late the rig may be for what is measured meanwhile to count.
pub const TOLERABLE: Duration = Duration::from_millis(30);

/// Notes how late a thread of this program runs.
#[derive(Debug)]
pub struct Watchdog {
    stalls: Arc<Mutex<Vec<(Instant, Duration)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts, and waits until it is on guard.
    pub fn start() -> Self {
        let stalls = Arc::<Mutex<Vec<(Instant, Duration)>>>::default();
        let stop = Arc::new(AtomicBool::new(false));
        let on_guard = Arc::new(Barrier::new(2));
        let guard = Arc::clone(&on_guard);
        let thread = std::thread::spawn({
            let (stalls, stop) = (Arc::clone(&stalls), Arc::clone(&stop));
            move || {
                let mut due = Instant::now() + TURN;
                guard.wait();
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(TURN);
                    let late = due.elapsed();
                    if late >= NOTABLE {
                        stalls
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push((due, late));
                    }
                    due = Instant::now() + TURN;
                }
            }
        });
        on_guard.wait();
        Self {
            stalls,
            stop,
            thread: Some(thread),
        }
    }

    /// The longest stall that began in this span.
    pub fn worst(&self, from: Instant, to: Instant) -> Duration {
        let stalls = self.stalls.lock().unwrap_or_else(PoisonError::into_inner);
        stalls
            .iter()
            .filter(|(at, late)| *at + *late >= from && *at <= to)
            .map(|(_, late)| *late)
            .max()
            .unwrap_or_default()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It only ends.
            let _ = thread.join();
        }
    }
}
