//! Why there is no address, in words for the user.

use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;

use super::{Reserved, Unshareable};

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
    NoSuchNetwork {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// The same of a pool of an L2Network.
    #[error(
        "there is no pool {name:?} in an L2Network that is ready{}; correct the annotation \
         {annotation}, or leave it out",
        those(known)
    )]
    NoSuchPool {
        /// The annotation that asks for it.
        annotation: &'static str,
        /// The name asked for.
        name: String,
        /// The pools there are.
        known: Vec<String>,
    },
    /// The pools that could serve it are for those that ask for them.
    #[error(
        "the addresses of {} are given on request alone; ask for one of the pools in the annotation \
         mooring.dev/address-pool, or for an address", pools.join(", ")
    )]
    OnRequest {
        /// The pools.
        pools: Vec<String>,
    },
    /// The pools that could serve it are for Services with other labels.
    #[error(
        "allowedServices of {} does not select this Service by its labels; label it, ask for another \
         pool in the annotation mooring.dev/address-pool, or have the pool select it", pools.join(", ")
    )]
    NotSelected {
        /// The pools.
        pools: Vec<String>,
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
    /// An address asked for can be no Service's.
    #[error(
        "the requested address {address} is {why}, which no Service can have; ask for another one"
    )]
    Reserved {
        /// The address.
        address: IpAddr,
        /// Whose it is.
        why: Reserved,
    },
    /// The namespace may have no address of these pools.
    #[error(
        "allowedNamespaces of L2Network {} does not select the namespace {namespace}; ask for \
         another network in the annotation mooring.dev/l2-network, or have whoever manages the \
         L2Network select the namespace by its labels", pools.join(", ")
    )]
    NotAllowed {
        /// The namespace.
        namespace: String,
        /// The pools that could have served it.
        pools: Vec<String>,
    },
    /// The same cannot be known.
    #[error(
        "allowedNamespaces of L2Network {} selects namespaces by their labels, and central \
         cannot list Namespaces; give it get, list and watch on them, as the \
         chart's ClusterRole of central does", pools.join(", ")
    )]
    NamespacesNotListed {
        /// The pools that could have served it.
        pools: Vec<String>,
    },
    /// The namespace is so new that its labels are not known.
    #[error("the labels of the namespace {namespace} are not known yet")]
    NamespaceAbsent {
        /// The namespace.
        namespace: String,
    },
    /// The namespace has all that it may have.
    #[error(
        "the namespace {namespace} has as many addresses of L2Network {network} as its \
         spec.maxAddressesPerNamespace permits ({max}); delete a Service there that needs none, or \
         have it raised"
    )]
    NamespaceFull {
        /// The namespace.
        namespace: String,
        /// The L2Network.
        network: String,
        /// How many it may have.
        max: u32,
    },
    /// An address asked for is another Service's.
    #[error(
        "the requested address {address} is held by Service {by}; ask for another one, or let the two \
         share it by the same value of the annotation mooring.dev/allow-shared-ip on both"
    )]
    Taken {
        /// The address.
        address: IpAddr,
        /// Who has it.
        by: ObjectKey,
    },
    /// An address asked for is another Service's, and cannot be shared with it.
    #[error(
        "the requested address {address} cannot be shared with {}; change that, or ask for another \
         address",
        each(unshareable)
    )]
    NotShared {
        /// The address.
        address: IpAddr,
        /// With whom, and why not.
        unshareable: Vec<Unshareable>,
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
    /// A word for metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NoPools => "no_l2_network",
            Self::NoSuchNetwork { .. } | Self::NoSuchPool { .. } => "no_such_pool",
            Self::OnRequest { .. } | Self::NotSelected { .. } => "not_selected",
            Self::Outside { .. } | Self::Reserved { .. } | Self::Apart { .. } => "invalid_address",
            Self::NotAllowed { .. } => "namespace_not_allowed",
            Self::NamespacesNotListed { .. } => "namespaces_not_listed",
            Self::NamespaceAbsent { .. } => "pending",
            Self::NamespaceFull { .. } => "namespace_full",
            Self::Taken { .. } | Self::NotShared { .. } => "address_taken",
            Self::Exhausted { .. } => "no_free_address",
        }
    }

    /// Whether it will be over in a moment, without anybody's doing, and need not be told.
    #[must_use]
    pub const fn is_momentary(&self) -> bool {
        matches!(self, Self::NamespaceAbsent { .. })
    }

    /// Whether another Service's deletion can change it.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Taken { .. }
                | Self::NotShared { .. }
                | Self::Exhausted { .. }
                | Self::NamespaceFull { .. }
        )
    }
}

fn those(known: &[String]) -> String {
    if known.is_empty() {
        return String::new();
    }
    format!(", but {}", known.join(", "))
}

fn each(all: &[Unshareable]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join("; nor with ")
}

fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
