//! A whole daemon on a VLAN: its API server is outside, and the VM is its Node.
//!
//! ```text
//!   outside: kube-apiserver, mooring-central ── 10.77.0.1
//!                                                  │ the VM's network card
//!   the VM: mooring-node, a listener ── out0 ──────┘
//!                    moor100 ── lan0 ── trunk ┐
//!   client 192.168.100.9 ──── VLAN 100 ───────┤ br0, which filters by VLAN
//!   far 203.0.113.2 ── router 192.168.100.1 ──┘
//! ```

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use mooring_common::l2_network::{L2NetworkSpec, Subnet};
use mooring_common::names::{NAMESPACE, annotations};
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{NetlabCluster, Network};
use mooring_test_netlab::vm::{
    Machine, in_machine, is_vm, run_test_in_machine, shared, taken_along,
};
use mooring_test_support::figures::figure_time;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

use crate::vlan::host::{is_made, link, sh, try_sh};

const NAME: &str =
    "vlan::daemon::case_15_16_17_a_daemon_speaks_on_its_vlan_and_mends_what_others_take_away";
const NODE: &str = "n1";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 168, 100, 20);
const APP: &str = "app";
/// The page that says what the daemon makes, and how to see it.
const PAGE: &str = include_str!("../../../../../docs/how-to/vlans.md");
/// The daemon's arguments, in the VM's shared folder.
const ARGUMENTS: &str = "arguments";
/// What takes the way through the emulated card to the API server and back.
const SLOW: Duration = Duration::from_secs(90);

#[test]
fn case_15_16_17_a_daemon_speaks_on_its_vlan_and_mends_what_others_take_away() {
    let machine = Machine::of_nodes();
    if is_vm() {
        return in_machine(machine, the_node);
    }
    in_netlab(async || {
        let cluster = NetlabCluster::start(&[NODE]).await.unwrap();
        let _kubelets = cluster.register().await.unwrap();
        let _central = cluster.start_central(&[]).await.unwrap();
        describe(&cluster).await;
        let daemon = cluster.daemon_spec(cluster.node(NODE), &[]).await.unwrap();
        let (arguments, mut files) = taken_along(&daemon, "").unwrap();
        files.insert(ARGUMENTS.to_owned(), arguments.join("\n").into_bytes());
        let run = move || run_test_in_machine(machine, NAME, &files);
        let run = tokio::task::spawn_blocking(run).await.unwrap();
        run.unwrap_or_else(|error| panic!("{error:#}"));
        cluster.assert_nothing_refused().await;
    });
}

/// The VLAN, and a Service with an address there and an endpoint on the Node.
async fn describe(cluster: &NetlabCluster) {
    let spec = L2NetworkSpec {
        vlan: Some(100),
        parent: Some("lan0".to_owned()),
        subnets: vec![Subnet {
            cidr: "192.168.100.0/24".to_owned(),
            gateway: Some("192.168.100.1".to_owned()),
        }],
        ranges: vec!["192.168.100.16/28".to_owned()],
        ..L2NetworkSpec::default()
    };
    let network = Network::described("public", spec);
    network.create(cluster).await.unwrap();
    let admin = cluster.admin.clone();
    create_namespace(&admin, APP).await.unwrap();
    PodBuilder::new(APP, "web")
        .node(NODE)
        .label("app", "web")
        .running(&["10.244.9.1"])
        .create(&admin)
        .await
        .unwrap();
    ServiceBuilder::load_balancer(APP, "web")
        .port(80, 8080)
        .selector("app", "web")
        .annotation(annotations::ADDRESSES_REQUEST, &ADDRESS.to_string())
        .create(&admin)
        .await
        .unwrap();
}

/// What is done in the VM.
async fn the_node() {
    network();
    let daemon = start_daemon();
    eventually("the VLAN's interface", SLOW, async || is_made("moor100")).await;
    eventually("the client is answered", SLOW, async || answers()).await;
    eventually("it answers from afar", SLOW, async || get()).await;
    shown_as_the_page_says();
    let router = "ip neighbor show dev moor100";
    assert!(PAGE.contains(&format!("`{router}`")));
    eventually("the router is reachable", SLOW, async || {
        let shown = try_sh(router)?;
        let is_there = shown.starts_with("192.168.100.1 ") && shown.contains("REACHABLE");
        anyhow::ensure!(is_there, "{shown}");
        Ok(())
    })
    .await;

    sh("ip link set lan0 down");
    let down = async || daemon.log().contains("the interface is down");
    eventually("the daemon sees that the parent is down", SLOW, down).await;
    sh("ip link set lan0 up");
    answers_again("parent of a VLAN down and up", async || answers()).await;

    let index = link("moor100")["ifindex"].clone();
    sh("ip link delete moor100");
    answers_again("VLAN interface deleted", async || {
        anyhow::ensure!(link("moor100")["ifindex"] != index, "it is the old one");
        answers()
    })
    .await;

    sh("nft delete table inet mooring; ip rule delete priority 5210; ip route flush table 5210001");
    answers_again("way back removed", async || get()).await;
}

/// Each command of the page's table shows something, and the settings that the page names.
fn shown_as_the_page_says() {
    let (_, table) = PAGE.split_once("## What is made on a node").unwrap();
    let rows = table.split("\n## ").next().unwrap_or_default().lines();
    let commands: Vec<_> = rows
        .filter_map(|row| Some(row.split('|').nth(2)?.split('`').skip(1).step_by(2)))
        .flatten()
        .collect();
    assert_eq!(commands.len(), 6, "{commands:?}");
    let shown = |command: &str| {
        let shown = sh(command);
        assert!(!shown.trim().is_empty(), "{command} shows nothing");
        shown
    };
    let all: String = commands.into_iter().map(shown).collect();
    let settings = ["rp_filter=2", "arp_ignore=1", "arp_announce=2"];
    for setting in settings
        .into_iter()
        .chain(["forwarding=1", "src_valid_mark=1"])
    {
        assert!(PAGE.contains(&format!("`{setting}`")), "{setting}");
        let shown = format!("moor100.{}\n", setting.replace('=', " = "));
        assert!(all.contains(&shown), "{setting}: {all}");
    }
    for mark in [
        mooring_node::vlan::ALIAS,
        "table inet mooring",
        "5209:",
        "5210:",
        "via 192.168.100.1",
    ] {
        assert!(all.contains(mark), "{mark}: {all}");
    }
}

async fn answers_again(what: &str, look: impl AsyncFn() -> anyhow::Result<()>) {
    let start = Instant::now();
    eventually(&format!("{what}: it answers again"), SLOW, look).await;
    figure_time(
        &format!("{what}, answers again (emulated)"),
        start.elapsed(),
    );
}

/// The switch, the client, the router and what is behind it. The router takes a packet, and a question, only
/// from where the way back leads.
fn network() {
    sh(
        "card=$(ls -d /sys/bus/virtio/drivers/virtio_net/virtio*/net/* | head -n1)
        ip link set lo up
        ip link set $(basename $card) name out0
        ip link set out0 up
        ip address add 10.0.2.15/24 dev out0
        ip route add default via 10.0.2.2
        sysctl -q -w net.ipv4.conf.all.rp_filter=1

        ip netns add switch
        ip -n switch link add br0 type bridge vlan_filtering 1 vlan_default_pvid 0 forward_delay 0
        ip -n switch link set br0 up
        ip link add lan0 type veth peer name trunk netns switch
        ip link set lan0 up
        ip -n switch link set trunk master br0 up
        bridge -n switch vlan add dev trunk vid 100
        for host in client router; do
            ip netns add $host
            ip link add eth0 netns $host type veth peer name $host netns switch
            ip -n $host link set lo up
            ip -n $host link set eth0 up
            ip -n switch link set $host master br0 up
            bridge -n switch vlan add dev $host vid 100 pvid untagged
        done
        ip -n client address add 192.168.100.9/24 dev eth0
        ip -n router address add 192.168.100.1/24 dev eth0
        ip netns exec router sysctl -q -w net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=1

        ip netns add far
        ip link add eth0 netns far type veth peer name far netns router
        ip -n router link set far up
        ip -n router address add 203.0.113.1/24 dev far
        ip -n far link set eth0 up
        ip -n far address add 203.0.113.2/24 dev eth0
        ip -n far route add default via 203.0.113.1
        nft -f - <<END
        table inet proxy {
            chain services {
                type nat hook prerouting priority dstnat
                ip daddr 192.168.100.20 tcp dport 80 dnat ip to 10.0.2.15:8080
            }
        }
END
        ",
    );
    let tool = Program::NetlabTool.path().expect("it is built");
    let serve = format!("{} serve --port 8080 --body served", tool.display());
    sh(&format!("{serve} </dev/null >/dev/null 2>&1 &"));
}

fn start_daemon() -> Process {
    let arguments = std::fs::read_to_string(shared(ARGUMENTS)).expect("it is in the folder");
    let program = Program::Node.path().expect("it is built");
    let spec = Spec::new("mooring-node", program, "/run/tmp/mooring-node.log")
        .args(arguments.lines())
        .args([
            "--state-dir=/run/mooring",
            "--host-proc-sys-net=/proc/sys/net",
        ])
        .env("NODE_NAME", NODE)
        .env("POD_NAMESPACE", NAMESPACE);
    Process::start(&spec).expect("it starts")
}

/// A neighbour on the VLAN asks anew, and is told the interface's own MAC address.
fn answers() -> anyhow::Result<()> {
    let mac = link("moor100")["address"].clone();
    let mac = mac.as_str().unwrap_or("there is no interface").to_owned();
    sh("ip -n client neighbor flush dev eth0");
    sh(&format!(
        "ip netns exec client bash -c 'echo x >/dev/udp/{ADDRESS}/9'; sleep 0.2"
    ));
    let known = try_sh(&format!("ip -n client neighbor show {ADDRESS} dev eth0"))?;
    anyhow::ensure!(known.contains(&mac), "{known:?} instead of {mac}");
    Ok(())
}

/// A client behind the router gets an answer.
fn get() -> anyhow::Result<()> {
    let ask = format!(
        "exec 3<>/dev/tcp/{ADDRESS}/80; printf \"GET / HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3"
    );
    let answer = try_sh(&format!("ip netns exec far timeout 8 bash -c '{ask}'"))?;
    anyhow::ensure!(answer.ends_with("served"), "{answer}");
    Ok(())
}
