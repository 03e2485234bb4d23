//! The least that an answer takes, whoever gives it: what the kernel and `wrk` take themselves.

use std::io::{Read as _, Write as _};
use std::iter;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Result;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use mooring_test_netlab::netlab::Host;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
const LAST_ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
/// How soon the loop notices that it is to end, in milliseconds.
const LOOK: u8 = 100;

/// A loop on a thread of its own that says the same to whoever asks. It ends with this.
pub(super) struct Floor {
    pub(super) url: String,
    ends: Arc<AtomicBool>,
}

impl Floor {
    pub(super) async fn start(node: &Host) -> Result<Self> {
        let listener = node.listen(SocketAddr::from((node.ipv4(), 0))).await?;
        let listener = listener.into_std()?;
        let url = format!("http://{}/", listener.local_addr()?);
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        thread::spawn(move || answer(&listener, &ended));
        Ok(Self { url, ends })
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn answer(listener: &TcpListener, ended: &AtomicBool) {
    let mut streams: Vec<TcpStream> = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        let all = iter::once(listener.as_fd()).chain(streams.iter().map(|stream| stream.as_fd()));
        let mut polled: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if poll(&mut polled, PollTimeout::from(LOOK)).is_err() {
            continue;
        }
        let ready: Vec<bool> = polled.iter().map(|fd| fd.any() != Some(false)).collect();
        let mut of_streams = ready.iter().skip(1);
        streams.retain_mut(|stream| of_streams.next() == Some(&false) || say(stream));
        if ready.first() == Some(&true) {
            streams.extend(iter::from_fn(|| listener.accept().ok()).map(|(stream, _)| stream));
        }
    }
}

/// Answers what has come; whether more may come.
fn say(stream: &mut TcpStream) -> bool {
    let mut request = [0; 1024];
    let Some(request) = stream
        .read(&mut request)
        .ok()
        .and_then(|read| request.get(..read))
    else {
        return false;
    };
    if request.is_empty() {
        return false;
    }
    let is_last = request.windows(5).any(|word| word == b"close");
    let answer = if is_last { LAST_ANSWER } else { ANSWER };
    stream.write_all(answer).is_ok() && !is_last
}
