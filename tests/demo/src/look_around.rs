//! `KEEP=1`: how to look around, from any other shell of the same user.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context as _, Result};

use super::console::{Console, Ink};
use mooring_test_netlab::netlab::way_in;
use mooring_test_netlab::netlab_cluster::NetlabCluster;

/// A command in the lab, or a shell: with kubectl, and as the cluster's administrator. What kubectl remembers goes with
/// the lab.
const SCRIPT: &str = r#"#!/bin/sh
export KUBECONFIG='@kubeconfig@' HOME='@home@'
export PATH='@assets@':"$PATH":/usr/sbin:/sbin
cd /
[ $# -gt 0 ] && exec "$@"
echo "In the lab: kubectl works; 'ip netns exec client <command>' acts as the client. Ctrl-D leaves."
PS1='lab# ' exec sh -i
"#;

/// Prints the command lines.
pub(super) fn explain(console: &Console, cluster: &NetlabCluster, address: &str) -> Result<()> {
    let kubectl = cluster.kubectl();
    let assets = kubectl.parent().context("kubectl is in a folder")?;
    let script = SCRIPT
        .replace(
            "@kubeconfig@",
            &cluster.admin_kubeconfig().to_string_lossy(),
        )
        .replace("@home@", &cluster.lab.folder().to_string_lossy())
        .replace("@assets@", &assets.to_string_lossy());
    let path = cluster.lab.folder().join("lab");
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    let lab = way_in(&path.to_string_lossy())?;
    console.chapter("It all goes on running. To look around, in another shell:");
    println!("  lab='{lab}'");
    for (command, why) in [
        ("", "a shell in the lab"),
        ("kubectl get nodes -o wide", "the Nodes"),
        (
            "kubectl get services,pods,l2networks -A -o wide",
            "what is on them",
        ),
        ("kubectl get leases -n mooring-system", "who is alive"),
        ("kubectl get events -A", "what was reported"),
        (
            "ip -n client neighbour",
            "where the client believes addresses to be",
        ),
    ] {
        println!(
            "  {:<55} {}",
            format!("$lab {command}"),
            console.paint(Ink::Faint, why)
        );
    }
    let ask = format!("$lab ip netns exec client curl -s http://{address}/");
    println!(
        "  {ask:<55} {}",
        console.paint(Ink::Faint, "asks the Service, if you have curl")
    );
    println!(
        "\n{}",
        console.paint(
            Ink::Bold,
            "Ctrl-C here ends it, and nothing is left behind."
        )
    );
    Ok(())
}
