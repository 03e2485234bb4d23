//! One machine, asked for alone.

use mooring_common::node_view::NodeView;

use super::Inventory;
use super::listing::known;
use crate::cloud_api::ErrorKind;
use crate::cloud_provider::{Attachment, Instances as _, Lookup};

impl Inventory {
    /// What the cloud says of the Node's machine, asked for alone and afresh, and its addresses.
    pub async fn ask_alone(&self, node: &NodeView) -> (Lookup, Vec<Attachment>) {
        let Some(id) = self.id_of(node) else {
            let why = format!("{} bears no ID of {}", node.name, self.provider());
            return (Lookup::Unsure(why), Vec::new());
        };
        match self.shared.source.get(&id).await {
            Ok(Some(machine)) => (known(&machine, node), machine.attachments),
            Ok(None) if self.empty_listing_lies().await => {
                let why = "the listing is empty, and yet a machine may be there";
                (Lookup::Unsure(why.to_owned()), Vec::new())
            }
            Ok(None) => (Lookup::Missing, Vec::new()),
            Err(error) => {
                tracing::warn!(%error, %id, "whether the machine is gone cannot be confirmed");
                let why = error.to_string();
                let lookup = match error.kind {
                    // It may be there for others, and asking again will hardly change that.
                    ErrorKind::Forbidden => Lookup::Unsure(why),
                    _ => Lookup::Unavailable {
                        why,
                        retry_after: error.retry_after,
                    },
                };
                (lookup, Vec::new())
            }
        }
    }

    /// Whether the last listing is empty although one of the machines that were listed before it
    /// may still be there.
    async fn empty_listing_lies(&self) -> bool {
        let Some(listing) = self.shared.at_hand(None) else {
            return false;
        };
        for id in &listing.vanished {
            if !matches!(self.shared.source.get(id).await, Ok(None)) {
                tracing::warn!(%id, "the listing is empty, and yet this machine may be there");
                return true;
            }
        }
        false
    }
}
