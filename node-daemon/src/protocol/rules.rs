//! The rules that keep two members from speaking for one key, each by itself.
//!
//! All are in force. Only the simulator can switch one off, to show that it would notice: the switches
//! are compiled with the feature `simulator` alone.

#[cfg(feature = "simulator")]
use serde::{Deserialize, Serialize};

macro_rules! rules {
    ($($(#[$meta:meta])* $rule:ident,)*) => {
        /// The rules in force: all but those that the simulator has switched off.
        #[cfg(feature = "simulator")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Rules {
            $($(#[$meta])* pub $rule: bool,)*
        }

        #[cfg(feature = "simulator")]
        impl Default for Rules {
            fn default() -> Self {
                Self { $($rule: true,)* }
            }
        }

        /// The rules in force: all of them.
        #[cfg(not(feature = "simulator"))]
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Rules;

        impl Rules {
            $(
                $(#[$meta])*
                pub(super) const fn $rule(self) -> bool {
                    #[cfg(feature = "simulator")]
                    {
                        self.$rule
                    }
                    #[cfg(not(feature = "simulator"))]
                    {
                        true
                    }
                }
            )*
        }
    };
}

rules! {
    /// A: a voter echoes only sets that it holds and of which nothing is promised to another.
    echo_names_the_set,
    /// B: a voter that has just started waits until what it may have promised has run out.
    fresh_voter_waits,
    /// C: an echo names 32 bits of the sequence number, and is gone when the promise is.
    echo_is_exact,
    /// D: a right that ran out stays so for the epoch.
    lapse_is_latched,
    /// E: a voter serves the newest generation that it knows, and the next one is written only
    /// once majorities of the last two serve the newest, and approve it.
    one_generation_at_a_time,
    /// F: of two voters, the other waits until the primary's last reading has run out.
    second_voter_waits,
    /// F: a primary of two is named only once both serve the set of the two, and is named no more
    /// before anybody else votes.
    primary_by_itself,
    /// G: survivors go on only if none of the silent voters is heard on the segment.
    survivors_listen_first,
    /// H: a restarted voter accepts only heartbeats that name its new incarnation.
    heartbeat_names_the_voter,
    /// I: a holder that no voter hears on the segment lets go.
    heard_on_the_segment,
    /// J: after a lapse voters prefer the last holder for a while, and tell it its epoch.
    last_holder_is_preferred,
    /// What is let go stays let go until it is granted again. (Only a switched-off rule could bring it back.)
    #[cfg(feature = "simulator")]
    release_is_sticky,
}
