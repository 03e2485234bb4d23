//! What the documentation leaves open, and how long things take.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::kind::Kind;
use super::state::State;
use crate::control;

/// How NodeBalancers and firewalls behave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behaviour {
    /// How long a new NodeBalancer is in no listing. Asked for by its id, it is there.
    pub listed_after: Duration,
    /// How long no filter for an address finds a new NodeBalancer, although other listings show it.
    pub found_after: Duration,
    /// How long a deleted NodeBalancer is still in listings. Asked for by its id, it is gone.
    pub delisted_after: Duration,
    /// How long a listing of a firewall's devices still shows one that was deleted.
    pub detached_after: Duration,
    /// How long a new Linode is `provisioning`.
    pub provisioned_after: Duration,
    /// How long a node is `Unknown` before its check finds it `UP`.
    pub checked_after: Duration,
    /// Whether tags are shown in alphabetical order, instead of in the order given.
    pub sorts_tags: bool,
    /// Whether a NodeBalancer can have several firewalls. The documentation says one.
    pub several_firewalls: bool,
    /// Whether `/v4` lacks what recorded requests ask of `/v4beta` alone: reserved addresses,
    /// NodeBalancers with a front end in a VPC, and what NodeBalancers have in VPCs.
    pub beta_apart: bool,
}

impl Behaviour {
    /// This behaviour with the fields of a JSON object changed: durations in seconds.
    pub(super) fn with(mut self, wish: &Value) -> Result<Self, String> {
        let fields = wish.as_object().ok_or("give an object")?;
        for (name, value) in fields {
            let seconds = || control::length(name, value);
            let flag = || control::flag(name, value);
            match name.as_str() {
                "listed_after" => self.listed_after = seconds()?,
                "found_after" => self.found_after = seconds()?,
                "delisted_after" => self.delisted_after = seconds()?,
                "detached_after" => self.detached_after = seconds()?,
                "provisioned_after" => self.provisioned_after = seconds()?,
                "checked_after" => self.checked_after = seconds()?,
                "sorts_tags" => self.sorts_tags = flag()?,
                "several_firewalls" => self.several_firewalls = flag()?,
                "beta_apart" => self.beta_apart = flag()?,
                _ => return Err(format!("{name}: no such behaviour")),
            }
        }
        Ok(self)
    }
}

impl State {
    /// What is on its way has come by now. Nodes that were checked by now are `UP`. A config without a check knows nothing of its nodes.
    pub(super) fn settle(&mut self) {
        self.provision();
        let (after, now) = (self.behaviour.checked_after, Instant::now());
        let nodes = self.rows(Kind::Node).iter();
        let unchecked =
            nodes.filter(|node| node.age(now) >= after && node.value()["status"] == "Unknown");
        let unchecked = unchecked.filter_map(|node| {
            let config = node.value()["config_id"].as_u64()?;
            let shown = self.rows(Kind::Config).value(&config.to_string());
            (shown["check"] != "none").then(|| (node.key().to_owned(), config))
        });
        let unchecked: Vec<(String, u64)> = unchecked.collect();
        for (node, config) in unchecked {
            self.show_node_status(&node, "UP");
            self.count_nodes(config);
        }
    }

    /// What the check says of a node.
    pub(super) fn show_node_status(&mut self, node: &str, status: &str) -> bool {
        let nodes = self.rows_mut(Kind::Node);
        nodes.change(node, |node| node["status"] = json!(status))
    }

    /// A config shows how many of its nodes are up; what is not known counts as down.
    pub(super) fn count_nodes(&mut self, config: u64) {
        let of_config = self.referring(Kind::Node, "config_id", config);
        let (up, down): (Vec<&Value>, Vec<&Value>) =
            of_config.partition(|node| node["status"] == "UP");
        let counted = json!({ "up": up.len(), "down": down.len() });
        let configs = self.rows_mut(Kind::Config);
        configs.change(&config.to_string(), |config| {
            config["nodes_status"] = counted
        });
    }
}
