//! Services as ip_requests; blocks and network as the cloud lists them.

use std::net::Ipv4Addr;

use mooring_common::names::phoenixnap_tags as tags;
use tokio::time::Instant;

use super::super::api::Tag;
use super::super::may_not_exist;
use super::super::model::Network;
use super::super::setting::Setting;
use super::allocate::Observed;
use super::ip_request::IpRequest;
use super::ownership::Owned;
use super::state::State;
use super::{ACCOUNT, Shared};
use crate::cloud_provider::load_balancers::{InvalidField, LoadBalancerRequest, ReconcileError};
use crate::views::service_view::ServiceView;

/// What a Service has and asks for. What cannot be read counts as not said: [`invalid`] tells of it.
pub(super) fn ip_request(service: &ServiceView, state: &State) -> IpRequest {
    let read = |text: Option<&String>| text?.trim().parse::<Ipv4Addr>().ok();
    let published = service
        .ingress
        .iter()
        .find_map(|entry| read(entry.ip.as_ref()));
    let mut ip_request = IpRequest {
        key: service.key.clone(),
        uid: service.uid.clone(),
        created: service.created,
        given: state.given.get(&service.uid).copied(),
        recorded: read(service.allocated_addresses.as_ref()),
        published,
        asked: read(service.load_balancer_ip.as_ref()),
        home: None,
        lost: state.lost.contains(&service.uid),
        may_take_over: false,
    };
    // It is recorded together with the address, and as much worth.
    let is_proven = ip_request.proven().is_some();
    ip_request.home = service.public_network.clone().filter(|_| is_proven);
    ip_request
}

/// Whether a Service says by our record that it has an address of a block: an L2Network's is recorded
/// together with that network, and with no public one.
pub(super) fn may_have(service: &ServiceView) -> bool {
    let of_l2_network = service.allocated_network.is_some();
    let is_recorded = service.allocated_addresses.is_some() && !of_l2_network;
    service.public_network.is_some() || is_recorded
}

/// What of a Service cannot be understood.
pub(super) fn invalid(service: &ServiceView) -> Vec<InvalidField> {
    let mut faults = Vec::new();
    let mut fault = |place: &str, value: &str, remedy: &str| {
        faults.push(InvalidField {
            place: place.to_owned(),
            value: value.chars().take(80).collect(),
            remedy: remedy.to_owned(),
        });
    };
    if let Some(text) = &service.load_balancer_ip
        && text.trim().parse::<Ipv4Addr>().is_err()
    {
        let remedy = "is no IPv4 address; write one like 203.0.113.10, or none";
        fault("spec.loadBalancerIP", text, remedy);
    }
    if !service.ip_families.is_empty() && !service.ip_families.iter().any(|name| name == "IPv4") {
        let remedy = "has no IPv4, and IP blocks of other families are not bought; add IPv4";
        fault("spec.ipFamilies", &service.ip_families.join(","), remedy);
    }
    faults
}

impl Shared {
    /// What of a Service asks for another location than that of the blocks. A location in the
    /// configuration wins over it, as the Go controller's README has it.
    pub(super) fn misplaced(&self, state: &State, service: &ServiceView) -> Vec<InvalidField> {
        let key = &self.settings.location_annotation;
        let asked = service.annotation(key).map(str::trim).unwrap_or_default();
        let there = self.observed(state, &[]).location.to_owned();
        let is_fit = asked.is_empty() || asked.eq_ignore_ascii_case(&there);
        if is_fit || self.settings.location.is_some() {
            return Vec::new();
        }
        vec![InvalidField {
            place: format!("annotation {key}"),
            value: asked.chars().take(80).collect(),
            remedy: format!(
                "is not where the public network is, and a block cannot be assigned to a network of \
                 another location; write {there}, or nothing"
            ),
        }]
    }
}

/// The tags by which the cloud is asked for the blocks of a cluster.
pub(super) fn of_cluster(cluster: &str) -> [Tag; 2] {
    [
        Tag::new(tags::CLUSTER, cluster),
        Tag::new(tags::USAGE, tags::USAGE_VALUE),
    ]
}

impl Shared {
    /// The blocks, by a listing begun then or later.
    pub(super) async fn list(
        &self,
        state: &mut State,
        since: Instant,
    ) -> Result<(), ReconcileError> {
        if state
            .blocks
            .as_ref()
            .is_some_and(|(_, begun)| *begun >= since)
        {
            return Ok(());
        }
        let cluster = self.cluster.id().await?;
        let begun = Instant::now();
        let listed = self.cloud.blocks(&of_cluster(&cluster)).await?;
        let ours = listed
            .into_iter()
            .filter_map(|block| Owned::of(block, &cluster));
        let mut ours: Vec<Owned> = ours.collect();
        self.add_unlisted(state, &mut ours, &cluster).await?;
        state.listed(ours, begun);
        if let Some(sent) = state.sent.take() {
            if state.shows(&sent) {
                self.purchases.settle(&*self.cluster, sent.ours).await;
            } else {
                state.sent = Some(sent);
            }
        }
        Ok(())
    }

    /// Adds what this process has bought and a listing does not show yet, as the cloud describes it when it
    /// is asked for it alone. What it does not know either is believed in until `--creation-settle-time` has
    /// passed.
    async fn add_unlisted(
        &self,
        state: &mut State,
        listed: &mut Vec<Owned>,
        cluster: &str,
    ) -> Result<(), ReconcileError> {
        let is_listed = |id: &str| listed.iter().any(|owned| owned.block.id == id);
        state
            .unlisted
            .retain(|(owned, _)| !is_listed(&owned.block.id));
        let mut gone = Vec::new();
        for (owned, bought) in &state.unlisted {
            let id = &owned.block.id;
            match self.cloud.block(id).await {
                Ok(block) => match Owned::of(block, cluster) {
                    Some(there) => listed.push(there),
                    None => gone.push(id.clone()),
                },
                Err(error) if may_not_exist(&error) => {
                    if bought.elapsed() < self.settings.settle_time {
                        listed.push(owned.clone());
                    } else {
                        gone.push(id.clone());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        state
            .unlisted
            .retain(|(owned, _)| !gone.contains(&owned.block.id));
        Ok(())
    }

    /// The public network, as it was then or later.
    pub(super) async fn look_at_network(
        &self,
        state: &mut State,
        since: Instant,
    ) -> Result<(), ReconcileError> {
        let Some(id) = self.settings.setting.network() else {
            return Ok(());
        };
        if state
            .network
            .as_ref()
            .is_some_and(|(_, begun)| *begun >= since)
        {
            return Ok(());
        }
        let begun = Instant::now();
        let network = self.cloud.network(id).await?;
        if let Some(location) = self.settings.location.as_ref()
            && *location != network.location
        {
            return Err(ReconcileError::Refused(format!(
                "the public network {id} is in {}, and the configuration wants IP blocks in \
                 {location}, which cannot be assigned to it; correct PNAP_LOCATION, or name another \
                 network",
                network.location
            )));
        }
        state.network = Some((network, begun));
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
        state: &State,
        request: &LoadBalancerRequest,
        has_network: bool,
    ) -> Result<(), ReconcileError> {
        if state.has_blocks() || has_network {
            return Ok(());
        }
        let mut services = request.others.iter().chain([&request.service]);
        let is_recorded = services.any(|service| may_have(service));
        self.machines
            .check_credentials(&request.nodes, is_recorded, &ACCOUNT)
            .await?;
        Ok(())
    }

    /// Where blocks are bought, if neither the configuration nor a network says so: where the peer group
    /// is that the configuration names.
    pub(super) async fn look_at_location(&self, state: &mut State) -> Result<(), ReconcileError> {
        let Setting::Bgp { group: Some(group) } = &self.settings.setting else {
            return Ok(());
        };
        if self.settings.location.is_some() || state.location.is_some() {
            return Ok(());
        }
        let peers = self.cloud.peers(Some(group), "").await?;
        let location = peers.and_then(|peers| peers.location);
        if location.is_none() {
            return Err(ReconcileError::Refused(format!(
                "the cloud does not show the BGP peer group {group}, so that it is not known where to \
                 buy IP blocks; correct PNAP_LOAD_BALANCER, or set PNAP_LOCATION"
            )));
        }
        state.location = location;
        Ok(())
    }

    /// What is known by now of these Services.
    pub(super) fn observed<'a>(
        &'a self,
        state: &'a State,
        ip_requests: &'a [IpRequest],
    ) -> Observed<'a> {
        let network: Option<&Network> = state.network.as_ref().map(|(network, _)| network);
        let location = network.map(|network| network.location.as_str());
        Observed {
            settings: &self.settings,
            location: location
                .or(self.settings.location.as_deref())
                .or(state.location.as_deref())
                .unwrap_or_default(),
            network,
            blocks: state.blocks.as_ref().map_or(&[], |(blocks, _)| blocks),
            ip_requests,
        }
    }
}
