//! Under the capabilities and mounts of the DaemonSet.

use std::process::Stdio;

use mooring_test_netlab::vm::in_vm;
use mooring_test_support::wait::eventually;

use crate::vlan::host::{LIMIT, cable, made, setting, sh};

/// As the chart has them by default.
const CAPABILITIES: &str = "+net_admin,+net_raw";

/// Runs a command as the shipped container would: a read-only root and `/proc/sys`, the host's
/// `/proc/sys/net` mounted elsewhere, no capabilities but these.
fn confined(capabilities: &str, command: &str) -> tokio::process::Command {
    let script = format!(
        "mkdir -p /run/host/proc/sys/net
         mount --bind /proc/sys/net /run/host/proc/sys/net
         mount --bind /proc/sys /proc/sys
         mount -o remount,bind,ro /proc/sys
         mount -o remount,bind,ro /
         exec setpriv --bounding-set=-all,{capabilities} --inh-caps=-all --no-new-privs \
             {command}"
    );
    let mut unshare = tokio::process::Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-ec", &script]);
    unshare.kill_on_drop(true).stdin(Stdio::null());
    unshare
}

#[test]
fn the_shipped_container_can_make_and_take_away_all() {
    in_vm(async || {
        cable();
        let tool = mooring_test_support::program::Program::NetlabTool
            .path()
            .unwrap();
        let node = mooring_test_support::program::Program::Node.path().unwrap();
        let run = format!(
            "{} keep-vlan --vlan 100 --parent eth0 --subnet 192.168.100.0/24 --gateway 192.168.100.1 \
             --proc-sys-net /run/host/proc/sys/net",
            tool.display()
        );
        let mut keeping = confined(CAPABILITIES, &run).spawn().unwrap();
        made(&["moor100"]).await;
        let is = |name: &'static str, value: &'static str| {
            eventually(name, LIMIT, async move || setting(name) == value)
        };
        is("ipv4/conf/moor100/rp_filter", "2").await;
        is("ipv6/conf/moor100/accept_ra", "0").await;
        is("ipv6/conf/moor100/forwarding", "1").await;
        let table = async || sh("nft list ruleset").contains("192.168.100.0/24");
        eventually("the nftables table is there", LIMIT, table).await;
        keeping.kill().await.unwrap();
        let clean_up = format!("{} --clean-up", node.display());
        // As with the chart's manageInterfaces: false.
        let refused = confined("+net_raw", &clean_up).output().await.unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{told}");
        assert!(told.contains("capability NET_ADMIN"), "{told}");
        let cleaned = confined(CAPABILITIES, &clean_up);
        let mut cleaned = cleaned;
        let status = cleaned.status().await.unwrap();
        assert!(status.success(), "{status}");
        assert_eq!(
            sh(
                "nft list tables; ip -o link show type vlan; ip route show table 5210001 2>/dev/null || true"
            ),
            ""
        );
        assert!(!sh("ip rule").contains("5210"));
    });
}
