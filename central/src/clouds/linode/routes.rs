//! Routes to Pods: ranges on the interface that a Linode has in a VPC.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ipnet::{IpNet, Ipv4Net};
use mooring_common::provider_id::ProviderId;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::api::VpcRow;
use super::interfaces::InterfaceId;
use super::vpcs::VpcRows;
use super::{Linode, NAME};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::pod_network::{
    MayWrite, Route, RouteError, RouteTable, Routes, Unroutable,
};

/// How many Linodes are written on at the same time at most. Of each, one interface at a time.
const LOCKS: usize = 16;

/// The routes to Linodes.
pub(super) struct LinodeRoutes {
    linode: Arc<Linode>,
    /// How old a listing may be (`LINODE_ROUTES_CACHE_TTL_SECONDS`).
    max_age: Duration,
    locks: [Mutex<()>; LOCKS],
    /// What was written, and when: older listings do not show it.
    written: std::sync::Mutex<HashMap<InterfaceId, (Vec<Ipv4Net>, Instant)>>,
}

/// An interface with an address in a subnet.
#[derive(Clone, Copy, Debug)]
struct Interface {
    id: InterfaceId,
    subnet: Ipv4Net,
    is_active: bool,
}

impl LinodeRoutes {
    pub(super) fn new(linode: Arc<Linode>, max_age: Duration) -> Arc<Self> {
        Arc::new(Self {
            linode,
            max_age,
            locks: std::array::from_fn(|_| Mutex::default()),
            written: std::sync::Mutex::default(),
        })
    }

    fn written(&self) -> std::sync::MutexGuard<'_, HashMap<InterfaceId, (Vec<Ipv4Net>, Instant)>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn rows(&self, since: Option<Instant>) -> Result<Arc<VpcRows>, CloudError> {
        let since = since.or_else(|| Instant::now().checked_sub(self.max_age));
        self.linode.vpcs.rows(&self.linode.client, since).await
    }

    /// Reads the ranges of the interface that a route is on afresh, changes them, and writes them if that
    /// makes a difference. Whatever else is on the interface stays.
    async fn change(
        &self,
        route: &Route,
        may_write: MayWrite<'_>,
        change: impl Fn(&mut Vec<Ipv4Net>, Ipv4Net),
    ) -> Result<(), RouteError> {
        let (IpNet::V4(destination), Ok(linode)) =
            (route.destination, route.machine.instance().parse())
        else {
            return Err(refused(self.explain(route, Unroutable::Family)).into());
        };
        let rows = self.rows(None).await?;
        let interface = choose(&interfaces(&rows, linode)?, destination);
        let Some(interface) = interface else {
            return Err(refused(self.explain(route, Unroutable::NoInterface)).into());
        };
        let lock = usize::try_from(linode).unwrap_or_default() % LOCKS;
        let _one_at_a_time = match self.locks.get(lock) {
            Some(lock) => lock.lock().await,
            None => return Ok(()),
        };
        let client = &self.linode.client;
        let before = interface.ranges(client).await?;
        let mut after = before.clone();
        change(&mut after, destination);
        if after != before {
            may_write()?;
            after = interface.set_ranges(client, &after).await?;
        }
        let written = (after, Instant::now());
        self.written().insert(interface, written);
        Ok(())
    }
}

#[async_trait]
impl Routes for LinodeRoutes {
    fn provider(&self) -> &'static str {
        NAME
    }

    async fn list(&self, since: Option<Instant>) -> Result<RouteTable, CloudError> {
        let rows = self.rows(since).await?;
        let mut written = self.written();
        written.retain(|_, (_, at)| *at >= rows.begun);
        let mut table = RouteTable::new();
        for linode in rows.linodes() {
            let machine = ProviderId::new(NAME, &linode.to_string())
                .map_err(|error| torn(&error.to_string()))?;
            let ids: Vec<InterfaceId> = interfaces(&rows, linode)?.iter().map(|i| i.id).collect();
            let mut ranges: Vec<IpNet> = Vec::new();
            for row in rows.ipv4_of(linode) {
                let (Some(text), Some(id)) = (&row.address_range, interface_id(row)) else {
                    continue;
                };
                if ids.contains(&id) && !written.contains_key(&id) {
                    ranges.push(IpNet::V4(parse(text)?));
                }
            }
            let of_written = ids.iter().filter_map(|id| written.get(id));
            ranges.extend(
                of_written
                    .flat_map(|(ranges, _)| ranges)
                    .map(|range| IpNet::V4(*range)),
            );
            for row in rows.ipv6_of(linode) {
                if let Some(text) = &row.ipv6_range {
                    ranges.push(IpNet::V6(parse(text)?));
                }
            }
            table.insert(machine, ranges);
        }
        Ok(table)
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
        self.change(route, may_write, |ranges, destination| {
            if !ranges.contains(&destination) {
                ranges.push(destination);
            }
        })
        .await
    }

    async fn delete(&self, route: &Route, may_write: MayWrite<'_>) -> Result<(), RouteError> {
        self.change(route, may_write, |ranges, destination| {
            ranges.retain(|range| *range != destination);
        })
        .await
    }
}

/// The interface whose subnet the range lies in, else the first.
fn choose(interfaces: &[Interface], destination: Ipv4Net) -> Option<InterfaceId> {
    let around = |one: &&Interface| one.subnet.contains(&destination);
    let found = interfaces.iter().find(around).or(interfaces.first());
    found.map(|interface| interface.id)
}

/// The interfaces of a Linode. Of several configuration profiles those of the active one, if any is.
fn interfaces(rows: &VpcRows, linode: u64) -> Result<Vec<Interface>, CloudError> {
    let mut all = Vec::new();
    for row in rows.ipv4_of(linode) {
        let (Some(address), Some(id)) = (&row.address, interface_id(row)) else {
            continue;
        };
        let prefix = row.prefix.unwrap_or(32);
        let subnet: Ipv4Net = parse(&format!("{address}/{prefix}"))?;
        all.push(Interface {
            id,
            subnet: subnet.trunc(),
            is_active: row.active.unwrap_or(true),
        });
    }
    if all.iter().any(|interface| interface.is_active) {
        all.retain(|interface| interface.is_active);
    }
    Ok(all)
}

fn interface_id(row: &VpcRow) -> Option<InterfaceId> {
    Some(InterfaceId {
        linode: row.linode_id?,
        config: row.config_id,
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

fn refused(why: String) -> CloudError {
    CloudError::new(NAME, ErrorKind::Invalid, why)
}
