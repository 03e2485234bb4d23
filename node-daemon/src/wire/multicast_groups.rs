//! Membership in the multicast groups on which questions for IPv6 addresses arrive.
//!
//! A packet socket hears a group, but does not say so on the segment, and a switch that listens to
//! who wants what (MLD snooping) keeps the questions away. So the groups are joined by ordinary
//! sockets, and the kernel reports them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

/// How many groups one socket takes, at most: the kernel bounds a socket's memory for options, in
/// older versions at about 365 groups.
const GROUPS_PER_SOCKET: usize = 256;

/// How soon to try again to join what could not be joined.
const RETRY: Duration = Duration::from_secs(1);

/// The groups that were joined on one interface. They are left when this is dropped.
#[derive(Debug)]
pub struct MulticastGroups {
    index: u32,
    sockets: Vec<Socket>,
    joined: BTreeMap<Ipv6Addr, usize>,
    next_try: Option<Instant>,
}

impl MulticastGroups {
    /// No groups yet, on the interface of this index.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self {
            index,
            sockets: Vec::new(),
            joined: BTreeMap::new(),
            next_try: None,
        }
    }

    /// Joins and leaves groups until they are exactly these. Several addresses may have the same
    /// group; it is left with the last of them, since `wanted` is made of all that there are.
    ///
    /// # Errors
    /// The first failure to join. All others are tried nevertheless, and again with the next call,
    /// for which it is time at [`Self::next_try`].
    pub fn set(&mut self, wanted: &BTreeSet<Ipv6Addr>, now: Instant) -> io::Result<()> {
        let index = self.index;
        let sockets = &self.sockets;
        self.joined.retain(|group, socket| {
            let keep = wanted.contains(group);
            if !keep && let Some(socket) = sockets.get(*socket) {
                // It fails only if the interface is gone, and the membership with it.
                let _ = socket.leave_multicast_v6(group, index);
            }
            keep
        });
        let mut result = Ok(());
        for group in wanted {
            if !self.joined.contains_key(group)
                && let Err(error) = self.join(*group)
            {
                result = result.and(Err(error));
            }
        }
        self.next_try = result.is_err().then(|| now + RETRY);
        result
    }

    /// When to call [`Self::set`] again, if a group could not be joined.
    #[must_use]
    pub const fn next_try(&self) -> Option<Instant> {
        self.next_try
    }

    fn join(&mut self, group: Ipv6Addr) -> io::Result<()> {
        let mut counts = vec![0; self.sockets.len()];
        for socket in self.joined.values() {
            if let Some(count) = counts.get_mut(*socket) {
                *count += 1;
            }
        }
        let free = counts.iter().position(|count| *count < GROUPS_PER_SOCKET);
        let position = match free {
            Some(position) => position,
            None => {
                let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
                self.sockets.push(socket);
                self.sockets.len() - 1
            }
        };
        if let Some(socket) = self.sockets.get(position) {
            socket.join_multicast_v6(&group, self.index)?;
            self.joined.insert(group, position);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has this index.
    const NOWHERE: u32 = 0x7fff_fff0;

    #[test]
    fn retries_failed_join_until_unwanted() {
        let mut groups = MulticastGroups::new(NOWHERE);
        assert_eq!(groups.next_try(), None);
        let mut now = Instant::now();
        let wanted = BTreeSet::from(["ff02::1:ff00:10".parse().unwrap()]);
        for _ in 0..3 {
            assert!(groups.set(&wanted, now).is_err());
            assert_eq!(groups.next_try(), Some(now + RETRY));
            now += RETRY;
        }
        assert!(groups.sockets.len() <= 1, "failures use nothing up");
        groups.set(&BTreeSet::new(), now).unwrap();
        assert_eq!(groups.next_try(), None);
    }
}
