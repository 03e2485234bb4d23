//! Routes to Pods where a cloud has them as IPv4 ranges on interfaces of machines.
//!
//! A cloud reads and writes its interfaces; which of them a range belongs on is decided here.

use async_trait::async_trait;
use ipnet::{IpNet, Ipv4Net};
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;

use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::pod_network::{
    MayWrite, Route, RouteError, RouteListing, Routes, Unroutable,
};

/// An interface with an address in a subnet.
#[derive(Clone, Debug)]
pub struct Interface<I> {
    /// Which one it is.
    pub id: I,
    /// The subnet.
    pub subnet: Ipv4Net,
    /// Whether the machine runs with it.
    pub is_active: bool,
    /// The ranges on it.
    pub ranges: Vec<Ipv4Net>,
}

/// One thing that an interface has, as listings show it.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    /// An address, with the length of its subnet's prefix, and whether the machine runs with it.
    Address(Ipv4Net, bool),
    /// A range.
    Range(Ipv4Net),
}

/// The interfaces of a machine that have an address, with the ranges on them. Where the machine runs with some of
/// them, the others do not count.
pub fn interfaces<I: PartialEq>(items: Vec<(I, Item)>) -> Vec<Interface<I>> {
    let mut all: Vec<Interface<I>> = Vec::new();
    let mut ranges = Vec::new();
    for (id, item) in items {
        match item {
            Item::Address(address, is_active) => all.push(Interface {
                id,
                subnet: address.trunc(),
                is_active,
                ranges: Vec::new(),
            }),
            Item::Range(range) => ranges.push((id, range)),
        }
    }
    for (id, range) in ranges {
        if let Some(interface) = all.iter_mut().find(|one| one.id == id) {
            interface.ranges.push(range);
        }
    }
    if all.iter().any(|interface| interface.is_active) {
        all.retain(|interface| interface.is_active);
    }
    all
}

/// The interfaces of a cloud's machines.
#[async_trait]
pub trait Interfaces: Send + Sync {
    /// What tells one from another.
    type Id: Copy + Send + Sync;

    /// The provider's name, which is the scheme of its machines' IDs.
    fn provider(&self) -> &'static str;

    /// See [`Routes::list`].
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless the answer is complete.
    async fn list(&self, since: Option<Instant>) -> Result<RouteListing, CloudError>;

    /// Those of one machine, from a listing as old as the cloud's configuration permits.
    async fn of_machine(
        &self,
        machine: &ProviderId,
    ) -> Result<Vec<Interface<Self::Id>>, CloudError>;

    /// All ranges on one, read afresh.
    async fn ranges(&self, id: Self::Id) -> Result<Vec<Ipv4Net>, CloudError>;

    /// Replaces all ranges on one.
    async fn set_ranges(&self, id: Self::Id, ranges: &[Ipv4Net]) -> Result<(), CloudError>;

    /// See [`Routes::explain`].
    fn explain(&self, route: &Route, why: Unroutable) -> String;
}

/// Which of the interfaces of a machine has, or is to have, a range.
type Choose<I> = fn(&[Interface<I>], Ipv4Net) -> Option<I>;

/// The routes on the interfaces of a cloud.
pub struct InterfaceRoutes<T>(pub T);

impl<T: Interfaces> InterfaceRoutes<T> {
    /// Reads the ranges of an interface afresh, changes them, and writes them if that makes a difference.
    /// Whatever else is on the interface stays.
    async fn change(
        &self,
        route: &Route,
        may_write: MayWrite<'_>,
        choose: Choose<T::Id>,
        change: fn(&mut Vec<Ipv4Net>, Ipv4Net),
    ) -> Result<(), RouteError> {
        let refused = |why| {
            CloudError::new(
                self.provider(),
                ErrorKind::Invalid,
                self.explain(route, why),
            )
        };
        let IpNet::V4(destination) = route.destination else {
            return Err(refused(Unroutable::Family).into());
        };
        let interfaces = self.0.of_machine(&route.machine).await?;
        let Some(id) = choose(&interfaces, destination) else {
            return Err(refused(Unroutable::NoInterface).into());
        };
        let before = self.0.ranges(id).await?;
        let mut after = before.clone();
        change(&mut after, destination);
        if after != before {
            may_write()?;
            self.0.set_ranges(id, &after).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl<T: Interfaces> Routes for InterfaceRoutes<T> {
    fn provider(&self) -> &'static str {
        self.0.provider()
    }

    async fn list(&self, since: Option<Instant>) -> Result<RouteListing, CloudError> {
        self.0.list(since).await
    }

    fn can_write(&self, destination: &IpNet) -> bool {
        matches!(destination, IpNet::V4(_))
    }

    fn explain(&self, route: &Route, why: Unroutable) -> String {
        self.0.explain(route, why)
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
fn around<I: Copy>(interfaces: &[Interface<I>], destination: Ipv4Net) -> Option<I> {
    let is_around = |one: &&Interface<I>| one.subnet.contains(&destination);
    let found = interfaces.iter().find(is_around).or(interfaces.first());
    found.map(|interface| interface.id)
}

/// The interface that the range is on, else the one that it would be on.
fn with_range<I: Copy>(interfaces: &[Interface<I>], destination: Ipv4Net) -> Option<I> {
    let mut all = interfaces.iter();
    let found = all.find(|one| one.ranges.contains(&destination));
    found
        .map(|one| one.id)
        .or_else(|| around(interfaces, destination))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_belong_to_interfaces_with_addresses_that_are_in_use() {
        let items = vec![
            (1, Item::Range(net("10.9.1.0/24"))),
            (1, Item::Address(net("10.1.0.2/16"), true)),
            (2, Item::Address(net("10.2.0.2/16"), false)),
            (3, Item::Range(net("10.9.3.0/24"))),
            (4, Item::Address(net("10.4.0.2/16"), true)),
        ];
        let all = interfaces(items.clone());
        let shown: Vec<_> = all
            .iter()
            .map(|one| (one.id, one.ranges.len(), one.subnet.to_string()))
            .collect();
        assert_eq!(
            shown,
            [
                (1, 1, "10.1.0.0/16".to_owned()),
                (4, 0, "10.4.0.0/16".to_owned())
            ]
        );
        assert_eq!(with_range(&all, net("10.9.1.0/24")), Some(1));
        assert_eq!(around(&all, net("10.4.9.0/24")), Some(4));
        assert_eq!(around(&all, net("172.16.0.0/24")), Some(1));
        let inactive = items.into_iter().filter(|(id, _)| *id == 2).collect();
        assert_eq!(
            interfaces(inactive).len(),
            1,
            "nothing says what the machine runs with"
        );
        assert_eq!(around::<u8>(&[], net("10.0.0.0/24")), None);
    }
}
