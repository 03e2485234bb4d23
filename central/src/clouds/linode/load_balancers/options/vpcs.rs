//! Which subnets of VPCs a NodeBalancer uses: what the Service says, before what the flags say.

use ipnet::Ipv4Net;

use super::super::model::VpcUse;
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::config::Settings;
use crate::clouds::linode::vpcs::{Subnet, Vpc};
use crate::clouds::linode::{BackendSubnet, VpcChoice};
use crate::engine::annotations::Reader;

/// An example of where an address is taken from.
const RANGE: &str = "10.0.0.0/30";

/// The subnet by which Nodes are reached. `None`: they are reached outside of VPCs.
pub(super) fn subnet(
    reader: &mut Reader<'_>,
    settings: &Settings,
    ipv6_backends: bool,
) -> Option<Subnet> {
    let id = reader.id(&keys::BACKEND_SUBNET_ID);
    if settings.flags.subnet == BackendSubnet::Disabled || ipv6_backends {
        return None;
    }
    let Some((first_vpc, first_subnet)) = first(&settings.flags.vpcs) else {
        return match settings.flags.subnet {
            BackendSubnet::Number(number) => Some(Subnet::Id(number)),
            _ => None,
        };
    };
    let vpc = reader.optional(&keys::BACKEND_VPC_NAME);
    let vpc = vpc.map(|label| Vpc::Label(label.to_owned()));
    let subnet = reader.optional(&keys::BACKEND_SUBNET_NAME);
    let in_vpc = |vpc, subnet: &str| Subnet::Named {
        vpc,
        subnet: subnet.to_owned(),
    };
    Some(match (id, vpc, subnet, &settings.flags.subnet) {
        (Some(id), ..) => Subnet::Id(id),
        (None, vpc, Some(subnet), _) => in_vpc(vpc.unwrap_or(first_vpc), subnet),
        // The one that is called like the first that the flags name.
        (None, Some(vpc), None, _) => match (first_vpc, first_subnet) {
            (Vpc::Id(first), Subnet::Id(subnet)) => Subnet::NamedLike {
                vpc,
                other: (first, subnet),
            },
            (_, Subnet::Named { subnet, .. }) => in_vpc(vpc, &subnet),
            (_, other) => other,
        },
        (None, None, None, BackendSubnet::Number(number)) => Subnet::Id(*number),
        (None, None, None, BackendSubnet::Name(name)) => in_vpc(first_vpc, name),
        (None, None, None, BackendSubnet::First | BackendSubnet::Disabled) => first_subnet,
    })
}

/// The first VPC that the flags name, and the first of its subnets.
fn first(vpcs: &VpcChoice) -> Option<(Vpc, Subnet)> {
    match vpcs {
        VpcChoice::None => None,
        VpcChoice::Names { vpcs, subnets } => {
            let vpc = Vpc::Label(vpcs.first()?.clone());
            let subnet = subnets.first()?.clone();
            Some((vpc.clone(), Subnet::Named { vpc, subnet }))
        }
        VpcChoice::Numbers { vpcs, subnets } => {
            Some((Vpc::Id(*vpcs.first()?), Subnet::Id(*subnets.first()?)))
        }
    }
}

/// What a new NodeBalancer has of that subnet's VPC.
pub(super) fn backend(
    reader: &mut Reader<'_>,
    settings: &Settings,
    subnet: Option<&Subnet>,
) -> Option<VpcUse> {
    let range = reader.optional(&keys::BACKEND_IPV4_RANGE);
    if let (Some(range), Some(outer)) = (range, settings.flags.range) {
        let net: Result<Ipv4Net, _> = range.parse();
        if !net.is_ok_and(|net| outer.contains(&net)) {
            let remedy = format!(
                "is not within the subnet {outer} of --nodebalancer-backend-ipv4-subnet; write a block of it"
            );
            reader.fault_in(&keys::BACKEND_IPV4_RANGE, range, remedy);
        }
    }
    let subnet = subnet?.clone();
    let is_said = |annotation| reader.optional(annotation).is_some();
    let is_of_flags = !is_said(&keys::BACKEND_VPC_NAME) && !is_said(&keys::BACKEND_SUBNET_NAME);
    let is_first = settings.flags.subnet == BackendSubnet::First;
    let is_of_flags = range.is_none() && is_of_flags && is_first;
    let of_flags = settings.flags.range.filter(|_| is_of_flags);
    let of_flags = of_flags.map(|net| net.to_string());
    Some(VpcUse {
        is_any_of_range: of_flags.is_some().then_some(true),
        ipv4_range: range.map(ToOwned::to_owned).or(of_flags),
        ipv6_range: None,
        subnet,
    })
}

/// Where a new NodeBalancer has its address, if that is in a VPC.
pub(super) fn frontend(reader: &mut Reader<'_>) -> Option<VpcUse> {
    let id = reader.id(&keys::FRONTEND_SUBNET_ID);
    let vpc = reader.optional(&keys::FRONTEND_VPC_NAME);
    let subnet = reader.optional(&keys::FRONTEND_SUBNET_NAME);
    let ipv4_range = reader.block(&keys::FRONTEND_IPV4_RANGE, RANGE);
    let ipv6_range = reader.block(&keys::FRONTEND_IPV6_RANGE, RANGE);
    let by_name = match (vpc, subnet) {
        (Some(vpc), Some(subnet)) => Some(Subnet::Named {
            vpc: Vpc::Label(vpc.to_owned()),
            subnet: subnet.to_owned(),
        }),
        _ => None,
    };
    let chosen = id.map(Subnet::Id).or(by_name);
    let asks = vpc.or(subnet).map(str::to_owned);
    let asks = asks
        .or_else(|| ipv4_range.clone())
        .or_else(|| ipv6_range.clone());
    let is_unread = reader.optional(&keys::FRONTEND_SUBNET_ID).is_some() && id.is_none();
    match (chosen, asks) {
        (Some(subnet), _) => Some(VpcUse {
            subnet,
            ipv4_range,
            ipv6_range,
            is_any_of_range: None,
        }),
        (None, Some(value)) if !is_unread => {
            let remedy = "frontend VPC configuration requires either subnet-id or both vpc-name and \
                          subnet-name annotations; write frontend-subnet-id, or both names";
            reader.fault_in(&keys::FRONTEND_SUBNET_ID, &value, remedy);
            None
        }
        (None, _) => None,
    }
}
