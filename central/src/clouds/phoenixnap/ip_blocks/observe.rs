//! Services as requests for addresses; blocks and network as the cloud lists them.

use mooring_common::names::phoenixnap_tags as tags;
use tokio::time::Instant;

use super::super::api::{Tag, may_not_exist};
use super::super::setting::Setting;
use super::ACCOUNT;
use super::allocate::Observed;
use super::ownership::{Owned, Owner};
use super::state::Blocks;
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{InvalidField, LoadBalancerRequest, ReconcileError};
use crate::engine::ip_allocation::{IpRequest, may_have};
use crate::engine::purchases::Sent;
use crate::views::service_view::ServiceView;

impl Blocks {
    /// Lists all blocks of the account, unless that was done then or later: one that is missing may only
    /// have lost its tags, and without a public network nothing else shows it.
    ///
    /// # Errors
    /// [`CloudError`] if they cannot be listed.
    pub(super) async fn look_elsewhere(&mut self, since: Instant) -> Result<(), CloudError> {
        let known = self.elsewhere.blocks.as_ref();
        if known.is_some_and(|(_, begun)| *begun >= since) {
            return Ok(());
        }
        let begun = Instant::now();
        let listed = self.cloud.blocks(&[]).await?.into_iter();
        let blocks = listed.map(|block| (block.id, block.cidr)).collect();
        self.elsewhere.blocks = Some((blocks, begun));
        Ok(())
    }

    /// What the controller before us has given out is known from the API server itself: a cache may
    /// lag.
    pub(super) async fn seed(&mut self) -> Result<(), ReconcileError> {
        if !self.given.is_seeded() {
            self.given.seed(&self.cluster.services().await?);
        }
        Ok(())
    }

    /// What of a Service asks for another location than that of the blocks. A location in the
    /// configuration wins over it, as the Go controller's README has it.
    pub(super) fn misplaced(&self, service: &ServiceView) -> Vec<InvalidField> {
        let key = &self.settings.location_annotation;
        let asked = service.annotation(key).map(str::trim).unwrap_or_default();
        let there = self.observed(&[]).location;
        let is_fit = asked.is_empty() || asked.eq_ignore_ascii_case(there);
        if is_fit || self.settings.location.is_some() {
            return Vec::new();
        }
        let remedy = format!(
            "is not where the public network is, and a block cannot be assigned to a network of another \
             location; write {there}, or nothing"
        );
        vec![InvalidField::new(
            format!("annotation {key}"),
            asked,
            remedy,
        )]
    }

    /// The blocks, by a listing begun then or later.
    pub(super) async fn list(&mut self, since: Instant) -> Result<(), ReconcileError> {
        if self.as_of.is_some_and(|begun| begun >= since) {
            return Ok(());
        }
        let cluster = self.cluster.id().await?;
        let begun = Instant::now();
        let tags = [
            Tag::new(tags::CLUSTER, &cluster),
            Tag::new(tags::USAGE, tags::USAGE_VALUE),
        ];
        let listed = self.cloud.blocks(&tags).await?.into_iter();
        let mut ours: Vec<Owned> = listed
            .filter_map(|block| Owned::of(block, &cluster))
            .collect();
        self.add_unlisted(&mut ours, &cluster).await?;
        self.listed(ours, begun);
        let sent = self.purchases.sent.as_ref();
        if sent.is_some_and(|sent| self.shows(sent)) {
            self.purchases.shown().await;
        }
        Ok(())
    }

    /// Whether the last listing, begun after this purchase was sent, has what was bought.
    pub(super) fn shows(&self, sent: &Sent<Owner>) -> bool {
        if sent.is_heard {
            return self.unlisted.is_empty();
        }
        let mut blocks = self.blocks.iter();
        let is_younger = self.as_of.is_some_and(|begun| begun >= sent.at);
        is_younger && blocks.any(|owned| sent.is(&owned.block.id, &owned.owner))
    }

    /// Adds what this process has bought and a listing does not show yet, as the cloud describes it when it
    /// is asked for it alone. What it does not know either is believed in until `--creation-settle-time` has
    /// passed.
    async fn add_unlisted(
        &mut self,
        listed: &mut Vec<Owned>,
        cluster: &str,
    ) -> Result<(), ReconcileError> {
        let mut unlisted = self.unlisted.clone();
        unlisted.retain(|(owned, _)| listed.iter().all(|one| one.block.id != owned.block.id));
        let mut gone = Vec::new();
        for (owned, bought) in &unlisted {
            let there = match self.cloud.block(&owned.block.id).await {
                Err(error) if may_not_exist(&error) => {
                    let is_believed = bought.elapsed() < self.settings.flags.settle_time;
                    is_believed.then(|| owned.clone())
                }
                answer => Owned::of(answer?, cluster),
            };
            match there {
                Some(there) => listed.push(there),
                None => gone.push(owned.block.id.clone()),
            }
        }
        unlisted.retain(|(owned, _)| !gone.contains(&owned.block.id));
        self.unlisted = unlisted;
        Ok(())
    }

    /// The public network, as it was then or later.
    pub(super) async fn look_at_network(&mut self, since: Instant) -> Result<(), ReconcileError> {
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
        self.network = Some((network, begun));
        Ok(())
    }

    /// Doubts the credentials as a whole if neither a block of the cluster nor its public network is there:
    /// with those of another account every answer is complete, and shows nothing of the cluster. Asked
    /// before what is not listed counts as not there.
    ///
    /// # Errors
    /// [`ReconcileError::Cloud`] if they are in doubt, or the servers cannot be listed.
    pub(super) async fn check_credentials(
        &self,
        request: &LoadBalancerRequest,
        has_network: bool,
    ) -> Result<(), ReconcileError> {
        if has_network || !self.blocks.is_empty() {
            return Ok(());
        }
        let mut services = request.others.iter().chain([&request.service]);
        let is_recorded = services.any(|service| may_have(service));
        let machines = &self.machines;
        let checked = machines.check_credentials(&request.nodes, is_recorded, &ACCOUNT);
        Ok(checked.await?)
    }

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
            blocks: &self.blocks,
            elsewhere: &self.elsewhere,
            ip_requests,
        }
    }
}
