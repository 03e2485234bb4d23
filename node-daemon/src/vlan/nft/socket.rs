//! Netlink sockets to the kernel's netfilter.

use std::io;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer,
};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt::SndBufForce};
use tokio::time::timeout;

use super::messages::{self, Question, Transaction};

/// How long to wait for the kernel's answer: a busy machine may take its time to commit.
const KERNEL_TIMEOUT: Duration = Duration::from_secs(2);
/// `NFNLGRP_NFTABLES`
const GROUP: u32 = 7;
const SEQUENCE: u32 = 1;
const HEADER: usize = 16;

/// Why nftables could not be asked or told.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The socket.
    #[error("no netlink socket to nftables")]
    Socket(#[from] io::Error),
    /// The kernel refused.
    #[error("nftables refused: {0}")]
    Refused(Errno),
    /// An answer that cannot be read.
    #[error("an answer of nftables cannot be read")]
    Garbled,
    /// No answer.
    #[error("nftables did not answer within {KERNEL_TIMEOUT:?}")]
    Silent,
}

impl NftError {
    /// Whether the kernel has no nftables.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        let errno = match self {
            Self::Socket(error) => error.raw_os_error().map(Errno::from_raw),
            Self::Refused(errno) => Some(*errno),
            Self::Garbled | Self::Silent => None,
        };
        // No netfilter at all; no subsystem nftables in it.
        matches!(
            errno,
            Some(Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT | Errno::EOPNOTSUPP | Errno::EINVAL)
        )
    }
}

/// One part of an answer.
enum Part<'a> {
    Data(&'a [u8]),
    Done,
    Acknowledged(u32),
    Refused(Errno),
}

pub(super) struct Socket {
    socket: TokioSocket,
}

impl Socket {
    pub(super) fn open() -> Result<Self, NftError> {
        let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
        socket.socket_mut().bind_auto()?;
        Ok(Self { socket })
    }

    /// Asks for rules, and reads those of our table.
    pub(super) async fn dump(&mut self, question: Question) -> Result<Vec<String>, NftError> {
        let mut found = Vec::new();
        self.list(question, |payload| {
            found.extend(messages::read_rule(payload));
        })
        .await?;
        Ok(found)
    }

    /// Asks for a list, and hands on each message of the answer.
    pub(super) async fn list(
        &mut self,
        question: Question,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), NftError> {
        self.ask(question, NLM_F_DUMP).await?;
        self.answers(|part| match part {
            Part::Data(payload) => {
                take(payload);
                Ok(false)
            }
            Part::Done | Part::Acknowledged(_) => Ok(true),
            Part::Refused(errno) => Err(NftError::Refused(errno)),
        })
        .await
    }

    /// Asks for one thing: whether there is such a one.
    pub(super) async fn exists(&mut self, question: Question) -> Result<bool, NftError> {
        self.ask(question, NLM_F_ACK).await?;
        let mut there = true;
        self.answers(|part| match part {
            Part::Data(_) => Ok(false),
            Part::Done | Part::Acknowledged(_) => Ok(true),
            Part::Refused(Errno::ENOENT) => {
                there = false;
                Ok(true)
            }
            Part::Refused(errno) => Err(NftError::Refused(errno)),
        })
        .await?;
        Ok(there)
    }

    async fn ask(&mut self, question: Question, how: u16) -> Result<(), NftError> {
        let Question {
            kind,
            flags,
            payload,
        } = question;
        let flags = (flags & !(NLM_F_ACK | NLM_F_DUMP)) | NLM_F_REQUEST | how;
        let length = u32::try_from(HEADER + payload.len()).map_err(|_| NftError::Garbled)?;
        let mut bytes = Vec::new();
        bytes.extend(length.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(SEQUENCE.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        self.send(&bytes).await
    }

    /// Does a transaction: all of it or nothing.
    pub(super) async fn transact(
        &mut self,
        transaction: impl FnOnce(u32) -> Transaction,
    ) -> Result<(), NftError> {
        let Transaction { bytes, last } = transaction(SEQUENCE);
        // It goes as one message, and with some 400 rules it is larger than a socket takes. Where the
        // kernel does not give more room, sending says what is wrong.
        let room = setsockopt(self.socket.socket_ref(), SndBufForce, &bytes.len());
        if let Err(error) = room {
            tracing::debug!(%error, "no room can be made for a transaction of nftables");
        }
        self.send(&bytes).await?;
        self.answers(|part| match part {
            Part::Acknowledged(sequence) => Ok(sequence == last),
            Part::Refused(errno) => Err(NftError::Refused(errno)),
            Part::Data(_) | Part::Done => Ok(false),
        })
        .await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), NftError> {
        let kernel = SocketAddr::new(0, 0);
        let sent = timeout(KERNEL_TIMEOUT, self.socket.send_to(bytes, &kernel));
        sent.await.map_err(|_| NftError::Silent)??;
        Ok(())
    }

    /// Reads parts of an answer until one is said to be the last.
    async fn answers(
        &mut self,
        mut is_last: impl FnMut(Part<'_>) -> Result<bool, NftError>,
    ) -> Result<(), NftError> {
        loop {
            let received = timeout(KERNEL_TIMEOUT, self.socket.recv_from_full());
            let (bytes, _) = received.await.map_err(|_| NftError::Silent)??;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (part, length) = part(rest)?;
                if is_last(part)? {
                    return Ok(());
                }
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
}

fn part(bytes: &[u8]) -> Result<(Part<'_>, usize), NftError> {
    let buffer = NetlinkBuffer::new_checked(bytes).map_err(|_| NftError::Garbled)?;
    let length = usize::try_from(buffer.length()).map_err(|_| NftError::Garbled)?;
    let payload = bytes.get(HEADER..length).ok_or(NftError::Garbled)?;
    let code = || {
        let code = payload.first_chunk().ok_or(NftError::Garbled)?;
        Ok::<_, NftError>(i32::from_ne_bytes(*code))
    };
    let part = match buffer.message_type() {
        NLMSG_DONE => match code()? {
            0 => Part::Done,
            code => Part::Refused(Errno::from_raw(code.saturating_neg())),
        },
        NLMSG_ERROR => match code()? {
            0 => Part::Acknowledged(buffer.sequence_number()),
            code => Part::Refused(Errno::from_raw(code.saturating_neg())),
        },
        _ => Part::Data(payload),
    };
    Ok((part, length.next_multiple_of(4)))
}

/// Tells of changes of our table.
pub struct Watch {
    socket: Option<TokioSocket>,
}

impl Watch {
    /// Begins to listen. Where the kernel has no nftables it tells of nothing.
    #[must_use]
    pub fn open() -> Self {
        let open = || {
            let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
            socket.socket_mut().bind_auto()?;
            socket.socket_mut().add_membership(GROUP)?;
            Ok::<_, io::Error>(socket)
        };
        Self {
            socket: open().ok(),
        }
    }

    /// Waits for a change of our table, or for the loss of messages.
    pub async fn changed(&mut self) {
        let Some(socket) = &mut self.socket else {
            return std::future::pending().await;
        };
        loop {
            match socket.recv_from_full().await {
                Ok((bytes, _)) if !names_our_table(&bytes) => {}
                Ok(_) => return,
                // The kernel drops what comes until all that is in the socket is read.
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => {
                    *self = Self::open();
                    return;
                }
                Err(_) => {
                    self.socket = None;
                    return;
                }
            }
        }
    }
}

/// A false alarm costs one look.
fn names_our_table(bytes: &[u8]) -> bool {
    let name = messages::TABLE.to_bytes_with_nul();
    bytes.windows(name.len()).any(|window| window == name)
}
