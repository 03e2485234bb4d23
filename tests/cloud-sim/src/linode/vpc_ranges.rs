//! What NodeBalancers have in the subnets of VPCs: a range of at least four addresses, by which they
//! reach their backends, or the address at which they are reached.

use ipnet::Ipv4Net;
use serde_json::{Map, Value, json};

use super::answers::Errors;
use super::kind::Kind;
use super::state::State;
use super::strict::{self, Field, Is, May, Must};

/// The smallest range, and the one that is chosen.
const RANGE: u8 = 30;

pub(super) const BACKEND: &[Field] = &[
    Field("subnet_id", Is::Id, Must),
    Field("ipv4_range", Is::Text, May),
    Field("ipv6_range", Is::Text, May),
    Field("ipv4_range_auto_assign", Is::Flag, May),
];
pub(super) const FRONTEND: &[Field] = &[
    Field("subnet_id", Is::Id, Must),
    Field("ipv4_range", Is::Text, May),
    Field("ipv6_range", Is::Text, May),
];

/// A subnet of a VPC.
pub(super) struct Subnet {
    pub(super) vpc: u64,
    pub(super) cidr: Ipv4Net,
    has_ipv6: bool,
}

/// What a NodeBalancer is to have in a subnet.
pub(super) struct Attachment {
    pub(super) subnet: u64,
    pub(super) cidr: Ipv4Net,
    pub(super) range: Ipv4Net,
    vpc: u64,
    purpose: &'static str,
}

/// The subnet of this id, whichever VPC it is in.
pub(super) fn subnet(state: &State, id: u64) -> Option<Subnet> {
    let key = id.to_string();
    state.of_vpc.iter().find_map(|(vpc, of_vpc)| {
        let subnet = of_vpc.subnets.get(&key)?.value();
        let ipv6 = subnet["ipv6"].as_array();
        Some(Subnet {
            vpc: *vpc,
            cidr: subnet["ipv4"].as_str()?.parse().ok()?,
            has_ipv6: ipv6.is_some_and(|ranges| !ranges.is_empty()),
        })
    })
}

/// What a new NodeBalancer asks for in the subnets of its backends.
pub(super) fn backends(
    state: &State,
    given: &Map<String, Value>,
    region: &Value,
    errors: &mut Errors,
) -> Vec<Attachment> {
    // Older clients say `vpcs`.
    let name = ["backend_vpcs", "vpcs"]
        .into_iter()
        .find(|name| given.contains_key(*name));
    let name = name.unwrap_or("backend_vpcs");
    asked(state, given, name, region, errors, "backend")
}

/// What a new NodeBalancer asks for in the subnet of its clients, which only premium ones have.
pub(super) fn frontends(
    state: &State,
    given: &Map<String, Value>,
    region: &Value,
    errors: &mut Errors,
) -> Vec<Attachment> {
    let name = "frontend_vpcs";
    let is_asked = !strict::objects(given.get(name), name).is_empty();
    let kind = given.get("type").and_then(Value::as_str);
    if is_asked && !kind.is_some_and(|kind| kind.starts_with("premium")) {
        errors.add_plain("NodeBalancer with frontend VPC IP must be premium");
    }
    asked(state, given, name, region, errors, "frontend")
}

fn asked(
    state: &State,
    given: &Map<String, Value>,
    name: &str,
    region: &Value,
    errors: &mut Errors,
    purpose: &'static str,
) -> Vec<Attachment> {
    let all = strict::objects(given.get(name), name);
    if all.len() > 1 {
        errors.add(name, "Only one VPC is supported");
    }
    let attachments = all
        .iter()
        .filter_map(|(prefix, asked)| attachment(state, prefix, asked, region, errors, purpose));
    attachments.collect()
}

fn attachment(
    state: &State,
    prefix: &str,
    asked: &Map<String, Value>,
    region: &Value,
    errors: &mut Errors,
    purpose: &'static str,
) -> Option<Attachment> {
    let id = asked.get("subnet_id").and_then(Value::as_u64)?;
    let found = subnet(state, id).filter(|subnet| {
        let vpc = state.vpcs.value(&subnet.vpc.to_string());
        vpc["region"] == *region
    });
    let Some(subnet) = found else {
        let reason = "There is no such subnet in this region";
        errors.add(format!("{prefix}subnet_id"), reason);
        return None;
    };
    let ipv6 = asked.get("ipv6_range").and_then(Value::as_str);
    if ipv6.is_some_and(|range| !range.is_empty()) && !subnet.has_ipv6 {
        let reason = "No IPv6 subnets available in VPC.";
        errors.add(format!("{prefix}ipv6_range"), reason);
    }
    let range = asked.get("ipv4_range").and_then(Value::as_str);
    let range = range.filter(|range| !range.is_empty());
    let chooses = asked.get("ipv4_range_auto_assign") == Some(&json!(true));
    match chosen(state, id, &subnet, range, chooses) {
        Ok(range) => Some(Attachment {
            subnet: id,
            cidr: subnet.cidr,
            range,
            vpc: subnet.vpc,
            purpose,
        }),
        Err(reason) => {
            errors.add(format!("{prefix}ipv4_range"), reason);
            None
        }
    }
}

/// The range that is asked for, or a free one of it or of the whole subnet.
fn chosen(
    state: &State,
    id: u64,
    subnet: &Subnet,
    range: Option<&str>,
    chooses: bool,
) -> Result<Ipv4Net, String> {
    let taken = taken(state, id, subnet);
    let is_free = |range: &Ipv4Net| {
        let mut taken = taken.iter();
        !taken.any(|taken| taken.contains(range) || range.contains(taken))
    };
    let cidr = subnet.cidr;
    let within = match range.map(str::parse::<Ipv4Net>).transpose() {
        Err(_) => return Err("Must be an IPv4 range in CIDR notation".to_owned()),
        Ok(None) => cidr,
        Ok(Some(range)) if !cidr.contains(&range) => {
            return Err(format!("Must be in the subnet {cidr}"));
        }
        Ok(Some(range)) if range.prefix_len() > RANGE => {
            return Err(format!("Must be /{RANGE} or larger"));
        }
        Ok(Some(range)) if !chooses => {
            let range = range.trunc();
            return if is_free(&range) {
                Ok(range)
            } else {
                Err(format!("{range} is in use"))
            };
        }
        Ok(Some(range)) => range.trunc(),
    };
    let mut ranges = within.subnets(RANGE).into_iter().flatten();
    let free = ranges.find(is_free);
    free.ok_or_else(|| format!("No free /{RANGE} in {within}"))
}

/// What others have of a subnet, and what nobody can have: its first and last two addresses.
fn taken(state: &State, id: u64, subnet: &Subnet) -> Vec<Ipv4Net> {
    let (first, last) = (
        u32::from(subnet.cidr.network()),
        u32::from(subnet.cidr.broadcast()),
    );
    let ends = [first, first.saturating_add(1), last.saturating_sub(1), last];
    let ends = ends.map(|address| Ipv4Net::from(std::net::Ipv4Addr::from(address)));
    let of_vpc = state.of_vpc.get(&subnet.vpc);
    let rows = of_vpc.into_iter().flat_map(|vpc| vpc.ips.iter());
    let rows = rows.filter(|row| row.value()["subnet_id"] == id);
    let rows = rows.filter_map(|row| {
        let address = row.value()["address"].as_str();
        let text = address.or_else(|| row.value()["address_range"].as_str())?;
        let range = text.parse::<Ipv4Net>().ok();
        range.or_else(|| Some(Ipv4Net::from(text.parse::<std::net::Ipv4Addr>().ok()?)))
    });
    ends.into_iter().chain(rows).collect()
}

/// A NodeBalancer has this from now on.
pub(super) fn attach(state: &mut State, balancer: u64, attachment: &Attachment) {
    let (id, range) = (state.new_id(), attachment.range.to_string());
    let value = json!({
        "id": id, "nodebalancer_id": balancer, "vpc_id": attachment.vpc,
        "subnet_id": attachment.subnet, "ipv4_range": range, "ipv6_range": null,
        "purpose": attachment.purpose,
    });
    let rows = state.rows_mut(Kind::NodeBalancerVpc);
    rows.add(id.to_string(), value);
    for address in attachment.range.hosts() {
        let row = json!({
            "subnet_id": attachment.subnet, "nodebalancer_id": balancer,
            "address": address.to_string(), "interface_id": null,
        });
        state.add_vpc_ip(attachment.vpc, row);
    }
    let shown = json!({ "id": balancer, "ipv4_range": range });
    show_in_subnets(state, |subnet| {
        if subnet["id"] == attachment.subnet
            && let Some(balancers) = subnet["nodebalancers"].as_array_mut()
        {
            balancers.push(shown.clone());
        }
    });
}

/// A NodeBalancer has nothing in any VPC any more.
pub(super) fn detach(state: &mut State, balancer: u64) {
    let rows = state.rows_mut(Kind::NodeBalancerVpc);
    rows.remove_where(|row| row["nodebalancer_id"] == balancer);
    for of_vpc in state.of_vpc.values_mut() {
        of_vpc
            .ips
            .remove_where(|row| row["nodebalancer_id"] == balancer);
    }
    show_in_subnets(state, |subnet| {
        if let Some(balancers) = subnet["nodebalancers"].as_array_mut() {
            balancers.retain(|shown| shown["id"] != balancer);
        }
    });
}

/// Changes subnets where they are shown: by themselves, and in their VPC.
fn show_in_subnets(state: &mut State, change: impl Fn(&mut Value)) {
    for of_vpc in state.of_vpc.values_mut() {
        of_vpc.subnets.change_where(|_| true, &change);
    }
    state.vpcs.change_where(
        |_| true,
        |vpc| {
            let subnets = vpc["subnets"].as_array_mut();
            subnets.into_iter().flatten().for_each(&change);
        },
    );
}
