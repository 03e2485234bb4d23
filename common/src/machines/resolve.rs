//! Finds the machine behind a Node, and says what is known of it. Pure: same input, same answer.

mod facts;
mod verdict;

use std::collections::BTreeSet;

use super::identity::Identity;
use super::schema::{Machines, NodeEntry, UnknownNode};
use crate::names::reasons;
use crate::node_facts::{NodeFacts, Presence};
use crate::provider_id::ProviderId;
use verdict::{Verdict, verdict};

/// What the machines file says of a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// One entry describes its machine.
    Found {
        /// What is known of the machine.
        facts: NodeFacts,
        /// Whether it exists and runs.
        presence: Presence,
        /// The entry's position in [`Machines::nodes`].
        entry: usize,
    },
    /// No entry describes its machine, and the policy is to go by what the Node says of itself.
    Derived {
        /// What follows from the Node.
        facts: NodeFacts,
    },
    /// More than one entry describes its machine, so that none is chosen.
    Ambiguous {
        /// What the entries are called.
        which: Vec<String>,
    },
    /// No entry can be chosen before more is known of its machine.
    Undecided {
        /// What the entries in question are called.
        which: Vec<String>,
        /// The keys of `match` that cannot be compared yet.
        needs: Vec<&'static str>,
    },
    /// No entry describes its machine, and the policy is to say nothing of it.
    Unknown,
    /// No entry describes its machine, and the policy is that it then does not exist.
    Missing,
    /// Its provider ID belongs to another provider, or is none that this one could have written.
    Foreign {
        /// The provider ID.
        provider_id: String,
    },
    /// The file and the Node contradict each other.
    Conflict {
        /// What the entry is called.
        entry: String,
        /// In what they differ: a key of `match`, or `id`.
        key: &'static str,
        /// What the Node has.
        node: String,
        /// What the file says.
        file: String,
    },
}

impl Resolution {
    /// What is known of the machine. `None`: nothing that may be acted on.
    #[must_use]
    pub const fn facts(&self) -> Option<&NodeFacts> {
        match self {
            Self::Found { facts, .. } | Self::Derived { facts } => Some(facts),
            _ => None,
        }
    }

    /// What is known of the machine, to keep.
    ///
    /// # Errors
    /// The resolution itself, if nothing is known that may be acted on.
    pub fn into_facts(self) -> Result<NodeFacts, Box<Self>> {
        match self {
            Self::Found { facts, .. } | Self::Derived { facts } => Ok(facts),
            other => Err(Box::new(other)),
        }
    }

    /// Whether the machine exists and runs. Only an entry that says so, or the policy `missing`,
    /// ever makes it [`Presence::Gone`].
    #[must_use]
    pub const fn presence(&self) -> Presence {
        match self {
            Self::Found { presence, .. } => *presence,
            Self::Missing => Presence::Gone,
            _ => Presence::Unsure,
        }
    }

    /// The reason of the Event that tells why the Node is left as it is. `None` where the machine is
    /// known.
    #[must_use]
    pub const fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Found { .. } | Self::Derived { .. } => return None,
            Self::Ambiguous { .. } => reasons::AMBIGUOUS_INSTANCE,
            Self::Foreign { .. } | Self::Conflict { .. } => reasons::UNKNOWN_PROVIDER_ID,
            Self::Undecided { .. } | Self::Unknown | Self::Missing => {
                reasons::INITIALIZATION_REFUSED
            }
        })
    }

    /// Why the Node is left as it is, and what to do about it: whole sentences for an Event. `None`
    /// where the machine is known.
    #[must_use]
    pub fn explanation(&self) -> Option<String> {
        Some(match self {
            Self::Found { .. } | Self::Derived { .. } => return None,
            Self::Ambiguous { which } => format!(
                "More than one entry of the machines file matches this Node: {}. Give each of them \
                 a key that only its own machine has.",
                which.join(", ")
            ),
            Self::Undecided { which, needs } => format!(
                "Whether this Node is {} in the machines file depends on {}, which is not known \
                 yet. The node daemon can tell if it runs there; otherwise match by name.",
                which.join(" or "),
                needs.join(" and ")
            ),
            Self::Unknown | Self::Missing => "No entry of the machines file matches this Node. \
                 Add one under nodes, or set policy.unknownNode to derive."
                .to_owned(),
            Self::Foreign { provider_id } => format!(
                "The provider ID {provider_id:?} belongs to another provider, so this Node is left \
                 alone."
            ),
            Self::Conflict {
                entry,
                key,
                node,
                file,
            } => format!(
                "The machines file and this Node contradict each other: for {entry} the file has \
                 {key} {file:?}, the Node {node:?}. Correct the file, or delete the Node so that \
                 it registers again."
            ),
        })
    }
}

/// Says what the file knows of the machine behind a Node.
///
/// A provider ID that the Node already has comes first: an entry that gives the same one is its
/// entry, unless its hardware says otherwise. Else all keys of an entry's `match` must
/// agree.
#[must_use]
pub fn resolve(machines: &Machines, identity: &Identity) -> Resolution {
    let own = match own_id(machines.scheme(), identity.provider_id.as_deref()) {
        Ok(own) => own,
        Err(provider_id) => return Resolution::Foreign { provider_id },
    };
    let mut matching: Vec<(usize, &NodeEntry)> = Vec::new();
    let mut undecided: Vec<(&NodeEntry, Vec<&'static str>)> = Vec::new();
    let mut contradicted = None;
    for (index, entry) in machines.nodes().iter().enumerate() {
        match verdict(entry, identity, own.as_ref()) {
            Verdict::Match => matching.push((index, entry)),
            Verdict::Undecided(needs) => undecided.push((entry, needs)),
            Verdict::Contradicted(conflict) => contradicted = Some(*conflict),
            Verdict::Other => {}
        }
    }
    match (matching.as_slice(), contradicted) {
        ([(index, entry)], None) => found(machines, identity, own, (*index, entry)),
        ([], Some(conflict)) | ([_], Some(conflict)) => conflict,
        ([], None) if undecided.is_empty() => unmatched(machines, identity, own),
        ([], None) => undecided_between(&undecided),
        (several, _) => Resolution::Ambiguous {
            which: several.iter().map(|(_, entry)| entry.to_string()).collect(),
        },
    }
}

/// Whether the machine with this provider ID exists and runs, as far as the file alone can tell:
/// for the second look before something is deleted, at a file read afresh by [`reload_now`].
///
/// An ID that is not in the file proves the machine gone only under the policy `missing`, and only
/// if every entry names its ID: one that does not might be this machine.
///
/// [`reload_now`]: super::load::MachinesFile::reload_now
#[must_use]
pub fn presence_of(machines: &Machines, id: &ProviderId) -> Presence {
    if let Some(entry) = machines.by_provider_id(id) {
        return entry.state.presence();
    }
    let all_named = machines.nodes().iter().all(|e| e.declared_id.is_some());
    let missing = machines.policy().unknown_node == UnknownNode::Missing;
    if id.scheme() == machines.scheme() && missing && all_named {
        Presence::Gone
    } else {
        Presence::Unsure
    }
}

/// The Node's provider ID if it has one of ours; its text if it has any other. A scheme that was
/// written twice, as the Go provider did, is read as if it had been written once.
fn own_id(scheme: &str, text: Option<&str>) -> Result<Option<ProviderId>, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let prefix = format!("{scheme}://");
    text.strip_prefix(&prefix)
        .and_then(|instance| ProviderId::new(scheme, instance).ok())
        .map(Some)
        .ok_or_else(|| text.to_owned())
}

fn found(
    machines: &Machines,
    identity: &Identity,
    own: Option<ProviderId>,
    (index, entry): (usize, &NodeEntry),
) -> Resolution {
    if let (Some(own), Some(declared)) = (&own, &entry.declared_id)
        && own != declared
    {
        return Resolution::Conflict {
            entry: entry.to_string(),
            key: "id",
            node: own.to_string(),
            file: declared.to_string(),
        };
    }
    Resolution::Found {
        facts: facts::facts(machines, identity, own, Some(entry)),
        presence: entry.state.presence(),
        entry: index,
    }
}

fn unmatched(machines: &Machines, identity: &Identity, own: Option<ProviderId>) -> Resolution {
    match machines.policy().unknown_node {
        UnknownNode::Derive => Resolution::Derived {
            facts: facts::facts(machines, identity, own, None),
        },
        UnknownNode::Missing if own.is_some() => Resolution::Missing,
        UnknownNode::Missing | UnknownNode::Error => Resolution::Unknown,
    }
}

fn undecided_between(entries: &[(&NodeEntry, Vec<&'static str>)]) -> Resolution {
    let needs: BTreeSet<&'static str> = entries
        .iter()
        .flat_map(|(_, needs)| needs.iter().copied())
        .collect();
    Resolution::Undecided {
        which: entries.iter().map(|(entry, _)| entry.to_string()).collect(),
        needs: needs.into_iter().collect(),
    }
}
