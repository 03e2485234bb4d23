//! What one connection carries, how soon it is answered, and what that costs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::bench::proc;

/// As much as is written at once.
const CHUNK: usize = 16 * 1024;

/// How many questions are timed, one after the other.
const QUESTIONS: usize = 5_000;

/// What was measured of one connection to an echo.
#[derive(Clone, Debug)]
pub struct Load {
    /// `IPv4` or `IPv6`.
    pub family: &'static str,
    /// Where its segments go.
    pub way: &'static str,
    /// Bytes a second, each way, in Gbit/s.
    pub gigabits: f64,
    /// Processor time of client, server and the kernel for them, in seconds for each Gbit each way.
    pub processor: f64,
    /// Half of the small questions were answered within that time.
    pub p50: Duration,
    /// All but one in a hundred were.
    pub p99: Duration,
}

/// Measures a connection, which goes on afterwards.
pub(super) fn measure(
    stream: &TcpStream,
    family: &'static str,
    way: &'static str,
    span: Duration,
) -> Result<Load> {
    stream.set_nodelay(true)?;
    let (start, before) = (Instant::now(), proc::processor_time(std::process::id())?);
    let bytes = carry(stream, span)?;
    let used = proc::processor_time(std::process::id())?.saturating_sub(before);
    let gigabits = bytes as f64 * 8.0 / 1e9;
    let mut times = (0..QUESTIONS)
        .map(|_| ask(stream))
        .collect::<Result<Vec<Duration>>>()?;
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied();
    Ok(Load {
        family,
        way,
        gigabits: gigabits / start.elapsed().min(span).as_secs_f64(),
        processor: used.as_secs_f64() / gigabits,
        p50: at(50).context("there are questions")?,
        p99: at(99).context("there are questions")?,
    })
}

/// The last byte of what is carried, and no other.
const END: u8 = 9;

/// Sends for so long, and reads all of it back. How many bytes.
fn carry(stream: &TcpStream, span: Duration) -> Result<u64> {
    let mut sink = stream.try_clone()?;
    let until = Instant::now() + span;
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let chunk = vec![7; CHUNK];
        while Instant::now() < until {
            sink.write_all(&chunk)?;
        }
        sink.write_all(&[END])
    });
    let (mut source, mut buffer, mut read) = (stream, vec![0; CHUNK], 0);
    loop {
        let length = source.read(&mut buffer)?;
        read += length as u64;
        match buffer[..length].last() {
            Some(&END) => break,
            Some(_) => {}
            None => bail!("the connection has ended"),
        }
    }
    match writer.join() {
        Ok(written) => written?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    Ok(read)
}

fn ask(mut stream: &TcpStream) -> Result<Duration> {
    let (begun, mut answer) = (Instant::now(), [0; 64]);
    stream.write_all(&[7; 64])?;
    stream.read_exact(&mut answer)?;
    Ok(begun.elapsed())
}
