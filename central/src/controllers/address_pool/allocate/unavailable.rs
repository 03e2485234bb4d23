//! Why there is no address, in words for the user.

use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;

/// Why a Service gets no address, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// There is nothing to allocate from.
    #[error(
        "this cluster has no L2Network that is ready, so there are no addresses; create one \
         (kubectl explain l2networks.spec), or look at kubectl get l2networks -o wide"
    )]
    NoPools,
    /// The pool asked for is not there, or not ready.
    #[error(
        "there is no L2Network {name:?} that is ready; choose one of {} in the annotation \
         mooring.dev/l2-network, or leave it out", known.join(", ")
    )]
    NoSuchPool {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// An address asked for is in no pool.
    #[error(
        "the requested address {address} is in no range of an L2Network that is ready; ask for \
         another, or add it to the ranges"
    )]
    Outside {
        /// The address.
        address: IpAddr,
    },
    /// An address asked for is another Service's.
    #[error("the requested address {address} is held by Service {by}; ask for another one")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Who has it.
        by: ObjectKey,
    },
    /// The addresses asked for are of different pools.
    #[error(
        "the requested addresses {} are not of one L2Network, and a Service is on one; ask for \
         addresses of the same",
        list(addresses)
    )]
    Apart {
        /// The addresses.
        addresses: Vec<IpAddr>,
    },
    /// All addresses are held.
    #[error(
        "no free {family} address is left in {}; add a range to an L2Network, or delete a \
         Service that needs none", pools.join(", ")
    )]
    Exhausted {
        /// The family that is lacking.
        family: &'static str,
        /// Where was looked.
        pools: Vec<String>,
    },
}

impl Unavailable {
    /// Whether another Service's deletion can change it.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Taken { .. } | Self::Exhausted { .. })
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
