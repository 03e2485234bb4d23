//! What comes next for a Service, and what became of it.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::engine::ip_allocation::Assignment;

/// What comes next for a Service that is to have an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<S> {
    /// This is to be done.
    Take(S),
    /// The cloud needs time.
    Wait(String),
    /// It has this address, of this block, and it works.
    Provide {
        /// The block's id.
        block: String,
        /// The address.
        address: Ipv4Addr,
    },
    /// It has this address, of this block, which does not bear our tags any more.
    ProvideUntagged {
        /// The block's id.
        block: String,
        /// The address.
        address: Ipv4Addr,
    },
    /// This address of its user's is none of our business.
    LeaveAlone(Ipv4Addr),
    /// The block of this address is not there. Another listing is to say so before that is believed.
    LookAgain(Ipv4Addr),
    /// It cannot be given what it asks for as things are.
    Refuse(String),
}

impl<S> Next<S> {
    /// What follows from a Service's share. `lead`: what comes next for an address of one of the blocks, by its
    /// id; `buy`: where none has an address for it.
    pub fn of(
        share: Option<&Assignment>,
        lead: impl FnOnce(&str, Ipv4Addr) -> Option<Self>,
        buy: impl FnOnce() -> Self,
    ) -> Self {
        match share {
            Some(Assignment::Address { block, address }) => {
                lead(block, *address).unwrap_or(Self::LookAgain(*address))
            }
            Some(Assignment::Untagged { block, address }) => Self::ProvideUntagged {
                block: block.clone(),
                address: *address,
            },
            Some(Assignment::Missing(address)) => Self::LookAgain(*address),
            Some(Assignment::Foreign(address)) => Self::LeaveAlone(*address),
            Some(Assignment::Refused(why)) => Self::Refuse(why.clone()),
            Some(Assignment::Nothing) => buy(),
            None => {
                Self::Refuse("it is not among the Services that are to have an address".to_owned())
            }
        }
    }
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The cloud has taken it.
    Done,
    /// Not now; nothing was changed.
    Later(Duration, String),
    /// Something else is to be looked at before.
    LookAgain,
}
