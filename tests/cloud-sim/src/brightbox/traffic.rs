//! What load balancers serve: a Cloud IP leads there, and firewalls admit what the load balancer asks of a
//! server, for its clients and to check it. It asks from a private address of its own.

use std::collections::HashMap;

use serde_json::Value;

use super::Brightbox;
use super::balancers::is_alive;
use super::kind::Kind;
use super::state::State;
use crate::traffic::{Outage, Served, Traffic};

/// The sources of rules among which every load balancer is, and how the one begins that names a single one.
const OF_ALL: [&str; 3] = ["any", "0.0.0.0/0", "10.0.0.0/8"];
const OF_ONE: &str = "lba-";

/// Ports of a server that a rule opens for load balancers: all of them, or one.
struct Opening<'a> {
    balancer: Option<&'a str>,
    ports: Vec<(u16, u16)>,
}

/// What is open of each server.
type Openings<'a> = HashMap<&'a str, Vec<Opening<'a>>>;

impl Opening<'_> {
    fn admits(&self, balancer: &str, port: u16) -> bool {
        self.balancer.is_none_or(|only| only == balancer)
            && self
                .ports
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&port))
    }
}

impl State {
    /// A write to this path has taken effect.
    pub(super) fn record_write(&mut self, path: &str) {
        let mut segments = path.split('/').skip(2);
        let written = match segments.next() {
            Some("load_balancers") => segments.next().unwrap_or_default().to_owned(),
            _ => String::new(),
        };
        self.record_all(&written);
    }

    /// Takes down what load balancers serve that serve something else than before, and this one.
    pub(super) fn record_all(&mut self, written: &str) {
        let openings = self.openings();
        let all = self.rows(Kind::LoadBalancer).iter().map(|row| {
            let name = row.value()["name"].as_str().unwrap_or_default();
            let served = self.served(row.key(), row.value(), &openings);
            (row.key().to_owned(), name.to_owned(), served)
        });
        let all: Vec<_> = all.collect();
        for (id, name, served) in all {
            if id == written || self.history.now(&id) != Some(&served) {
                self.history.record(&id, Some(&name), served);
            }
        }
    }

    fn served(&self, id: &str, balancer: &Value, openings: &Openings<'_>) -> Served {
        let mut ips = self.rows(Kind::CloudIp).iter();
        if !is_alive(balancer) || !ips.any(|ip| ip.value()["load_balancer"] == id) {
            return Served::new();
        }
        let nodes: Vec<&str> = texts(&balancer["nodes"]).collect();
        let is_open = |node: &str, port: u16| {
            let of_node = openings.get(node).into_iter().flatten();
            of_node.into_iter().any(|opening| opening.admits(id, port))
        };
        let checked = port(&balancer["healthcheck"]["port"]);
        let listeners = balancer["listeners"].as_array().into_iter().flatten();
        let served = listeners.map(|listener| {
            let out = port(&listener["out"]);
            let open = nodes
                .iter()
                .filter(|node| is_open(node, out) && is_open(node, checked));
            let members = open.filter_map(|node| Some(format!("{}:{out}", self.address(node)?)));
            (format!("tcp/{}", listener["in"]), members.collect())
        });
        served.collect()
    }

    /// The first IPv4 address of a server.
    fn address(&self, server: &str) -> Option<&str> {
        let interfaces = self.rows(Kind::Server).value(server)["interfaces"].as_array();
        let mut addresses = interfaces.into_iter().flatten();
        addresses.find_map(|interface| interface["ipv4_address"].as_str())
    }

    fn openings(&self) -> Openings<'_> {
        let mut openings = Openings::new();
        for rule in self.rows(Kind::FirewallRule).iter().map(|row| row.value()) {
            let source = rule["source"].as_str().unwrap_or_default();
            let balancer = source.starts_with(OF_ONE).then_some(source);
            let is_tcp = rule["protocol"].is_null() || rule["protocol"] == "tcp";
            if !is_tcp || (balancer.is_none() && !OF_ALL.contains(&source)) {
                continue;
            }
            let ports: Vec<(u16, u16)> = match rule["destination_port"].as_str() {
                Some(text) => text.split(',').filter_map(range).collect(),
                None => vec![(1, u16::MAX)],
            };
            let policy = rule["firewall_policy"].as_str().unwrap_or_default();
            let group = &self.rows(Kind::FirewallPolicy).value(policy)["server_group"];
            let group = self
                .rows(Kind::ServerGroup)
                .value(group.as_str().unwrap_or_default());
            for server in texts(&group["servers"]) {
                openings.entry(server).or_default().push(Opening {
                    balancer,
                    ports: ports.clone(),
                });
            }
        }
        openings
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    let all = list.as_array().into_iter().flatten();
    all.filter_map(Value::as_str)
}

fn port(value: &Value) -> u16 {
    let number = value.as_u64().unwrap_or_default();
    u16::try_from(number).unwrap_or_default()
}

/// `80`, or `30000-32767`.
fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

impl Brightbox {
    /// What a load balancer has served so far; nothing if there never was one. Counted are the writes on the
    /// load balancer itself, and what changed what it serves.
    pub fn traffic(&self, id: &str) -> Traffic {
        self.state().history.of(id).unwrap_or_default()
    }

    /// When listeners of a load balancer that had served did not, also if they still do not.
    pub fn outages(&self, id: &str) -> Vec<Outage> {
        self.traffic(id).outages()
    }
}
