//! What belongs together, in tables.

use super::super::super::api::CloudIp;
use super::super::plan::removal;
use super::*;

const NAME: &str = "web.default.kubernetes";

fn reference(id: &str, name: &str) -> Option<Reference> {
    let mut reference = Reference::of(id);
    name.clone_into(&mut reference.name);
    Some(reference)
}

/// What there is of this name: a server group with a mark, and this Cloud IP.
fn with(ip: CloudIp) -> Bundle {
    let account = Account {
        balancers: vec![Balancer {
            id: "lba-old".to_owned(),
            name: NAME.to_owned(),
            status: Some("deleted".to_owned()),
            ..Balancer::default()
        }],
        groups: vec![Group {
            id: "grp-aaaaa".to_owned(),
            name: NAME.to_owned(),
            description: mark("deadbeef", None),
            ..Group::default()
        }],
        policies: Vec::new(),
        cloud_ips: vec![CloudIp {
            id: "cip-aaaaa".to_owned(),
            name: NAME.to_owned(),
            status: Some("mapped".to_owned()),
            ..ip
        }],
    };
    let mut all = Bundle::all(&account).into_iter();
    all.find(|bundle| bundle.name == NAME).expect("it is there")
}

#[test]
fn cloud_ip_that_leads_to_what_is_gone_is_the_services_own() {
    let own = NAME.to_owned() + " #type:container";
    for (what, ip, is_own) in [
        (
            "a load balancer that is deleted",
            CloudIp {
                load_balancer: reference("lba-old", NAME),
                ..CloudIp::default()
            },
            true,
        ),
        (
            "one that is in no listing",
            CloudIp {
                load_balancer: reference("lba-older", &own),
                ..CloudIp::default()
            },
            true,
        ),
        ("nothing that is shown", CloudIp::default(), true),
        (
            "somebody's load balancer",
            CloudIp {
                load_balancer: reference("lba-other", "other"),
                ..CloudIp::default()
            },
            false,
        ),
        (
            "a server",
            CloudIp {
                server: reference("srv-aaaaa", NAME),
                ..CloudIp::default()
            },
            false,
        ),
    ] {
        let bundle = with(ip);
        let found = (bundle.cloud_ips.len(), bundle.taken.len());
        assert_eq!(found, if is_own { (1, 0) } else { (0, 1) }, "{what}");
        let steps: Vec<String> = removal(&bundle).iter().map(ToString::to_string).collect();
        // What tells whose it is stays until then.
        let expected = if is_own {
            "unmap Cloud IP cip-aaaaa".to_owned()
        } else {
            format!("delete server group {NAME} (grp-aaaaa)")
        };
        assert_eq!(steps, [expected], "{what}");
    }
}

#[test]
fn cloud_ip_that_is_about_to_be_unmapped_from_what_is_gone_is_waited_for() {
    let mut bundle = with(CloudIp::default());
    assert!(!bundle.is_changing());
    bundle.cloud_ips[0].is_moving = true;
    assert!(bundle.is_changing());
    bundle.cloud_ips[0].status = Some("unmapped".to_owned());
    assert!(!bundle.is_changing());
}
