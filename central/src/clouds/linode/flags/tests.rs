use std::sync::LazyLock;
use std::time::Duration;

use mooring_common::flags::{Action, Flag, FlagFaults, FlagTable, Kind, Parsed, flag};

use super::*;
use crate::clouds::linode::REGISTRATION;

static TABLE: LazyLock<FlagTable> = LazyLock::new(|| FlagTable {
    program: "",
    about: "",
    flags: &FLAGS,
    operand: "",
});

/// Linode's, and the one of all clouds that it reads.
static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let name = flag(
        "",
        "cluster-name",
        Kind::Text,
        "kubernetes",
        Action::Act,
        "",
    );
    [REGISTRATION.flags, &[name]].concat()
});

/// All flags absent.
impl Default for Flags {
    fn default() -> Self {
        read("").unwrap()
    }
}

fn read(line: &str) -> Result<Flags, FlagFaults> {
    let arguments = line.split_whitespace().map(ToOwned::to_owned);
    let Parsed::Run(values) = TABLE.parse(arguments, |_| None)? else {
        panic!("{line}");
    };
    let mut reader = Reader::new(&TABLE, &values);
    let flags = Flags::read(&mut reader);
    reader.finish().map(|()| flags)
}

fn faults(line: &str) -> Vec<String> {
    read(line).unwrap_err().faults
}

#[test]
fn defaults_are_those_of_the_go_controller() {
    let flags = read("").unwrap();
    assert_eq!(
        flags,
        Flags {
            kind: "common",
            prefix: "ccm".to_owned(),
            cluster_name: Some("kubernetes".to_owned()),
            tags: Vec::new(),
            subnet: BackendSubnet::First,
            range: None,
            ipv6_ingress: false,
            ipv6_backends: false,
            drain_period: Duration::from_secs(5),
            tag_filter: None,
            vpcs: VpcChoice::None,
            checks_token: false,
            logs_exchanges: false,
            notices: Vec::new(),
            has_routes: false,
            ipv4_mask: 24,
            ipv6_mask: Some(112),
        }
    );
}

#[test]
fn reads_all_flags_of_node_balancers() {
    let flags = read(
        "--default-nodebalancer-type=premium_40GB --nodebalancer-prefix=my_Prefix-123456789 \
         --cluster-name=shop --nodebalancer-tags=a,b --nodebalancer-tags=c --vpc-names=net \
         --nodebalancer-backend-ipv4-subnet=10.100.0.0/24 --enable-ipv6-for-loadbalancers \
         --nodebalancer-backend-ipv4-subnet-name=lbs --enable-ipv6-for-nodebalancer-backends=t \
         --nodebalancer-drain-period=0 --linodego-debug --load-balancer-type=",
    )
    .unwrap();
    assert_eq!(
        flags,
        Flags {
            kind: "premium_40gb",
            prefix: "my_Prefix-123456789".to_owned(),
            cluster_name: Some("shop".to_owned()),
            tags: ["a", "b", "c"].map(ToOwned::to_owned).to_vec(),
            subnet: BackendSubnet::Name("lbs".to_owned()),
            range: Some("10.100.0.0/24".parse().unwrap()),
            ipv6_ingress: true,
            ipv6_backends: true,
            drain_period: Duration::ZERO,
            vpcs: VpcChoice::Names {
                vpcs: vec!["net".to_owned()],
                subnets: vec!["default".to_owned()],
            },
            logs_exchanges: true,
            ..Flags::default()
        }
    );
}

#[test]
fn backend_subnet_is_one_or_none() {
    let subnet = |line: &str| read(line).unwrap().subnet;
    let number = "--nodebalancer-backend-ipv4-subnet-id=7";
    assert_eq!(subnet(number), BackendSubnet::Number(7));
    let off = format!("{number} --disable-nodebalancer-vpc-backends=true");
    assert_eq!(subnet(&off), BackendSubnet::Disabled);
    let name = "--nodebalancer-backend-ipv4-subnet-name=lbs";
    assert!(faults(name)[0].contains("--vpc-names"));
    let both = faults(&format!("{number} {name} --vpc-names=net"));
    assert!(
        both[0].starts_with(
            "cannot have both --nodebalancer-backend-ipv4-subnet-id and \
             --nodebalancer-backend-ipv4-subnet-name set"
        ),
        "{both:?}"
    );
}

#[test]
fn pr_21_reports_all_wrong_flags_of_node_balancers_at_once() {
    let told = faults(
        "--default-nodebalancer-type=large --nodebalancer-prefix=with.dot \
         --nodebalancer-backend-ipv4-subnet=2001:db8::/64 --nodebalancer-backend-ipv4-subnet-id=x \
         --load-balancer-type=metallb --nodebalancer-drain-period=soon \
         --enable-ipv6-for-loadbalancers=yes --vpc-ids=1",
    );
    assert_eq!(told.len(), 8, "{told:#?}");
    let prefix = faults("--nodebalancer-prefix=ccm-0123456789012345");
    assert_eq!(prefix.len(), 1, "20 characters");
}

/// Such a tag would say of every NodeBalancer that it is another Service's or cluster's.
#[test]
fn tags_that_begin_like_marks_are_no_tags() {
    let told = faults(
        "--nodebalancer-tags=a,k8s-service-x --nodebalancer-tags=K8S-Cluster-y,k8s-firewall-7",
    );
    let tags = ["k8s-service-x", "K8S-Cluster-y", "k8s-firewall-7"];
    assert_eq!(told.len(), tags.len(), "{told:#?}");
    for (fault, tag) in told.iter().zip(tags) {
        let begin = format!("--nodebalancer-tags={tag}: ");
        assert!(fault.starts_with(&begin), "{fault}");
        assert!(fault.ends_with("write other tags"), "{fault}");
    }
}

#[test]
fn removed_flags_have_one_notice_together() {
    let notices = read(
        "--load-balancer-type=cilium-bgp --bgp-node-selector=role=gateway --ip-holder-suffix=shop",
    )
    .unwrap()
    .notices;
    assert_eq!(notices.len(), 1, "{notices:?}");
    for flag in [
        "--load-balancer-type=cilium-bgp",
        "--bgp-node-selector",
        "--ip-holder-suffix",
        "Services get NodeBalancers",
    ] {
        assert!(notices[0].contains(flag), "{flag}: {}", notices[0]);
    }
    // As the chart renders them where nobody has set a value.
    let empty = "--load-balancer-type=nodebalancer --bgp-node-selector= --ip-holder-suffix=";
    assert!(read(empty).unwrap().notices.is_empty());
}
