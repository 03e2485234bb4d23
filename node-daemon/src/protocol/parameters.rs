//! How fast the protocol is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::message::Heartbeat;
use super::rules::Rules;

/// The times of the protocol. All members of a segment have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// How long a voter keeps a promise, from receiving the heartbeat that it echoes.
    pub promise: Duration,
    /// How long an echoed heartbeat gives the right to speak, from sending it. Shorter than the
    /// promise by what two clocks may drift apart meanwhile.
    #[serde(rename = "mandate")]
    pub speaking_lease: Duration,
    /// From when on a silent member is suspected.
    pub suspicion: Duration,
    /// How many echoes one heartbeat bears at most. A voter that hears more members says it in
    /// several.
    #[serde(default = "most_echoes")]
    pub echoes: usize,
    /// Whether survivors of a lost majority go on once the API server shows them to be alone.
    pub survive_via_api: bool,
    /// Whether an address that nobody is known to have spoken for is asked for before it is claimed.
    #[serde(default = "asks_first")]
    pub probe_addresses: bool,
    /// Whether connections stay with a former speaker that lives.
    #[serde(default)]
    pub keep_connections: bool,
    /// The rules in force.
    #[cfg(feature = "simulator")]
    #[serde(default)]
    pub rules: Rules,
}

const fn most_echoes() -> usize {
    Heartbeat::MOST_ECHOES
}

const fn asks_first() -> bool {
    true
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            promise: Duration::from_millis(400),
            speaking_lease: Duration::from_millis(395),
            suspicion: Duration::from_millis(250),
            echoes: most_echoes(),
            survive_via_api: true,
            probe_addresses: true,
            keep_connections: false,
            #[cfg(feature = "simulator")]
            rules: Rules::default(),
        }
    }
}

impl Parameters {
    /// The rules in force.
    pub(super) const fn rules(&self) -> Rules {
        #[cfg(feature = "simulator")]
        {
            self.rules
        }
        #[cfg(not(feature = "simulator"))]
        {
            Rules
        }
    }
}
