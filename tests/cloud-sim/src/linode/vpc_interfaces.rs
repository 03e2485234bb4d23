//! Interfaces of Linodes in VPCs, in both generations, and the ranges that are routed to them.
//!
//! An interface of the generation `legacy_config` belongs to a configuration profile, one of the generation
//! `linode` to the Linode. Each is asked for in its own way, and refused in the other.

use std::net::Ipv4Addr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::routing::get;
use http::{HeaderMap, Uri};
use ipnet::{Ipv4Net, Ipv6Net};
use serde_json::{Value, json};

use super::answers::{Answer, Errors, Refusal, ok};
use super::api::{Handle, listing};
use super::state::State;
use super::{lock, strict, vpc_ranges};
use crate::rows::Rows;

/// Which generation a Linode's interfaces are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Generation {
    LegacyConfig,
    Linode,
}

/// An interface in a VPC.
#[derive(Clone, Debug)]
pub(super) struct VpcInterface {
    id: u64,
    linode: u64,
    /// The profile that it belongs to.
    config: Option<u64>,
    vpc: u64,
    subnet: u64,
    address: Ipv4Addr,
    ranges: Vec<Ipv4Net>,
    ipv6: Option<Ipv6Net>,
    /// Counts the changes.
    version: u64,
}

pub(super) fn routes() -> Router<Handle> {
    let instance = "/linode/instances/{id}";
    Router::new()
        .route(&format!("{instance}/configs"), get(configs))
        .route(
            &format!("{instance}/configs/{{config}}/interfaces/{{interface}}"),
            get(of_config).put(update_of_config),
        )
        .route(&format!("{instance}/interfaces"), get(interfaces))
        .route(
            &format!("{instance}/interfaces/{{interface}}"),
            get(of_linode).put(update_of_linode),
        )
}

async fn configs(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let state = lock(&state);
    let linode = linode(&state, &id)?;
    let shown = state.interfaces.iter().filter(|one| one.linode == linode);
    let shown: Vec<Value> = shown
        .filter(|one| one.config.is_some())
        .map(shown_of_config)
        .collect();
    let mut rows = Rows::default();
    let config = config_of(linode);
    let value = json!({ "id": config, "label": "My Debian Disk Profile", "interfaces": shown });
    rows.add(config.to_string(), value);
    Ok(listing(rows.iter(), &["id", "label"], &headers, &uri))
}

async fn interfaces(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let state = lock(&state);
    let linode = linode(&state, &id)?;
    require(&state, linode, Generation::Linode)?;
    let mut rows = Rows::default();
    for one in state.interfaces.iter().filter(|one| one.linode == linode) {
        rows.add(one.id.to_string(), shown_of_linode(one));
    }
    Ok(listing(rows.iter(), &["id"], &headers, &uri))
}

async fn of_config(
    Shared(state): Shared<Handle>,
    Path((id, config, interface)): Path<(String, u64, u64)>,
) -> Answer {
    let state = lock(&state);
    let index = find(&state, &id, Some(config), interface)?;
    Ok(ok(shown_of_config(&state.interfaces[index]).to_string()))
}

async fn of_linode(
    Shared(state): Shared<Handle>,
    Path((id, interface)): Path<(String, u64)>,
) -> Answer {
    let state = lock(&state);
    let index = find(&state, &id, None, interface)?;
    Ok(ok(shown_of_linode(&state.interfaces[index]).to_string()))
}

async fn update_of_config(
    Shared(state): Shared<Handle>,
    Path((id, config, interface)): Path<(String, u64, u64)>,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let index = find(&state, &id, Some(config), interface)?;
    let body = strict::object(&body)?;
    let asked = texts(
        body.get("ip_ranges"),
        |item| item,
        "ip_ranges",
        |n| format!("ip_ranges[{n}]"),
    );
    update(&mut state, index, asked)
}

async fn update_of_linode(
    Shared(state): Shared<Handle>,
    Path((id, interface)): Path<(String, u64)>,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let index = find(&state, &id, None, interface)?;
    let body = Value::Object(strict::object(&body)?);
    if ["public", "vlan"].iter().any(|kind| !body[*kind].is_null()) {
        return Err(Refusal::reason(
            "The type of an interface cannot be changed",
        ));
    }
    let name = "vpc.ipv4.ranges";
    let ranges = Some(&body["vpc"]["ipv4"]["ranges"]);
    let asked = texts(
        ranges,
        |item| &item["range"],
        name,
        |n| format!("{name}[{n}].range"),
    );
    update(&mut state, index, asked)
}

/// What a request asks for: `None` leaves the ranges as they are. Each with the name of its field.
type Asked = Result<Option<Vec<(String, String)>>, Errors>;

fn texts<'a>(
    list: Option<&'a Value>,
    text: fn(&Value) -> &Value,
    name: &str,
    field: impl Fn(usize) -> String,
) -> Asked {
    let list: &'a Value = list.unwrap_or(&Value::Null);
    if list.is_null() {
        return Ok(None);
    }
    let mut errors = Errors::default();
    let Some(items) = list.as_array() else {
        errors.add(name, "Must be of type Array");
        return Err(errors);
    };
    let mut all = Vec::new();
    let mut is_good = true;
    for (index, item) in items.iter().enumerate() {
        match text(item).as_str() {
            Some(text) => all.push((field(index), text.to_owned())),
            None => {
                errors.add(field(index), "Must be of type String");
                is_good = false;
            }
        }
    }
    if is_good { Ok(Some(all)) } else { Err(errors) }
}

fn update(state: &mut State, index: usize, asked: Asked) -> Answer {
    let asked = match asked {
        Ok(asked) => asked,
        Err(errors) => {
            errors.into_result()?;
            return Err(Refusal::reason("Invalid request"));
        }
    };
    if let Some(asked) = asked {
        let ranges = checked(state, index, &asked)?;
        state.interfaces[index].ranges = ranges;
    }
    state.interfaces[index].version += 1;
    show(state, index);
    let one = &state.interfaces[index];
    let shown = if one.config.is_some() {
        shown_of_config(one)
    } else {
        shown_of_linode(one)
    };
    Ok(ok(shown.to_string()))
}

/// Ranges in the subnet that share no address with anything else in the VPC, nor with each other.
fn checked(
    state: &State,
    index: usize,
    asked: &[(String, String)],
) -> Result<Vec<Ipv4Net>, Refusal> {
    let one = &state.interfaces[index];
    let subnet = vpc_ranges::subnet(state, one.subnet).ok_or_else(Refusal::not_found)?;
    let taken = taken(state, one);
    let mut errors = Errors::default();
    let mut ranges: Vec<Ipv4Net> = Vec::new();
    for (field, text) in asked {
        let range = text.parse::<Ipv4Net>();
        let complaint = match range {
            Err(_) => Some("Must be an IPv4 range in CIDR notation".to_owned()),
            Ok(range) if range != range.trunc() => Some("Must have no host bits set".to_owned()),
            Ok(range) if !subnet.cidr.contains(&range) => {
                Some(format!("Must be in the subnet {}", subnet.cidr))
            }
            Ok(range)
                if taken
                    .iter()
                    .chain(&ranges)
                    .any(|other| overlap(other, &range)) =>
            {
                Some(format!("{range} overlaps with what is in use in the VPC"))
            }
            Ok(range) => {
                ranges.push(range);
                None
            }
        };
        if let Some(complaint) = complaint {
            errors.add(field.clone(), complaint);
        }
    }
    errors.into_result()?;
    Ok(ranges)
}

/// What others have in the VPC, and the address of this one.
fn taken(state: &State, one: &VpcInterface) -> Vec<Ipv4Net> {
    let rows = state
        .of_vpc
        .get(&one.vpc)
        .into_iter()
        .flat_map(|vpc| vpc.ips.iter());
    let rows = rows.map(|row| row.value());
    let rows = rows.filter(|row| row["interface_id"] != one.id || !row["address"].is_null());
    let range = |row: &Value| {
        let text = row["address"].as_str().or(row["address_range"].as_str())?;
        let address = text.parse::<Ipv4Addr>().map(Ipv4Net::from);
        address.ok().or_else(|| text.parse().ok())
    };
    rows.filter_map(range).collect()
}

fn overlap(a: &Ipv4Net, b: &Ipv4Net) -> bool {
    a.contains(b) || b.contains(a)
}

fn linode(state: &State, id: &str) -> Result<u64, Refusal> {
    let row = state.instances.get(id).ok_or_else(Refusal::not_found)?;
    row.value()["id"].as_u64().ok_or_else(Refusal::not_found)
}

fn generation(state: &State, linode: u64) -> Generation {
    match state.instances.value(&linode.to_string())["interface_generation"].as_str() {
        Some("linode") => Generation::Linode,
        _ => Generation::LegacyConfig,
    }
}

fn require(state: &State, linode: u64, wanted: Generation) -> Result<(), Refusal> {
    if generation(state, linode) == wanted {
        return Ok(());
    }
    Err(Refusal::reason(match wanted {
        Generation::Linode => "Linode is not using Linode interfaces",
        Generation::LegacyConfig => "Linode is not using configuration profile interfaces",
    }))
}

fn find(state: &State, id: &str, config: Option<u64>, interface: u64) -> Result<usize, Refusal> {
    let linode = linode(state, id)?;
    let wanted = if config.is_some() {
        Generation::LegacyConfig
    } else {
        Generation::Linode
    };
    require(state, linode, wanted)?;
    let is_it =
        |one: &VpcInterface| one.linode == linode && one.id == interface && one.config == config;
    let found = state.interfaces.iter().position(is_it);
    found.ok_or_else(Refusal::not_found)
}

/// The one profile that a Linode has.
const fn config_of(linode: u64) -> u64 {
    linode + 50_000_000
}

/// An instance gets an interface in a subnet, of its own generation; gives the interface's id.
pub(super) fn attach(state: &mut State, linode: u64, subnet: u64, address: &str) -> u64 {
    let vpc = vpc_ranges::subnet(state, subnet)
        .expect("there is such a subnet")
        .vpc;
    let id = state.new_id();
    let legacy = generation(state, linode) == Generation::LegacyConfig;
    state.interfaces.push(VpcInterface {
        id,
        linode,
        config: legacy.then(|| config_of(linode)),
        vpc,
        subnet,
        address: address.parse().expect("an IPv4 address"),
        ranges: Vec::new(),
        ipv6: None,
        version: 1,
    });
    show(state, state.interfaces.len() - 1);
    id
}

/// Changes the ranges of an interface without asking whether it may have them.
pub(super) fn set_ranges(state: &mut State, linode: u64, ranges: &[&str]) {
    let index = first_of(state, linode);
    let ranges = ranges.iter().map(|range| range.parse().expect("a range"));
    state.interfaces[index].ranges = ranges.collect();
    show(state, index);
}

/// The IPv6 range that an interface has in its VPC.
pub(super) fn set_ipv6_range(state: &mut State, linode: u64, range: &str) {
    let index = first_of(state, linode);
    state.interfaces[index].ipv6 = Some(range.parse().expect("an IPv6 range"));
    show(state, index);
}

/// The ranges on all interfaces of an instance.
pub(super) fn ranges(state: &State, linode: u64) -> Vec<String> {
    let own = state.interfaces.iter().filter(|one| one.linode == linode);
    let ranges = own.flat_map(|one| &one.ranges);
    ranges.map(ToString::to_string).collect()
}

/// An instance is gone, with its interfaces.
pub(super) fn detach(state: &mut State, linode: u64) {
    let own: Vec<VpcInterface> = {
        let own = state.interfaces.iter().filter(|one| one.linode == linode);
        own.cloned().collect()
    };
    state.interfaces.retain(|one| one.linode != linode);
    for one in own {
        hide(state, &one);
    }
}

fn first_of(state: &State, linode: u64) -> usize {
    let mut interfaces = state.interfaces.iter();
    let found = interfaces.position(|one| one.linode == linode);
    found.unwrap_or_else(|| panic!("instance {linode} is in no VPC"))
}

fn hide(state: &mut State, one: &VpcInterface) {
    if let Some(of_vpc) = state.of_vpc.get_mut(&one.vpc) {
        let is_its = |row: &Value| row["interface_id"] == one.id && row["linode_id"] == one.linode;
        of_vpc.ips.remove_where(is_its);
        of_vpc.ipv6s.remove_where(is_its);
    }
}

/// Shows an interface among the addresses of its VPC, as it is now.
fn show(state: &mut State, index: usize) {
    let one = state.interfaces[index].clone();
    hide(state, &one);
    let cidr = vpc_ranges::subnet(state, one.subnet).map(|subnet| subnet.cidr);
    let row = json!({
        "subnet_id": one.subnet, "linode_id": one.linode, "config_id": one.config,
        "interface_id": one.id, "prefix": cidr.map(|cidr| cidr.prefix_len()),
        "subnet_mask": cidr.map(|cidr| cidr.netmask()),
    });
    let with = |field: &str, value: String| {
        let mut row = row.clone();
        row[field] = json!(value);
        row
    };
    state.add_vpc_ip(one.vpc, with("address", one.address.to_string()));
    for range in &one.ranges {
        state.add_vpc_ip(one.vpc, with("address_range", range.to_string()));
    }
    if let Some(range) = one.ipv6 {
        let row = json!({
            "subnet_id": one.subnet, "linode_id": one.linode, "config_id": one.config,
            "interface_id": one.id, "ipv6_range": range.to_string(),
            "ipv6_addresses": [{ "slaac_address": range.network().to_string() }],
        });
        state.add_vpc_ipv6(one.vpc, row);
    }
}

fn ipv6(one: &VpcInterface) -> Value {
    let slaac = one
        .ipv6
        .map(|range| json!({ "range": range, "address": range.network() }));
    json!({ "slaac": slaac.into_iter().collect::<Value>(), "ranges": [], "is_public": false })
}

fn shown_of_config(one: &VpcInterface) -> Value {
    json!({
        "id": one.id, "purpose": "vpc", "label": null, "ipam_address": null, "primary": true,
        "active": true, "vpc_id": one.vpc, "subnet_id": one.subnet,
        "ipv4": { "vpc": one.address, "nat_1_1": null }, "ipv6": ipv6(one),
        "ip_ranges": one.ranges,
    })
}

fn shown_of_linode(one: &VpcInterface) -> Value {
    let ranges = one.ranges.iter().map(|range| json!({ "range": range }));
    json!({
        "id": one.id, "version": one.version, "mac_address": "22:00:AB:CD:EF:01",
        "default_route": { "ipv4": true }, "public": null, "vlan": null,
        "vpc": {
            "vpc_id": one.vpc, "subnet_id": one.subnet,
            "ipv4": {
                "addresses": [{ "address": one.address, "primary": true }],
                "ranges": ranges.collect::<Value>(),
            },
            "ipv6": ipv6(one),
        },
    })
}
