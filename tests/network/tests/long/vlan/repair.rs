//! What somebody else removes is made again.

use std::time::Duration;

use mooring_test_netlab::vm::{Machine, in_machine, in_vm};
use mooring_test_support::wait::eventually;

use crate::vlan::host::{
    LIMIT, VlanTask, cable, is_made, link, made, repaired, segment, sh, try_sh,
};

/// In the VM, on a machine that is busy with other tests, each look takes its time. It is less than the
/// 30 s after which everything is looked at anyway, so what is repaired was told of.
const BOUND: Duration = Duration::from_secs(12);

#[test]
fn case_16_a_deleted_interface_is_made_again_and_its_siblings_never_notice() {
    in_vm(async || {
        cable();
        let vlans = VlanTask::start(&[
            segment("public", 100, |_| ()),
            segment("private", 200, |_| ()),
        ]);
        made(&["moor100", "moor200"]).await;
        let sibling = link("moor200")["ifindex"].clone();
        for round in 1..=5 {
            let index = link("moor100")["ifindex"].clone();
            let is_another = || is_made("moor100") && link("moor100")["ifindex"] != index;
            let took = repaired_device(is_another).await;
            assert!(took < BOUND, "{took:?}");
            eventually("counted", LIMIT, async || vlans.repairs("device") == round).await;
        }
        assert_eq!(link("moor200")["ifindex"], sibling);
        let rules = || sh("ip rule; ip -6 rule").matches("lookup 52100").count();
        eventually("the rules are there", LIMIT, async || rules() == 4).await;
    });
}

async fn repaired_device(is_another: impl Fn() -> bool) -> Duration {
    let start = std::time::Instant::now();
    sh("ip link delete moor100");
    eventually("it is made again", LIMIT, async || is_another()).await;
    let took = start.elapsed();
    mooring_test_support::figures::figure_time(
        "VLAN interface deleted, there again (emulated)",
        took,
    );
    took
}

#[test]
fn case_17_what_is_taken_from_an_interface_is_put_back() {
    in_vm(async || {
        cable();
        let vlans = VlanTask::start(&[segment("public", 100, |_| ())]);
        made(&["moor100"]).await;
        let shows = |command: &'static str, text: &'static str| {
            move || try_sh(command).is_ok_and(|shown| shown.contains(text))
        };
        let default4 = "ip route show table 5210001";
        let default6 = "ip -6 route show table 5210002";
        let table = "nft list table inet mooring";
        let cases = [
            (
                "address",
                "ip -6 address flush dev moor100",
                "ip address show moor100",
                "inet6 fe80::",
            ),
            (
                "alias",
                "ip link set moor100 alias other",
                "ip link show moor100",
                "made by mooring.dev",
            ),
            (
                "mtu",
                "ip link set moor100 mtu 1300",
                "ip link show moor100",
                "mtu 1500",
            ),
            (
                "state",
                "ip link set moor100 down",
                "ip link show moor100",
                "state UP",
            ),
            (
                "route",
                "ip route flush table 5210001",
                default4,
                "default via 192.168.100.1",
            ),
            (
                "route",
                "ip -6 route flush table 5210002",
                default6,
                "default via 2001:db8:100::1",
            ),
            (
                "rule",
                "ip rule delete priority 5210",
                "ip rule",
                "fwmark 0x10/0xf0 lookup 5210001",
            ),
            (
                "rule",
                "ip -6 rule delete priority 5210",
                "ip -6 rule",
                "fwmark 0x20/0xf0 lookup 5210002",
            ),
            (
                "table",
                "nft delete table inet mooring",
                table,
                "192.168.100.0/24",
            ),
            (
                "table",
                "nft flush chain inet mooring prerouting",
                table,
                "192.168.100.0/24",
            ),
            ("table", "nft flush ruleset", table, "192.168.100.0/24"),
        ];
        for (what, breaking, look, text) in cases {
            let before = vlans.repairs(what);
            let took = repaired(&format!("VLAN's {what}"), breaking, shows(look, text)).await;
            assert!(took < BOUND, "{breaking}: {took:?}");
            let counted = async || vlans.repairs(what) > before;
            eventually(&format!("counted: {breaking}"), LIMIT, counted).await;
        }
    });
}

#[test]
fn what_is_missed_in_a_flood_of_messages_is_found_when_all_is_read_anew() {
    // The size of sockets is a setting of the whole machine.
    let machine = Machine {
        whole: true,
        ..Machine::default()
    };
    in_machine(machine, async || {
        cable();
        // Room for three or four notifications.
        sh("sysctl -q -w net.core.rmem_default=4608");
        let vlans = VlanTask::start(&[segment("public", 100, |_| ())]);
        made(&["moor100"]).await;
        let index = link("moor100")["ifindex"].clone();
        std::thread::spawn(|| {
            sh("ip link add flood type dummy
                ip link set flood up
                for i in $(seq 1 250); do
                    echo \"address add 10.9.$i.1/24 dev flood\"
                    echo \"route add 10.8.$i.0/24 dev flood\"
                done >/run/flood
                ip -batch /run/flood
                ip link delete moor100
                ip link delete flood");
        })
        .join()
        .expect("the flood");
        let is_another = || is_made("moor100") && link("moor100")["ifindex"] != index;
        eventually("it is made again", LIMIT, async || is_another()).await;
        assert!(vlans.metrics.overruns.get() > 0, "all was heard of");
    });
}

#[test]
fn an_interface_that_was_made_and_not_named_is_taken_over() {
    in_vm(async || {
        cable();
        let group = mooring_node::vlan::GROUP;
        sh(&format!(
            "ip link add link eth0 name moor100 group {group} type vlan id 100"
        ));
        let index = link("moor100")["ifindex"].clone();
        let vlans = VlanTask::start(&[segment("public", 100, |_| ())]);
        made(&["moor100"]).await;
        let shown = link("moor100");
        assert_eq!(
            (&shown["ifindex"], &shown["group"]),
            (&index, &"default".into())
        );
        drop(vlans);
    });
}
