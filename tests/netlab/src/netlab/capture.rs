//! Keeping every frame that passes an interface.

use std::fs::File;
use std::io::{BufWriter, IoSliceMut, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, LinkAddr, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

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
        Self::start_filtered(netns, interface, &[])
    }

    /// [`Self::start`] with a filter in the kernel; an empty one lets everything pass.
    pub(super) fn start_filtered(
        netns: Option<&str>,
        interface: &str,
        filter: &[SockFilter],
    ) -> Result<Self> {
        let socket = namespace::inside(netns, || open_filtered(interface, filter))
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
    open_filtered(interface, &[])
}

/// [`open`] with a filter in the kernel, and with the kernel's time of each frame.
pub(super) fn open_filtered(interface: &str, filter: &[SockFilter]) -> Result<Socket> {
    let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))?;
    if !filter.is_empty() {
        socket.attach_filter(filter)?;
    }
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
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

/// The next frame, with the time at which the kernel got it; `None` if none came for a while.
pub(super) fn next_frame(socket: &Socket, buffer: &mut [u8]) -> Result<Option<Frame>> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut pieces = [IoSliceMut::new(buffer)];
    let received = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut pieces,
        Some(&mut control),
        MsgFlags::empty(),
    );
    let (length, stamp) = match received {
        Ok(message) => {
            let stamp = message.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
                _ => None,
            });
            (message.bytes, stamp)
        }
        // Nothing yet; or the interface went down, and may come back.
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => return Ok(None),
        Err(error) => return Err(error).context("reading captured frames"),
    };
    let bytes = buffer[..length].to_vec();
    Ok(Some(Frame {
        at: stamp.map_or_else(Instant::now, monotonic),
        bytes,
    }))
}

/// A time of the kernel's real-time clock on the monotonic one.
fn monotonic(since_epoch: Duration) -> Instant {
    let now = Instant::now();
    let age = SystemTime::now().duration_since(UNIX_EPOCH + since_epoch);
    now.checked_sub(age.unwrap_or_default()).unwrap_or(now)
}

fn read(socket: Socket, frames: &Mutex<Vec<Frame>>, stop: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        match next_frame(&socket, &mut buffer) {
            Ok(Some(frame)) => frames
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(frame),
            Ok(None) => {}
            Err(error) => panic!("{error:#}"),
        }
    }
}
