//! How long things take, and what the vendor leaves open.

use std::time::Duration;

use http::StatusCode;

/// How long something is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So long, by the clock that [`advance`](super::Phoenixnap::advance) moves.
    Takes(Duration),
    /// Until so many answers have shown it under way.
    Looks(u32),
    /// Until [`finish`](super::Phoenixnap::finish).
    Held,
}

impl Pace {
    /// It is done when it is asked for.
    pub const AT_ONCE: Self = Self::Takes(Duration::ZERO);
}

/// In which letters something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `public network`, `error assigning`: as the vendor's specification has it.
    Words,
    /// `PUBLIC_NETWORK`, `ERROR_ASSIGNING`: as some of its answers have it.
    Constants,
}

/// How the API behaves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// For how long a new block is `creating`.
    pub creating: Pace,
    /// For how long a block is `assigning`.
    pub assigning: Pace,
    /// For how long a block is `unassigning`.
    pub unassigning: Pace,
    /// For how long a server joins a public network, or leaves it.
    pub membership: Pace,
    /// For how long a peer group is `PENDING`, or goes.
    pub peering: Pace,
    /// Whether a public network is `BUSY` and refuses all changes while a block or a member of it is
    /// under way.
    pub busy_networks: bool,
    /// So many of the next assignments end as `error assigning`.
    pub failing_assignments: u32,
    /// So many of the next ones end as `error unassigning`.
    pub failing_unassignments: u32,
    /// Whether several tags in a query find what has any of them, instead of what has all.
    pub tags_widen: bool,
    /// How `assignedResourceType` is spelled.
    pub resource_type: Spelling,
    /// How the status of a block is spelled.
    pub status: Spelling,
    /// What is answered about something that is not there.
    pub missing: StatusCode,
    /// How one block too many on a public network is refused.
    pub full_network: StatusCode,
    /// How many IPv4 blocks a public network takes.
    pub blocks_per_network: usize,
    /// How many blocks can be bought; then 406.
    pub stock: u32,
    /// How many blocks the account may have; then 403. Shown as the quota `Public IPs`.
    pub quota: usize,
    /// Whether bare texts are JSON.
    pub json_texts: bool,
    /// How long a new block is in no listing. Asked for by its identifier, it is there.
    pub listed_after: Duration,
    /// For how long a token is valid.
    pub token_lifetime: Duration,
}

impl Default for Behaviour {
    /// All is done at once, by the letter of the vendor's specification.
    fn default() -> Self {
        Self {
            creating: Pace::AT_ONCE,
            assigning: Pace::AT_ONCE,
            unassigning: Pace::AT_ONCE,
            membership: Pace::AT_ONCE,
            peering: Pace::AT_ONCE,
            busy_networks: true,
            failing_assignments: 0,
            failing_unassignments: 0,
            tags_widen: false,
            resource_type: Spelling::Words,
            status: Spelling::Words,
            missing: StatusCode::FORBIDDEN,
            full_network: StatusCode::CONFLICT,
            blocks_per_network: 10,
            stock: u32::MAX,
            quota: usize::MAX,
            json_texts: true,
            listed_after: Duration::ZERO,
            token_lifetime: Duration::from_secs(300),
        }
    }
}

impl Behaviour {
    /// All that is asynchronous takes so long.
    #[must_use]
    pub fn paced(pace: Pace) -> Self {
        Self {
            creating: pace,
            assigning: pace,
            unassigning: pace,
            membership: pace,
            peering: pace,
            ..Self::default()
        }
    }
}

impl Spelling {
    /// A text in words, spelled so.
    pub(super) fn of(self, words: &str) -> String {
        match self {
            Self::Words => words.to_owned(),
            Self::Constants => words.to_uppercase().replace(' ', "_"),
        }
    }
}
