//! Interfaces of Linodes in VPCs, in both generations: those of a configuration profile, and those of the
//! Linode itself.

use ipnet::{Ipv4Net, Ipv6Net};
use serde::Deserialize;
use serde_json::{Value, json};

use super::api::{self, INSTANCES, INTERFACES, Instance, PROFILE_INTERFACES, PROFILES};
use crate::cloud_api::{Client, CloudError, Kind, Request, lenient, nullable};

/// Which interface it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InterfaceId {
    pub(super) linode: u64,
    /// Of the configuration profile; `None`: it is the Linode's own.
    pub(super) profile: Option<u64>,
    pub(super) interface: u64,
}

/// What is read of one, of either generation.
#[derive(Debug, Deserialize)]
struct Interface {
    /// Of one of a profile, what it is for, and whether the Linode runs with it.
    purpose: Option<String>,
    active: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    ip_ranges: Option<Option<Vec<Ipv4Net>>>,
    ipv6: Option<Ipv6>,
    /// What one of a Linode's own has in a VPC.
    vpc: Option<InVpc>,
}

#[derive(Debug, Deserialize)]
struct InVpc {
    #[serde(default, deserialize_with = "lenient")]
    ipv4: Option<Ipv4>,
    ipv6: Option<Ipv6>,
}

#[derive(Debug, Deserialize)]
struct Ipv4 {
    #[serde(deserialize_with = "nullable")]
    ranges: Vec<Range<Ipv4Net>>,
}

#[derive(Debug, Deserialize)]
struct Ipv6 {
    slaac: Option<Vec<Range<Ipv6Net>>>,
    ranges: Option<Vec<Range<Ipv6Net>>>,
}

#[derive(Debug, Deserialize)]
struct Range<T> {
    range: T,
}

/// The documentation names the list otherwise than Linode's own client.
#[derive(Debug, Deserialize)]
struct Interfaces {
    #[serde(alias = "data", deserialize_with = "nullable")]
    interfaces: Vec<Interface>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    #[serde(default, deserialize_with = "nullable")]
    interfaces: Vec<Interface>,
}

impl Interface {
    fn ipv4_ranges(self) -> Option<Vec<Ipv4Net>> {
        let Some(vpc) = self.vpc else {
            return self.ip_ranges.map(Option::unwrap_or_default);
        };
        let ranges = vpc.ipv4?.ranges.into_iter();
        Some(ranges.map(|range| range.range).collect())
    }

    /// In a VPC, the range that the Linode's own address is in, else the first of the others.
    fn ipv6_range(self) -> Option<Ipv6Net> {
        let of_profile = self.ipv6.filter(|_| self.purpose.as_deref() == Some("vpc"));
        let ipv6 = self.vpc.map_or(of_profile, |vpc| vpc.ipv6)?;
        let ranges = ipv6.slaac.into_iter().chain(ipv6.ranges).flatten();
        ranges.map(|range| range.range).next()
    }
}

impl InterfaceId {
    /// A request about it.
    pub(super) fn request(self, of: impl FnOnce(&Kind, &[&str], &str) -> Request) -> Request {
        let [linode, interface] = [self.linode, self.interface].map(|id| id.to_string());
        match self.profile {
            Some(id) => of(&PROFILE_INTERFACES, &[&linode, &id.to_string()], &interface),
            None => of(&INTERFACES, &[&linode], &interface),
        }
    }

    /// What gives it all these IPv4 ranges.
    pub(super) fn body(self, ranges: &[Ipv4Net]) -> Value {
        if self.profile.is_some() {
            return json!({ "ip_ranges": ranges });
        }
        let ranges = ranges.iter().map(|range| json!({ "range": range }));
        json!({ "vpc": { "ipv4": { "ranges": ranges.collect::<Value>() } } })
    }
}

/// The IPv4 ranges of the interface that a request is answered with.
pub(super) async fn ranges(client: &Client, request: &Request) -> Result<Vec<Ipv4Net>, CloudError> {
    let interface: Interface = client.fetch(request).await?;
    let ranges = interface.ipv4_ranges();
    ranges.ok_or_else(|| client.malformed(request, "the interface has no IPv4 ranges"))
}

/// The IPv6 range that a Linode has in a VPC.
pub(super) async fn ipv6_range(
    client: &Client,
    linode: &str,
) -> Result<Option<Ipv6Net>, CloudError> {
    let instance: Instance = client.fetch(&INSTANCES.get(&[], linode)).await?;
    let mut all: Vec<Interface> = if instance.interface_generation.as_deref() == Some("linode") {
        let all: Interfaces = client.fetch(&INTERFACES.list(&[linode])).await?;
        all.interfaces
    } else {
        let profiles: Vec<Profile> = client.all_pages(&api::all(&PROFILES, &[linode])).await?;
        let all = profiles.into_iter().flat_map(|one| one.interfaces);
        all.collect()
    };
    // That of the profile that the Linode runs with comes first.
    all.sort_by_key(|interface| interface.active != Some(true));
    Ok(all.into_iter().find_map(Interface::ipv6_range))
}
