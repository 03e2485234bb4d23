//! One client: its requests, one after the other, and the time that it may take.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use mooring_common::connection_slots::Slot;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep};

use super::request::{Body, Fault, Method, Parsed, Request, parse};
use super::response::{Framing, Response};

/// How long a request may take to arrive, from its first byte; and an answer, to be taken.
const REQUEST: Duration = Duration::from_secs(5);
/// How long a connection may be kept without a request.
const IDLE: Duration = Duration::from_secs(30);
/// How long to go on reading what a client sends that was told that it is not understood: if its bytes
/// were left unread, the kernel would take the answer back.
const LINGER: Duration = Duration::from_secs(1);
/// How much of that to read, in bytes.
const LINGER_BYTES: u64 = 64 * 1024;
/// How long a body may be that is skipped, in bytes. After a longer one the connection ends.
const LONGEST_BODY: u64 = 8192;
/// How much room there is for what comes next, in bytes: most requests are shorter.
const ROOM: usize = 512;

/// Gives answers.
pub(super) trait Respond {
    /// To a request that has come now.
    fn respond(&self, request: &Request<'_>, now: Instant) -> Arc<Response>;

    /// To what is none.
    fn refuse(&self, fault: Fault) -> Response;

    /// Whether clients are to come back by another connection.
    fn closes(&self) -> bool;
}

/// Answers one client until it ends, or has been too slow.
pub(super) async fn converse<S>(stream: S, slot: &Slot, handler: &impl Respond)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut conversation = Conversation {
        stream,
        slot,
        limit: Limit::new(IDLE),
        came: Vec::new(),
        reading: false,
        out: Vec::new(),
    };
    if let Err(error) = conversation.run(handler).await {
        tracing::trace!(%error, "a health check broke off");
    }
}

struct Conversation<'a, S> {
    stream: S,
    slot: &'a Slot,
    limit: Limit,
    /// What has come and is not answered yet.
    came: Vec<u8>,
    /// Part of a request has come.
    reading: bool,
    out: Vec<u8>,
}

/// What is to be done next on a connection.
enum Next {
    /// To wait for more bytes.
    Wait,
    /// To answer; after it so many bytes are skipped.
    Answer { skip: u64, end: End },
}

/// Whether a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is kept.
    No,
    /// The client knows.
    Yes,
    /// The client may still be sending.
    AfterReading,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Conversation<'_, S> {
    async fn run(&mut self, handler: &impl Respond) -> io::Result<()> {
        loop {
            let now = Instant::now();
            match self.next(handler, now) {
                Next::Wait => {
                    if !self.read().await? {
                        return Ok(());
                    }
                }
                Next::Answer { skip, end } => {
                    self.limit.set(now + REQUEST);
                    let written = self.stream.write_all(&self.out);
                    self.limit.enforce(written).await?;
                    match end {
                        End::Yes => return Ok(()),
                        End::AfterReading => return self.linger().await,
                        End::No => self.skip(skip).await?,
                    }
                    self.reading = false;
                    self.limit.set(now + IDLE);
                    self.slot.idle(now);
                }
            }
        }
    }

    /// Looks at what has come, and writes the answer to `out` if it is a request.
    fn next(&mut self, handler: &impl Respond, now: Instant) -> Next {
        self.out.clear();
        if self.came.is_empty() {
            return Next::Wait;
        }
        match parse(&self.came) {
            Parsed::Incomplete => Next::Wait,
            Parsed::Fault(fault) => {
                let manner = Framing {
                    last: true,
                    ..Framing::default()
                };
                handler.refuse(fault).write(&mut self.out, manner);
                Next::Answer {
                    skip: 0,
                    end: End::AfterReading,
                }
            }
            Parsed::Request(request) => {
                let last = request.last || handler.closes();
                let (skip, end) = match request.body {
                    Body::Length(0) if last => (0, End::Yes),
                    Body::Length(length) if !last && length <= LONGEST_BODY => (length, End::No),
                    Body::Length(_) | Body::Unknown => (0, End::AfterReading),
                };
                let manner = Framing {
                    is_old: request.is_old,
                    head_only: request.method == Method::Head,
                    last: end != End::No,
                };
                handler.respond(&request, now).write(&mut self.out, manner);
                let length = request.length;
                self.came.drain(..length);
                Next::Answer { skip, end }
            }
        }
    }

    /// Waits for more; `false` at the end.
    async fn read(&mut self) -> io::Result<bool> {
        if !self.came.is_empty() && !self.reading {
            let now = Instant::now();
            self.reading = true;
            self.limit.set(now + REQUEST);
            self.slot.reading(now);
        }
        self.came.reserve(ROOM);
        let read = self.stream.read_buf(&mut self.came);
        Ok(self.limit.enforce(read).await? > 0)
    }

    /// Reads a body away.
    async fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        loop {
            let here = usize::try_from(bytes)
                .unwrap_or(usize::MAX)
                .min(self.came.len());
            self.came.drain(..here);
            bytes -= here as u64;
            if bytes == 0 {
                return Ok(());
            }
            if !self.read().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Ends the connection so that the client gets its answer.
    async fn linger(&mut self) -> io::Result<()> {
        self.limit.set(Instant::now() + LINGER);
        let end = async {
            self.stream.shutdown().await?;
            let mut rest = (&mut self.stream).take(LINGER_BYTES);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        self.limit.enforce(end).await.map(drop)
    }
}

/// A time limit that is cheap to move on: the timer behind it is set anew only when it rings.
struct Limit {
    timer: Pin<Box<Sleep>>,
    at: Instant,
}

impl Limit {
    fn new(after: Duration) -> Self {
        Self {
            timer: Box::pin(sleep(after)),
            at: Instant::now() + after,
        }
    }

    fn set(&mut self, at: Instant) {
        self.at = at;
        if self.at < self.timer.deadline() {
            self.timer.as_mut().reset(self.at);
        }
    }

    async fn enforce<T>(&mut self, io: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let mut io = pin!(io);
        poll_fn(|cx| {
            if let Poll::Ready(done) = io.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            loop {
                ready!(self.timer.as_mut().poll(cx));
                if Instant::now() >= self.at {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                self.timer.as_mut().reset(self.at);
            }
        })
        .await
    }
}
