//! Blocks and network as the cloud lists them.

use async_trait::async_trait;
use ipnet::Ipv4Net;
use mooring_common::names::phoenixnap_tags as tags;
use tokio::time::Instant;

use super::super::api::Tag;
use super::super::setting::Setting;
use super::allocate::Observed;
use super::ownership::Owned;
use super::state::Blocks;
use crate::cloud_api::{CloudError, Entries};
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::engine::address_blocks::Observe;
use crate::engine::ip_allocation::IpRequest;

#[async_trait]
impl Observe for Blocks {
    async fn fetch(&self, cluster: &str) -> Result<Entries<Owned>, CloudError> {
        let tags = [
            Tag::new(tags::CLUSTER, cluster),
            Tag::new(tags::USAGE, tags::USAGE_VALUE),
        ];
        let Entries { read, unread } = self.cloud.blocks(&tags).await?;
        let ours = read.into_iter();
        let ours = ours.filter_map(|block| Owned::of(block, cluster));
        Ok(Entries {
            read: ours.collect(),
            unread,
        })
    }

    async fn fetch_all(&self) -> Result<Entries<(String, Ipv4Net)>, CloudError> {
        let all = self.cloud.blocks(&[]).await?;
        Ok(all.try_map(|block| Ok((block.id, block.cidr))))
    }

    async fn read(&self, id: &str, cluster: &str) -> Result<Option<Owned>, CloudError> {
        Ok(Owned::of(self.cloud.block(id).await?, cluster))
    }

    fn listed(&mut self, begun: Instant) {
        let blocks = &self.state.blocks;
        let there = |id: &str| blocks.iter().find(|owned| owned.block.id == id);
        self.failed.retain(|id| {
            let status = there(id).map(|owned| owned.block.status);
            status.is_some_and(|status| status.is_error() || status.is_transition())
        });
        self.refused_blocks.retain(|id| there(id).is_some());
        let all = blocks.iter().map(|owned| &owned.block);
        let moving = all.filter(|block| block.status.is_transition());
        let moving = moving.map(|block| (block.id.as_str(), block.status));
        self.transitions.listed(moving, begun);
        self.count();
    }

    async fn look_at_network(&mut self, since: Instant) -> Result<(), ReconcileError> {
        let Some(id) = self.settings.setting.network() else {
            return Ok(());
        };
        let known = self.network.as_ref();
        if known.is_some_and(|(_, begun)| *begun >= since) {
            return Ok(());
        }
        let begun = Instant::now();
        let network = self.cloud.network(id).await?;
        if let Some(why) = self.settings.misplaced(&network) {
            return Err(ReconcileError::Refused(why));
        }
        self.unread_of_network.listed(network.unread.clone());
        self.network = Some((network, begun));
        Ok(())
    }

    fn has_network(&self) -> bool {
        self.network.is_some()
    }

    fn is_network_whole(&self) -> bool {
        self.unread_of_network.is_empty()
    }
}

impl Blocks {
    /// Where blocks are bought, if neither the configuration nor a network says so: where the peer group
    /// is that the configuration names.
    pub(super) async fn look_at_location(&mut self) -> Result<(), ReconcileError> {
        let Setting::Bgp(Some(group)) = &self.settings.setting else {
            return Ok(());
        };
        if self.settings.location.is_some() || self.location.is_some() {
            return Ok(());
        }
        let peers = self.cloud.peers(Some(group), "").await?;
        self.location = peers.and_then(|peers| peers.location);
        if self.location.is_none() {
            return Err(ReconcileError::Refused(format!(
                "the cloud does not show the BGP peer group {group}, so that it is not known where to \
                 buy IP blocks; correct PNAP_LOAD_BALANCER, or set PNAP_LOCATION"
            )));
        }
        Ok(())
    }

    /// What is known by now, for these requests.
    pub(super) fn observed<'a>(&'a self, ip_requests: &'a [IpRequest]) -> Observed<'a> {
        let network = self.network.as_ref().map(|(network, _)| network);
        let configured = self.settings.location.as_ref().or(self.location.as_ref());
        let location = network.map(|network| &network.location).or(configured);
        Observed {
            settings: &self.settings,
            location: location.map_or("", String::as_str),
            network,
            blocks: &self.state.blocks,
            elsewhere: &self.state.elsewhere,
            ip_requests,
        }
    }
}
