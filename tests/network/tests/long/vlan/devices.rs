//! Making, adopting, sharing and leaving interfaces.

use mooring_node::vlan::clean_up::clean_up;
use mooring_node::wire::links::{self, Link};
use mooring_test_netlab::vm::{Machine, in_machine, in_vm};
use mooring_test_support::wait::{eventually, never};
use tokio::sync::watch;

use crate::vlan::host::{LIMIT, VlanTask, cable, ip, link, made, segment, setting, sh};

#[test]
fn an_interface_is_made_with_its_settings_and_stays_when_the_daemon_ends() {
    in_vm(async || {
        cable();
        sh("sysctl -q -w net.ipv4.conf.all.rp_filter=1");
        let vlans = VlanTask::start(&[segment("public", 100, |_| ())]);
        made(&["moor100"]).await;
        let device = link("moor100");
        assert_eq!(device["linkinfo"]["info_kind"], "vlan");
        assert_eq!(device["linkinfo"]["info_data"]["id"], 100);
        let priorities = &device["linkinfo"]["info_data"]["egress_qos"];
        assert_eq!(*priorities, serde_json::json!([{"from": 6, "to": 6}]));
        assert_eq!(
            (&device["link"], &device["mtu"]),
            (&"eth0".into(), &1500.into())
        );
        for (name, value) in [
            ("ipv4/conf/moor100/rp_filter", "2"),
            ("ipv4/conf/moor100/arp_ignore", "1"),
            ("ipv4/conf/moor100/arp_announce", "2"),
            ("ipv4/conf/moor100/forwarding", "1"),
            ("ipv4/conf/moor100/src_valid_mark", "1"),
            ("ipv6/conf/moor100/accept_ra", "0"),
            ("ipv6/conf/moor100/forwarding", "1"),
            ("ipv6/conf/moor100/disable_ipv6", "0"),
        ] {
            eventually(&format!("{name} is {value}"), LIMIT, async || {
                setting(name) == value
            })
            .await;
        }
        let has_link_local = || link("moor100").to_string().contains("\"fe80::");
        eventually("a link-local address", LIMIT, async || has_link_local()).await;
        let table = || sh("nft list ruleset");
        let is_whole = async || table().matches("192.168.100.0/24").count() == 2;
        eventually("the nftables table is there", LIMIT, is_whole).await;
        println!("{}", table());
        let index = device["ifindex"].clone();
        vlans.stop().await;
        // The next daemon finds it and keeps it.
        let vlans = VlanTask::start(&[segment("public", 100, |_| ())]);
        vlans.set(&[
            segment("public", 100, |_| ()),
            segment("other", 101, |_| ()),
        ]);
        made(&["moor101"]).await;
        assert_eq!(link("moor100")["ifindex"], index);
        let done = clean_up_after(vlans).await;
        assert!(done.iter().any(|step| step == "delete moor100"), "{done:?}");
    });
}

/// Ends the daemon and takes all away; checks that nothing is left.
async fn clean_up_after(vlans: VlanTask) -> Vec<String> {
    vlans.stop().await;
    let done = clean_up().await.expect("all can be taken away");
    assert_eq!(sh("nft list tables"), "");
    for family in ["-4", "-6"] {
        assert!(!sh(&format!("ip {family} rule")).contains("5210"));
    }
    assert_eq!(link("moor100"), serde_json::Value::Null);
    done
}

#[test]
fn a_strangers_interface_is_used_as_it_is_and_never_touched() {
    in_vm(async || {
        cable();
        sh(
            "ip link add link eth0 name eth0.100 mtu 1400 type vlan id 100
            ip link set eth0.100 up
            ip link add moor200 type dummy",
        );
        let stranger = || {
            let link = ip("link show dev eth0.100").expect("it is there");
            let link = ["ifindex", "mtu", "ifalias", "address", "operstate"]
                .map(|key| link[0][key].clone());
            let settings = ["rp_filter", "arp_ignore", "forwarding"]
                .map(|name| setting(&format!("ipv4/conf/eth0.100/{name}")));
            (link, settings, setting("ipv6/conf/eth0.100/accept_ra"))
        };
        let is_up = async || link("eth0.100")["operstate"] == "UP";
        eventually("its carrier was noticed", LIMIT, is_up).await;
        let before = stranger();
        let vlans =
            VlanTask::start(&[segment("theirs", 100, |_| ()), segment("ours", 200, |_| ())]);
        // Its name is taken by a stranger.
        let index = link("eth0")["ifindex"].clone();
        let other = format!("moor200p{index}");
        made(&[&other]).await;
        let links = read_links().await;
        let adopted = links.iter().find(|link| link.name == "eth0.100").unwrap();
        assert!(adopted.up && adopted.stack.vlan.is_some());
        vlans.set(&[segment("ours", 201, |_| ())]);
        made(&["moor201"]).await;
        vlans.stop().await;
        clean_up().await.expect("all can be taken away");
        assert_eq!(link("moor201"), serde_json::Value::Null);
        assert_eq!(link(&other), serde_json::Value::Null);
        assert_eq!(stranger(), before);
        assert_eq!(link("moor200")["linkinfo"]["info_kind"], "dummy");
    });
}

/// The interfaces, as segments find them.
async fn read_links() -> Vec<Link> {
    let sender = watch::Sender::new(Default::default());
    let mut links = sender.subscribe();
    tokio::select! {
        () = links::follow(sender) => unreachable!("it follows for ever"),
        changed = links.changed() => changed.expect("it goes on"),
    }
    links.borrow().to_vec()
}

#[test]
fn two_networks_share_an_interface_and_the_parent_limits_its_mtu() {
    in_vm(async || {
        cable();
        let big = |mtu| {
            move |spec: &mut mooring_common::l2_network::L2NetworkSpec| {
                spec.mtu = Some(mtu);
            }
        };
        let (a, b) = (segment("a", 100, big(9000)), segment("b", 100, big(1400)));
        let vlans = VlanTask::start(&[a.clone(), b.clone()]);
        made(&["moor100"]).await;
        assert_eq!(link("moor100")["mtu"], 1400);
        let index = link("moor100")["ifindex"].clone();
        vlans.set(&[a]);
        let mtu = || link("moor100")["mtu"].clone();
        eventually("the parent's MTU", LIMIT, async || mtu() == 1500).await;
        sh("ip link set eth0 mtu 9000; ip -n switch link set trunk mtu 9000");
        eventually("as much as is asked for", LIMIT, async || mtu() == 9000).await;
        assert_eq!(link("moor100")["ifindex"], index, "the interface was kept");
        vlans.set(&[b]);
        eventually("the least", LIMIT, async || mtu() == 1400).await;
        // Nothing needs it any more; it stays for a minute.
        vlans.set(&[segment("c", 101, |_| ())]);
        never(
            "an interface is deleted within its grace",
            LIMIT,
            async || link("moor101")["ifalias"] == mooring_node::vlan::ALIAS,
            async || (link("moor100")["ifindex"] != index).then(|| "it is gone".to_owned()),
        )
        .await;
        drop(vlans);
    });
}

#[test]
fn a_part_of_a_bond_is_replaced_by_the_bond_and_the_parent_is_found_by_the_default_route() {
    in_vm(async || {
        sh("ip link add bond0 type bond mode active-backup
            ip link add eth0 type veth peer name far
            ip link set far up
            ip link set eth0 down
            ip link set eth0 master bond0
            ip link set bond0 up
            ip link add link bond0 name bond0.7 type vlan id 7
            ip link set bond0.7 up
            ip address add 10.0.0.5/24 dev bond0.7
            ip route add default via 10.0.0.1");
        let unnamed = segment("found", 101, |spec| spec.parent = None);
        let _scene = VlanTask::start(&[segment("named", 100, |_| ()), unnamed]);
        made(&["moor100", "moor101"]).await;
        for name in ["moor100", "moor101"] {
            assert_eq!(link(name)["link"], "bond0");
        }
    });
}

#[test]
fn a_kernel_without_vlans_is_told_of_with_a_remedy() {
    let machine = Machine {
        modules: &["veth"],
        without: &["8021q"],
        ..Machine::default()
    };
    in_machine(machine, async || {
        cable();
        let vlans = VlanTask::start(&[segment("public", 100, |_| ())]);
        let fault = eventually("a fault", LIMIT, async || vlans.faults.of("public")).await;
        assert!(
            fault.contains("the kernel has no VLANs (8021q); load the module"),
            "{fault}"
        );
    });
}

#[test]
fn case_15_a_parent_that_goes_down_takes_the_link_down_at_once_and_back() {
    in_vm(async || {
        cable();
        let vlans = VlanTask::start(&[segment("public", 100, |_| ())]);
        made(&["moor100"]).await;
        let sender = watch::Sender::new(Default::default());
        let mut links = sender.subscribe();
        let follow = tokio::spawn(links::follow(sender));
        let mut until = async |up: bool| {
            let is = |links: &std::sync::Arc<Vec<Link>>| {
                let link = links.iter().find(|link| link.name == "moor100");
                link.is_some_and(|link| link.up == up)
            };
            let start = std::time::Instant::now();
            let seen = tokio::time::timeout(LIMIT, links.wait_for(is)).await;
            seen.expect("in time").expect("it goes on");
            start.elapsed()
        };
        until(true).await;
        for (what, down, up) in [
            (
                "cable",
                "ip -n switch link set trunk down",
                "ip -n switch link set trunk up",
            ),
            ("parent", "ip link set eth0 down", "ip link set eth0 up"),
            ("VLAN interface", "ip link set moor100 down", "true"),
        ] {
            sh(down);
            let took = until(what == "VLAN interface").await;
            println!("{what} down: seen after {took:?}");
            assert!(took < std::time::Duration::from_secs(2), "{what}: {took:?}");
            sh(up);
            until(true).await;
        }
        // Routes by the interface went with it.
        let routes = || {
            ip("route show table 5210001").is_ok_and(|r| r.as_array().is_some_and(|r| r.len() == 2))
        };
        eventually("the routes are there again", LIMIT, async || routes()).await;
        follow.abort();
        drop(vlans);
    });
}
