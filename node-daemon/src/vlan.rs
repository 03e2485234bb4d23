//! VLAN interfaces for the segments that have one, and the way back for what comes in by them.
//!
//! ```text
//!   L2Networks of this Node          netlink (links, addresses, routes, rules)   nftables  /proc/sys
//!            │                                         └────────┬───────────────────┘─────────┘
//!            ▼                                                  ▼
//!       wanted (one for each parent and id)                  observe
//!            └──────────────────────► plan ◄────────────────────┘
//!                                       ▼
//!                                     apply ──► metrics, faults of segments
//! ```
//!
//! # Guarantees
//! * An interface that does not bear the mark of Mooring is used as it is: never changed, never
//!   deleted. Of all else only what bears the marks is touched: routes and rules with the protocol
//!   [`PROTOCOL`], the nftables table [`TABLE`].
//! * What somebody else removes is made again at once. The kernel tells of it; where its messages
//!   are lost, and every 30 s, all is looked at anew.
//! * An interface is deleted only when no L2Network of this Node has needed it for a minute.
//! * When the daemon ends, everything stays: the next one finds and keeps it.
//!
//! # The way back
//! A connection that comes in by a VLAN must be answered by it: by the default route the answer
//! would leave from another network, with a source that is not of that network. It cannot be
//! chosen by the source, which the translation of Services turns back only after the way is
//! chosen. So the connection gets a mark when it comes in, its answers get it from the
//! connection, and a rule sends packets with the mark to a table with the VLAN's router.
//!
//! The packet that comes in gets the mark too, for the filter of sources (`rp_filter` with
//! `src_valid_mark`): an interface without an address lets nothing in, even with the filter set to 2,
//! unless the way back to the source leads by it. A rule for what comes in by the interface keeps it on
//! its own way.

pub mod apply;
pub mod clean_up;
pub mod interest;
pub mod keeper;
pub mod kernel_address;
pub mod marks;
pub mod metrics;
pub mod neighbours;
pub mod nft;
pub mod observe;
pub mod plan;
pub mod reconcile_state;
pub mod step;
pub mod sysctl;
pub mod wanted;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

pub use self::keeper::keep;
pub use self::marks::MarkMask;
pub use self::metrics::Metrics;
pub use crate::wire::netlink::PROTOCOL;

/// `IFLA_IFALIAS` of the interfaces that Mooring has made: only these does it change and delete.
pub const ALIAS: &str = "made by mooring.dev";

/// `IFLA_GROUP` of an interface from the moment it is made until it bears [`ALIAS`], which the kernel
/// takes for one that is there only: ASCII `moor`.
pub const GROUP: u32 = u32::from_be_bytes(*b"moor");

/// What the names of interfaces begin with; the VLAN's id follows. With an id of four digits it
/// leaves room for what makes a name unique, and is none that others give (`bond0.100`, `vlan100`).
pub const NAME_PREFIX: &str = "moor";

/// The nftables table, of the family `inet`.
pub const TABLE: &str = "mooring";

/// Routing tables are this number and those that follow it, one for each subnet.
pub const ROUTE_TABLES: u32 = 5_210_000;

/// The priority of rules: before the main table (32766), after those of the network plugins (up to
/// about 1000, or over 30000 for what is to come last). The one before it is ours, too.
pub const RULE_PRIORITY: u32 = 5210;

/// What the command line says of VLANs.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--return-path-mark-mask`.
    pub mask: MarkMask,
    /// `--host-proc-sys-net`.
    pub proc_sys_net: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mask: MarkMask::default(),
            proc_sys_net: "/proc/sys/net".into(),
        }
    }
}

/// What is said where the kernel permits no change of network interfaces.
pub const FORBIDDEN: &str = "network interfaces may not be changed; give the container the capability \
    NET_ADMIN, as the chart does with nodeDaemon.manageInterfaces";

/// Why segments have no VLAN interface yet: one sentence for each L2Network. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    faults: Arc<ArcSwap<BTreeMap<String, String>>>,
    forbidden: Arc<AtomicBool>,
}

impl Faults {
    /// Whether the kernel permits no change of network interfaces; not as long as that is not known.
    #[must_use]
    pub fn are_changes_forbidden(&self) -> bool {
        self.forbidden.load(Ordering::Relaxed)
    }

    /// Says whether it permits none.
    pub fn set_forbidden(&self, forbidden: bool) {
        self.forbidden.store(forbidden, Ordering::Relaxed);
    }

    /// What hinders a segment's VLAN.
    #[must_use]
    pub fn of(&self, segment: &str) -> Option<String> {
        self.faults.load().get(segment).cloned()
    }

    /// Replaces all of them.
    pub fn set(&self, faults: BTreeMap<String, String>) {
        self.faults.store(Arc::new(faults));
    }
}
