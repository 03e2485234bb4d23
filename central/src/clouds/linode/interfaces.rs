//! Interfaces of Linodes in VPCs, in both generations: those of a configuration profile, and those of the
//! Linode itself.

use ipnet::{Ipv4Net, Ipv6Net};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cloud_api::{Client, CloudError, Request};

/// Which interface it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InterfaceId {
    pub(super) linode: u64,
    /// Of the configuration profile; `None`: it is the Linode's own.
    pub(super) config: Option<u64>,
    pub(super) interface: u64,
}

/// One of a configuration profile.
#[derive(Debug, Deserialize)]
struct ConfigInterface {
    ip_ranges: Vec<Ipv4Net>,
}

/// One of a Linode.
#[derive(Debug, Deserialize)]
struct LinodeInterface {
    vpc: VpcPart,
}

#[derive(Debug, Deserialize)]
struct VpcPart {
    ipv4: VpcIpv4,
}

#[derive(Debug, Deserialize)]
struct VpcIpv4 {
    ranges: Vec<Range<Ipv4Net>>,
}

#[derive(Debug, Deserialize)]
struct Range<T> {
    range: T,
}

impl InterfaceId {
    fn request(self, method: Method, of_config: &'static str, of_linode: &'static str) -> Request {
        let (linode, interface) = (self.linode, self.interface);
        match self.config {
            Some(config) => {
                let path =
                    format!("linode/instances/{linode}/configs/{config}/interfaces/{interface}");
                Request::new(of_config, method, path)
            }
            None => {
                let path = format!("linode/instances/{linode}/interfaces/{interface}");
                Request::new(of_linode, method, path)
            }
        }
    }

    /// Reads the ranges on it.
    pub(super) async fn ranges(self, client: &Client) -> Result<Vec<Ipv4Net>, CloudError> {
        let names = ("get_instance_config_interface", "get_interface");
        let request = self.request(Method::GET, names.0, names.1);
        self.fetch(client, &request).await
    }

    /// Writes all ranges on it. Gives those that it has then.
    pub(super) async fn set_ranges(
        self,
        client: &Client,
        ranges: &[Ipv4Net],
    ) -> Result<Vec<Ipv4Net>, CloudError> {
        let names = ("update_instance_config_interface", "update_interface");
        let request = self.request(Method::PUT, names.0, names.1);
        let body = if self.config.is_some() {
            json!({ "ip_ranges": ranges })
        } else {
            let ranges = ranges.iter().map(|range| json!({ "range": range }));
            json!({ "vpc": { "ipv4": { "ranges": ranges.collect::<Value>() } } })
        };
        self.fetch(client, &request.json(body)).await
    }

    async fn fetch(self, client: &Client, request: &Request) -> Result<Vec<Ipv4Net>, CloudError> {
        if self.config.is_some() {
            let interface: ConfigInterface = client.fetch(request).await?;
            return Ok(interface.ip_ranges);
        }
        let interface: LinodeInterface = client.fetch(request).await?;
        let ranges = interface.vpc.ipv4.ranges.into_iter();
        Ok(ranges.map(|range| range.range).collect())
    }
}

/// What an interface of either generation says of IPv6.
#[derive(Debug, Deserialize)]
pub(super) struct VpcIpv6 {
    slaac: Option<Vec<Range<Ipv6Net>>>,
    ranges: Option<Vec<Range<Ipv6Net>>>,
}

impl VpcIpv6 {
    /// The range that the Linode's own address is in, else the first of the others.
    pub(super) fn first(&self) -> Option<Ipv6Net> {
        let ranges = self.slaac.iter().chain(&self.ranges).flatten();
        ranges.map(|range| range.range).next()
    }
}
