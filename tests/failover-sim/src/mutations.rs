//! What the simulator must notice: parameters under which the protocol is wrong.

use std::time::Duration;

use mooring_node::protocol::{Parameters, Rules};

use super::schedule::fail_over;

/// One way in which the protocol is wrong.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// What it is called, for `RULE_OFF=`.
    pub name: &'static str,
    change: fn(&mut Parameters),
}

/// Switches off one of the rules.
macro_rules! rule_off {
    ($name:literal, $rule:ident) => {
        Mutation {
            name: $name,
            change: |parameters| {
                parameters.rules = Rules {
                    $rule: false,
                    ..parameters.rules
                }
            },
        }
    };
}

impl Mutation {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "mandate",
            change: |parameters| {
                parameters.speaking_lease = parameters.promise + Duration::from_millis(100);
            },
        },
        rule_off!("release", release_is_sticky),
        rule_off!("A", echo_names_the_set),
        rule_off!("B", fresh_voter_waits),
        rule_off!("C", echo_is_exact),
        rule_off!("D", lapse_is_latched),
        rule_off!("E", one_generation_at_a_time),
        rule_off!("F", second_voter_waits),
        rule_off!("primary", primary_by_itself),
        rule_off!("G", survivors_listen_first),
        rule_off!("H", heartbeat_names_the_voter),
        rule_off!("I", heard_on_the_segment),
        rule_off!("J", last_holder_is_preferred),
    ];

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|mutation| mutation.name == name)
    }

    /// Makes the protocol wrong.
    pub fn apply(&self, parameters: &mut Parameters) {
        (self.change)(parameters);
    }

    /// Parameters that are wrong in this way alone.
    #[must_use]
    pub fn parameters(&self) -> Parameters {
        let mut parameters = fail_over();
        self.apply(&mut parameters);
        parameters
    }
}
