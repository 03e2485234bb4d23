//! What NodeBalancers serve.

use serde_json::Value;

use super::Linode;
use super::kind::Kind;
use super::state::State;
use crate::traffic::{Outage, Served, Traffic};

impl State {
    /// A write to this path has taken effect.
    pub(super) fn record_write(&mut self, path: &str) {
        match path.split('/').skip(2).collect::<Vec<_>>()[..] {
            ["nodebalancers"] => {
                let all = self.rows(Kind::NodeBalancer).iter();
                let new = all.filter(|row| self.history.of(row.key()).is_none());
                let new: Vec<u64> = new.filter_map(|row| row.value()["id"].as_u64()).collect();
                new.into_iter().for_each(|id| self.record(id));
            }
            ["nodebalancers", id, ..] => {
                if let Ok(id) = id.parse() {
                    self.record(id);
                }
            }
            _ => {}
        }
    }

    /// There was a write on this NodeBalancer or on a part of it, by hand or by the API.
    pub(super) fn record(&mut self, id: u64) {
        let key = id.to_string();
        let label = self.rows(Kind::NodeBalancer).value(&key)["label"].as_str();
        let label = label.map(ToOwned::to_owned);
        let served = self.served(id);
        self.history.record(&key, label.as_deref(), served);
    }

    /// Nodes of UDP have no mode, and always get traffic.
    fn served(&self, id: u64) -> Served {
        let configs = self.referring(Kind::Config, "nodebalancer_id", id);
        let served = configs.map(|config| {
            let family = if config["protocol"] == "udp" {
                "udp"
            } else {
                "tcp"
            };
            let config_id = config["id"].as_u64().unwrap_or_default();
            let nodes = self.referring(Kind::Node, "config_id", config_id);
            let accepting = nodes.filter(|node| node["mode"] == "accept" || node["mode"] == "none");
            let addresses = accepting.filter_map(|node| Some(node["address"].as_str()?.to_owned()));
            (format!("{family}/{}", config["port"]), addresses.collect())
        });
        served.collect()
    }

    /// The NodeBalancer that an object is, or is part of.
    pub(super) fn node_balancer_of(&self, kind: Kind, key: &str) -> Option<u64> {
        let value: &Value = self.rows(kind).value(key);
        match kind {
            Kind::NodeBalancer => value["id"].as_u64(),
            _ => value["nodebalancer_id"].as_u64(),
        }
    }
}

impl Linode {
    /// What a NodeBalancer has served so far; nothing if there never was one.
    pub fn traffic(&self, id: impl ToString) -> Traffic {
        let traffic = self.state().history.of(&id.to_string());
        traffic.unwrap_or_default()
    }

    /// When ports of a NodeBalancer that had been served were not, also if they still are not.
    pub fn outages(&self, id: impl ToString) -> Vec<Outage> {
        self.traffic(id).outages()
    }
}
