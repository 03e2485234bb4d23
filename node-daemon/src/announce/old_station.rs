//! One segment's thread: the [`Speaker`] with sockets and a clock.
//!
//! It is an operating system's thread of its own, so that nothing that happens on the async
//! runtime (a slow API server, a large list) can delay an answer. It takes its orders from a slot
//! that always holds the newest, so that there is nothing to queue and nothing to overflow, and is
//! woken through a socket pair.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tokio::sync::mpsc;

use super::groups::Groups;
use super::mac::Mac;
use super::metrics::{Metrics, SegmentLabels};
use super::old_speaker::{Notice, Speaker, Transmit, TransmitKind, View};
use super::wire::Wire;

/// Frames looked at before anything is sent. Claims among them are heeded before questions are
/// answered, and rounds are not held up by a flood.
const FRAMES_AT_ONCE: usize = 256;
/// How soon to try again to attach to an interface.
const RETRY: Duration = Duration::from_secs(1);
/// From when on waking up late is counted.
const STALL: Duration = Duration::from_millis(50);

/// An interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// The MAC address to speak from.
    pub mac: Mac,
}

/// What a station is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// The interface to speak on; `None` while it is down.
    pub attachment: Option<Attachment>,
    /// What to announce.
    pub view: View,
    /// Groups to be in, so that questions already arrive when an address becomes ours.
    pub groups: BTreeSet<Ipv6Addr>,
}

/// Something that a station reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It can be heard and speak, from this MAC address; or not (any more).
    OnAir(Option<Mac>),
    /// It cannot, although the interface is up, and why.
    Trouble(String),
    /// What its speaker has to say.
    Notice(Notice),
}

/// A running station.
#[derive(Debug)]
pub struct Station {
    orders: Arc<ArcSwap<Slot>>,
    waker: UnixStream,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Slot {
    orders: Arc<Orders>,
    stop: bool,
}

/// What a station is made of.
#[derive(Debug)]
pub struct Setup {
    /// The L2Network's name.
    pub segment: String,
    /// What to begin with.
    pub orders: Arc<Orders>,
    /// Where reports go, with the segment's name. What does not fit is dropped: whoever reads it
    /// must not hold up the thread.
    pub reports: mpsc::Sender<(String, Report)>,
    /// Where to count.
    pub metrics: Metrics,
    /// Sets the random part of the refreshes.
    pub seed: u64,
    /// How long a pause of this process means that others may have taken over.
    pub longest_gap: Duration,
}

impl Station {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the operating system gives no thread or no socket pair.
    pub fn start(setup: Setup) -> std::io::Result<Self> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let slot = Slot {
            orders: Arc::clone(&setup.orders),
            stop: false,
        };
        let orders = Arc::new(ArcSwap::from_pointee(slot));
        let worker = Worker::new(setup, Arc::clone(&orders), woken);
        // The kernel shows 15 characters of a thread's name.
        let thread = std::thread::Builder::new()
            .name(format!("l2-{}", worker.segment))
            .spawn(move || worker.run())?;
        Ok(Self {
            orders,
            waker,
            thread,
        })
    }

    /// What it was last told.
    #[must_use]
    pub fn orders(&self) -> Arc<Orders> {
        Arc::clone(&self.orders.load().orders)
    }

    /// Tells it what to do from now on.
    pub fn order(&self, orders: Arc<Orders>) {
        self.put(Slot {
            orders,
            stop: false,
        });
    }

    /// Whether the thread has ended by itself, which is a fault.
    #[must_use]
    pub fn has_died(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it: no frame leaves any more once this returns. It takes a moment; call it where
    /// blocking is allowed.
    pub fn stop(self) {
        self.put(Slot {
            orders: self.orders(),
            stop: true,
        });
        if self.thread.join().is_err() {
            tracing::error!("a segment's thread had panicked");
        }
    }

    fn put(&self, slot: Slot) {
        self.orders.store(Arc::new(slot));
        // If it cannot be written, a wake-up is already waiting there.
        let _ = (&self.waker).write(&[1]);
    }
}

struct Worker {
    segment: String,
    slot: Arc<ArcSwap<Slot>>,
    woken: UnixStream,
    reports: mpsc::Sender<(String, Report)>,
    metrics: Metrics,
    labels: SegmentLabels,
    speaker: Speaker,
    orders: Arc<Orders>,
    air: Option<Air>,
    next_try: Instant,
    in_trouble: bool,
}

/// What exists only while the station is attached.
struct Air {
    attachment: Attachment,
    wire: Wire,
    groups: Groups,
    /// Whether groups could not be joined the last time.
    deaf: bool,
}

impl Air {
    fn join(&mut self, groups: &BTreeSet<Ipv6Addr>, now: Instant) {
        let interface = &self.attachment.name;
        let result = self.groups.set(groups, now);
        match &result {
            Ok(()) if self.deaf => tracing::info!(%interface, "IPv6 multicast groups joined"),
            Ok(()) => {}
            Err(error) if self.deaf => {
                tracing::debug!(%interface, %error, "still cannot join IPv6 multicast groups");
            }
            Err(error) => {
                tracing::warn!(%interface, %error, "cannot join IPv6 multicast groups, will try \
                    again: questions for IPv6 addresses may not arrive; is IPv6 disabled on the \
                    interface?");
            }
        }
        self.deaf = result.is_err();
    }

    fn rejoin_if_due(&mut self, groups: &BTreeSet<Ipv6Addr>, now: Instant) {
        if self.groups.next_try().is_some_and(|at| now >= at) {
            self.join(groups, now);
        }
    }
}

impl Worker {
    fn new(setup: Setup, slot: Arc<ArcSwap<Slot>>, woken: UnixStream) -> Self {
        Self {
            labels: SegmentLabels::new(&setup.segment),
            segment: setup.segment,
            slot,
            woken,
            reports: setup.reports,
            metrics: setup.metrics,
            speaker: Speaker::new(setup.seed, setup.longest_gap),
            orders: Arc::new(Orders::default()),
            air: None,
            next_try: Instant::now(),
            in_trouble: false,
        }
    }

    fn run(mut self) {
        loop {
            let slot = self.slot.load_full();
            if slot.stop {
                break;
            }
            if !Arc::ptr_eq(&slot.orders, &self.orders) {
                self.obey(Arc::clone(&slot.orders));
            }
            if self.air.is_none() && Instant::now() >= self.next_try {
                self.attach();
            }
            if let Some(air) = &mut self.air {
                air.rejoin_if_due(&self.orders.groups, Instant::now());
            }
            self.hear();
            self.speak();
            self.wait();
        }
        self.report(Report::OnAir(None));
    }

    fn obey(&mut self, orders: Arc<Orders>) {
        let wanted = orders.attachment.as_ref();
        if self.air.as_ref().map(|air| &air.attachment) != wanted {
            self.detach();
            self.next_try = Instant::now();
        }
        if let Some(air) = &mut self.air
            && orders.groups != self.orders.groups
        {
            air.join(&orders.groups, Instant::now());
        }
        if orders.view != self.orders.view {
            self.speaker.set_view(orders.view.clone(), Instant::now());
        }
        self.orders = orders;
    }

    fn attach(&mut self) {
        self.next_try = Instant::now() + RETRY;
        let Some(attachment) = self.orders.attachment.clone() else {
            return;
        };
        match Wire::open(&attachment.name, attachment.index) {
            Ok(wire) => {
                let mac = attachment.mac;
                let mut air = Air {
                    groups: Groups::new(attachment.index),
                    attachment,
                    wire,
                    deaf: false,
                };
                air.join(&self.orders.groups, Instant::now());
                self.air = Some(air);
                self.in_trouble = false;
                self.speaker.set_link(Some(mac), Instant::now());
                self.report(Report::OnAir(Some(mac)));
            }
            Err(error) => {
                if !std::mem::replace(&mut self.in_trouble, true) {
                    self.report(Report::Trouble(with_causes(&error)));
                }
            }
        }
    }

    fn detach(&mut self) {
        if self.air.take().is_some() {
            self.speaker.set_link(None, Instant::now());
            self.report(Report::OnAir(None));
        }
    }

    fn hear(&mut self) {
        let Some(air) = &self.air else {
            return;
        };
        let speaker = &mut self.speaker;
        let now = Instant::now();
        speaker.tick(now);
        air.wire.receive(FRAMES_AT_ONCE, |frame| {
            if speaker.frame_received(frame, now) {
                let metrics = protocol(&self.metrics, frame);
                metrics.questions.get_or_create(&self.labels).inc();
            }
        });
    }

    fn speak(&mut self) {
        self.speaker.tick(Instant::now());
        while let Some(transmit) = self.speaker.poll_transmit(Instant::now()) {
            self.send(&transmit);
        }
        while let Some(notice) = self.speaker.poll_notice() {
            self.report(Report::Notice(notice));
        }
    }

    fn send(&self, transmit: &Transmit) {
        let Some(air) = &self.air else {
            return;
        };
        // The last question before the frame is the kernel's.
        if !self.speaker.permits(transmit.address, Instant::now()) {
            return;
        }
        match air.wire.send(&transmit.frame) {
            Ok(()) => {
                let metrics = protocol(&self.metrics, &transmit.frame);
                let counter = match transmit.kind {
                    TransmitKind::Answer => &metrics.answers,
                    TransmitKind::Announcement | TransmitKind::Prime => &metrics.unsolicited,
                };
                counter.get_or_create(&self.labels).inc();
            }
            Err(error) => {
                self.metrics.send_errors.get_or_create(&self.labels).inc();
                tracing::debug!(segment = %self.segment, %error, "frame not sent");
            }
        }
    }

    /// Waits for a frame, an order, or the speaker's deadline.
    fn wait(&mut self) {
        let now = Instant::now();
        let mut deadline = self.speaker.next_deadline(now);
        if self.air.is_none() && self.orders.attachment.is_some() {
            deadline = deadline.min(self.next_try);
        }
        if let Some(rejoin) = self.air.as_ref().and_then(|air| air.groups.next_try()) {
            deadline = deadline.min(rejoin);
        }
        let mut descriptors = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        if let Some(air) = &self.air {
            let wire = air.wire.descriptors();
            descriptors.extend(wire.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        }
        let timeout = TimeSpec::from_duration(deadline.saturating_duration_since(now));
        // A signal ends the wait early, and that is all that can go wrong here.
        let _ = ppoll(&mut descriptors, Some(timeout), None);
        let late = deadline.elapsed();
        if late >= STALL {
            self.metrics.stalls.observe(late.as_secs_f64());
        }
        let mut drain = [0; 64];
        while matches!((&self.woken).read(&mut drain), Ok(length) if length > 0) {}
    }

    fn report(&self, report: Report) {
        if let Err(error) = self.reports.try_send((self.segment.clone(), report)) {
            tracing::warn!(segment = %self.segment, %error, "report dropped");
        }
    }
}

const fn protocol<'a>(metrics: &'a Metrics, frame: &[u8]) -> &'a super::metrics::ProtocolMetrics {
    // The EtherType tells 0806 from 86dd by its first byte.
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, ..] => &metrics.ndp,
        _ => &metrics.arp,
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
