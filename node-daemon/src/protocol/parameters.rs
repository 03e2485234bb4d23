//! How fast the protocol is, and which of its rules are in force.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message::Heartbeat;

/// The times of the protocol. All members of a segment have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// How long a voter keeps a promise, from receiving the heartbeat that it echoes.
    pub promise: Duration,
    /// How long an echoed heartbeat gives the right to speak, from sending it. Shorter than the
    /// promise by what two clocks may drift apart meanwhile.
    pub mandate: Duration,
    /// From when on a silent member is suspected.
    pub suspicion: Duration,
    /// How many echoes one heartbeat bears at most. A voter that hears more members says it in
    /// several.
    #[serde(default = "most_echoes")]
    pub echoes: usize,
    /// Whether survivors of a lost majority go on once the API server shows them to be alone.
    pub survive_via_api: bool,
    /// The rules in force.
    pub rules: Rules,
}

const fn most_echoes() -> usize {
    Heartbeat::MOST_ECHOES
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            promise: Duration::from_millis(400),
            mandate: Duration::from_millis(395),
            suspicion: Duration::from_millis(250),
            echoes: most_echoes(),
            survive_via_api: true,
            rules: Rules::default(),
        }
    }
}

/// The rules that keep two members from speaking for one key, each by itself. All are in force;
/// the simulator switches them off one by one, to show that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule by itself")]
pub struct Rules {
    /// A: a voter echoes only sets that it holds and of which nothing is promised to another.
    pub echo_names_the_set: bool,
    /// B: a voter that has just started waits until what it may have promised has run out.
    pub fresh_voter_waits: bool,
    /// C: an echo names 32 bits of the sequence number, and is gone when the promise is.
    pub echo_is_exact: bool,
    /// D: a right that ran out stays so for the epoch.
    pub lapse_is_latched: bool,
    /// E: a voter serves the newest generation that it knows, and the next one is written only
    /// once majorities of the last two serve the newest, and approve it.
    pub one_generation_at_a_time: bool,
    /// F: of two voters, the other waits until the primary's last reading has run out.
    pub second_voter_waits: bool,
    /// F: a primary of two is named only once both serve the set of the two, and is named no more
    /// before anybody else votes.
    pub primary_by_itself: bool,
    /// G: survivors go on only if none of the silent voters is heard on the segment.
    pub survivors_listen_first: bool,
    /// H: a restarted voter accepts only heartbeats that name its new incarnation.
    pub heartbeat_names_the_voter: bool,
    /// I: a holder that no voter hears on the segment lets go.
    pub heard_on_the_segment: bool,
    /// J: after a lapse voters prefer the last holder for a while, and tell it its epoch.
    pub last_holder_is_preferred: bool,
    /// What is let go stays let go until it is granted again.
    pub release_is_sticky: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            echo_names_the_set: true,
            fresh_voter_waits: true,
            echo_is_exact: true,
            lapse_is_latched: true,
            one_generation_at_a_time: true,
            second_voter_waits: true,
            primary_by_itself: true,
            survivors_listen_first: true,
            heartbeat_names_the_voter: true,
            heard_on_the_segment: true,
            last_holder_is_preferred: true,
            release_is_sticky: true,
        }
    }
}
