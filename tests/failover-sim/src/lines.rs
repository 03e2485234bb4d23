//! The operating system of a simulated daemon: its clock, and what is on its sockets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooring_node::protocol::Moment;
use mooring_node::protocol::mac::Mac;
use mooring_node::responder::{NodeNetworkSocket, OnFrame, OnMessage, SegmentSockets, System};
use mooring_node::wire::node_network::NodeNetworkError;
use mooring_node::wire::packet_socket::PacketSocketError;

/// The UDP port of heartbeats.
pub const PORT: u16 = 10_268;

/// What is between a daemon and the simulation.
#[derive(Debug, Default)]
pub struct Lines {
    /// What its clock shows.
    pub now: Moment,
    /// What it has said, to an address on the node network or to all on the segment.
    pub said: VecDeque<(Option<SocketAddr>, Vec<u8>)>,
    /// The frames that it has sent.
    pub sent: VecDeque<Vec<u8>>,
    /// The messages that wait for it: on the segment, and on the node network.
    pub waits: [VecDeque<Arc<[u8]>>; 2],
    /// The frames that do, each with when it came.
    pub frames: VecDeque<(Vec<u8>, Moment)>,
}

/// Where messages on the segment wait.
pub const SEGMENT: usize = 0;
/// Where messages on the node network do.
pub const NODE_NETWORK: usize = 1;

/// Both ends of them.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Lines>>);

impl Shared {
    /// Looks at them.
    pub fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self, kind: usize, most: usize, hear: OnMessage<'_>) {
        for _ in 0..most {
            let Some(bytes) = self.lock().waits[kind].pop_front() else {
                break;
            };
            hear(&bytes);
        }
    }
}

impl System for Shared {
    fn now(&self) -> Moment {
        self.lock().now
    }

    fn open_segment(
        &self,
        _name: &str,
        _index: u32,
    ) -> Result<Box<dyn SegmentSockets>, PacketSocketError> {
        Ok(Box::new(self.clone()))
    }

    fn open_node_network(
        &self,
        _port: u16,
    ) -> Result<Box<dyn NodeNetworkSocket>, NodeNetworkError> {
        Ok(Box::new(self.clone()))
    }
}

impl SegmentSockets for Shared {
    fn drain(&self) {
        let mut lines = self.lock();
        lines.waits[SEGMENT].clear();
        lines.frames.clear();
    }

    fn send_message(&self, _own: Mac, message: &[u8]) -> io::Result<()> {
        self.lock().said.push_back((None, message.to_vec()));
        Ok(())
    }

    fn receive_messages(&self, most: usize, hear: OnMessage<'_>) {
        self.receive(SEGMENT, most, hear);
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.lock().sent.push_back(frame.to_vec());
        Ok(())
    }

    fn receive(&self, most: usize, hear: OnFrame<'_>) {
        for _ in 0..most {
            let Some((frame, came)) = self.lock().frames.pop_front() else {
                break;
            };
            hear(&frame, came);
        }
    }

    fn frames(&self) -> Option<[BorrowedFd<'_>; 2]> {
        None
    }

    fn messages(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl NodeNetworkSocket for Shared {
    fn port(&self) -> io::Result<u16> {
        Ok(PORT)
    }

    fn send(&self, message: &[u8], to: SocketAddr) -> io::Result<()> {
        self.lock().said.push_back((Some(to), message.to_vec()));
        Ok(())
    }

    fn receive(&self, most: usize, hear: OnMessage<'_>) {
        Self::receive(self, NODE_NETWORK, most, hear);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
