//! A Service that is to have an address: what it has, and what it asks for.

use std::net::Ipv4Addr;

use mooring_common::k8s::ObjectKey;

/// A Service that is to have an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IpRequest {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
    /// In seconds since 1970.
    pub(super) created: i64,
    /// What this process has allocated to it.
    pub(super) given: Option<Ipv4Addr>,
    /// What the record on it says. Whoever may write the Service may have written it: alone it is worth
    /// no more than a wish for an address of our blocks.
    pub(super) recorded: Option<Ipv4Addr>,
    /// What its status says.
    pub(super) published: Option<Ipv4Addr>,
    /// `spec.loadBalancerIP`.
    pub(super) asked: Option<Ipv4Addr>,
    /// The public network that its address was last published for, by our record.
    pub(super) home: Option<String>,
    /// Two complete listings have not had the block of its address.
    pub(super) lost: bool,
    /// Whether it may have an address of a block that bears no mark of this cluster, although only its
    /// annotations say that it is its own.
    pub(super) may_take_over: bool,
}

impl IpRequest {
    /// What it has by our own word.
    pub(super) fn ours(&self) -> Option<Ipv4Addr> {
        self.given.or(self.recorded)
    }

    /// What is provably its own: this process has allocated it, or its status shows it as our record
    /// does. Whoever may write a Service writes its annotations, and not its status.
    pub(super) fn proven(&self) -> Option<Ipv4Addr> {
        let confirmed = self.recorded.filter(|_| self.recorded == self.published);
        self.given.or(confirmed)
    }

    /// What traffic may come to: its status shows it, or is about to.
    pub(super) fn in_use(&self) -> [Option<Ipv4Addr>; 2] {
        [self.given, self.published]
    }

    /// What its user asks for, and we have not written.
    pub(super) fn wish(&self) -> Option<Ipv4Addr> {
        let ours = [self.given, self.recorded];
        self.asked.filter(|asked| !ours.contains(&Some(*asked)))
    }

    /// How well founded its hold on an address is; the lowest is the best.
    pub(super) fn rank(&self) -> u8 {
        match (self.given, self.recorded, self.published) {
            (Some(_), _, _) => 0,
            (None, Some(recorded), Some(published)) if recorded == published => 1,
            (None, None, None) => 3,
            _ => 2,
        }
    }
}
