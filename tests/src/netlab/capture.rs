//! Keeping every frame that passes an interface.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use nix::sys::socket::LinkAddr;
use socket2::{Domain, Protocol, Socket, Type};

use super::frame::Frame;
use super::namespace;

/// All protocols (`ETH_P_ALL`).
const ALL_PROTOCOLS: u16 = 0x0003;

/// How soon the reader notices that it should stop.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// Frames of one interface, kept from the start until the drop.
#[derive(Debug)]
pub struct Capture {
    frames: Arc<Mutex<Vec<Frame>>>,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Capture {
    /// Starts on an interface of a namespace. No frame after the return is missed.
    pub(super) fn start(netns: Option<&str>, interface: &str) -> Result<Self> {
        let socket = namespace::inside(netns, || open(interface))
            .with_context(|| format!("capturing on {interface}"))?;
        let frames = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let reader = std::thread::spawn({
            let (frames, stop) = (Arc::clone(&frames), Arc::clone(&stop));
            move || read(socket, &frames, &stop)
        });
        Ok(Self {
            frames,
            stop,
            reader: Some(reader),
        })
    }

    /// All frames so far.
    pub fn frames(&self) -> Vec<Frame> {
        self.frames
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The frames since a moment.
    pub fn since(&self, start: Instant) -> Vec<Frame> {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames
            .iter()
            .filter(|frame| frame.at >= start)
            .cloned()
            .collect()
    }

    /// What `pick` finds in the frames so far, with the time of each.
    pub fn pick<T>(&self, pick: impl Fn(&Frame) -> Option<T>) -> Vec<(Instant, T)> {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames
            .iter()
            .filter_map(|frame| Some((frame.at, pick(frame)?)))
            .collect()
    }

    /// Writes the frames so far as a file for tcpdump and Wireshark.
    pub fn write_pcap(&self, path: &Path) -> Result<()> {
        let (now, now_by_clock) = (Instant::now(), SystemTime::now());
        let mut file = BufWriter::new(
            File::create(path).with_context(|| format!("creating {}", path.display()))?,
        );
        file.write_all(&0xa1b2_c3d4_u32.to_le_bytes())?;
        file.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?; // version 2.4, UTC
        file.write_all(&u32::from(u16::MAX).to_le_bytes())?; // longest frame
        file.write_all(&1_u32.to_le_bytes())?; // Ethernet
        for frame in self.frames() {
            let at = now_by_clock - now.duration_since(frame.at);
            let since_epoch = at.duration_since(UNIX_EPOCH)?;
            let length = u32::try_from(frame.bytes.len())?.to_le_bytes();
            file.write_all(&u32::try_from(since_epoch.as_secs())?.to_le_bytes())?;
            file.write_all(&since_epoch.subsec_micros().to_le_bytes())?;
            file.write_all(&length)?;
            file.write_all(&length)?;
            file.write_all(&frame.bytes)?;
        }
        Ok(file.flush()?)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // It only ends; a panic in it has been reported already.
            let _ = reader.join();
        }
    }
}

/// A socket for all frames of an interface of the current namespace.
pub(super) fn open(interface: &str) -> Result<Socket> {
    let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
    nix::sys::socket::bind(socket.as_raw_fd(), &link_address(interface)?)?;
    socket.set_read_timeout(Some(STOP_INTERVAL))?;
    // The kernel gives less if its limit is lower, which does for everything but floods.
    let _ = socket.set_recv_buffer_size(4 << 20);
    Ok(socket)
}

fn link_address(interface: &str) -> Result<LinkAddr> {
    nix::ifaddrs::getifaddrs()?
        .filter(|entry| entry.interface_name == interface)
        .find_map(|entry| entry.address?.as_link_addr().copied())
        .ok_or_else(|| anyhow!("there is no interface {interface}"))
}

fn read(mut socket: Socket, frames: &Mutex<Vec<Frame>>, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match socket.read(&mut buffer) {
            Ok(length) => {
                let frame = Frame {
                    at: Instant::now(),
                    bytes: buffer[..length].to_vec(),
                };
                frames
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(frame);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The interface went down; it may come back.
            Err(error) if error.raw_os_error() == Some(100) => {}
            Err(error) => panic!("reading captured frames: {error}"),
        }
    }
}
