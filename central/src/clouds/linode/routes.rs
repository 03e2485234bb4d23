//! Routes to Pods: ranges on the interface that a Linode has in a VPC.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ipnet::{IpNet, Ipv4Net};
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;

use super::api::VpcRow;
use super::interfaces::{self, InterfaceId};
use super::{Linode, NAME};
use crate::cloud_api::{CloudError, ErrorKind, Kind};
use crate::cloud_provider::pod_network::{Route, RouteListing, RouteTable, Unroutable};
use crate::engine::interface_routes::{self, Interface, Interfaces, Item};
use crate::engine::listing::Listing;

/// The interfaces of Linodes.
pub(super) struct LinodeInterfaces(pub(super) Arc<Linode>);

impl LinodeInterfaces {
    async fn rows(&self, since: Option<Instant>) -> Result<Arc<Listing<VpcRow>>, CloudError> {
        let max_age = self.0.settings.routes_max_age;
        let since = since.or_else(|| Instant::now().checked_sub(max_age));
        self.0.vpc_rows.get(since).await
    }
}

#[async_trait]
impl Interfaces for LinodeInterfaces {
    type Id = InterfaceId;

    fn provider(&self) -> &'static str {
        NAME
    }

    async fn list(&self, since: Option<Instant>) -> Result<RouteListing, CloudError> {
        let rows = self.rows(since).await?;
        let mut of_linodes: BTreeMap<u64, Vec<&VpcRow>> = BTreeMap::new();
        for row in &rows.all {
            of_linodes
                .entry(row.linode_id.unwrap_or_default())
                .or_default()
                .push(row);
        }
        let mut table = RouteTable::new();
        for (linode, own) in of_linodes {
            let machine = ProviderId::new(NAME, &linode.to_string())
                .map_err(|error| torn(&error.to_string()))?;
            let ipv6 = own.iter().filter_map(|row| row.ipv6_range.as_ref());
            let ipv6 = ipv6.map(|text| parse(text).map(IpNet::V6));
            let ipv6: Vec<IpNet> = ipv6.collect::<Result<_, _>>()?;
            let ipv4 = in_vpcs(own)?.into_iter().flat_map(|one| one.ranges);
            table.insert(machine, ipv4.map(IpNet::V4).chain(ipv6).collect());
        }
        let begun = rows.begun;
        Ok(RouteListing { begun, table })
    }

    async fn of_machine(
        &self,
        machine: &ProviderId,
    ) -> Result<Vec<Interface<InterfaceId>>, CloudError> {
        let rows = self.rows(None).await?;
        let linode: Option<u64> = machine.instance().parse().ok();
        let own = rows.all.iter();
        in_vpcs(own.filter(|row| row.linode_id == linode).collect())
    }

    async fn ranges(&self, id: InterfaceId) -> Result<Vec<Ipv4Net>, CloudError> {
        let request = id.request(Kind::get);
        interfaces::ranges(&self.0.client, &request).await
    }

    async fn set_ranges(&self, id: InterfaceId, ranges: &[Ipv4Net]) -> Result<(), CloudError> {
        let body = id.body(ranges);
        let request = id.request(|kind, of, id| kind.change(of, id, body));
        interfaces::ranges(&self.0.client, &request).await?;
        Ok(())
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
}

/// The interfaces that a Linode has in VPCs: of several configuration profiles those of the active one, if any is.
fn in_vpcs(rows: Vec<&VpcRow>) -> Result<Vec<Interface<InterfaceId>>, CloudError> {
    let mut items = Vec::new();
    for row in rows {
        let Some(id) = interface_id(row) else {
            continue;
        };
        if let Some(address) = &row.address {
            let address = parse(&format!("{address}/{}", row.prefix.unwrap_or(32)))?;
            items.push((id, Item::Address(address, row.active.unwrap_or(true))));
        }
        if let Some(range) = &row.address_range {
            items.push((id, Item::Range(parse(range)?)));
        }
    }
    Ok(interface_routes::interfaces(items))
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
