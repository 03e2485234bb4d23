//! Routes to Pods: ranges on the interface that a Linode has in a VPC.

use std::sync::Arc;

use async_trait::async_trait;
use ipnet::{IpNet, Ipv4Net};
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;

use super::api::VpcRow;
use super::interfaces::InterfaceId;
use super::vpcs::VpcRows;
use super::{Linode, NAME};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::pod_network::{
    MayWrite, Route, RouteError, RouteListing, RouteTable, Routes, Unroutable,
};

/// The routes to Linodes.
pub(super) struct LinodeRoutes(pub(super) Arc<Linode>);

/// An interface with an address in a subnet.
#[derive(Clone, Debug)]
struct Interface {
    id: InterfaceId,
    subnet: Ipv4Net,
    is_active: bool,
    ranges: Vec<Ipv4Net>,
}

impl LinodeRoutes {
    async fn rows(&self, since: Option<Instant>) -> Result<Arc<VpcRows>, CloudError> {
        let max_age = self.0.settings.routes_max_age;
        let since = since.or_else(|| Instant::now().checked_sub(max_age));
        self.0.vpcs.rows(&self.0.client, since).await
    }

    /// Reads the ranges of an interface afresh, changes them, and writes them if that makes a difference.
    /// Whatever else is on the interface stays.
    async fn change(
        &self,
        route: &Route,
        may_write: MayWrite<'_>,
        choose: fn(&[Interface], Ipv4Net) -> Option<InterfaceId>,
        change: fn(&mut Vec<Ipv4Net>, Ipv4Net),
    ) -> Result<(), RouteError> {
        let refused = |why| CloudError::new(NAME, ErrorKind::Invalid, self.explain(route, why));
        let (IpNet::V4(destination), Ok(linode)) =
            (route.destination, route.machine.instance().parse())
        else {
            return Err(refused(Unroutable::Family).into());
        };
        let rows = self.rows(None).await?;
        let own: &[VpcRow] = rows.of_linodes.get(&linode).map_or(&[], Vec::as_slice);
        let Some(interface) = choose(&interfaces(own)?, destination) else {
            return Err(refused(Unroutable::NoInterface).into());
        };
        let client = &self.0.client;
        let before = interface.ranges(client).await?;
        let mut after = before.clone();
        change(&mut after, destination);
        if after != before {
            may_write()?;
            interface.set_ranges(client, &after).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Routes for LinodeRoutes {
    fn provider(&self) -> &'static str {
        NAME
    }

    async fn list(&self, since: Option<Instant>) -> Result<RouteListing, CloudError> {
        let rows = self.rows(since).await?;
        let mut table = RouteTable::new();
        for (linode, own) in &rows.of_linodes {
            let machine = ProviderId::new(NAME, &linode.to_string())
                .map_err(|error| torn(&error.to_string()))?;
            let ipv4 = interfaces(own)?.into_iter().flat_map(|one| one.ranges);
            let mut ranges: Vec<IpNet> = ipv4.map(IpNet::V4).collect();
            for text in own.iter().filter_map(|row| row.ipv6_range.as_ref()) {
                ranges.push(IpNet::V6(parse(text)?));
            }
            table.insert(machine, ranges);
        }
        let begun = rows.begun;
        Ok(RouteListing { begun, table })
    }

    fn can_write(&self, destination: &IpNet) -> bool {
        matches!(destination, IpNet::V4(_))
    }

    fn explain(&self, route: &Route, why: Unroutable) -> String {
        let (cidr, linode) = (route.destination, route.machine.instance());
        match why {
            Unroutable::NoInterface => format!(
                "Linode {linode} has no interface with an IPv4 address in the VPCs and subnets that the flags \
                 name; give it one, or correct --vpc-names and --subnet-names (or --vpc-ids and --subnet-ids)"
            ),
            Unroutable::Family => format!(
                "Linode adds IPv4 ranges to interfaces only, and {cidr} lies in no IPv6 range that Linode \
                 {linode} has in its VPC; allocate IPv6 pod CIDRs from there, as --allocate-node-cidrs does"
            ),
        }
    }

    async fn create(&self, route: &Route, may_write: MayWrite<'_>) -> Result<(), RouteError> {
        self.change(route, may_write, around, |ranges, destination| {
            if !ranges.contains(&destination) {
                ranges.push(destination);
            }
        })
        .await
    }

    async fn delete(&self, route: &Route, may_write: MayWrite<'_>) -> Result<(), RouteError> {
        self.change(route, may_write, with_range, |ranges, destination| {
            ranges.retain(|range| *range != destination);
        })
        .await
    }
}

/// The interface whose subnet the range lies in, else the first.
fn around(interfaces: &[Interface], destination: Ipv4Net) -> Option<InterfaceId> {
    let is_around = |one: &&Interface| one.subnet.contains(&destination);
    let found = interfaces.iter().find(is_around).or(interfaces.first());
    found.map(|interface| interface.id)
}

/// The interface that the range is on, else the one that it would be on.
fn with_range(interfaces: &[Interface], destination: Ipv4Net) -> Option<InterfaceId> {
    let mut all = interfaces.iter();
    let found = all.find(|one| one.ranges.contains(&destination));
    found
        .map(|one| one.id)
        .or_else(|| around(interfaces, destination))
}

/// The interfaces of a Linode with an IPv4 address. Of several configuration profiles those of the active
/// one, if any is.
fn interfaces(rows: &[VpcRow]) -> Result<Vec<Interface>, CloudError> {
    let mut all: Vec<Interface> = Vec::new();
    for row in rows {
        if let (Some(address), Some(id)) = (&row.address, interface_id(row)) {
            let subnet: Ipv4Net = parse(&format!("{address}/{}", row.prefix.unwrap_or(32)))?;
            all.push(Interface {
                id,
                subnet: subnet.trunc(),
                is_active: row.active.unwrap_or(true),
                ranges: Vec::new(),
            });
        }
    }
    for row in rows {
        let Some(text) = &row.address_range else {
            continue;
        };
        let (range, id) = (parse(text)?, interface_id(row));
        if let Some(interface) = all.iter_mut().find(|one| Some(one.id) == id) {
            interface.ranges.push(range);
        }
    }
    if all.iter().any(|interface| interface.is_active) {
        all.retain(|interface| interface.is_active);
    }
    Ok(all)
}

fn interface_id(row: &VpcRow) -> Option<InterfaceId> {
    Some(InterfaceId {
        linode: row.linode_id?,
        profile: row.config_id.filter(|id| *id != 0),
        interface: row.interface_id?,
    })
}

/// A range that cannot be read makes the listing incomplete.
fn parse<T: std::str::FromStr>(text: &str) -> Result<T, CloudError> {
    text.parse()
        .map_err(|_| torn(&format!("{text:?} in a VPC is no range of addresses")))
}

fn torn(problem: &str) -> CloudError {
    CloudError::new(NAME, ErrorKind::Malformed, problem)
}

#[cfg(test)]
mod tests;
