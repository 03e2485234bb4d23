//! The L2Network of the public network: what the node daemons need of it.
//!
//! Central owns its VLAN, subnets and ranges, and nothing else: parent interface, MTU, node selector
//! and the rest are its user's. It stays when the last block has gone.

use serde_json::Value;

use super::super::api::public_networks::Network;
use super::super::setting::Setting;
use super::ownership::{Owned, Owner};
use super::state::Blocks;
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};
use crate::engine::ip_allocation::l2_network;

/// The name of a public network's L2Network.
pub(super) fn name(network: &str) -> String {
    format!("phoenixnap-{}", network.to_ascii_lowercase())
}

/// What central writes into its spec. `None`: there is nothing to announce (yet).
pub(super) fn wanted(network: &Network, blocks: &[Owned]) -> Option<Value> {
    let is_there = |owned: &&Owned| {
        let is_used = matches!(owned.owner, Owner::Service(_) | Owner::Pool(_));
        is_used && network.has(&owned.block.id)
    };
    let there = blocks.iter().filter(is_there);
    l2_network(network.vlan, there.map(|owned| owned.block.cidr))
}

impl Blocks {
    /// Makes the node daemons' L2Network what it should be, if they are those who announce.
    ///
    /// # Errors
    /// [`ReconcileError`] unless it is.
    pub(super) async fn write_l2_network(
        &mut self,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        let is_announced = matches!(self.settings.setting, Setting::L2(_));
        let (Some((network, _)), true) = (&self.network, is_announced) else {
            return Ok(());
        };
        let wanted = wanted(network, &self.state.blocks);
        let name = name(&network.id);
        self.state.write_l2_network(&name, wanted, guard).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clouds::phoenixnap::api::ip_blocks::Block;
    use crate::clouds::phoenixnap::ip_blocks::ownership;
    use crate::clouds::phoenixnap::ip_blocks::testing::{CLUSTER, block, network};

    fn owned(id: &str, cidr: &str, owner: Owner) -> Owned {
        let tags = ownership::of_new(CLUSTER, &owner);
        let block = Block {
            tags,
            ..block(id, cidr)
        };
        Owned { block, owner }
    }

    #[test]
    fn l2_network_describes_own_blocks() {
        let pool = || Owner::Pool("net".to_owned());
        let blocks = [
            owned("b2", "203.0.113.16/28", pool()),
            owned("b1", "203.0.113.8/29", pool()),
            owned("marked", "203.0.113.32/29", Owner::Marked),
            owned("elsewhere", "203.0.113.40/29", pool()),
        ];
        let mut network = network();
        for owned in &blocks[..3] {
            let Block { id, cidr, .. } = &owned.block;
            network.blocks.push((id.clone(), *cidr));
        }
        let expected = json!({
            "vlan": 100,
            "subnets": [
                {"cidr": "203.0.113.8/29", "gateway": "203.0.113.9"},
                {"cidr": "203.0.113.16/28", "gateway": "203.0.113.17"},
            ],
            "ranges": ["203.0.113.10-203.0.113.14", "203.0.113.18-203.0.113.30"],
        });
        assert_eq!(wanted(&network, &blocks), Some(expected));
        assert_eq!(wanted(&network, &[]), None);
    }
}
