//! What there is in a simulated Linode.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::instance::{complete, merge};
use super::limits::Limits;
use crate::TOKEN;
use crate::rows::Rows;

/// Ids that are as long as real ones.
const FIRST_ID: u64 = 10_000_001;

/// What belongs to one VPC.
#[derive(Default)]
pub(super) struct Vpc {
    pub(super) subnets: Rows,
    pub(super) ips: Rows,
    pub(super) ipv6s: Rows,
}

pub(super) struct State {
    pub(super) token: String,
    pub(super) limits: Limits,
    pub(super) instances: Rows,
    pub(super) vpcs: Rows,
    pub(super) of_vpc: BTreeMap<u64, Vpc>,
    next: u64,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            token: TOKEN.to_owned(),
            limits: Limits::default(),
            instances: Rows::default(),
            vpcs: Rows::default(),
            of_vpc: BTreeMap::new(),
            next: FIRST_ID,
        }
    }

    fn id(&mut self, given: &Value) -> u64 {
        if let Some(id) = given["id"].as_u64() {
            self.next = self.next.max(id + 1);
            return id;
        }
        self.next += 1;
        self.next - 1
    }

    pub(super) fn add_instance(&mut self, given: Value) -> u64 {
        let id = self.id(&given);
        self.instances.add(id.to_string(), complete(&given, id));
        id
    }

    pub(super) fn add_vpc(&mut self, given: Value) -> u64 {
        let id = self.id(&given);
        let mut vpc = json!({
            "id": id, "label": format!("vpc{id}"), "description": "", "region": "eu-central",
            "ipv6": null, "subnets": [],
            "created": "2026-01-02T03:04:05", "updated": "2026-01-02T03:04:05",
        });
        merge(&mut vpc, &given);
        self.vpcs.add(id.to_string(), vpc);
        self.of_vpc.insert(id, Vpc::default());
        id
    }

    pub(super) fn add_subnet(&mut self, vpc: u64, given: Value) -> u64 {
        let id = self.id(&given);
        let mut subnet = json!({
            "id": id, "label": format!("subnet{id}"), "ipv4": "10.0.0.0/24", "ipv6": null,
            "linodes": [], "nodebalancers": [], "databases": [],
            "created": "2026-01-02T03:04:05", "updated": "2026-01-02T03:04:05",
        });
        merge(&mut subnet, &given);
        self.vpcs.change(&vpc.to_string(), |vpc| {
            if let Some(subnets) = vpc["subnets"].as_array_mut() {
                subnets.push(subnet.clone());
            }
        });
        let of_vpc = self.of_vpc.entry(vpc).or_default();
        of_vpc.subnets.add(id.to_string(), subnet);
        id
    }

    /// A row of `/vpcs/{id}/ips`: an address, or a range.
    pub(super) fn add_vpc_ip(&mut self, vpc: u64, given: Value) {
        let mut row = json!({
            "address": null, "address_range": null, "vpc_id": vpc, "subnet_id": 0,
            "region": "eu-central", "linode_id": null, "config_id": null, "interface_id": 1,
            "nodebalancer_id": null, "database_id": null, "active": true, "nat_1_1": null,
            "gateway": "10.0.0.1", "prefix": 24, "subnet_mask": "255.255.255.0",
            "ipv6_range": null, "ipv6_is_public": null, "ipv6_addresses": [],
        });
        merge(&mut row, &given);
        let of_vpc = self.of_vpc.entry(vpc).or_default();
        of_vpc.ips.add(of_vpc.ips.len().to_string(), row);
    }

    /// A row of `/vpcs/{id}/ipv6s`: it has neither `address` nor `address_range`.
    pub(super) fn add_vpc_ipv6(&mut self, vpc: u64, given: Value) {
        let mut row = json!({
            "address": null, "address_range": null, "vpc_id": vpc, "subnet_id": 0,
            "region": "eu-central", "linode_id": null, "config_id": null, "interface_id": 1,
            "nodebalancer_id": null, "database_id": null, "active": true, "nat_1_1": "",
            "gateway": null, "prefix": 64, "subnet_mask": "",
            "ipv6_range": "2600:3c03:e000::/64", "ipv6_is_public": false, "ipv6_addresses": [],
        });
        merge(&mut row, &given);
        let of_vpc = self.of_vpc.entry(vpc).or_default();
        of_vpc.ipv6s.add(of_vpc.ipv6s.len().to_string(), row);
    }

    pub(super) fn load(&mut self, content: &Value) -> Result<()> {
        for key in content.as_object().into_iter().flat_map(|c| c.keys()) {
            if !["instances", "vpcs"].contains(&key.as_str()) {
                bail!("{key}: only instances and vpcs can be given");
            }
        }
        for instance in list(&content["instances"], "instances")? {
            self.add_instance(instance.clone());
        }
        for vpc in list(&content["vpcs"], "vpcs")? {
            let mut bare = vpc.clone();
            for part in ["subnets", "ips", "ipv6s"] {
                bare.as_object_mut().map(|vpc| vpc.remove(part));
            }
            let id = self.add_vpc(bare);
            for subnet in list(&vpc["subnets"], "subnets")? {
                self.add_subnet(id, subnet.clone());
            }
            for row in list(&vpc["ips"], "ips")? {
                self.add_vpc_ip(id, row.clone());
            }
            for row in list(&vpc["ipv6s"], "ipv6s")? {
                self.add_vpc_ipv6(id, row.clone());
            }
        }
        Ok(())
    }
}

fn list<'a>(value: &'a Value, name: &str) -> Result<&'a [Value]> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(values) => Ok(values),
        _ => bail!("{name}: write a list"),
    }
}
