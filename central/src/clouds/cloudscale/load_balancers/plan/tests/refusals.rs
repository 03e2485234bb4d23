//! What cannot be done, and what the cloud does not say.

use super::simulation::built;
use super::{SUBNET, plan, wanted};
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::clouds::cloudscale::api::balancers::Vip;
use crate::clouds::cloudscale::load_balancers::desired::Desired;
use crate::clouds::cloudscale::load_balancers::model::VipRequest;
use crate::clouds::cloudscale::load_balancers::observed::Observed;

fn refusal(desired: &Desired, observed: Option<&Observed>) -> String {
    match plan(desired, observed) {
        Err(ReconcileError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn refuses_immutable_changes_together_with_remedy() {
    let mut desired = wanted([]);
    let observed = built(&desired);
    desired.balancer.flavor = "lb-large".to_owned();
    desired.balancer.zone = Some("lpg1".to_owned());
    desired.balancer.vips = vec![VipRequest {
        subnet: None,
        address: Some("10.0.0.1".to_owned()),
    }];
    let why = refusal(&desired, Some(&observed));
    for part in [
        r#"from "lb-standard" to "lb-large""#,
        "loadbalancer-flavor",
        "loadbalancer-zone",
        "loadbalancer-vip-addresses",
        "delete the Service",
    ] {
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn compares_virtual_addresses_as_requested() {
    let vip = |address: &str| Vip {
        address: address.to_owned(),
        subnet: Some(SUBNET.to_owned()),
    };
    let request = |subnet: Option<&str>, address: Option<&str>| VipRequest {
        subnet: subnet.map(ToOwned::to_owned),
        address: address.map(ToOwned::to_owned),
    };
    let mut observed = built(&wanted([]));
    observed.balancer.vip_addresses = Some(vec![vip("10.0.0.9")]);
    for (request, is_fine) in [
        (request(Some(SUBNET), None), true),
        (request(None, Some("10.0.0.9")), true),
        (request(Some(SUBNET), Some("10.0.0.9")), true),
        (request(None, Some("10.0.0.8")), false),
        (request(Some("another"), None), false),
    ] {
        let mut desired = wanted([]);
        desired.balancer.vips = vec![request];
        assert_eq!(plan(&desired, Some(&observed)).is_ok(), is_fine);
        desired.balancer.vips.push(VipRequest::default());
        assert!(plan(&desired, Some(&observed)).is_err());
        // What the cloud does not say now differs from nothing.
        for unsaid in [None, Some(Vec::new())] {
            let mut observed = observed.clone();
            observed.balancer.vip_addresses = unsaid;
            assert!(plan(&desired, Some(&observed)).is_ok());
        }
    }
}

#[test]
fn creates_nothing_without_zone_or_requested_address() {
    let mut desired = wanted([]);
    desired.balancer.zone = None;
    assert!(refusal(&desired, None).contains("loadbalancer-zone"));
    desired.zone_of_nodes = Some("rma1".to_owned());
    desired.unmet_address = Some("192.0.2.1".to_owned());
    assert!(refusal(&desired, None).contains("192.0.2.1"));
    assert!(plan(&desired, Some(&built(&desired))).is_ok());
}
