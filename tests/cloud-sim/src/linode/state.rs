//! What there is in a simulated Linode.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::access::Access;
use super::answers::Refusal;
use super::behaviour::Behaviour;
use super::firewall_devices;
use super::instance::{complete, merge};
use super::kind::Kind;
use super::limits::Limits;
use super::vpc_interfaces::{self, VpcInterface};
use crate::TOKEN;
use crate::rows::{Row, Rows};
use crate::traffic::History;

/// Ids that are as long as real ones.
const FIRST_ID: u64 = 10_000_001;
/// The first public address that is given out: 198.18.0.0/15 is for benchmarks, and routed nowhere.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// When everything was made.
pub(super) const CREATED: &str = "2026-01-02T03:04:05";

/// What belongs to one VPC.
#[derive(Default)]
pub(super) struct Vpc {
    pub(super) subnets: Rows,
    pub(super) ips: Rows,
    pub(super) ipv6s: Rows,
}

pub(super) struct State {
    pub(super) token: String,
    pub(super) access: Access,
    pub(super) limits: Limits,
    pub(super) behaviour: Behaviour,
    pub(super) instances: Rows,
    /// New instances since when they are on their way, and what they are afterwards.
    pub(super) provisioning: Vec<(Instant, String, &'static str)>,
    /// The addresses that instances share, by instance.
    pub(super) shared: BTreeMap<u64, Vec<String>>,
    pub(super) vpcs: Rows,
    pub(super) of_vpc: BTreeMap<u64, Vpc>,
    pub(super) interfaces: Vec<VpcInterface>,
    objects: BTreeMap<Kind, Rows>,
    /// What was deleted, since listings may still show it.
    gone: BTreeMap<Kind, Rows>,
    /// What NodeBalancers served.
    pub(super) history: History,
    next: u64,
    next_address: u32,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            token: TOKEN.to_owned(),
            access: Access::default(),
            limits: Limits::default(),
            behaviour: Behaviour::default(),
            instances: Rows::default(),
            provisioning: Vec::new(),
            shared: BTreeMap::new(),
            vpcs: Rows::default(),
            of_vpc: BTreeMap::new(),
            interfaces: Vec::new(),
            objects: Kind::ALL.map(|kind| (kind, Rows::default())).into(),
            gone: Kind::ALL.map(|kind| (kind, Rows::default())).into(),
            history: History::default(),
            next: FIRST_ID,
            next_address: FIRST_ADDRESS.into(),
        }
    }

    pub(super) fn rows(&self, kind: Kind) -> &Rows {
        self.objects.get(&kind).expect("rows of every kind")
    }

    pub(super) fn rows_mut(&mut self, kind: Kind) -> &mut Rows {
        self.objects.get_mut(&kind).expect("rows of every kind")
    }

    /// Deletes an object; whether it was there.
    pub(super) fn delete(&mut self, kind: Kind, key: &str) -> bool {
        let value = self.rows(kind).value(key).clone();
        let there = self.rows_mut(kind).remove(key);
        if there {
            let gone = self.gone.get_mut(&kind).expect("rows of every kind");
            gone.add(key, value);
        }
        there
    }

    /// What a listing shows: objects that are so old, and those deleted less than so long ago.
    pub(super) fn listed(
        &self,
        kind: Kind,
        listed_after: Duration,
        delisted_after: Duration,
    ) -> impl Iterator<Item = &Row> {
        let (there, now) = (self.rows(kind).iter(), Instant::now());
        let there = there.filter(move |row| row.age(now) >= listed_after);
        let gone = self.gone.get(&kind).expect("rows of every kind").iter();
        there.chain(gone.filter(move |row| row.age(now) < delisted_after))
    }

    /// An object that there is.
    pub(super) fn existing(&self, kind: Kind, key: &str) -> Result<&Value, Refusal> {
        let row = self.rows(kind).get(key);
        row.map(|row| row.value()).ok_or_else(Refusal::not_found)
    }

    /// The objects of one kind whose field has this number.
    pub(super) fn referring<'a>(
        &'a self,
        kind: Kind,
        field: &'a str,
        id: u64,
    ) -> impl Iterator<Item = &'a Value> {
        let values = self.rows(kind).iter().map(|row| row.value());
        values.filter(move |value| value[field] == id)
    }

    /// An id that nothing has had.
    pub(super) fn new_id(&mut self) -> u64 {
        self.id(&Value::Null)
    }

    /// A public IPv4 address that nothing has had, and the IPv6 address that goes with it.
    pub(super) fn new_addresses(&mut self) -> (String, String) {
        let number = self.next_address;
        self.next_address += 1;
        let ipv6 = format!("2600:3c03:1::{:x}:{:x}", number >> 16, number & 0xffff);
        (Ipv4Addr::from(number).to_string(), ipv6)
    }

    pub(super) fn id(&mut self, given: &Value) -> u64 {
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

    /// An instance is deleted; whether it was there.
    pub(super) fn remove_instance(&mut self, id: u64) -> bool {
        vpc_interfaces::detach(self, id);
        firewall_devices::detach_all(self, "linode", id);
        self.instances.remove(&id.to_string())
    }

    pub(super) fn add_vpc(&mut self, given: Value) -> u64 {
        let id = self.id(&given);
        let mut vpc = json!({
            "id": id, "label": format!("vpc{id}"), "description": "", "region": "eu-central",
            "ipv6": null, "subnets": [],
            "created": CREATED, "updated": CREATED,
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
            "created": CREATED, "updated": CREATED,
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
}
