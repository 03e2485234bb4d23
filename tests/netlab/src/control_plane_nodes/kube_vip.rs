//! A real kube-vip on the nodes, as its own manifest of a static Pod runs it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{ADDRESSES, ControlPlaneNodes, Part};
use mooring_test_support::process::Spec;

/// For how long it has the Lease, when it gives it up, and how often it asks for it.
const LEASE: [&str; 3] = ["vip_leaseduration", "vip_renewdeadline", "vip_retryperiod"];

impl ControlPlaneNodes {
    /// Runs kube-vip on each node too, with the Lease's three times in seconds, or those of its manifest.
    ///
    /// # Errors
    /// If it writes no manifest that can be read, or there are no API servers.
    pub fn add_kube_vip(&mut self, program: &Path, lease: Option<[u32; 3]>) -> Result<()> {
        let stacked = self.stacked.as_ref().context("there are no API servers")?;
        // The host alias `kubernetes` of its manifest: the API server of the node itself.
        let kubeconfig = stacked.kubeconfig(Ipv4Addr::LOCALHOST.into())?;
        let variables = variables(program)?;
        for node in &mut self.nodes {
            let home = node.folder().join("kube-vip");
            fs::create_dir_all(home.join(".kube"))?;
            fs::write(home.join(".kube/config"), &kubeconfig)?;
            let log = node.folder().join("kube-vip.log");
            let mut spec = Spec::new("kube-vip", program, log).args(["manager"]);
            spec.env.clone_from(&variables);
            if let Some(lease) = lease {
                let lease = LEASE.into_iter().zip(lease);
                spec.env
                    .extend(lease.map(|(name, seconds)| (name.to_owned(), seconds.to_string())));
            }
            spec = spec
                .env("vip_nodename", node.name())
                .env("HOME", home.display().to_string());
            node.set(Part::KubeVip, spec);
        }
        Ok(())
    }
}

/// The variables of the manifest that it prints.
fn variables(program: &Path) -> Result<Vec<(String, String)>> {
    let addresses = ADDRESSES.map(|address| address.to_string()).join(",");
    let flags = [
        "--interface=eth0",
        "--controlplane",
        "--arp",
        "--leaderElection",
    ];
    let printed = Command::new(program)
        .args(["manifest", "pod", "--address", &addresses])
        .args(flags)
        .output()?;
    ensure!(printed.status.success(), "kube-vip prints no manifest");
    let pod: Value = serde_norway::from_slice(&printed.stdout)?;
    let variables = pod["spec"]["containers"][0]["env"].as_array();
    let variables = variables.context("the manifest has no variables")?.iter();
    let named = |variable: &Value| {
        let of = |key: &str| variable[key].as_str().map(str::to_owned);
        Some((of("name")?, of("value")?))
    };
    // That of the node's name has no value.
    Ok(variables.filter_map(named).collect())
}
