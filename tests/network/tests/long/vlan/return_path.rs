//! Answers leave by the VLAN that the request came in by.

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use mooring_common::l2_network::{L2NetworkSpec, Segment, Subnet};
use mooring_node::protocol::mac::Mac;
use mooring_node::vlan::MarkMask;
use mooring_node::vlan::neighbours::Neighbours;
use mooring_node::vlan::nft::{self, NftRule};
use mooring_test_netlab::vm::in_vm;
use mooring_test_support::program::Program;
use mooring_test_support::wait::{eventually, try_eventually};
use tokio::task::JoinHandle;

use crate::vlan::host::{LIMIT, VlanTask, cable, link, made, segment, sh};

/// A router that lets a packet in only by the interface that leads to its source, a client behind
/// it, a pod behind the node, and Services translated as kube-proxy does.
fn network() {
    sh("ip address add 10.0.0.5/24 dev eth0
        ip route add default via 10.0.0.1
        sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
        sysctl -q -w net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1
        ip -6 address add 2001:db8:a::5/64 dev eth0 nodad
        ip -6 route add default via 2001:db8:a::1

        ip netns exec switch sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
        ip netns exec switch sysctl -q -w net.ipv4.conf.all.rp_filter=1
        ip -n switch address add 10.0.0.1/24 dev trunk
        ip -n switch address add 2001:db8:a::1/64 dev trunk nodad
        for id in 100 200; do
            ip -n switch link add link trunk name trunk.$id type vlan id $id
            ip -n switch link set trunk.$id up
            ip -n switch address add 192.168.$id.1/24 dev trunk.$id
            ip -n switch address add 2001:db8:$id::1/64 dev trunk.$id nodad
        done

        ip netns add client
        ip link add towards netns switch type veth peer name eth0 netns client
        ip -n switch link set towards up
        ip -n switch address add 203.0.113.1/24 dev towards
        ip -n switch address add 2001:db8:c::1/64 dev towards nodad
        ip -n client link set eth0 up
        ip -n client address add 203.0.113.2/24 dev eth0
        ip -n client address add 2001:db8:c::2/64 dev eth0 nodad
        ip -n client route add default via 203.0.113.1
        ip -n client -6 route add default via 2001:db8:c::1

        ip netns add pod
        ip link add pod0 type veth peer name eth0 netns pod
        ip link set pod0 up
        ip address add 10.244.0.1/24 dev pod0
        ip -6 address add fd00:244::1/64 dev pod0 nodad
        ip -n pod link set lo up
        ip -n pod link set eth0 up
        ip -n pod address add 10.244.0.2/24 dev eth0
        ip -n pod address add fd00:244::2/64 dev eth0 nodad
        ip -n pod route add default via 10.244.0.1
        ip -n pod -6 route add default via fd00:244::1
        nft -f - <<END
        table inet proxy {
            chain services {
                type nat hook prerouting priority dstnat
                ip daddr { 192.168.100.20, 192.168.200.20 } tcp dport 80 dnat ip to 10.244.0.2:8080
                ip6 daddr { 2001:db8:100::20, 2001:db8:200::20 } tcp dport 80 dnat ip6 to [fd00:244::2]:8080
                ip daddr 192.168.100.21 tcp dport 80 dnat ip to 10.0.0.5:8080
            }
            chain after {
                type nat hook postrouting priority srcnat
            }
        }
END
        ");
    let tool = Program::NetlabTool.path().expect("it is built");
    for inside in ["", "ip netns exec pod "] {
        let serve = format!("{inside}{} serve --port 8080 --body served", tool.display());
        sh(&format!("{serve} </dev/null >/dev/null 2>&1 &"));
    }
    for address in ["10.0.0.5", "10.244.0.2", "fd00:244::2"] {
        sh(&format!(
            "until timeout 5 bash -c ': 3<>/dev/tcp/{address}/8080' 2>/dev/null; do sleep 0.1; done"
        ));
    }
}

/// The router is as strict about who asks by ARP, so the kernel has to be told where it is: as often as its
/// answers to the daemon's questions would be heard.
fn tell_of_routers(ids: [u16; 2]) -> JoinHandle<()> {
    let routers = ids.map(|id| {
        let index = link(&format!("moor{id}"))["ifindex"].as_u64();
        let mac = sh(&format!(
            "ip netns exec switch cat /sys/class/net/trunk.{id}/address"
        ));
        let mac: Mac = mac.trim().parse().expect("a MAC address");
        let index = u32::try_from(index.expect("a number")).expect("a small number");
        let address: IpAddr = format!("192.168.{id}.1").parse().expect("an address");
        (index, address, mac)
    });
    let (neighbours, tell) = Neighbours::new();
    let hear = async move {
        let mut again = tokio::time::interval(Duration::from_secs(8));
        loop {
            again.tick().await;
            for (index, router, mac) in routers {
                neighbours.heard(index, router, mac);
            }
        }
    };
    tokio::spawn(async {
        tokio::join!(tell, hear);
    })
}

/// Nobody announces here: the router is told where the addresses are.
fn announce(id: u16) {
    let mac = link(&format!("moor{id}"))["address"].clone();
    let mac = mac.as_str().expect("a MAC address");
    for address in [
        format!("192.168.{id}.20"),
        format!("192.168.{id}.21"),
        format!("2001:db8:{id}::20"),
    ] {
        sh(&format!(
            "ip -n switch neighbor replace {address} lladdr {mac} dev trunk.{id}"
        ));
    }
}

/// What the client gets from an address: `None` if nothing comes within eight seconds.
fn get(address: &str) -> Option<()> {
    let ask =
        format!("exec 3<>/dev/tcp/{address}/80; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
    let answer = Command::new("ip")
        .args([
            "netns", "exec", "client", "timeout", "8", "bash", "-c", &ask,
        ])
        .output()
        .expect("ip can be run");
    if answer.status.success() {
        assert!(String::from_utf8_lossy(&answer.stdout).ends_with("served"));
        return Some(());
    }
    // Refused, or unreachable, would be something else than lost.
    assert_eq!(answer.status.code(), Some(124), "{answer:?}");
    None
}

/// All that decides about the way of a packet.
fn state() -> String {
    sh(
        "nft list ruleset; ip rule; ip route show table all; ip -6 rule; ip -6 route show table all
        ip neighbor; ip -n switch neighbor; cat /proc/net/nf_conntrack 2>/dev/null || true
        ip -s link; nstat -az 2>/dev/null | grep -i filter || true",
    )
}

fn without_routers(name: &str, id: u16) -> Segment {
    segment(name, id, |spec: &mut L2NetworkSpec| {
        for Subnet { gateway, .. } in &mut spec.subnets {
            *gateway = None;
        }
    })
}

#[test]
fn answers_leave_by_the_vlan_that_the_request_came_in_by() {
    in_vm(async || {
        cable();
        network();
        let ids = [100, 200];
        let vlans = VlanTask::start(&ids.map(|id| without_routers(&format!("n{id}"), id)));
        made(&["moor100", "moor200"]).await;
        ids.iter().copied().for_each(announce);
        let told = tell_of_routers(ids);
        for id in ids {
            let knows =
                || sh(&format!("ip neighbor show dev moor{id} nud reachable")).contains("lladdr");
            eventually("the kernel knows the router", LIMIT, async || knows()).await;
        }
        let addresses = [
            "192.168.100.20",
            "192.168.200.20",
            "192.168.100.21",
            "2001:db8:100::20",
            "2001:db8:200::20",
        ];
        // Without a way back, the answer comes to the router from where it cannot be.
        assert_eq!(get("192.168.100.20"), None);
        vlans.set(&ids.map(|id| segment(&format!("n{id}"), id, |_| ())));
        for address in addresses {
            let answered = try_eventually(LIMIT, async || get(address)).await;
            assert!(answered.is_ok(), "{address} does not answer:\n{}", state());
        }
        for id in ids {
            let counter = format!("/sys/class/net/moor{id}/statistics/tx_packets");
            assert_ne!(sh(&format!("cat {counter}")).trim(), "0");
        }
        // Made again by somebody's hand: it works as before.
        sh("nft delete table inet mooring; ip rule delete priority 5210");
        for address in addresses {
            eventually(&format!("{address} answers"), LIMIT, async || get(address)).await;
        }
        told.abort();
    });
}

/// As many as there is room for in a mask of eight bits: 255 paths, of three rules each.
#[test]
fn a_table_with_many_rules_is_written_in_one_transaction() {
    in_vm(async || {
        let mask: MarkMask = "0xff00".parse().expect("a mask");
        let mut rules: Vec<NftRule> = Vec::new();
        for number in 1..=mask.room() {
            let device = format!("moor{number}");
            let subnet = format!("192.168.{number}.0/24").parse().expect("a subnet");
            rules.extend(nft::rules(&device, subnet, mask.mark(number), mask));
        }
        nft::replace(&rules).await.expect("the table is taken");
        let shown = sh("nft list table inet mooring");
        assert_eq!(shown.matches("comment \"").count(), rules.len());
    });
}
