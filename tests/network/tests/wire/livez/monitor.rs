//! Somebody who asks all the time, as the monitors of load balancers do.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mooring_test_support::wait::eventually;

use super::daemon::SOON;

/// How often monitors ask that are to be taken for good ones.
pub const SPACING: Duration = Duration::from_millis(100);

/// How long an answer may take: as much as cloudscale.ch's monitors grant.
const LIMIT: Duration = Duration::from_secs(1);

/// Asks on a new connection each time until it is ended.
pub struct Monitor {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: JoinHandle<Vec<String>>,
}

impl Monitor {
    /// Begins to ask there, with so much time between two questions.
    pub fn start(address: SocketAddr, path: &str, spacing: Duration) -> Self {
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&asked));
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        let start = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut complaints = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let answer = ask(address, &request);
                if !answer
                    .as_ref()
                    .is_ok_and(|text| text.contains(" 200 OK\r\n"))
                {
                    complaints.push(format!("after {:?}: {answer:?}", start.elapsed()));
                }
                counter.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(spacing);
            }
            complaints
        });
        Self {
            stop,
            asked,
            thread,
        }
    }

    /// Waits until it has asked so many times more.
    pub async fn asked(&self, times: usize) {
        let until = self.asked.load(Ordering::Relaxed) + times;
        eventually("the monitor has asked", SOON, async || {
            self.asked.load(Ordering::Relaxed) >= until
        })
        .await;
    }

    /// Ends it; gives every answer that was not 200 within a second.
    pub fn complaints(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

fn ask(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
