//! What it takes to be rid of all that a Service has, as far as that can be asked for now.
//!
//! The load balancer goes first, and all else once it is gone. What proves whose the rest is goes last: the
//! server group if it bears a mark, else the Cloud IPs, whose names are in the Service's status.

use super::super::api::cloud_ips::CloudIp;
use super::super::api::firewall::Group;
use super::bundle::Bundle;
use super::step::Step;
use crate::engine::provider::Listed as _;

/// The steps in order.
pub(super) fn steps(bundle: &Bundle) -> Vec<Step> {
    if !bundle.balancers.is_empty() {
        let balancers = bundle.balancers.iter();
        let delete = balancers.map(|balancer| Step::DeleteBalancer {
            id: balancer.id.clone(),
            name: bundle.name.clone(),
        });
        return delete.collect();
    }
    let ips = bundle.cloud_ips.iter().map(given_back);
    let policies = bundle.policies.iter().map(|policy| Step::DeletePolicy {
        id: policy.id.clone(),
        name: policy.name.clone(),
    });
    let groups = bundle.groups.iter().flat_map(emptied_and_deleted);
    match bundle.owner() {
        Some(_) => ips.chain(policies).chain(groups).collect(),
        None => policies.chain(groups).chain(ips).collect(),
    }
}

/// One that still leads to what is gone is unmapped first.
fn given_back(ip: &CloudIp) -> Step {
    match ip.target() {
        Some(_) => Step::UnmapCloudIp {
            ip: ip.clone(),
            asked: None,
        },
        None => Step::DeleteCloudIp { ip: ip.clone() },
    }
}

fn emptied_and_deleted(group: &Group) -> Vec<Step> {
    let empty = (!group.servers.is_empty()).then(|| Step::EmptyGroup {
        group: group.id.clone(),
        servers: group.servers.clone(),
    });
    let delete = Step::DeleteGroup {
        id: group.id.clone(),
        name: group.name.clone(),
    };
    empty.into_iter().chain([delete]).collect()
}
