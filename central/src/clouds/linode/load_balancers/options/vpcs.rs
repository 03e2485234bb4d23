//! Which subnets of VPCs a NodeBalancer uses: what the Service says, before what the flags say.

use ipnet::IpNet;

use super::super::model::{Subnet, VpcChoice};
use super::number;
use crate::cloud_provider::annotations::Annotation;
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::settings::LoadBalancerSettings;
use crate::engine::annotations::Reader;

/// The subnet by which Nodes are reached. `None`: they are reached outside of VPCs.
pub(super) fn subnet(
    reader: &mut Reader<'_>,
    settings: &LoadBalancerSettings,
    ipv6_backends: bool,
) -> Option<Subnet> {
    let id = number(reader, &keys::BACKEND_SUBNET_ID);
    if settings.disables_vpc_backends || ipv6_backends {
        return None;
    }
    let by_flag = || settings.backend_ipv4_subnet_id.map(Subnet::Id);
    let Some(first_vpc) = settings.vpc_names.first() else {
        return by_flag();
    };
    let named = |vpc: &str, subnet: &str| Subnet::Named {
        vpc: vpc.to_owned(),
        subnet: subnet.to_owned(),
    };
    let vpc = reader.optional(&keys::BACKEND_VPC_NAME);
    let subnet = reader.optional(&keys::BACKEND_SUBNET_NAME);
    let are_named = vpc.is_some() || subnet.is_some();
    let by_flag_name = || {
        let name = settings.backend_ipv4_subnet_name.as_deref()?;
        Some(named(first_vpc, name))
    };
    let of_flags = || by_flag().or_else(by_flag_name).filter(|_| !are_named);
    let first_subnet = settings.subnet_names.first().map(String::as_str);
    let by_name = || {
        let subnet = subnet.or(first_subnet)?;
        Some(named(vpc.unwrap_or(first_vpc), subnet))
    };
    id.map(Subnet::Id).or_else(of_flags).or_else(by_name)
}

/// What a new NodeBalancer has of that subnet's VPC.
pub(super) fn backend(
    reader: &mut Reader<'_>,
    settings: &LoadBalancerSettings,
    subnet: Option<&Subnet>,
) -> Option<VpcChoice> {
    let range = reader.optional(&keys::BACKEND_IPV4_RANGE);
    let is_within = |range: &str| {
        let Some(outer) = settings.backend_ipv4_subnet else {
            return true;
        };
        range.parse::<IpNet>().is_ok_and(|net| outer.contains(&net))
    };
    if let Some(range) = range.filter(|range| !is_within(range)) {
        let outer = settings.backend_ipv4_subnet.map(|net| net.to_string());
        let remedy = format!(
            "is not within the subnet {} of --nodebalancer-backend-ipv4-subnet; write a block of it",
            outer.unwrap_or_default()
        );
        reader.fault_in(&keys::BACKEND_IPV4_RANGE, range, remedy);
    }
    let subnet = subnet?.clone();
    let is_said = |annotation| reader.optional(annotation).is_some();
    let is_of_flags = !is_said(&keys::BACKEND_VPC_NAME)
        && !is_said(&keys::BACKEND_SUBNET_NAME)
        && !is_said(&keys::BACKEND_SUBNET_ID);
    let has_flag_subnet =
        settings.backend_ipv4_subnet_id.is_some() || settings.backend_ipv4_subnet_name.is_some();
    let of_flags = settings
        .backend_ipv4_subnet
        .filter(|_| is_of_flags && !has_flag_subnet);
    Some(VpcChoice {
        is_any_of_range: range.is_none() && of_flags.is_some(),
        ipv4_range: range
            .map(ToOwned::to_owned)
            .or_else(|| of_flags.map(|net| net.to_string())),
        ipv6_range: None,
        subnet,
    })
}

/// Where a new NodeBalancer has its address, if that is in a VPC.
pub(super) fn frontend(reader: &mut Reader<'_>) -> Option<VpcChoice> {
    let id = number(reader, &keys::FRONTEND_SUBNET_ID);
    let vpc = reader.optional(&keys::FRONTEND_VPC_NAME);
    let subnet = reader.optional(&keys::FRONTEND_SUBNET_NAME);
    let ipv4_range = range(reader, &keys::FRONTEND_IPV4_RANGE);
    let ipv6_range = range(reader, &keys::FRONTEND_IPV6_RANGE);
    let by_name = match (vpc, subnet) {
        (Some(vpc), Some(subnet)) => Some(Subnet::Named {
            vpc: vpc.to_owned(),
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
        (Some(subnet), _) => Some(VpcChoice {
            subnet,
            ipv4_range,
            ipv6_range,
            is_any_of_range: false,
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

fn range(reader: &mut Reader<'_>, annotation: &Annotation) -> Option<String> {
    let text = reader.optional(annotation)?;
    if text.parse::<IpNet>().is_err() {
        let remedy = "is no block of addresses; write it like 10.0.0.0/30";
        reader.fault_in(annotation, text, remedy);
    }
    Some(text.to_owned())
}
