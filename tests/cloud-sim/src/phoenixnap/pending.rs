//! What is under way, and what comes of it when its time has come.

use std::time::Instant;

use serde_json::{Value, json};

use super::behaviour::Pace;
use super::kind::Kind;
use super::state::State;

/// Something that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A block is made.
    Making { block: String },
    /// A block is put on a public network.
    Assigning { block: String, network: String },
    /// A block is taken off a public network.
    Unassigning { block: String, network: String },
    /// A server joins a public network.
    Joining { server: String, network: String },
    /// A server leaves a public network.
    Leaving { server: String, network: String },
    /// A peer group is set up.
    Peering { group: String },
    /// A peer group goes.
    Parting { group: String },
}

impl Change {
    /// What it is about.
    fn about(&self) -> [Option<(Kind, &str)>; 2] {
        match self {
            Self::Making { block } => [Some((Kind::Block, block)), None],
            Self::Assigning { block, network } | Self::Unassigning { block, network } => {
                [Some((Kind::Block, block)), Some((Kind::Network, network))]
            }
            Self::Joining { server, network } | Self::Leaving { server, network } => {
                [Some((Kind::Server, server)), Some((Kind::Network, network))]
            }
            Self::Peering { group } | Self::Parting { group } => {
                [Some((Kind::PeerGroup, group)), None]
            }
        }
    }

    pub(super) fn concerns(&self, kind: Kind, key: &str) -> bool {
        self.about().contains(&Some((kind, key)))
    }
}

/// When it is over.
enum Due {
    At(Instant),
    AfterLooks(u32),
    Never,
}

pub(super) struct Pending {
    change: Change,
    due: Due,
}

impl State {
    /// Something is under way from now on.
    pub(super) fn begin(&mut self, change: Change, pace: Pace) {
        let due = match pace {
            Pace::Takes(time) => Due::At(self.now() + time),
            Pace::Looks(count) => Due::AfterLooks(count),
            Pace::Held => Due::Never,
        };
        self.pending.push(Pending { change, due });
    }

    /// Whether anything about this is under way.
    pub(super) fn is_under_way(&self, kind: Kind, key: &str) -> bool {
        let mut pending = self.pending.iter();
        pending.any(|pending| pending.change.concerns(kind, key))
    }

    /// Brings to pass what is due.
    pub(super) fn settle(&mut self) {
        let now = self.now();
        self.end(|due| match due {
            Due::At(time) => *time <= now,
            Due::AfterLooks(count) => *count == 0,
            Due::Never => false,
        });
    }

    /// Brings all to pass.
    pub(super) fn finish(&mut self) {
        self.end(|_| true);
    }

    /// What was under way with this comes to nothing.
    pub(super) fn forget(&mut self, kind: Kind, key: &str) {
        self.pending
            .retain(|pending| !pending.change.concerns(kind, key));
    }

    /// An answer has shown this.
    pub(super) fn looked_at(&mut self, kind: Kind, key: &str) {
        for pending in &mut self.pending {
            if let (true, Due::AfterLooks(count)) =
                (pending.change.concerns(kind, key), &mut pending.due)
            {
                *count = count.saturating_sub(1);
            }
        }
    }

    fn end(&mut self, is_due: impl Fn(&Due) -> bool) {
        let all = std::mem::take(&mut self.pending);
        let (over, rest) = all.into_iter().partition(|pending| is_due(&pending.due));
        self.pending = rest;
        let over: Vec<Pending> = over;
        for pending in over {
            self.conclude(&pending.change);
        }
    }

    fn conclude(&mut self, change: &Change) {
        match change {
            Change::Making { block } => self.show_block(block, "unassigned", None),
            Change::Assigning { block, network } => {
                if take_one(&mut self.behaviour.failing_assignments) {
                    self.show_block(block, "error assigning", None);
                } else {
                    self.show_block(block, "assigned", Some(network));
                }
            }
            Change::Unassigning { block, network } => {
                if take_one(&mut self.behaviour.failing_unassignments) {
                    self.show_block(block, "error unassigning", Some(network));
                } else {
                    self.show_block(block, "unassigned", None);
                    self.unlist(network, block);
                }
            }
            Change::Joining { server, network } => self.joined(server, network),
            Change::Leaving { server, network } => self.left(server, network),
            Change::Peering { group } => {
                self.change(Kind::PeerGroup, group, |group| {
                    group["status"] = json!("READY");
                    group["activeAsnDetails"] = group["targetAsnDetails"].clone();
                });
            }
            Change::Parting { group } => {
                self.remove(Kind::PeerGroup, group);
            }
        }
    }

    /// The status of a block, and what it is on.
    pub(super) fn show_block(&mut self, block: &str, status: &str, network: Option<&str>) {
        self.change(Kind::Block, block, |block| {
            block["status"] = json!(status);
            match network {
                Some(network) => {
                    block["assignedResourceId"] = json!(network);
                    block["assignedResourceType"] = json!("public network");
                }
                None => {
                    if let Some(block) = block.as_object_mut() {
                        block.remove("assignedResourceId");
                        block.remove("assignedResourceType");
                    }
                }
            }
        });
    }

    /// A block is on the list of a network no more.
    pub(super) fn unlist(&mut self, network: &str, block: &str) {
        self.change(Kind::Network, network, |network| {
            if let Some(blocks) = network["ipBlocks"].as_array_mut() {
                blocks.retain(|listed: &Value| listed["id"] != block);
            }
        });
    }
}

fn take_one(count: &mut u32) -> bool {
    let any = *count > 0;
    *count = count.saturating_sub(1);
    any
}
