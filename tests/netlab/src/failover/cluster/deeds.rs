//! What befalls the cluster, and how it ends.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::labels;
use serde_json::{Value, json};

use super::FailoverCluster;
use crate::netlab::Direction;
use crate::netlab::raw::question;
use mooring_test_support::process::Process;

impl FailoverCluster {
    /// Starts a node's daemon as it was started before.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_daemon(&mut self, name: &str) -> Result<()> {
        let daemon = self.new_daemon(name)?;
        self.daemons.insert(name.to_owned(), daemon);
        Ok(())
    }

    /// A further daemon on a node, beside the one that runs.
    ///
    /// # Errors
    /// If it does not start.
    pub fn new_daemon(&self, name: &str) -> Result<Process> {
        let spec = self.specs.get(name).context("no such node")?;
        self.netlab.node(name).start(spec.clone())
    }

    /// The node is without power: its daemon is gone, and so is its cable. Its service proxy is left,
    /// as nobody can tell.
    ///
    /// # Errors
    /// If the cable cannot be pulled.
    pub fn crash(&mut self, name: &str) -> Result<()> {
        self.kill(name);
        let node = self.netlab.node(name);
        if let Some(segment) = &self.segment {
            segment.port(node).pull()?;
        }
        node.port().pull()
    }

    /// Ends the daemon without a warning.
    pub fn kill(&mut self, name: &str) {
        // Dropping it does.
        drop(self.daemons.remove(name));
    }

    /// Tells the daemon to end, and waits until it has.
    ///
    /// # Errors
    /// If it does not run.
    pub async fn terminate(&mut self, name: &str) -> Result<()> {
        let daemon = self.daemons.remove(name).context("it does not run")?;
        daemon.terminate()?;
        daemon.wait_for_exit(Duration::from_secs(20)).await;
        Ok(())
    }

    /// Cuts one node off the API server, or ends that. Neither gets what the other sends: what is
    /// watched would else come in for a while.
    ///
    /// # Errors
    /// If a rule cannot be set.
    pub fn cut_from_api(&self, name: &str, cut: bool) -> Result<()> {
        let port = self.netlab.url();
        let port = port.rsplit(':').next().unwrap_or_default();
        let port = port.trim_end_matches('/');
        let mut script = "add table inet no_api\ndelete table inet no_api\n".to_owned();
        if cut {
            script = format!(
                "add table inet no_api\n\
                 add chain inet no_api out {{ type filter hook output priority 0; }}\n\
                 add rule inet no_api out tcp dport {port} drop\n\
                 add chain inet no_api in {{ type filter hook input priority 0; }}\n\
                 add rule inet no_api in tcp sport {port} drop\n"
            );
        }
        let node = self.netlab.node(name);
        node.run(&["nft", &script]).map(drop)
    }

    /// Ends all faults: cables, rules, daemons that are gone or frozen, service proxies, central, the API
    /// server.
    ///
    /// # Errors
    /// If all is not well again in time.
    pub async fn restore(&mut self) -> Result<()> {
        for name in self.layout.nodes.clone() {
            let node = self.netlab.node(name);
            let mut ports = vec![node.port()];
            ports.extend(self.segment.as_ref().map(|segment| segment.port(node)));
            for port in ports {
                port.mend()?;
                port.plug()?;
            }
            self.cut_from_api(name, false)?;
            self.proxies[name].thaw()?;
            let runs = self.daemons.get(name).is_some_and(Process::is_running);
            if runs {
                self.daemons[name].thaw()?;
            } else {
                self.start_daemon(name)?;
            }
        }
        if !self.netlab.is_up() {
            self.netlab.start_api_server().await?;
        }
        self.include_all().await?;
        self.restart_central_if_ended().await?;
        self.settled().await
    }

    /// As central's kubelet does: a leader that cannot renew its Lease for ten seconds ends.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart_central_if_ended(&mut self) -> Result<()> {
        if !self.central.is_running() {
            let flags = ["--node-daemon-grace=5s"];
            self.central = self.netlab.start_central(&flags).await?;
        }
        Ok(())
    }

    /// How often a node's daemon has counted a transition of the protocol.
    ///
    /// # Errors
    /// If the daemon does not say.
    pub async fn transitions(&self, name: &str, transition: &str) -> Result<u64> {
        let node = self.netlab.node(name);
        let metrics = node.get("http://127.0.0.1:10267/metrics").await?;
        let label = format!("transition=\"{transition}\"}} ");
        let counts = metrics.body.lines().filter_map(|line| {
            let (_, count) = line.split_once(&label)?;
            count.parse::<u64>().ok()
        });
        Ok(counts.sum())
    }

    /// Changes a Node until the next [`Self::restore`], by merge patches: this one, and one that ends
    /// it.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn change_node(&mut self, node: &str, patch: Value, back: Value) -> Result<()> {
        self.changed.push((node.to_owned(), back));
        self.patch_node(node, patch).await
    }

    /// Ends what [`Self::change_node`] and [`Self::exclude`] have begun.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn include_all(&mut self) -> Result<()> {
        for (node, back) in std::mem::take(&mut self.changed) {
            self.patch_node(&node, back).await?;
        }
        Ok(())
    }

    /// Ends [`Self::change_node`] and [`Self::exclude`] of one node.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn include(&mut self, node: &str) -> Result<()> {
        let (ends, stay) = std::mem::take(&mut self.changed)
            .into_iter()
            .partition(|(changed, _)| changed == node);
        self.changed = stay;
        let ends: Vec<(String, Value)> = ends;
        for (node, back) in ends {
            self.patch_node(&node, back).await?;
        }
        Ok(())
    }

    /// Excludes a node from load balancers by its label, until the next [`Self::restore`].
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn exclude(&mut self, node: &str) -> Result<()> {
        let label = |value: Value| json!({ "metadata": { "labels": { labels::EXCLUDE_FROM_LOAD_BALANCERS: value } } });
        self.change_node(node, label("true".into()), label(Value::Null))
            .await
    }

    /// Changes labels of a Node, as a person would.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn label_node(&self, node: &str, labels: Value) -> Result<()> {
        self.patch_node(node, json!({ "metadata": { "labels": labels } }))
            .await
    }

    /// Changes a Node by a merge patch.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn patch_node(&self, node: &str, patch: Value) -> Result<()> {
        Api::<Node>::all(self.netlab.admin())
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Asks once where the watched IPv4 address is, as the client's kernel would.
    ///
    /// # Errors
    /// If the frame cannot be sent.
    pub fn ask(&self) -> Result<()> {
        let client = &self.netlab.client;
        client.inject(&question(client, self.addresses()[0]))
    }

    /// Loses so many of a hundred heartbeats of all members, in both directions taken together.
    ///
    /// # Errors
    /// If a rule cannot be set.
    pub fn lose_heartbeats(&self, percent: u32) -> Result<()> {
        for name in self.members() {
            self.port(name)
                .lose_heartbeats(Direction::Receives, percent)?;
        }
        Ok(())
    }
}
